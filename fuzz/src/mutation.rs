use watchfire_types::Rng;

/// Most bytes of an input, except when a seed is longer.
const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes at which formats change their mind.
const TURNING_POINTS: &[u8] = &[
    0x00, 0x01, 0x02, 0x0a, 0x12, 0x20, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff, b'"', b'\\', b'[', b'{',
];

/// Numbers at which lengths do.
const NUMBERS: &[u64] = &[
    0,
    1,
    125,
    126,
    127,
    128,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Snippets of what the decoders read.
const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\"\"",
    b"[]",
    b"{}",
    b"[[[[[[[[",
    b"{\"a\":",
    b"phx_join",
    b"phoenix",
    b"heartbeat",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b": ",
    b" ",
    b"%00",
    b"%",
    b"&",
    b"=",
    b"[a][b][]",
    b"==",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
    b"\xf0\x9f\x94\xa5",
    b"\x01\x55\x12\x20",
    b"\x12\x20",
    b"\x01\x55\x00\x00",
    b"\x08\x02\x18",
    b"\x08\x01",
    b"Qm",
    b"baf",
];

/// An input made from the seeds: one of them after a few changes, or now and then pure noise.
pub(crate) fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    if rng.once_in(16) {
        return (0..rng.index(64)).map(|_| rng.next_u64() as u8).collect();
    }
    let mut input = seeds.get(rng.index(seeds.len())).cloned().unwrap_or_default();
    let max = INPUT_BYTES_MAX.max(input.len());
    for _ in 0..1 << rng.index(5) {
        change(&mut input, seeds, rng);
        input.truncate(max);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.index(input.len() + 1);
    match rng.index(14) {
        0 => flip(input, at, 1 << rng.index(8)),
        1 => flip(input, at, rng.next_u64() as u8),
        2 => overwrite(input, at, &[TURNING_POINTS[rng.index(TURNING_POINTS.len())]]),
        3 => insert(input, at, &[rng.next_u64() as u8]),
        4 => insert(input, at, WORDS[rng.index(WORDS.len())]),
        5 => insert(input, at, &number(rng)),
        6 => overwrite(input, at, &number(rng)),
        7 => nudge(input, at, rng),
        8 => drop(input.drain(range(input, rng))),
        9 => input.truncate(at),
        10 => {
            let copied = input[range(input, rng)].to_vec();
            insert(input, at, &copied);
        }
        11 => {
            let repeated = input[range(input, rng)].repeat(1 << rng.index(10));
            insert(input, at, &repeated[..repeated.len().min(INPUT_BYTES_MAX)]);
        }
        12 => {
            let other = seeds.get(rng.index(seeds.len())).cloned().unwrap_or_default();
            insert(input, at, &other[range(&other, rng)]);
        }
        _ => {
            let moved: Vec<u8> = input.drain(range(input, rng)).collect();
            insert(input, at.min(input.len()), &moved);
        }
    }
}

/// A short range of `bytes`, or now and then a long one.
fn range(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.index(bytes.len() + 1);
    let rest = bytes.len() - start;
    let len = if rng.once_in(4) { rng.index(rest + 1) } else { rng.index(rest.min(8) + 1) };
    start..start + len
}

fn flip(input: &mut [u8], at: usize, bits: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bits;
    }
}

fn nudge(input: &mut [u8], at: usize, rng: &mut Rng) {
    if let Some(byte) = input.get_mut(at) {
        *byte = byte.wrapping_add(rng.index(5) as u8).wrapping_sub(2);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

fn overwrite(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = input.len().min(at + bytes.len());
    input.splice(at..end, bytes.iter().copied());
}

/// A turning point in one of the ways in which numbers are written.
fn number(rng: &mut Rng) -> Vec<u8> {
    let number = NUMBERS[rng.index(NUMBERS.len())];
    match rng.index(8) {
        0 => vec![number as u8],
        1 => (number as u16).to_be_bytes().to_vec(),
        2 => (number as u32).to_be_bytes().to_vec(),
        3 => number.to_be_bytes().to_vec(),
        4 => (number as u32).to_le_bytes().to_vec(),
        5 => number.to_string().into_bytes(),
        _ => {
            let mut bytes = Vec::new();
            watchfire_content::varint::encode(number, &mut bytes);
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_throw_makes_the_same_input() {
        let seeds = vec![b"one seed".to_vec(), b"another".to_vec()];
        for throw in 0..1000 {
            let input = || mutated(&seeds, &mut Rng::for_purpose(7, throw));
            assert_eq!(input(), input());
        }
    }

    #[test]
    fn without_seeds_there_are_inputs_too() {
        let longest =
            (0..1000).map(|throw| mutated(&[], &mut Rng::for_purpose(7, throw)).len()).max();
        assert!(longest > Some(64));
    }
}
