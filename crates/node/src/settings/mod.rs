//! Every setting, its default, and where it is read from.
//!
//! Settings come from four places, the later over the earlier: the defaults below, one TOML file,
//! the environment (`WATCHFIRE_LIMITS_FRAME_BYTES_MAX=65536`), and the command line. A key that
//! does not exist is an error that names the nearest one that does.

mod error;
mod layers;
mod p2p;
mod pages;
mod sites;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::SettingsError;
pub use layers::Layers;
pub use p2p::{DhtRole, P2pSettings};
pub(crate) use pages::TOKEN_BYTES_MIN;
pub use pages::{AdminSettings, PageSettings};
pub use sites::SitesSettings;

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where and how to listen.
    pub server: ServerSettings,
    /// The channel sockets' mount, origins and timing.
    pub socket: SocketSettings,
    /// Certificate and key; both empty for plain HTTP.
    pub tls: TlsSettings,
    /// Where browsers learn at which address they are seen.
    pub stun: StunSettings,
    /// Where folders of web pages are shown, each on an origin of its own.
    pub sites: SitesSettings,
    /// How peers of libp2p are met, if at all.
    pub p2p: P2pSettings,
    /// What the operator wants of pages.
    pub pages: PageSettings,
    /// Calls that only the operator may make.
    pub admin: AdminSettings,
    /// What one client, address, page or shard may cost.
    pub limits: Limits,
    /// What is logged, and how.
    pub log: LogSettings,
}

/// Where and how to listen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Event loops, each with its own listener; 0 for one a core.
    pub shards: u16,
    /// Processes behind the same port, each with its share of the shards; 0 for as many as
    /// `limits.sockets_max` needs under the open-file limit.
    pub processes: u16,
    /// How long a stop spreads the closing of its sockets over.
    #[serde(with = "humantime_serde")]
    pub drain_period: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 4000))],
            shards: 0,
            processes: 1,
            drain_period: Duration::from_secs(10),
        }
    }
}

/// The channel sockets' mount, origins and timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketSettings {
    /// The path below which `/websocket` and `/longpoll` are served.
    pub mount: String,
    /// Origins that a browser may connect from: `["same"]` for the page's own host, `["any"]`,
    /// or entries such as `"https://example.org"`, `"//*.example.org"`.
    pub check_origin: Vec<String>,
    /// A websocket that sends nothing for this long is closed with 1001.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// A websocket whose queue makes no progress for this long is closed with 1013.
    #[serde(with = "humantime_serde")]
    pub slow_timeout: Duration,
    /// How long a long poll waits before it is answered empty.
    #[serde(with = "humantime_serde")]
    pub longpoll_window: Duration,
    /// How long a sprites' poll over plain HTTP waits before it is answered empty.
    #[serde(with = "humantime_serde")]
    pub sprites_window: Duration,
    /// How long the place of who left a plane of sprites is kept.
    #[serde(with = "humantime_serde")]
    pub vacancy_period: Duration,
}

impl Default for SocketSettings {
    fn default() -> Self {
        SocketSettings {
            mount: "/socket".into(),
            check_origin: vec!["same".into()],
            idle_timeout: Duration::from_secs(60),
            slow_timeout: Duration::from_secs(30),
            longpoll_window: Duration::from_secs(10),
            sprites_window: Duration::from_secs(120),
            vacancy_period: Duration::from_secs(10),
        }
    }
}

/// Certificate and key; both empty for plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file with the certificate chain.
    pub cert: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

/// Where browsers learn at which address they are seen, so that they can meet directly: STUN
/// Binding (RFC 8489) over UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StunSettings {
    /// Whether a server of pages answers.
    pub enabled: bool,
    /// UDP addresses to answer on; empty for those of `server.listen`, with the same ports.
    pub listen: Vec<SocketAddr>,
    /// What browsers are told instead of the host they have the page from and the first UDP port,
    /// such as `stun.example.org:3478`.
    pub announce: String,
    /// Answers a second to one address, or one network of IPv6.
    pub answers_per_second_address: u32,
    /// Answers a second to all.
    pub answers_per_second: u32,
}

