//! The sections of the settings file.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_auth::AuthSettings;
#[cfg(feature = "settings-file")]
use watchfire_certificates::AcmeSettings;
use watchfire_certificates::TlsSettings;
use watchfire_hooks::HookSettings;
#[cfg(feature = "settings-file")]
use watchfire_settings::{AllSettings, SectionType};
use watchfire_settings::{Section, Sections, section};

use super::channels::ChannelSettings;
use super::cluster::ClusterSettings;
use super::limits::Limits;
use super::traces::TraceSettings;

/// All settings: the sections of the server, and those that its features read.
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
    /// Limits on the resources of a client, address or shard.
    pub limits: Limits,
    /// Level and format of the log.
    pub log: LogSettings,
    /// Where distributed traces are sent.
    pub traces: TraceSettings,
    /// The sections that features read.
    #[serde(skip)]
    pub(crate) of_features: Sections,
}

impl Settings {
    /// A section that a feature reads. It has its defaults if it was not set.
    pub fn section<S: Section>(&self) -> S {
        self.of_features.get().cloned().unwrap_or_default()
    }

    /// A section that a feature reads, to change it. A server without that feature does not start then.
    pub fn section_mut<S: Section>(&mut self) -> &mut S {
        self.of_features.get_mut()
    }

    /// The first setting that is zero and must not be. For other settings, zero has a meaning: no
    /// limit, a limit that is derived, no wait.
    pub(crate) fn zero(&self) -> Option<&'static str> {
        let Settings { socket, limits, auth, hooks, of_features, .. } = self;
        let own = socket.zero().or(auth.zero()).or(hooks.zero()).or(limits.zero());
        own.or(of_features.zero())
    }
}

#[cfg(feature = "settings-file")]
impl AllSettings for Settings {
    /// The links to the supervisor, and to the server that this program replaces.
    const OTHER_VARIABLES: &'static [&'static str] = &[
        watchfire_cluster::workers::CONTROL_VARIABLE,
        watchfire_cluster::workers::PREDECESSOR_VARIABLE,
    ];

    fn own_sections() -> Vec<SectionType> {
        vec![
            SectionType::of::<ServerSettings>(),
            SectionType::of::<SocketSettings>(),
            SectionType::of::<ChannelSettings>(),
            SectionType::of::<ClusterSettings>(),
            SectionType::of::<AuthSettings>(),
            SectionType::of::<HookSettings>(),
            SectionType::of::<TlsSettings>(),
            SectionType::of::<AcmeSettings>(),
            SectionType::of::<Limits>(),
            SectionType::of::<LogSettings>(),
            SectionType::of::<TraceSettings>(),
        ]
    }

    fn from_sections(mut sections: Sections) -> Self {
        Settings {
            server: sections.take(),
            socket: sections.take(),
            channels: sections.take(),
            cluster: sections.take(),
            auth: sections.take(),
            hooks: sections.take(),
            tls: sections.take(),
            limits: sections.take(),
            log: sections.take(),
            traces: sections.take(),
            of_features: sections,
        }
    }
}

section! {
    "server";
    /// Where and how to listen.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct ServerSettings {
        /// Addresses to listen on.
        listen: Vec<SocketAddr> = vec![SocketAddr::from(([127, 0, 0, 1], 4000))];
        /// The address at which browsers open the server, such as
        /// `"https://watchfire.example.org"`. Set it if a proxy changes the Host header: origins
        /// are compared with its host and port. Empty: they are compared with the host to which a
        /// request was sent. Many services show the picture of a link only if this address is set.
        public_url: String = String::new();
        /// Networks of the proxies whose headers name the client. The rightmost address that is not
        /// in these networks is the client's, for limits and logs. A header from any other address
        /// is ignored.
        trusted_proxies: Vec<String> = vec!["127.0.0.0/8".into(), "::1/128".into()];
        /// The headers that these proxies set: `"x-forwarded-for"` (with X-Forwarded-Host), or
        /// `"forwarded"` (RFC 7239). Only these are read, because a client may send the others
        /// through the proxy.
        proxy_header: ProxyHeader = ProxyHeader::default();
        /// Addresses of listen at which every connection begins with a PROXY header (HAProxy's
        /// send-proxy or send-proxy-v2, AWS NLB), such as `["10.0.0.5:4001"]`. It names the client.
        /// A connection that has no valid header, or does not come from a network of
        /// `trusted_proxies`, is closed.
        proxy_protocol: Vec<SocketAddr> = Vec::new();
        /// Event loops, each with its own listener; 0 for one per core.
        shards: u16 = 0;
        /// Processes behind the same port, for when one may not have enough open files. Topics,
        /// presence and the state of features span them. 0 for the number that `limits.sockets_max` needs under
        /// the open-file limit.
        processes: u16 = 1;
        /// Period over which a stop spreads the closing of its sockets, so that clients do not
        /// all reconnect in the same moment. Shorter for few sockets: at most 50 ms for each.
        #[serde(with = "humantime_serde")]
        drain_period: Duration = Duration::from_secs(10);
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

section! {
    "socket", never_zero [idle_timeout, slow_timeout, longpoll_window];
    /// The channel sockets' mount, origins and timing.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct SocketSettings {
        /// The path below which /websocket and /longpoll are served.
        mount: String = "/socket".into();
        /// Origins from which a browser may connect: `"same"` (the host and port to which the
        /// request was sent, with any scheme), `"any"`, or entries such as `"https://example.org"`
        /// and `"//*.example.org"`. A list may have `"same"` beside such entries. A client that
        /// sends no Origin is always accepted. To a client on loopback that no proxy names, `"same"`
        /// means an address or localhost, unless `server.public_url` is set. A feature may admit
        /// clients of other origins as guests, which join few topics: `neighbours.guests`.
        check_origin: Vec<String> = vec!["same".into()];
        /// A WebSocket that sends nothing for this long is closed with 1001.
        #[serde(with = "humantime_serde")]
        idle_timeout: Duration = Duration::from_secs(60);
        /// A WebSocket whose queue makes no progress for this long is closed with 1013.
        #[serde(with = "humantime_serde")]
        slow_timeout: Duration = Duration::from_secs(30);
        /// How long publishers to a client wait whose queue is over a half of
        /// `limits.queued_bytes_max` and moves. Within this time it must shrink to a quarter, which
        /// takes about 100 KB/s. Then the client is not waited for, and is closed when its queue is
        /// full. A publisher waits twice as long at most. 0: none waits, and a full queue is closed.
        #[serde(with = "humantime_serde")]
        crowded_timeout: Duration = Duration::from_secs(5);
        /// How long a long poll waits before it gets an empty response. A session ends after one
        /// and a half times this long without a poll.
        #[serde(with = "humantime_serde")]
        longpoll_window: Duration = Duration::from_secs(10);
    }
}

section! {
    "log";
    /// Level, format and contents of the log.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct LogSettings {
        /// `"text"` or `"json"`.
        format: LogFormat = LogFormat::Text;
        /// `"error"`, `"warn"`, `"info"`, `"debug"`, `"trace"`, or a filter such as
        /// `"info,watchfire_sockets=debug"`.
        level: String = "info".into();
        /// Beginnings of paths, such as `["/api/"]`. Each HTTP request below one writes a line:
        /// method, path, status, time, bytes and client.
        request_paths: Vec<String> = Vec::new();
    }
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
