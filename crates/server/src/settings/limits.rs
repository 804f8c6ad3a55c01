//! The section `limits`.

use serde::{Deserialize, Serialize};
use watchfire_channels::longpoll::LongPollLimits;

use watchfire_settings::section;

section! {
    "limits", never_zero [
        frame_bytes_max,
        partial_bytes_max,
        queued_bytes_max,
        channels_per_socket_max,
        joins_per_second_per_socket,
        messages_per_second_per_socket,
        sockets_per_address_max,
        blocks_in_flight_max
    ];
    /// Limits on the resources of a client, address, page or shard. `GET /limits` lists them.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Limits {
        /// Largest message of a WebSocket, in bytes. A larger one closes the socket with 1009.
        frame_bytes_max: u32 = 10_000_000, "bytes",
            "The socket is closed with code 1009.";
        /// Bytes of half-received messages of one shard. When the limit is reached, the socket that
        /// needs more is closed with 1013.
        partial_bytes_max: u64 = 64 << 20, "bytes",
            "The socket that needs more is closed with code 1013. Counts half-received messages of one event loop.";
        /// Unsent bytes queued for one socket. When the limit is reached, the socket is closed with
        /// 1013, unless the client reads. The message that is being written does not count, and each
        /// other one counts at most a quarter, so a client that reads gets messages of any size. From
        /// half of it on, publishers and joins wait and relayed frames are refused.
        queued_bytes_max: u32 = 1 << 20, "bytes",
            "A socket that does not read is closed with code 1013. The message that is being written does not count, and each other one at most a quarter. A publisher and a join wait, and a relayed frame is refused, at half of it.";
        /// Bytes of topics' messages in the memory of one process, each counted once for all sockets
        /// that wait for it. Beyond it, a full queue closes its socket also if the client reads.
        shared_bytes_max: u64 = 64 << 20, "bytes",
            "A socket whose queue is over queued_bytes_max is closed with code 1013, also if it reads. Each process counts for itself.";
        /// Channels that one socket may have joined. Further joins are refused.
        channels_per_socket_max: u16 = 100, "channels",
            "The join is refused: \"too many channels joined\".";
        /// Joins per second of one socket. Further ones are refused.
        joins_per_second_per_socket: u16 = 100, "joins a second",
            "The join is refused: \"too fast\".";
        /// Messages per second of one socket, relayed frames not counted. Further messages are
        /// refused.
        messages_per_second_per_socket: u16 = 1_000, "messages a second",
            "The message is refused: \"too fast\". Relayed frames do not count here.";
        /// Sockets and long-poll sessions of the whole server; 0 for what the open-file limit
        /// allows. Further connections get 503.
        sockets_max: u32 = 0, "sockets",
            "The connection gets 503. 0 means what the open-file limit allows.";
        /// Sockets and long-poll sessions of one address; of IPv6, one network of 64 bits. Further
        /// sockets get 429, and further sessions 403. Several processes count together.
        sockets_per_address_max: u32 = 1_000, "sockets",
            "The connection gets 429. Counts all processes together; of IPv6, a network of 64 bits.";
        /// Whether the limits per address apply to loopback addresses too.
        loopback_limited: bool = false;
        /// Frames that wait in one long-poll session.
        #[serde(skip)]
        #[doc(hidden)]
        longpoll_frames_max: u32 = LongPollLimits::default().queued_messages_max, "frames",
            "The long-poll session ends; the client opens another.";
        /// Bytes that wait in one long-poll session. Each frame counts at most a quarter of them.
        #[serde(skip)]
        #[doc(hidden)]
        longpoll_bytes_max: u32 = LongPollLimits::default().queued_bytes_max, "bytes",
            "The long-poll session ends; the client opens another. Each message counts at most a quarter.";
        /// Largest body of a long-poll POST, in bytes. A larger one gets 400, and so does one of
        /// more than 1,000 lines.
        #[serde(skip)]
        #[doc(hidden)]
        longpoll_body_bytes_max: u32 = 8_000_000, "bytes",
            "The POST gets 400.";
        /// Largest page that a browser may share or load, in bytes. The browser refuses a larger
        /// one.
        page_bytes_max: u64 = 4 << 30, "bytes",
            "The browser refuses to share or load the page.";
        /// Blocks that a browser requests from one peer at a time.
        blocks_in_flight_max: u16 = 32, "blocks",
            "The browser requests no more from that peer until some have arrived.";
        /// Peers of one page. Further joins are refused.
        peers_per_page_max: u32 = 10_000, "peers",
            "The join is refused: \"page full\".";
        /// Open pages. Joins of further pages are refused.
        pages_max: u32 = 100_000, "pages",
            "The join is refused: \"too many pages\".";
        /// Open pages of one address; of IPv6, one network of 64 bits. Further joins are refused.
        /// Several processes count together; a few pages more may open until all processes know of
        /// the last ones.
        pages_per_address_max: u32 = 5_000, "pages",
            "The join is refused: \"too many pages of this address\".";
        /// Data of one relayed frame, in bytes. A larger frame is refused.
        #[serde(skip)]
        #[doc(hidden)]
        relay_frame_bytes_max: u32 = 64 << 10, "bytes",
            "The frame is refused: \"relay frame too large\".";
        /// Relayed bytes per second of one page. Beyond it, a frame is refused with the time to
        /// wait.
        relay_bytes_per_second_per_page: u64 = 128 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per second that one peer may send. Beyond it, a frame is refused with the
        /// time to wait.
        relay_bytes_per_second_per_peer: u64 = 32 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per second that all peers of one address may send. Beyond it, a frame is
        /// refused with the time to wait. Several processes count together, to within a sixteenth
        /// of a quarter second's bytes.
        relay_bytes_per_second_per_address: u64 = 64 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per day that all peers of one address may send; 0 for no limit. A day
        /// begins with the first relayed byte of the address. Beyond it, a frame is refused with
        /// the time to wait.
        relay_bytes_per_day_per_address: u64 = 0, "bytes a day",
            "The frame is refused with the time to wait: \"relay budget\". 0 means that there is no such limit.";
        /// One signal between two peers that set up a direct connection, in bytes. A larger one is
        /// refused.
        #[serde(skip)]
        #[doc(hidden)]
        signal_bytes_max: u32 = 16 << 10, "bytes",
            "The signal is refused: \"signal too large\".";
        /// Signals per second of one peer, with bursts of five seconds' worth. Further signals are
        /// refused with the time to wait.
        #[serde(skip)]
        #[doc(hidden)]
        signals_per_second_per_peer: u16 = 20, "signals a second",
            "The signal is refused with the time to wait: \"too many signals\".";
        /// Grids of sprites. Joins of further grids are refused.
        #[serde(skip)]
        #[doc(hidden)]
        grids_max: u32 = 10_000, "grids",
            "The join is refused: \"too many grids\".";
        /// Slots of all grids together, including reserved ones. Further joins are refused.
        #[serde(skip)]
        #[doc(hidden)]
        grid_peers_max: u32 = 1_000_000, "peers",
            "The join is refused: \"grids full\".";
        /// One throw of a sprite, in bytes. A larger one is refused.
        #[serde(skip)]
        #[doc(hidden)]
        throw_bytes_max: u32 = 1_024, "bytes",
            "The throw is refused: \"throw too large\".";
        /// Sprites that wait for one peer's next poll. When the limit is reached, a throw returns
        /// to its thrower.
        #[serde(skip)]
        #[doc(hidden)]
        arrivals_queued_max: u32 = 64, "sprites",
            "A throw returns to its thrower until the neighbour has polled.";
    }
}
