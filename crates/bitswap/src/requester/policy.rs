use std::time::Duration;

use crate::bit_set::BitSet;

/// The parts of the requester and the ledger that a strategy can switch off.
///
/// All are on by default. A strategy that imitates another implementation switches some off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangePolicy {
    /// Whether requests to a peer that sends nothing time out after
    /// [`Limits::response_timeout`](crate::Limits::response_timeout).
    pub has_silence_timeouts: bool,
    /// Whether want-haves without an answer are sent again after a search for providers.
    pub resends_want_haves: bool,
    /// Whether messages that are not urgent wait for
    /// [`Limits::batching_delay`](crate::Limits::batching_delay).
    pub batches_messages: bool,
    /// Whether the ledger first sends the blocks that it has sent to the fewest peers.
    pub serves_rarest_first: bool,
}

impl Default for ExchangePolicy {
    fn default() -> Self {
        ExchangePolicy {
            has_silence_timeouts: true,
            resends_want_haves: true,
            batches_messages: true,
            serves_rarest_first: true,
        }
    }
}

/// The wants that a peer receives as want-haves.
#[derive(Clone, Copy, Debug)]
pub struct WantHaves<'a> {
    /// Only these wants; `None` for all.
    pub only: Option<&'a BitSet>,
    /// Whether the peer must answer DONT_HAVE for a block that it lacks.
    pub send_dont_have: bool,
}

/// A peer's answer to a want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// The peer has a wanted block.
    Have,
    /// The peer lacks a wanted block.
    DontHave,
    /// The peer sent a wanted block.
    Block {
        /// Time since the request; `None` if the block was not requested from this peer.
        latency: Option<Duration>,
    },
    /// The peer sent a block that had arrived before.
    Duplicate,
}
