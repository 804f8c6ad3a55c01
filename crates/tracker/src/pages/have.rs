/// How much of a page a peer says it can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Have {
    /// No block yet.
    Nothing,
    /// Some blocks.
    Some,
    /// Every block: the peer is a holder.
    All,
}
