//! What can be wrong with a frame.

use std::fmt;

/// A part of a message that has a largest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The ref of the join that a message belongs to.
    JoinRef,
    /// The message's own ref.
    Ref,
    /// The topic.
    Topic,
    /// The event.
    Event,
    /// The status of a reply.
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

/// Why a client's frame is no message. Such a client is closed, with [`DecodeError::close_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame, or a field of a binary frame, is not UTF-8.
    #[error("not UTF-8 after byte {valid_up_to}")]
    NotUtf8 {
        /// How many bytes of the frame or field are good.
        valid_up_to: usize,
    },
    /// The text is not JSON.
    #[error("not JSON at line {line}, column {column}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A V2 text frame is JSON, but no array.
    #[error("a V2 frame is an array")]
    NotAnArray,
    /// A V1 text frame is JSON, but no object.
    #[error("a V1 frame is an object")]
    NotAnObject,
    /// A V2 text frame has fewer than five elements.
    #[error("a V2 frame has five elements, this one {len}")]
    TooFewElements {
        /// How many it has.
        len: usize,
    },
    /// A V1 text frame lacks a key.
    #[error("a V1 frame has a key \"{key}\"")]
    MissingKey {
        /// The missing key.
        key: &'static str,
    },
    /// The topic or event is not a string.
    #[error("{field} must be a string")]
    NotText {
        /// Which of them.
        field: Field,
    },
    /// A field is too long to be answered.
    #[error("{field} has {len} bytes, at most {max} are taken")]
    FieldTooLong {
        /// Which field.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// The largest length taken.
        max: usize,
    },
    /// A binary frame's first byte is none that a client may send.
    #[error("a client's binary frame starts with 0, this one with {kind}")]
    UnknownKind {
        /// The first byte.
        kind: u8,
    },
    /// A binary frame ends before the fields that its lengths promise.
    #[error("the binary frame needs {needed} bytes and has {len}")]
    Truncated {
        /// Its length in bytes.
        len: usize,
        /// The least length that its head asks for.
        needed: usize,
    },
}

impl DecodeError {
    /// The websocket close code for a client that sent such a frame.
    pub const fn close_code(&self) -> u16 {
        match self {
            DecodeError::NotUtf8 { .. } => 1007,
            _ => 1011,
        }
    }
}

/// Why a message cannot be written. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field does not fit its length byte in a binary frame.
    #[error("{field} has {len} bytes, a binary frame can say at most {max}")]
    FieldTooLong {
        /// Which field.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// What one length byte can say.
        max: usize,
    },
    /// The V1 serializer knows no binary payloads.
    #[error("a V1 socket cannot carry a binary payload")]
    BinaryOverV1,
}
