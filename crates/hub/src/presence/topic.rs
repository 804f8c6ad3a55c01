use super::entry::Version;

/// A topic where someone is present, or where a leave is still to be told.
#[derive(Debug, Default)]
pub(crate) struct PresenceTopic {
    pub name: Box<str>,
    /// For each key, the entry that stands for it.
    pub keys: Vec<u32>,
    /// Entries of all keys.
    pub entries: usize,
    /// Some client knows the versions up to this one: from a diff or from its own state.
    pub known_until: u64,
    /// What the next diff is to tell; `None` when nothing changed.
    pub changes: Option<Box<Changes>>,
}

/// What changed on a topic since its last diff.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Entries with the version they got, and may have lost since.
    pub joins: Vec<(u32, u64)>,
    /// Versions that some client knows and that are no more.
    pub leaves: Vec<Version>,
}
