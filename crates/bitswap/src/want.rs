use content::Cid;

/// A set of wants that belong together, such as those of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A block to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its name.
    pub cid: Cid,
    /// Its bytes, if known: lets windows be filled exactly.
    pub len: Option<u32>,
    /// Higher is asked for first; among equals, what fewest peers have. A DAG's inner nodes deserve
    /// more than its leaves, and what is shown next more than what comes later.
    pub urgency: u8,
}

impl Want {
    /// A want of no particular urgency, for a block of unknown length.
    pub const fn new(cid: Cid) -> Self {
        Want { cid, len: None, urgency: 0 }
    }
}
