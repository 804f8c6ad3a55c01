/// An error while a private page is created or decrypted. No variant contains a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrivateError {
    #[error("this is not a private page")]
    NotPrivate,
    #[error("this private page has an unsupported version: update this program")]
    UnsupportedVersion,
    #[error("the key in this link does not open this page")]
    WrongKey,
    #[error("this private page was changed after it was made: part {record} is not authentic")]
    Changed {
        /// The number of the record, from 0.
        record: u64,
    },
    #[error("this private page of {sealed_bytes} bytes is damaged: data is missing or extra")]
    Length { sealed_bytes: u64 },
    #[error("a private page can have at most {max} bytes")]
    TooLarge { max: u64 },
    #[error("the index of this private page is invalid: {0}")]
    Index(IndexError),
}

impl From<IndexError> for PrivateError {
    fn from(cause: IndexError) -> Self {
        PrivateError::Index(cause)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("it is truncated")]
    Truncated,
    #[error("bytes follow it")]
    TrailingBytes,
    #[error("{len} bytes exceed the limit of {max} bytes")]
    TooLong { len: u64, max: u64 },
    #[error("{entries} files exceed the limit of {max} files in a private page")]
    TooManyEntries { entries: u64, max: u64 },
    #[error("unknown kind {kind}")]
    UnknownKind { kind: u8 },
    #[error("a page of a single file must have exactly one file")]
    NotOneFile,
    #[error("a name is not UTF-8")]
    NotUtf8,
    #[error("invalid path {path:?}")]
    InvalidPath { path: String },
    /// Entries have the same path, are out of order, or are below a file.
    #[error("the entry {path:?} is out of order")]
    WrongOrder { path: String },
    /// A directory has bytes, a symbolic link has none or too many, or the sum exceeds the limit.
    #[error("invalid size of {bytes} bytes of {path:?}")]
    InvalidSize { path: String, bytes: u64 },
}
