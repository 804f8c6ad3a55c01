use super::reference::Reference;
use crate::room::NONE;

/// A topic with presences, or with leaves that wait for a diff.
#[derive(Debug, Default)]
pub(crate) struct PresenceTopic {
    pub name: Box<str>,
    /// For each key, the entry that represents it.
    pub keys: Vec<u32>,
    /// Entries of all keys.
    pub entries: usize,
    /// The content of the next diff; `None` when nothing changed.
    pub changes: Option<Box<Changes>>,
}

/// The changes of a topic since its last diff.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Entries with the version of each join, which may be outdated. Every version that some client
    /// does not know is among them.
    pub joins: Vec<(u32, Reference)>,
    /// The list of entries that have left and are known to others, the newest first: see
    /// [`Entry::has_left`](super::entry::Entry::has_left).
    pub first_left: u32,
}

impl Default for Changes {
    fn default() -> Self {
        Changes { joins: Vec::new(), first_left: NONE }
    }
}
