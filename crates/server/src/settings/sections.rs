//! The sections of the settings file.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::api::ApiSettings;
use super::auth::AuthSettings;
use super::channels::ChannelSettings;
use super::cluster::ClusterSettings;
use super::hooks::HookSettings;
use super::limits::Limits;
use super::p2p::P2pSettings;
use super::pages::{AdminSettings, PageSettings};
use super::sites::SitesSettings;
use super::tls::TlsSettings;
use super::traces::TraceSettings;

/// All settings.
///
/// ```
/// let mut settings = watchfire::Settings::default();
/// settings.server.listen = vec!["127.0.0.1:4001".parse().unwrap()];
/// settings.socket.idle_timeout = std::time::Duration::from_secs(30);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where and how to listen.
    pub server: ServerSettings,
    /// The channel sockets' mount, origins and timing.
    pub socket: SocketSettings,
    /// The channels that the server has without an application.
    pub channels: ChannelSettings,
    /// The keys and claims of clients' tokens.
    pub auth: AuthSettings,
    /// The backend that decides about joins and messages.
    pub hooks: HookSettings,
    /// The other machines of the server.
    pub cluster: ClusterSettings,
    /// TLS with a certificate from files or from an ACME server; plain HTTP with neither.
    pub tls: TlsSettings,
    /// Whether and where the server answers STUN.
    pub stun: StunSettings,
    /// The hosts of sites.
    pub sites: SitesSettings,
    /// The gateway to libp2p peers.
    pub p2p: P2pSettings,
    /// The operator's settings for pages.
    pub pages: PageSettings,
    /// The operator's listener.
    pub admin: AdminSettings,
    /// The HTTP API for other programs.
    pub api: ApiSettings,
    /// Limits on the resources of a client, address, page or shard.
    pub limits: Limits,
    /// Level and format of the log.
    pub log: LogSettings,
    /// Where distributed traces are sent.
    pub traces: TraceSettings,
}

/// Where and how to listen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The address at which browsers open the server, such as `https://example.org`. Origins are
    /// compared with its host. Empty: with the host to which a request was sent.
    pub public_url: String,
    /// Networks of the proxies whose headers name the client.
    pub trusted_proxies: Vec<String>,
    /// The headers that these proxies set.
    pub proxy_header: ProxyHeader,
    /// Addresses of `listen` at which a proxy names each client with the PROXY protocol.
    pub proxy_protocol: Vec<SocketAddr>,
    /// Event loops, each with its own listener; 0 for one per core.
    pub shards: u16,
    /// Processes behind the same port, each with its share of the shards; 0 for as many as
    /// `limits.sockets_max` needs under the open-file limit.
    pub processes: u16,
    /// Longest period over which a stop spreads the closing of its sockets.
    #[serde(with = "humantime_serde")]
    pub drain_period: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 4000))],
            public_url: String::new(),
            trusted_proxies: vec!["127.0.0.0/8".into(), "::1/128".into()],
            proxy_header: ProxyHeader::default(),
            proxy_protocol: Vec::new(),
            shards: 0,
            processes: 1,
            drain_period: Duration::from_secs(10),
        }
    }
}

/// The headers with which a proxy names the client and the host that it requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyHeader {
    /// `X-Forwarded-For` and `X-Forwarded-Host`.
    #[default]
    XForwardedFor,
    /// `Forwarded` of RFC 7239, with `for` and `host`.
    Forwarded,
}

/// The channel sockets' mount, origins and timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketSettings {
    /// The path below which `/websocket` and `/longpoll` are served.
    pub mount: String,
    /// Origins from which a browser may connect: `["same"]` for the page's own host, `["any"]`,
    /// or entries such as `"https://example.org"`, `"//*.example.org"`.
    pub check_origin: Vec<String>,
    /// A WebSocket that sends nothing for this long is closed with 1001.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// A WebSocket whose queue makes no progress for this long is closed with 1013.
    #[serde(with = "humantime_serde")]
    pub slow_timeout: Duration,
    /// How long a long poll waits before it gets an empty response.
    #[serde(with = "humantime_serde")]
    pub longpoll_window: Duration,
    /// How long a sprites poll over plain HTTP waits before it gets an empty response.
    #[serde(with = "humantime_serde")]
    pub sprites_window: Duration,
    /// How long the slot of a client that left a grid of sprites stays reserved.
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

/// STUN Binding (RFC 8489) over UDP. It tells browsers their public address, so that they can
/// connect directly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StunSettings {
    /// Whether the server answers STUN.
    pub enabled: bool,
    /// UDP addresses to listen on; empty for the addresses and ports of `server.listen`.
    pub listen: Vec<SocketAddr>,
    /// Host and port that browsers receive, such as `stun.example.org:3478`; empty for the host of
    /// the page and the first UDP port.
    pub announce: String,
    /// Answers per second to one address; of IPv6, one network of 64 bits.
    pub answers_per_second_per_address: u32,
    /// Answers per second to all addresses.
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

/// Level, format and contents of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: LogFormat,
    /// A level, or a filter such as `"info,watchfire_sockets=debug"`.
    pub level: String,
    /// The beginnings of the paths whose HTTP requests write a line each, such as `/api/`.
    pub request_paths: Vec<String>,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object per line.
    Json,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { format: LogFormat::Text, level: "info".into(), request_paths: Vec::new() }
    }
}
