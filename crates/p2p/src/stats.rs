use std::time::Duration;

use libp2p::PeerId;
use watchfire_bitswap::Protocol;

/// The totals of a host since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStats {
    pub connections: usize,
    /// Peers that can exchange blocks now.
    pub peers: usize,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_messages: u64,
    pub sent_messages: u64,
    /// Received blocks that were wanted.
    pub received_blocks: u64,
    pub sent_blocks: u64,
    pub sent_block_bytes: u64,
    /// Bytes of received blocks that were wanted.
    pub received_block_bytes: u64,
    /// Bytes of received blocks that were duplicates or unsolicited.
    pub duplicate_block_bytes: u64,
    pub malformed_messages: u64,
    /// Peers that were disconnected because they broke the protocol.
    pub dropped_peers: u64,
    /// Unused peers that were disconnected because of the connection limit.
    pub trimmed_peers: u64,
    pub fetches: usize,
    pub unwritten_bytes: usize,
    /// Total time in which the host read nothing from the network because the disk was behind.
    pub paused: Duration,
}

/// The totals of one peer since it connected.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStats {
    pub peer: PeerId,
    pub protocol: Protocol,
    /// Received blocks that were wanted.
    pub received_blocks: u64,
    pub received_block_bytes: u64,
    pub sent_blocks: u64,
    pub sent_block_bytes: u64,
    pub requested_blocks: usize,
    pub wanted_blocks: usize,
    /// The shortest recent time from a request to its response; `None` before the first response.
    pub latency: Option<Duration>,
}
