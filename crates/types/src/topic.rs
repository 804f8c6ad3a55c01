use std::fmt;

/// The longest topic, in bytes: its length is one byte in a binary frame.
pub const TOPIC_BYTES_MAX: usize = 255;

/// A topic name of valid length, such as `rooms:lobby`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Box<str>);

/// The reason why a topic name is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicError {
    Empty,
    /// The name is longer than [`TOPIC_BYTES_MAX`].
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicError::Empty => f.write_str("a topic cannot be empty"),
            TopicError::TooLong { len } => {
                write!(f, "a topic has at most {TOPIC_BYTES_MAX} bytes, not {len}")
            }
        }
    }
}

impl std::error::Error for TopicError {}

impl Topic {
    /// Checks the name's length.
    pub fn parse(text: &str) -> Result<Topic, TopicError> {
        match text.len() {
            0 => Err(TopicError::Empty),
            len if len > TOPIC_BYTES_MAX => Err(TopicError::TooLong { len }),
            _ => Ok(Topic(text.into())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_fits_one_length_byte() {
        assert!(Topic::parse(&"t".repeat(255)).is_ok());
        assert_eq!(Topic::parse(&"t".repeat(256)), Err(TopicError::TooLong { len: 256 }));
        assert_eq!(Topic::parse(""), Err(TopicError::Empty));
    }
}
