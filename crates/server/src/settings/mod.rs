//! Every setting, its default, and where it is read from.
//!
//! A setting is a field of its section, and that is the only place where it is written: see
//! [`section`](self::section).
//!
//! Settings come from four sources. Each overrides those before it: the defaults in this folder,
//! one TOML file, the environment (`WATCHFIRE_LIMITS_FRAME_BYTES_MAX=65536`), and the command line.
//! An unknown key is an error that names the nearest known key.

mod api;
mod auth;
mod byte_size;
mod channels;
mod cluster;
#[cfg(feature = "settings-file")]
mod error;
#[cfg(all(test, feature = "settings-file"))]
mod generated;
mod hooks;
#[cfg(feature = "settings-file")]
mod layers;
mod limits;
mod p2p;
mod pages;
mod section;
mod sections;
mod sites;
mod tls;
mod traces;
mod zero;

pub use api::{ApiKey, ApiListen, ApiScope, ApiSettings};
pub use auth::AuthSettings;
pub use byte_size::ByteSize;
pub use channels::{ChannelRule, ChannelSettings, HistoryRule, JoinRule, PublishRule, RuleError};
pub use cluster::ClusterSettings;
#[cfg(feature = "settings-file")]
pub use error::SettingsError;
pub use hooks::{Hook, HookSettings, OnFailure};
#[cfg(feature = "settings-file")]
pub use layers::Layers;
pub use limits::Limits;
pub use p2p::{DhtRole, P2pSettings};
pub use pages::TOKEN_BYTES_MIN;
pub use pages::{AdminSettings, PageSettings};
pub use section::section_limits;
pub use sections::{
    LogFormat, LogSettings, ProxyHeader, ServerSettings, Settings, SocketSettings, StunSettings,
};
pub use sites::SitesSettings;
pub use tls::{AcmeChallenge, AcmeSettings, TlsSettings};
pub use traces::TraceSettings;
