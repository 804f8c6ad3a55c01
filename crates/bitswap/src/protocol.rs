/// The protocol that a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Blocks without a CID, read as dag-pb nodes of CID version 0. No HAVE.
    V1_0,
    /// Blocks with the prefix of their CID. No HAVE.
    V1_1,
    /// HAVE, DONT_HAVE, and want-haves.
    V1_2,
    /// All of 1.2, and lists of leaves. [`leaves`](crate::leaves) has its own protocol id.
    Leaves,
}

impl Protocol {
    /// The protocol ids of Bitswap, preferred first. The unversioned id is an older name of 1.0.
    pub const IDS: [(&'static str, Protocol); 4] = [
        ("/ipfs/bitswap/1.2.0", Protocol::V1_2),
        ("/ipfs/bitswap/1.1.0", Protocol::V1_1),
        ("/ipfs/bitswap/1.0.0", Protocol::V1_0),
        ("/ipfs/bitswap", Protocol::V1_0),
    ];

    /// Whether the protocol has want-haves, HAVE and DONT_HAVE.
    pub const fn has_presences(self) -> bool {
        matches!(self, Protocol::V1_2 | Protocol::Leaves)
    }
}
