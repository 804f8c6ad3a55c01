//! The section `limits`.

use serde::{Deserialize, Serialize};
use watchfire_channels::longpoll::LongPollLimits;

/// Limits on the resources of a client, address, page or shard. `GET /limits` lists them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest message of a WebSocket, in bytes.
    pub frame_bytes_max: u32,
    /// Half-received messages of one shard, in bytes.
    pub partial_bytes_max: u64,
    /// Unsent bytes queued for one socket.
    pub queued_bytes_max: u32,
    /// Channels that one socket may have joined.
    pub channels_per_socket_max: u16,
    /// Joins per second of one socket.
    pub joins_per_second_per_socket: u16,
    /// Messages per second of one socket, relayed frames not counted.
    pub messages_per_second_per_socket: u16,
    /// Sockets and long-poll sessions of the whole server; 0 for what the open-file limit allows.
    pub sockets_max: u32,
    /// Sockets and long-poll sessions of one address.
    pub sockets_per_address_max: u32,
    /// Whether the limits per address apply to loopback addresses too.
    pub loopback_limited: bool,
    /// Frames that wait in one long-poll session.
    pub longpoll_frames_max: u32,
    /// Bytes that wait in one long-poll session.
    pub longpoll_bytes_max: u32,
    /// Largest body of a long-poll POST, in bytes.
    pub longpoll_body_bytes_max: u32,
    /// Largest page that a browser may share or load, in bytes.
    pub page_bytes_max: u64,
    /// Blocks that a browser requests from one peer at a time.
    pub blocks_in_flight_max: u16,
    /// Peers of one page.
    pub peers_per_page_max: u32,
    /// Open pages.
    pub pages_max: u32,
    /// Open pages of one address.
    pub pages_per_address_max: u32,
    /// Data of one relayed frame, in bytes.
    pub relay_frame_bytes_max: u32,
    /// Relayed bytes per second of one page.
    pub relay_bytes_per_second_per_page: u64,
    /// Relayed bytes per second that one peer may send.
    pub relay_bytes_per_second_per_peer: u64,
    /// Relayed bytes per second that all peers of one address may send.
    pub relay_bytes_per_second_per_address: u64,
    /// Relayed bytes per day that all peers of one address may send; 0 for no limit.
    pub relay_bytes_per_day_per_address: u64,
    /// One signal between two peers, in bytes.
    pub signal_bytes_max: u32,
    /// Signals per second that one peer may send.
    pub signals_per_second_per_peer: u16,
    /// Grids of sprites.
    pub grids_max: u32,
    /// Slots of all grids together, including reserved ones.
    pub grid_peers_max: u32,
    /// One throw of a sprite, in bytes.
    pub throw_bytes_max: u32,
    /// Sprites that wait for one peer's next poll.
    pub arrivals_queued_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let longpoll = LongPollLimits::default();
        Limits {
            frame_bytes_max: 10_000_000,
            partial_bytes_max: 64 << 20,
            queued_bytes_max: 1 << 20,
            channels_per_socket_max: 100,
            // A client that connects again joins all its channels at once.
            joins_per_second_per_socket: 100,
            messages_per_second_per_socket: 1_000,
            sockets_max: 0,
            sockets_per_address_max: 1_000,
            loopback_limited: false,
            longpoll_frames_max: longpoll.queued_messages_max,
            longpoll_bytes_max: longpoll.queued_bytes_max,
            longpoll_body_bytes_max: 8_000_000,
            page_bytes_max: 4 << 30,
            blocks_in_flight_max: 32,
            peers_per_page_max: 10_000,
            pages_max: 100_000,
            pages_per_address_max: 5_000,
            relay_frame_bytes_max: 64 << 10,
            relay_bytes_per_second_per_page: 128 << 20,
            relay_bytes_per_second_per_peer: 32 << 20,
            relay_bytes_per_second_per_address: 64 << 20,
            relay_bytes_per_day_per_address: 0,
            signal_bytes_max: 16 << 10,
            signals_per_second_per_peer: 20,
            grids_max: 10_000,
            grid_peers_max: 1_000_000,
            throw_bytes_max: 1_024,
            arrivals_queued_max: 64,
        }
    }
}
