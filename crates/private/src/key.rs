use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// What opens one private page: 32 random bytes, made for that page alone.
///
/// It is shown only by [`Key::to_link`], so that it gets into no log and no error by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

/// A text is no key. It says nothing of the text, which may be one that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key in this link is not whole: it has 43 letters, digits, - and _")]
pub struct KeyError;

impl Key {
    /// The key of these bytes, which must come from dice that nobody can guess.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// As it stands in a link: base64url without padding.
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
    fn a_key_comes_back_from_a_link_and_is_not_seen_elsewhere() {
        let key = Key::from_bytes([0xfb; 32]);
        let text = key.to_link();
        assert_eq!((text.len(), text.parse()), (43, Ok(key.clone())));
        assert!(!text.contains(['+', '/', '=']));
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn what_was_cut_or_changed_is_no_key() {
        let text = Key::from_bytes([1; 32]).to_link();
        for wrong in ["", &text[..42], &format!("{text}A"), &format!("{text}="), &"+".repeat(43)] {
            assert_eq!(wrong.parse::<Key>(), Err(KeyError), "{wrong}");
        }
        // The last letter carries two bits that belong to no byte.
        assert_eq!(format!("{}F", &text[..42]).parse::<Key>(), Err(KeyError));
    }
}
