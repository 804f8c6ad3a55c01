//! The filter that tells which pages a server has, without naming them.
//!
//! Hashes of the CIDs, sorted, each written as the distance from the one before in Rice's code: 13 to 18.5 bits for
//! a page. A server that has a CID learns whether the other one has the page, and is wrong for 1 of 65,536 CIDs if the
//! other one has at most as many pages, or for 1 of 4,096 if it has a million. The format is in
//! `docs/reference/protocols/neighbours.md`.

use sha2::{Digest, Sha256};

/// Pages of a filter. A server with more pages tells about this number of them.
pub(super) const PAGES_MAX: usize = 1 << 20;
/// More bytes than a filter of [`PAGES_MAX`] pages has.
pub(super) const FILTER_BYTES_MAX: usize = 2 << 20;
/// A number that is equal in all processes of a server, and differs between servers.
pub(super) type Salt = [u8; 16];

const VERSION: u8 = 1;
/// The version, the salt, the bits of a hash, and the number of pages.
const HEAD_BYTES: usize = 1 + 16 + 1 + 4;
/// The bits that a hash has more than the number of pages. With 8, a server that follows 100 others would send every
/// third tab whose page nobody has to a server in vain, which then knows the CID.
const EXTRA_BITS: u32 = 16;

/// Why a filter is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It is not what the format says.
    #[error("the filter is not valid")]
    Malformed,
    /// It would say yes about too many pages that the server does not have.
    #[error("the filter is too dense: it claims to have almost every page")]
    Dense,
}

/// The pages of another server.
#[derive(Debug)]
pub struct Filter {
    salt: Salt,
    bits: u32,
    /// Ascending.
    hashes: Vec<u32>,
}

/// Writes a filter of these pages.
pub(super) fn encode<'a>(salt: &Salt, pages: impl ExactSizeIterator<Item = &'a str>) -> Vec<u8> {
    let count = pages.len().min(PAGES_MAX);
    let bits = hash_bits(count as u32);
    let mut hashes: Vec<u32> = pages.take(count).map(|page| hash(salt, bits, page)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let mut bytes = vec![VERSION];
    bytes.extend(salt);
    bytes.push(bits as u8);
    bytes.extend((hashes.len() as u32).to_be_bytes());
    let mut writer = BitWriter { bytes, free: 0 };
    let low_bits = bits - bit_length(hashes.len() as u32);
    let mut next = 0;
    for hash in hashes {
        let distance = hash - next;
        (0..distance >> low_bits).for_each(|_| writer.push(true));
        writer.push(false);
        (0..low_bits).rev().for_each(|bit| writer.push(distance >> bit & 1 == 1));
        // The greatest hash of 32 bits is the last one.
        next = hash.wrapping_add(1);
    }
    writer.bytes
}

impl Filter {
    /// Reads a filter.
    pub fn decode(bytes: &[u8]) -> Result<Filter, FilterError> {
        let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or(FilterError::Malformed)?;
        let salt = head[1..17].try_into().expect("a salt has 16 bytes");
        let count = u32::from_be_bytes(head[18..].try_into().expect("a count has 4 bytes"));
        let bits = u32::from(head[17]);
        if head[0] != VERSION || !(EXTRA_BITS..=u32::BITS).contains(&bits) {
            return Err(FilterError::Malformed);
        }
        if bits < hash_bits(count) {
            return Err(FilterError::Dense);
        }
        if count as usize > PAGES_MAX {
            return Err(FilterError::Malformed);
        }
        let mut reader = BitReader { bytes: body, at: 0 };
        let low_bits = bits - bit_length(count);
        // A page takes more than a byte, so a short body with a large count costs no memory.
        let mut hashes = Vec::with_capacity(body.len().min(count as usize));
        let mut next = 0;
        for _ in 0..count {
            let hash = next + reader.distance(low_bits).ok_or(FilterError::Malformed)?;
            if hash >> bits != 0 {
                return Err(FilterError::Malformed);
            }
            hashes.push(hash as u32);
            next = hash + 1;
        }
        if !reader.ends_here() {
            return Err(FilterError::Malformed);
        }
        Ok(Filter { salt, bits, hashes })
    }

    pub(super) fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The number of pages.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the server has a page, or one of the same hash.
    pub fn contains(&self, page: &str) -> bool {
        self.hashes.binary_search(&hash(&self.salt, self.bits, page)).is_ok()
    }
}

fn bit_length(count: u32) -> u32 {
    u32::BITS - count.leading_zeros()
}

/// The least length of the hashes in a filter of so many pages.
fn hash_bits(count: u32) -> u32 {
    (bit_length(count) + EXTRA_BITS).min(u32::BITS)
}

/// The first bits of the hash of a page.
fn hash(salt: &Salt, bits: u32, page: &str) -> u32 {
    let hash = Sha256::new().chain_update(salt).chain_update(page).finalize();
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) >> (u32::BITS - bits)
}

