/// How much of a page a peer can serve, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Have {
    /// No block yet: a seeker.
    Nothing,
    /// Some blocks.
    Some,
    /// Every block: a holder.
    All,
}
