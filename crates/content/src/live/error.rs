use super::{ENTRIES_MAX, NAME_BYTES_MAX, NODE_BYTES_MAX};
use crate::dag_pb::DagPbError;

/// A head or a node of a live page that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    #[error("this is no node of a live page")]
    NotLive,
    #[error("this live page has an unsupported version: update this program")]
    UnsupportedVersion,
    #[error("a node of a live page is invalid: {0}")]
    Node(DagPbError),
    #[error("a node of {len} bytes exceeds the limit of {max} bytes", max = NODE_BYTES_MAX)]
    NodeTooLong { len: usize },
    #[error("the data of a node is truncated")]
    Truncated,
    #[error("bytes follow the data of a node")]
    TrailingBytes,
    #[error("a name is not UTF-8")]
    NotUtf8,
    #[error("a name of {len} bytes exceeds the limit of {max} bytes", max = NAME_BYTES_MAX)]
    NameTooLong { len: usize },
    #[error("unknown form {form} of an entry")]
    UnknownForm { form: u8 },
    #[error("an entry of the form text has a name")]
    TextWithName,
    #[error("the number {number} of an entry is not from 1 to {max}", max = ENTRIES_MAX)]
    Number { number: u32 },
    #[error("entry {number} has other links than its content and the earlier nodes")]
    Links { number: u32 },
    #[error("a CID is not of version 1 with sha2-256")]
    UnsupportedCid,
    #[error("a head has {len} bytes and not 148")]
    HeadLength { len: usize },
    #[error("the head is of another page")]
    OtherPage,
    #[error("the signature of the head is not of the publisher's key")]
    Signature,
}

impl From<DagPbError> for LiveError {
    fn from(cause: DagPbError) -> Self {
        LiveError::Node(cause)
    }
}