/// Writes bits, the high bit of a byte first.
struct BitWriter {
    bytes: Vec<u8>,
    /// The free bits of the last byte.
    free: u32,
}

impl BitWriter {
    fn push(&mut self, bit: bool) {
        if self.free == 0 {
            self.bytes.push(0);
            self.free = u8::BITS;
        }
        self.free -= 1;
        *self.bytes.last_mut().expect("a byte was pushed") |= u8::from(bit) << self.free;
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// The bits that were read.
    at: usize,
}

impl BitReader<'_> {
    fn bit(&mut self) -> Option<bool> {
        let byte = *self.bytes.get(self.at / 8)?;
        self.at += 1;
        Some(byte << ((self.at - 1) % 8) & 0x80 != 0)
    }

    fn distance(&mut self, low_bits: u32) -> Option<u64> {
        let mut distance = 0;
        while self.bit()? {
            distance += 1;
        }
        for _ in 0..low_bits {
            distance = distance << 1 | u64::from(self.bit()?);
        }
        Some(distance)
    }

    /// Whether only the zeros follow that fill the last byte.
    fn ends_here(mut self) -> bool {
        self.bytes.len() == self.at.div_ceil(8) && std::iter::from_fn(|| self.bit()).all(|bit| !bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = *b"sixteen of salt!";

    fn pages(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("bafkrei{number}")).collect()
    }

    fn encoded(count: usize) -> Vec<u8> {
        encode(&SALT, pages(count).iter().map(String::as_str))
    }

    #[test]
    fn a_filter_has_every_page_that_it_was_made_of() {
        for count in [0, 1, 2, 255, 256, 257, 5_000] {
            let filter = Filter::decode(&encoded(count)).unwrap();
            assert!(pages(count).iter().all(|page| filter.contains(page)), "{count}");
            assert!(
                filter.len() <= count && filter.len() + 9 >= count,
                "{} of {count}",
                filter.len()
            );
            assert_eq!(filter.salt(), &SALT);
        }
        assert_eq!(encoded(0), [&[1][..], &SALT, &[16, 0, 0, 0, 0]].concat());
        assert!(!Filter::decode(&encoded(0)).unwrap().contains("bafkrei0"));
    }

    /// Another program computes the same bytes.
    #[test]
    fn the_bytes_of_a_filter_never_change() {
        let one = [&[1][..], &SALT, &[17, 0, 0, 0, 1], &BYTES_OF_ONE].concat();
        assert_eq!(encode(&SALT, ["bafkrei0"].into_iter()), one);
    }

    const BYTES_OF_ONE: [u8; 3] = [0x38, 0xa7, 0x80];

    #[test]
    fn a_filter_of_many_pages_is_small_and_rarely_wrong() {
        let bytes = encoded(100_000);
        assert!((205_000..215_000).contains(&bytes.len()), "{}", bytes.len());
        let filter = Filter::decode(&bytes).unwrap();
        let wrong = (0..200_000).filter(|other| filter.contains(&format!("other{other}"))).count();
        assert!((1..15).contains(&wrong), "{wrong} of 200,000");
        let largest = (HEAD_BYTES * 8 + PAGES_MAX * 12 + (1 << (32 - 11))) / 8;
        assert!(largest < FILTER_BYTES_MAX, "{largest}");
    }

    #[test]
    fn a_truncated_or_longer_filter_is_refused() {
        let bytes = encoded(300);
        for len in 0..bytes.len() {
            assert_eq!(Filter::decode(&bytes[..len]).unwrap_err(), FilterError::Malformed, "{len}");
        }
        for more in [&[0][..], &[0xff]] {
            assert!(Filter::decode(&[&bytes[..], more].concat()).is_err());
        }
    }

    #[test]
    fn a_filter_that_is_not_valid_is_refused() {
        let with = |bits: u8, count: u32, body: &[u8]| {
            let head = [&[VERSION][..], &SALT, &[bits], &count.to_be_bytes()].concat();
            Filter::decode(&[&head[..], body].concat()).map(|filter| filter.len())
        };
        assert_eq!(with(17, 1, &[0, 0, 0]), Ok(1));
        let malformed = Err(FilterError::Malformed);
        assert_eq!(with(17, 1, &[0, 0, 1]), malformed, "the last byte is not filled");
        assert_eq!(with(17, 1, &[0b1100_0000, 0, 0]), malformed, "a hash of 18 bits");
        assert_eq!(with(15, 0, &[]), malformed);
        assert_eq!(with(33, 0, &[]), malformed);
        assert_eq!(with(18, 2, &[0; 5]), Ok(2));
        assert_eq!(with(18, 4, &[0; 9]), Err(FilterError::Dense));
        for bits in [16, 32] {
            assert!(with(bits, u32::MAX, &[0; 5]).is_err());
        }
        assert_eq!(with(32, PAGES_MAX as u32 + 1, &[0; 5]), malformed);
        let mut other = encoded(1);
        other[0] = 2;
        assert_eq!(Filter::decode(&other).unwrap_err(), FilterError::Malformed);
    }
}
