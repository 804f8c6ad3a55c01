/// How a node goes about exchanging blocks.
///
/// A node is [`Behaviour::Ours`]. The others exist to be compared with it in simulations: they do
/// what matters for speed and for duplicates as those programs do it, and not all that they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Rarest first, windows that follow what each peer delivers, no block asked for twice before
    /// the tail.
    Ours,
    /// As boxo does Bitswap 1.2: one hopeful want-block to one peer and a want-have to all others, a
    /// pause between messages, and silence that counts as "does not have".
    Kubo12,
    /// As go-bitswap did before HAVE: wants to several peers at once, as many as duplicates allow.
    Old11,
}
