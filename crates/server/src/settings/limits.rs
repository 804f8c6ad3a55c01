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
        sockets_per_address_max
    ];
    /// Limits on the resources of a client, address or shard. `GET /limits` lists them.
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
        /// half of it on, publishers and joins wait and forwarded data is refused.
        queued_bytes_max: u32 = 1 << 20, "bytes",
            "A socket that does not read is closed with code 1013. The message that is being written does not count, and each other one at most a quarter. A publisher and a join wait, and forwarded data is refused, at half of it.";
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
        /// Messages per second of one socket, without the data that it sends to one other client.
        /// Further messages are refused.
        messages_per_second_per_socket: u16 = 1_000, "messages a second",
            "The message is refused: \"too fast\". Data for one other client does not count here.";
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
    }
}
