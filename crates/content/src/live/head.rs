use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::{ENTRIES_MAX, LiveError};
use crate::{Cid, Codec, HashFunction, Multihash, Version};

/// The length of a head.
pub const HEAD_BYTES: usize = 148;

const MAGIC: &[u8; 16] = b"watchfire head 1";
/// The signature covers the bytes before it.
const SIGNED_BYTES: usize = 84;

/// The last entry of a live page, signed by its publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: u32,
    pub entry: Cid,
    bytes: [u8; HEAD_BYTES],
}

impl Head {
    /// Verifies a head of this page, whose beginning has this public key.
    pub fn verify(bytes: &[u8], page: &Cid, key: &[u8; 32]) -> Result<Self, LiveError> {
        let len = bytes.len();
        let bytes: [u8; HEAD_BYTES] =
            bytes.try_into().map_err(|_| LiveError::HeadLength { len })?;
        let (signed, signature) = bytes.split_at(SIGNED_BYTES);
        if signed[..15] != MAGIC[..15] {
            return Err(LiveError::NotLive);
        }
        if signed[15] != MAGIC[15] {
            return Err(LiveError::UnsupportedVersion);
        }
        if &signed[16..48] != digest_of(page)? {
            return Err(LiveError::OtherPage);
        }
        let number = u32::from_be_bytes(signed[48..52].try_into().expect("four bytes"));
        if !(1..=ENTRIES_MAX).contains(&number) {
            return Err(LiveError::Number { number });
        }
        UnparsedPublicKey::new(&ED25519, key)
            .verify(signed, signature)
            .map_err(|_| LiveError::Signature)?;
        let digest = signed[52..].try_into().expect("32 bytes");
        let entry = Cid::v1(Codec::DAG_PB, Multihash::Sha2_256(digest));
        Ok(Head { number, entry, bytes })
    }

    /// Returns the number and the digest of the entry in a head of this page whose signature was not verified.
    pub(super) fn unverified_entry<'a>(bytes: &'a [u8], page: &Cid) -> Option<(u32, &'a [u8])> {
        let (signed, _) = bytes.split_at_checked(SIGNED_BYTES)?;
        let is_ours = signed[..16] == *MAGIC && signed[16..48] == *page.hash().digest();
        let number = u32::from_be_bytes(signed[48..52].try_into().expect("four bytes"));
        (is_ours && bytes.len() == HEAD_BYTES).then_some((number, &signed[52..]))
    }

    /// Returns the encoded head with its signature.
    pub const fn bytes(&self) -> &[u8; HEAD_BYTES] {
        &self.bytes
    }
}

/// The key by which a publisher signs heads.
pub struct PublisherKey(Ed25519KeyPair);

impl PublisherKey {
    /// Creates the key from 32 secret random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        PublisherKey(Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed has 32 bytes"))
    }

    /// Returns the public key, for [`Beginning::key`](super::Beginning::key).
    pub fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().expect("a public key has 32 bytes")
    }

    /// Signs that entry `number` of the page is the last. Fails if a CID is not of version 1 with
    /// sha2-256, or the number is out of range.
    pub fn sign(&self, page: &Cid, number: u32, entry: &Cid) -> Result<Head, LiveError> {
        if !(1..=ENTRIES_MAX).contains(&number) {
            return Err(LiveError::Number { number });
        }
        let mut bytes = [0; HEAD_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..48].copy_from_slice(digest_of(page)?);
        bytes[48..52].copy_from_slice(&number.to_be_bytes());
        bytes[52..SIGNED_BYTES].copy_from_slice(digest_of(entry)?);
        let signature = self.0.sign(&bytes[..SIGNED_BYTES]);
        bytes[SIGNED_BYTES..].copy_from_slice(signature.as_ref());
        Ok(Head { number, entry: entry.clone(), bytes })
    }
}

impl fmt::Debug for PublisherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublisherKey")
    }
}

/// Returns the digest of the CID of a node.
fn digest_of(cid: &Cid) -> Result<&[u8], LiveError> {
    let is_supported = cid.version() == Version::V1
        && cid.codec() == Codec::DAG_PB
        && cid.hash().function() == HashFunction::Sha2_256;
    if is_supported { Ok(cid.hash().digest()) } else { Err(LiveError::UnsupportedCid) }
}
