/// Characters of a `phx_ref`.
pub(crate) const REFERENCE_LEN: usize = 16;

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Names versions of metas: each newer one has a larger number, and a text that no other seed's
/// are likely to share.
#[derive(Debug)]
pub(crate) struct References {
    prefix: u32,
    start: u64,
    newest: u64,
}

impl References {
    pub fn new(seed: u64) -> Self {
        // An odd multiplier keeps seeds apart that differ in their lowest bits alone.
        let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        References { prefix: (start >> 32) as u32 ^ seed as u32, start, newest: 0 }
    }

    /// The number of the newest version.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn next(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Write a version's `phx_ref`: the 96 bits of prefix and number in URL-safe base 64.
    pub fn write(&self, number: u64, out: &mut String) {
        let bits = u128::from(self.prefix) << 64 | u128::from(self.start.wrapping_add(number));
        let sextets = (0..REFERENCE_LEN).rev().map(|place| (bits >> (6 * place)) & 63);
        out.extend(sextets.map(|sextet| char::from(URL_SAFE[sextet as usize])));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn references_are_sixteen_characters_and_all_different() {
        let mut written = BTreeSet::new();
        for seed in 0..16 {
            let mut references = References::new(seed);
            for _ in 0..1_000 {
                let mut text = String::new();
                let number = references.next();
                references.write(number, &mut text);
                assert_eq!(text.len(), REFERENCE_LEN);
                assert!(text.bytes().all(|byte| URL_SAFE.contains(&byte)), "{text}");
                written.insert(text);
            }
        }
        assert_eq!(written.len(), 16_000);
    }
}
