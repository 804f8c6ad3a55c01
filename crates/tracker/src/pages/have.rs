/// The part of a page that a peer can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Have {
    /// No block yet.
    Nothing,
    /// Some blocks.
    Some,
    /// Every block: the peer is a holder.
    All,
}
