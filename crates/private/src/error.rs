/// Why a private page cannot be made or opened. None of these says anything of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrivateError {
    /// It does not begin like one.
    #[error("this is no private page")]
    NotPrivate,
    /// It begins like one, and says things that only a later version understands.
    #[error("this private page was made by a version that is not known here")]
    Version,
    /// The key is that of another page.
    #[error("the key in this link does not open this page")]
    WrongKey,
    /// A record is not what was sealed: bytes were changed, left out, or put elsewhere.
    #[error(
        "this private page was changed after it was made: part {record} is not what was sealed"
    )]
    Changed {
        /// Which, counted from 0.
        record: u64,
    },
    /// No page has this length.
    #[error("no private page has {sealed_bytes} bytes: a part is missing, or too much is there")]
    Length {
        /// Bytes of ciphertext.
        sealed_bytes: u64,
    },
    /// There is more than a page can have.
    #[error("a private page of more than {max} bytes")]
    TooLarge {
        /// Most bytes.
        max: u64,
    },
    /// The index is none.
    #[error("the names in this private page cannot be read: {0}")]
    Index(#[from] IndexError),
}

/// Why bytes are no index, or names cannot be in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// It ends in the middle of something.
    #[error("they end too early")]
    Cut,
    /// It goes on behind its end.
    #[error("something follows them")]
    Trailing,
    /// It has more bytes than are read.
    #[error("they have {len} bytes, and at most {max} are read")]
    TooLong {
        /// Its bytes.
        len: u64,
        /// Most of them.
        max: u64,
    },
    /// It has more entries than are read.
    #[error("{entries} files, and at most {max} may be in one private page")]
    TooManyEntries {
        /// Entries.
        entries: u64,
        /// Most of them.
        max: u64,
    },
    /// A page, or an entry, is of a kind that does not exist.
    #[error("kind {kind} does not exist")]
    Kind {
        /// What stands there.
        kind: u8,
    },
    /// A page that is one file has no other number of files, and no name for it but its own.
    #[error("a page of one file that is not one file")]
    NotOneFile,
    /// Text is not UTF-8.
    #[error("a name is not UTF-8")]
    Utf8,
    /// A name that leads elsewhere, or that no file can have.
    #[error("{path:?} is no name for a file")]
    Path {
        /// The path.
        path: String,
    },
    /// Two entries of one name, entries out of order, or something within a file.
    #[error("{path:?} is not in its place")]
    Order {
        /// The second of two.
        path: String,
    },
    /// A directory with bytes, a symbolic link without, or more bytes than can be counted.
    #[error("{path:?} cannot have {bytes} bytes")]
    Size {
        /// The entry.
        path: String,
        /// What it declares.
        bytes: u64,
    },
}
