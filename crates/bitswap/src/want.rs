use watchfire_content::Cid;

/// The id of a session: a set of wants that belong together, such as those of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A block to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The block's CID.
    pub cid: Cid,
    /// The block's length, if known. With it, request windows are filled exactly.
    pub len: Option<u32>,
    /// Higher is requested first; among equals, the rarest block. Give the inner nodes of a DAG
    /// more than its leaves, and content that is shown next more than later content.
    pub urgency: u8,
}

impl Want {
    /// A want with urgency 0, for a block of unknown length.
    pub const fn new(cid: Cid) -> Self {
        Want { cid, len: None, urgency: 0 }
    }
}
