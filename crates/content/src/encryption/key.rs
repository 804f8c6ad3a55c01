use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const KEY_BYTES: usize = 32;

/// The key of one private page: 32 random bytes, created for that page alone.
///
/// Only [`Key::to_link`] reveals it, so that it is not logged by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

/// A text is not a valid key. The error does not contain the text, which may be part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key in this link is incomplete: it must have 43 letters, digits, - or _")]
pub struct KeyError;

impl Key {
    /// Creates a key from bytes of a secure random source.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// Encodes the key for a link: base64url without padding.
    pub fn to_link(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError)?;
        Ok(Key(bytes.try_into().map_err(|_| KeyError)?))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_parsed_from_a_link_and_hidden_in_debug_output() {
        let key = Key::from_bytes([0xfb; 32]);
        let text = key.to_link();
        assert_eq!((text.len(), text.parse()), (43, Ok(key.clone())));
        assert!(!text.contains(['+', '/', '=']));
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn truncated_and_changed_keys_are_rejected() {
        let text = Key::from_bytes([1; 32]).to_link();
        for wrong in ["", &text[..42], &format!("{text}A"), &format!("{text}="), &"+".repeat(43)] {
            assert_eq!(wrong.parse::<Key>(), Err(KeyError), "{wrong}");
        }
        // The last letter has two unused bits.
        assert_eq!(format!("{}F", &text[..42]).parse::<Key>(), Err(KeyError));
    }
}
