//! Why a server cannot start.

use std::net::SocketAddr;

use watchfire_auth::AuthError;
use watchfire_channels::PatternError;
use watchfire_channels::handshake::OriginPatternError;
use watchfire_hooks::HookError;

use crate::feature::FeatureError;
use crate::machines::ClusterError;
use crate::not_built::NotBuilt;
use crate::proxies::NetworkError;
use crate::settings::RuleError;
use crate::tls::TlsStartError;
use crate::traces::TracesError;

/// Why a server cannot start.
///
/// Each error prints its cause, or returns it as its source, and never both: a program that prints an error
/// with its sources repeats no text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener or a system limit.
    #[error(transparent)]
    Sockets(#[from] watchfire_sockets::StartError),
    /// `server.listen` is empty.
    #[error("cannot start without an address: set server.listen")]
    NoAddress,
    /// Two addresses to listen on exclude each other.
    #[error(
        "cannot listen on {address}: {earlier} has its port; remove one of them from server.listen or admin.listen, or choose another port"
    )]
    TakenAddress {
        /// The later address.
        address: SocketAddr,
        /// The address before it.
        earlier: SocketAddr,
    },
    /// An embedded server has settings for a listener of its own.
    #[error(
        "cannot embed a server with {setting}: the application has the listener, and decides about it"
    )]
    Embedded {
        /// The setting, or the section of settings.
        setting: &'static str,
    },
    /// An entry of `socket.check_origin` is not an origin.
    #[error("socket.check_origin: {0}")]
    Origin(OriginPatternError),
    /// An entry of `server.trusted_proxies` is not a network.
    #[error("server.trusted_proxies: {0}")]
    Network(NetworkError),
    /// `server.public_url` is not a URL.
    #[error("cannot use server.public_url {url:?}: write an address such as https://example.org")]
    PublicUrl {
        /// The value of the setting.
        url: String,
    },
    /// An entry of `server.proxy_protocol` is not among the addresses to listen on.
    #[error(
        "cannot use server.proxy_protocol {address}: the server does not listen there; add the address to server.listen"
    )]
    ProxyProtocol {
        /// The entry.
        address: SocketAddr,
    },
    /// TLS cannot start.
    #[error(transparent)]
    Tls(#[from] TlsStartError),
    /// `socket.mount` is not a valid path.
    #[error(
        "cannot use socket.mount {mount:?}: it must be a path such as /socket, without a / at its end, spaces, ?, #, braces or dots as a part"
    )]
    Mount {
        /// The value of the setting.
        mount: String,
    },
    /// The topic pattern of a channel is invalid.
    #[error("cannot register the channel {pattern:?}: {cause}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why it is invalid.
        cause: PatternError,
    },
    /// A rule of `channels.rules` is invalid.
    #[error("channels.rules: {0}")]
    Rule(RuleError),
    /// A setting needs a feature of the crate that this program does not have.
    #[error(transparent)]
    NotBuilt(NotBuilt),
    /// The keys of clients' tokens cannot be used.
    #[error("auth: {0}")]
    Auth(AuthError),
    /// The backend of hooks cannot be used.
    #[error("hooks: {0}")]
    Hooks(HookError),
    /// Two features have the same name.
    #[error("cannot start with two features named {name:?}: give the server one of them")]
    FeatureTwice {
        /// The name.
        name: &'static str,
    },
    /// No feature of the server reads a section of the settings.
    #[error(
        "cannot use the section [{section}]: no feature of this server reads it; give the server the feature of {feature}, or remove the section"
    )]
    Unread {
        /// The name of the section.
        section: &'static str,
        /// The crate of the feature that is missing.
        feature: &'static str,
    },
    /// A feature cannot start.
    #[error("{0}")]
    Feature(FeatureError),
    /// An entry of `log.request_paths` is not the beginning of a path.
    #[error("cannot use log.request_paths {path:?}: a path begins with /, such as /api/")]
    RequestPath {
        /// The entry.
        path: String,
    },
    /// A setting is zero, and the server could serve no client.
    #[error(
        "cannot use {setting} = 0: the server could serve no client; remove it to use its default"
    )]
    Zero {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The settings of the cluster are invalid.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Traces cannot be sent.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The operating system returned no random bytes.
    #[error("cannot generate a key: the operating system returned no random bytes: {0}")]
    NoRandomness(getrandom::Error),
}

impl StartError {
    /// The error of a feature, if it has this type.
    pub fn of_feature<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            StartError::Feature(error) => error.downcast_ref(),
            _ => None,
        }
    }
}
