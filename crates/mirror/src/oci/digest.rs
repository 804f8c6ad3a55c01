//! Digests: the names of blobs and manifests.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// A hash function that the specification registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    /// The name in front of the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    const fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }
}

/// The digest of a blob or manifest, such as `sha256:e3b0…`.
///
/// ```
/// use watchfire_mirror::oci::Digest;
///
/// let empty: Digest =
///     "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".parse().unwrap();
/// assert_eq!(empty, Digest::sha256(b""));
/// assert!("sha256:e3b0".parse::<Digest>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// 32 or 64 bytes, as `algorithm` says.
    bytes: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("invalid digest {text:?}: expected <algorithm>:<hex digits>")]
    NoAlgorithm { text: String },
    #[error("unsupported digest algorithm {name:?}: supported are sha256 and sha512")]
    UnsupportedAlgorithm { name: String },
    #[error("invalid digest of {algorithm}: expected {chars} lower-case hex digits")]
    NotHex { algorithm: &'static str, chars: usize },
}

/// Characters of an invalid text that an error repeats.
const SHOWN_CHARS_MAX: usize = 64;

impl Digest {
    pub fn sha256(bytes: &[u8]) -> Self {
        Digest { algorithm: Algorithm::Sha256, bytes: Sha256::digest(bytes).to_vec().into() }
    }

    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part after the colon.
    pub fn hex(&self) -> String {
        self.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it is the digest of `bytes`.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let mut hasher = Hasher::new(self.algorithm);
        hasher.update(bytes);
        hasher.finish() == *self
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let shown = || text.chars().take(SHOWN_CHARS_MAX).collect();
        let (name, hex) =
            text.split_once(':').ok_or_else(|| DigestError::NoAlgorithm { text: shown() })?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => {
                let name = name.chars().take(SHOWN_CHARS_MAX).collect();
                return Err(DigestError::UnsupportedAlgorithm { name });
            }
        };
        let chars = 2 * algorithm.digest_bytes();
        let not_hex = DigestError::NotHex { algorithm: algorithm.name(), chars };
        if hex.len() != chars {
            return Err(not_hex);
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let bytes: Option<Box<[u8]>> = hex
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
            .collect();
        Ok(Digest { algorithm, bytes: bytes.ok_or(not_hex)? })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a digest piece by piece.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        Hasher(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(hasher) => hasher.update(bytes),
            State::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub fn finish(self) -> Digest {
        match self.0 {
            State::Sha256(hasher) => {
                Digest { algorithm: Algorithm::Sha256, bytes: hasher.finalize().to_vec().into() }
            }
            State::Sha512(hasher) => {
                Digest { algorithm: Algorithm::Sha512, bytes: hasher.finalize().to_vec().into() }
            }
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_text() {
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"a");
            hasher.update(b"b");
            let digest = hasher.finish();
            assert!(digest.is_of(b"ab") && !digest.is_of(b"ba"));
            assert_eq!(digest.to_string().parse(), Ok(digest));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let hex = "a".repeat(64);
        for text in [
            "".to_owned(),
            hex.clone(),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}a"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{}é", &hex[2..]),
            format!("SHA256:{hex}"),
            format!("md5:{}", &hex[32..]),
            format!("sha512:{hex}"),
            "x".repeat(1 << 20),
        ] {
            let error = text.parse::<Digest>().unwrap_err();
            assert!(error.to_string().len() < 200, "{error}");
        }
    }
}
