//! Errors of decoding and encoding.

use std::fmt;

/// A part of a message with a maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The ref of the join that a message belongs to.
    JoinRef,
    /// The message's own ref.
    Ref,
    Topic,
    Event,
    Status,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::JoinRef => "join_ref",
            Field::Ref => "ref",
            Field::Topic => "topic",
            Field::Event => "event",
            Field::Status => "status",
        })
    }
}

/// The reason why a client's frame is not valid. The socket is closed with
/// [`DecodeError::close_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("not UTF-8 after byte {valid_up_to}")]
    NotUtf8 { valid_up_to: usize },
    #[error("not JSON at line {line}, column {column}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    #[error("an event stream takes no messages")]
    NotAMessage,
    #[error("a V2 frame must be an array")]
    NotAnArray,
    #[error("a V1 frame must be an object")]
    NotAnObject,
    #[error("a V2 frame must have five elements, not {len}")]
    TooFewElements { len: usize },
    #[error("a V1 frame must have the key \"{key}\"")]
    MissingKey { key: &'static str },
    #[error("{field} must be a string")]
    NotText { field: Field },
    #[error("{field} has {len} bytes, the maximum is {max}")]
    FieldTooLong { field: Field, len: usize, max: usize },
    #[error("a client's binary frame must start with 0 or 3, not {kind}")]
    UnknownKind { kind: u8 },
    #[error("a broadcast of kind 3 must have the encoding 0 or 1, not {encoding}")]
    UnknownEncoding { encoding: u8 },
    #[error("a binary frame needs {needed} bytes, but has only {len}")]
    Truncated { len: usize, needed: usize },
}

impl DecodeError {
    /// The WebSocket close code for a client that sent such a frame.
    pub const fn close_code(&self) -> u16 {
        match self {
            DecodeError::NotUtf8 { .. } => 1007,
            _ => 1011,
        }
    }
}

/// The reason why a message cannot be encoded. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{field} has {len} bytes, the maximum in a binary frame is {max}")]
    FieldTooLong { field: Field, len: usize, max: usize },
    #[error("only a V2 socket can carry a binary payload")]
    BinaryOverText,
}
