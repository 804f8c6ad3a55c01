//! Places in a log, and their text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Epochs have 40 bits, so that their text has at most 8 characters.
pub(crate) const EPOCH_MASK: u64 = (1 << 40) - 1;
/// The longest text of a position.
const TEXT_BYTES_MAX: usize = 40;

/// A place in a log: all messages up to and including the offset have been received.
///
/// ```
/// use watchfire_hub::history::Position;
///
/// let position = Position { epoch: 1_000_000, offset: 17 };
/// assert_eq!(position.to_string(), "lfls:17");
/// assert_eq!("lfls:17".parse(), Ok(position));
/// assert!("lfls".parse::<Position>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The part of the log that the offset belongs to.
    pub epoch: u64,
    /// The last received message; 0 is before the first.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPosition;

impl fmt::Display for InvalidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a position is an epoch and an offset, such as \"k3f9:17\"")
    }
}

impl std::error::Error for InvalidPosition {}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0_u8; 13];
        let (mut at, mut rest) = (digits.len(), self.epoch);
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        digits[at..].iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))?;
        write!(f, ":{}", self.offset)
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(InvalidPosition);
        }
        let (epoch, offset) = text.split_once(':').ok_or(InvalidPosition)?;
        // The numbers of the standard library may have a sign.
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_number(epoch) || !is_number(offset) {
            return Err(InvalidPosition);
        }
        let epoch = u64::from_str_radix(epoch, 36).map_err(|_| InvalidPosition)?;
        Ok(Position { epoch, offset: offset.parse().map_err(|_| InvalidPosition)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        for epoch in [0, 35, 36, EPOCH_MASK, u64::MAX] {
            let position = Position { epoch, offset: u64::MAX - epoch };
            assert_eq!(position.to_string().parse(), Ok(position));
        }
    }

    #[test]
    fn other_texts_are_no_positions() {
        let long = format!("a:{}", "0".repeat(40));
        for text in ["", ":", "a:", ":1", "a:-1", "a:+1", "-a:1", "a:1:2", "a:b", "ä:1", &long] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text:?}");
        }
        assert!("zzzzzzzzzzzzzz:1".parse::<Position>().is_err(), "over 64 bits");
    }
}
