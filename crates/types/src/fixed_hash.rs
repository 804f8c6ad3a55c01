/// A hash that is the same in every process, on every machine and in every release: SipHash-2-4.
///
/// Processes that never talk about it decide the same from it: which of them owns a topic, which
/// one decides about an address, which peers are neighbours. The standard library's hashers do not
/// fit: their algorithm may change with a release of the compiler, and the bytes that `Hash` feeds
/// them depend on the width of `usize`. During a rolling upgrade, two builds would then disagree.
///
/// Each field is hashed with its length, so that `("a", "bc")` differs from `("ab", "c")`.
///
/// ```
/// use watchfire_types::FixedHash;
///
/// let hash = FixedHash::new(7).text("rooms:lobby").number(3).finish();
/// assert_eq!(hash, FixedHash::new(7).text("rooms:lobby").number(3).finish());
/// assert_ne!(hash, FixedHash::new(8).text("rooms:lobby").number(3).finish());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedHash {
    v: [u64; 4],
    /// The bytes after the last whole word, the first one lowest.
    tail: u64,
    len: u64,
}

impl FixedHash {
    /// The start of a hash. Another key gives other hashes.
    pub const fn new(key: u64) -> FixedHash {
        FixedHash::with_keys(key, 0)
    }

    const fn with_keys(k0: u64, k1: u64) -> FixedHash {
        // The constants are the ASCII text "somepseudorandomlygeneratedbytes".
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        FixedHash { v, tail: 0, len: 0 }
    }

    #[must_use]
    pub const fn number(self, number: u64) -> FixedHash {
        self.raw(&number.to_le_bytes())
    }

    /// Adds bytes and their number.
    #[must_use]
    pub const fn bytes(self, bytes: &[u8]) -> FixedHash {
        self.number(bytes.len() as u64).raw(bytes)
    }

    /// Adds a text and its length.
    #[must_use]
    pub const fn text(self, text: &str) -> FixedHash {
        self.bytes(text.as_bytes())
    }

    /// The hash of all that was added.
    pub const fn finish(self) -> u64 {
        let mut hash = self;
        hash.absorb(hash.tail | (hash.len << 56));
        hash.v[2] ^= 0xff;
        hash.rounds(4);
        hash.v[0] ^ hash.v[1] ^ hash.v[2] ^ hash.v[3]
    }

    const fn raw(mut self, bytes: &[u8]) -> FixedHash {
        let mut at = 0;
        while at < bytes.len() {
            self.tail |= (bytes[at] as u64) << (8 * (self.len % 8));
            self.len = self.len.wrapping_add(1);
            if self.len.is_multiple_of(8) {
                self.absorb(self.tail);
                self.tail = 0;
            }
            at += 1;
        }
        self
    }

    const fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(2);
        self.v[0] ^= word;
    }

    const fn rounds(&mut self, count: u32) {
        let [mut a, mut b, mut c, mut d] = self.v;
        let mut round = 0;
        while round < count {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
            round += 1;
        }
        self.v = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the paper that defines SipHash, with the key 00 01 .. 0f.
    #[test]
    fn the_hash_is_siphash_2_4() {
        let of = |len: u8| {
            let bytes: Vec<u8> = (0..len).collect();
            FixedHash::with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908).raw(&bytes).finish()
        };
        assert_eq!(of(0), 0x726f_db47_dd0e_0e31);
        assert_eq!(of(1), 0x74f8_39c5_93dc_67fd);
        assert_eq!(of(8), 0x93f5_f579_9a93_2462);
        assert_eq!(of(15), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn the_border_between_two_fields_is_part_of_the_hash() {
        let of = |one: &str, other: &str| FixedHash::new(1).text(one).text(other).finish();
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert_ne!(of("", "a"), of("a", ""));
    }

    /// Any change of these values makes processes of two builds disagree.
    #[test]
    fn the_hashes_of_fields_never_change() {
        assert_eq!(FixedHash::new(0).text("").finish(), VECTORS[0]);
        assert_eq!(FixedHash::new(0).text("rooms:lobby").finish(), VECTORS[1]);
        assert_eq!(FixedHash::new(7).text("rooms:lobby").number(3).finish(), VECTORS[2]);
        assert_eq!(FixedHash::new(u64::MAX).bytes(&[7; 32]).finish(), VECTORS[3]);
    }

    const VECTORS: [u64; 4] = [
        0xe849_e8bb_6ffe_2567,
        0x90a0_a5f4_a8f4_7fd6,
        0x2e37_293c_457e_78c6,
        0x8700_c17c_0f32_a560,
    ];
}