impl Default for StunSettings {
    fn default() -> Self {
        StunSettings {
            enabled: true,
            listen: Vec::new(),
            announce: String::new(),
            answers_per_second_address: 50,
            answers_per_second: 10_000,
        }
    }
}

/// What one client, address, page or shard may cost. `GET /limits` tells them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest message of a websocket, in bytes.
    pub frame_bytes_max: u32,
    /// Half-received messages of one shard, in bytes.
    pub partial_bytes_max: u64,
    /// Unsent bytes queued for one socket.
    pub queued_bytes_max: u32,
    /// Channels that one socket may have joined.
    pub channels_per_socket_max: u16,
    /// Joins a second of one socket.
    pub joins_per_second_max: u16,
    /// Messages a second of one socket, relayed frames not counted.
    pub messages_per_second_max: u16,
    /// Sockets and long-poll sessions of the whole server; 0 for what the open-file limit allows.
    pub sockets_max: u32,
    /// Sockets and long-poll sessions of one address.
    pub sockets_per_address_max: u32,
    /// Whether the limits per address hold for loopback addresses too.
    pub loopback_limited: bool,
    /// Frames that wait in one long-poll session.
    pub longpoll_frames_max: u32,
    /// Bytes that wait in one long-poll session.
    pub longpoll_bytes_max: u32,
    /// Largest body of a long-poll POST, in bytes.
    pub longpoll_body_bytes_max: u32,
    /// Largest page that a browser may share or load, in bytes.
    pub page_bytes_max: u64,
    /// Blocks that a browser asks one peer for at a time.
    pub blocks_in_flight_max: u16,
    /// Peers of one page.
    pub peers_per_page_max: u32,
    /// Pages that are open at once.
    pub pages_max: u32,
    /// Pages that one address has open at once.
    pub pages_per_address_max: u32,
    /// Data of one relayed frame, in bytes.
    pub relay_frame_bytes_max: u32,
    /// Relayed bytes a second of one page.
    pub relay_bytes_per_second: u64,
    /// Relayed bytes a second that one peer may send.
    pub relay_bytes_per_second_peer: u64,
    /// Relayed bytes a second that all peers of one address may send.
    pub relay_bytes_per_second_address: u64,
    /// Relayed bytes that all peers of one address may send in a day; 0 for any number.
    pub relay_bytes_per_day_address: u64,
    /// One signal between two peers, in bytes.
    pub signal_bytes_max: u32,
    /// Signals a second that one peer may send.
    pub signals_per_second_max: u16,
    /// Planes of sprites at once.
    pub planes_max: u32,
    /// Peers of all planes together, with the absent whose places are kept.
    pub plane_peers_max: u32,
    /// One throw of a sprite, in bytes.
    pub throw_bytes_max: u32,
    /// Sprites that wait for one peer's next poll.
    pub arrivals_queued_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 10_000_000,
            partial_bytes_max: 64 << 20,
            queued_bytes_max: 1 << 20,
            channels_per_socket_max: 100,
            joins_per_second_max: 50,
            messages_per_second_max: 1_000,
            sockets_max: 0,
            sockets_per_address_max: 1_000,
            loopback_limited: false,
            longpoll_frames_max: 1_000,
            longpoll_bytes_max: 1 << 20,
            longpoll_body_bytes_max: 8_000_000,
            page_bytes_max: 4 << 30,
            blocks_in_flight_max: 32,
            peers_per_page_max: 10_000,
            pages_max: 100_000,
            pages_per_address_max: 5_000,
            relay_frame_bytes_max: 64 << 10,
            relay_bytes_per_second: 128 << 20,
            relay_bytes_per_second_peer: 32 << 20,
            relay_bytes_per_second_address: 64 << 20,
            relay_bytes_per_day_address: 0,
            signal_bytes_max: 16 << 10,
            signals_per_second_max: 20,
            planes_max: 10_000,
            plane_peers_max: 1_000_000,
            throw_bytes_max: 1_024,
            arrivals_queued_max: 64,
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: LogFormat,
    /// A level, or a filter such as `"info,edge=debug"`.
    pub level: String,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { format: LogFormat::Text, level: "info".into() }
    }
}
