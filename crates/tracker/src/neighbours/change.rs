use watchfire_types::PeerId;

/// Two peers became neighbours, or are so no longer. Each pair is named once, the lower id first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// They are neighbours from now on.
    Linked(PeerId, PeerId),
    /// They are not neighbours any more, or one of them left.
    Unlinked(PeerId, PeerId),
}
