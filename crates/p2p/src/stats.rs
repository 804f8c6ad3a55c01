use std::time::Duration;

use bitswap::Protocol;
use libp2p::PeerId;

/// What a host has done since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStats {
    /// Connections that are open.
    pub connections: usize,
    /// Peers that blocks can be exchanged with now.
    pub peers: usize,
    /// Bytes of messages that came.
    pub received_bytes: u64,
    /// Bytes of messages that were handed to the network.
    pub sent_bytes: u64,
    /// Messages that came.
    pub received_messages: u64,
    /// Messages that were sent.
    pub sent_messages: u64,
    /// Blocks that came and were wanted.
    pub received_blocks: u64,
    /// Blocks that were sent.
    pub sent_blocks: u64,
    /// Bytes of blocks that were sent.
    pub sent_block_bytes: u64,
    /// Bytes of blocks that came and were wanted.
    pub received_block_bytes: u64,
    /// Bytes of blocks that came and were not wanted any more.
    pub duplicate_block_bytes: u64,
    /// Messages that could not be read.
    pub malformed_messages: u64,
    /// Peers whose connection was closed for what they sent, or did not send.
    pub dropped_peers: u64,
    /// Peers that made room for others, since no block moved between us for long.
    pub trimmed_peers: u64,
    /// Fetches that are running.
    pub fetches: usize,
    /// Bytes that wait for the disk.
    pub unwritten_bytes: usize,
    /// How long the host has read nothing from the network because the disk was behind.
    pub paused: Duration,
}

/// What passed between a host and a peer since they are connected.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStats {
    /// Who it is.
    pub peer: PeerId,
    /// What is spoken with it.
    pub protocol: Protocol,
    /// Blocks that it sent and that were wanted.
    pub received_blocks: u64,
    /// Their bytes.
    pub received_block_bytes: u64,
    /// Blocks that were sent to it.
    pub sent_blocks: u64,
    /// Their bytes.
    pub sent_block_bytes: u64,
    /// Blocks that it is asked for now.
    pub asked_blocks: usize,
    /// Blocks that it wants now.
    pub wanted_blocks: usize,
    /// The shortest time from a want to its answer of late; `None` before the first.
    pub latency: Option<Duration>,
}
