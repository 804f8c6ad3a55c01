//! The first 64 bits of MurmurHash3 for 64-bit machines, which UnixFS uses. The algorithm is in the
//! public domain. It is not secure: names with the same hash can be constructed.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Returns the first 64 of the 128 bits of the hash, with seed 0.
pub(super) fn murmur3_x64_64(bytes: &[u8]) -> u64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 = (h1 ^ mix_k1(k1)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix_k2(k2)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // Zeros mix to zeros, so padding the tail with zeros gives the defined result.
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let (k1, k2) = halves(&last);
    let len = bytes.len() as u64;
    h1 ^= mix_k1(k1) ^ len;
    h2 ^= mix_k2(k2) ^ len;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    avalanche(h1).wrapping_add(avalanche(h2))
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*block);
    (whole as u64, (whole >> 64) as u64)
}

fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn avalanche(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_match_published_examples() {
        assert_eq!(murmur3_x64_64(b""), 0);
        assert_eq!(murmur3_x64_64(b"hello"), 0xcbd8_a7b3_41bd_9b02);
        assert_eq!(murmur3_x64_64(b"hello, world"), 0x342f_ac62_3a5e_bc8e);
        let text = b"The quick brown fox jumps over the lazy dog.";
        assert_eq!(murmur3_x64_64(text), 0xcd99_481f_9ee9_02c9);
    }
}
