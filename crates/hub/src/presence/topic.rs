use super::reference::Reference;
use crate::slab::{NONE, Record};

/// A topic where someone is present, or where a leave is still to be told.
#[derive(Debug, Default)]
pub(crate) struct PresenceTopic {
    pub name: Box<str>,
    /// For each key, the entry that stands for it.
    pub keys: Vec<u32>,
    /// Entries of all keys.
    pub entries: usize,
    /// What the next diff is to tell; `None` when nothing changed.
    pub changes: Option<Box<Changes>>,
    /// In a vacant slot, the next vacant one.
    pub next_vacant: u32,
}

impl Record for PresenceTopic {
    fn next_vacant(&mut self) -> &mut u32 {
        &mut self.next_vacant
    }
}

/// What changed on a topic since its last diff.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Entries with the version they got, and may have lost since. What some client does not know
    /// is among them.
    pub joins: Vec<(u32, Reference)>,
    /// The list of entries that have left and that somebody knows, the newest first: see
    /// [`Entry::has_left`](super::entry::Entry::has_left).
    pub first_left: u32,
}

impl Default for Changes {
    fn default() -> Self {
        Changes { joins: Vec::new(), first_left: NONE }
    }
}
