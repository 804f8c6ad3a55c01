//! The sections of the settings file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::p2p::P2pSettings;
use super::pages::{AdminSettings, PageSettings};
use super::sites::SitesSettings;

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
    /// How long the place of who left a grid of sprites is kept.
    #[serde(with = "humantime_serde")]
    pub reservation_period: Duration,
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
            reservation_period: Duration::from_secs(10),
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
    pub answers_per_second_per_address: u32,
    /// Answers a second to all.
    pub answers_per_second: u32,
}

impl Default for StunSettings {
    fn default() -> Self {
        StunSettings {
            enabled: true,
            listen: Vec::new(),
            announce: String::new(),
            answers_per_second_per_address: 50,
            answers_per_second: 10_000,
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: LogFormat,
    /// A level, or a filter such as `"info,watchfire_sockets=debug"`.
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
