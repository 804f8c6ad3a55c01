//! Manifests, and references to them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use super::digest::{Digest, DigestError};

const TAG_CHARS_MAX: usize = 128;

/// A tag, such as `latest`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid tag: expected at most {TAG_CHARS_MAX} letters, digits, '.', '_' and '-', and neither '.' nor '-' first"
)]
pub struct TagError;

impl Tag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, TagError> {
        let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_rest = |byte: u8| is_first(byte) || byte == b'.' || byte == b'-';
        let is_tag = match text.as_bytes() {
            [first, rest @ ..] => is_first(*first) && rest.iter().all(|byte| is_rest(*byte)),
            [] => false,
        };
        if !is_tag || text.len() > TAG_CHARS_MAX {
            return Err(TagError);
        }
        Ok(Tag(text.to_owned()))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub digest: Digest,
    pub media_type: String,
    /// The bytes, exactly as the registry sent them.
    pub bytes: Bytes,
}

/// The last part of a manifest's path: a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    Tag(Tag),
    Digest(Digest),
}

/// A text that is neither a tag nor a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It has a colon, but is not a digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// It has no colon, but is not a tag.
    #[error(transparent)]
    Tag(#[from] TagError),
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        match text.contains(':') {
            true => Ok(Reference::Digest(text.parse()?)),
            false => Ok(Reference::Tag(text.parse()?)),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Tag(tag) => tag.fmt(f),
            Reference::Digest(digest) => digest.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_with_a_colon_is_a_digest() {
        let digest = Digest::sha256(b"x");
        assert_eq!(digest.to_string().parse(), Ok(Reference::Digest(digest)));
        assert_eq!("v1.0-rc_1".parse::<Reference>().unwrap().to_string(), "v1.0-rc_1");
        let long = "a".repeat(129);
        for text in ["", ".a", "-a", "a b", "a/b", "é", "sha256:00", "a:b", &long] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
