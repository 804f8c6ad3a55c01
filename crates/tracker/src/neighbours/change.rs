use watchfire_types::PeerId;

/// Two peers became neighbours or stopped being so. The lower id is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// They are neighbours now.
    Linked(PeerId, PeerId),
    /// They are no longer neighbours, or one of them left.
    Unlinked(PeerId, PeerId),
}
