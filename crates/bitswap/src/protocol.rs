/// What a peer speaks: a version of Bitswap, or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Blocks without a name, taken for dag-pb nodes of CID version 0; no presences.
    V1_0,
    /// Blocks with the prefix of their CID; no presences.
    V1_1,
    /// HAVE, DONT_HAVE, and wants for either.
    V1_2,
    /// All of 1.2, and lists of leaves: see [`leaves`](crate::leaves), which has an id of its own.
    Leaves,
}

impl Protocol {
    /// The ids that Bitswap is negotiated by, the one to prefer first. The unversioned id is 1.0 under an
    /// older name.
    pub const IDS: [(&'static str, Protocol); 4] = [
        ("/ipfs/bitswap/1.2.0", Protocol::V1_2),
        ("/ipfs/bitswap/1.1.0", Protocol::V1_1),
        ("/ipfs/bitswap/1.0.0", Protocol::V1_0),
        ("/ipfs/bitswap", Protocol::V1_0),
    ];

    /// Whether a peer can be asked whether it has a block, and say that it does not.
    pub const fn has_presences(self) -> bool {
        matches!(self, Protocol::V1_2 | Protocol::Leaves)
    }
}
