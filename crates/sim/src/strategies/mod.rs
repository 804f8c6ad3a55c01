//! The request strategies that are compared: ours, and models of two others.

mod boxo;
mod go_bitswap;
mod other_programs;

use std::fmt::Debug;

use watchfire_bitswap::{Protocol, RarestFirst, RequestStrategy};

use boxo::Boxo;
use go_bitswap::GoBitswap;

/// How every node of a swarm requests blocks.
///
/// The models of other programs contain what matters for speed and duplicates, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Watchfire: rarest first, over the leaves protocol.
    Watchfire,
    /// Boxo, as in kubo: Bitswap 1.2, with a want-block to one peer and want-haves to the others.
    Boxo,
    /// go-bitswap before HAVE: Bitswap 1.1, with each want sent to several peers.
    GoBitswap,
}

impl Strategy {
    /// The protocol between two nodes with this strategy.
    pub const fn protocol(self) -> Protocol {
        match self {
            Strategy::Watchfire => Protocol::Leaves,
            Strategy::Boxo => Protocol::V1_2,
            Strategy::GoBitswap => Protocol::V1_1,
        }
    }

    pub(crate) fn build<P: Copy + Ord + Debug + Send + 'static>(
        self,
    ) -> Box<dyn RequestStrategy<P>> {
        match self {
            Strategy::Watchfire => Box::new(RarestFirst::new()),
            Strategy::Boxo => Box::new(Boxo::new()),
            Strategy::GoBitswap => Box::new(GoBitswap::new()),
        }
    }
}
