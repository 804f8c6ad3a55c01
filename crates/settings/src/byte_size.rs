//! A number of bytes, written as in `"1MiB"`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes. The settings file has it as a number, or as text with a unit, such as `"1MiB"`
/// or `"500kB"`.
///
/// ```
/// use watchfire_settings::ByteSize;
///
/// let size: ByteSize = serde_json::from_str(r#""1MiB""#).unwrap();
/// assert_eq!(size, ByteSize(1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// The units, the longest first, so that no unit is taken for the end of another.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

impl ByteSize {
    fn parse(text: &str) -> Option<ByteSize> {
        let (number, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .unwrap_or((text, 1));
        let number: u64 = number.trim().parse().ok()?;
        number.checked_mul(factor).map(ByteSize)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as 1048576 or \"1MiB\"")
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteSize, E> {
                let refused = || E::invalid_value(serde::de::Unexpected::Signed(bytes), &self);
                u64::try_from(bytes).map(ByteSize).map_err(|_| refused())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                let refused = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                ByteSize::parse(text).ok_or_else(refused)
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit() {
        for (text, bytes) in [
            ("7", 7),
            ("7B", 7),
            ("1MiB", 1 << 20),
            ("500 kB", 500_000),
            ("2GiB", 2 << 30),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(ByteSize::parse(text), Some(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "1mib", "99999999999GiB"] {
            assert_eq!(ByteSize::parse(text), None, "{text}");
        }
    }
}
