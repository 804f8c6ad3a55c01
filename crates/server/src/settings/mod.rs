//! The settings of the server: its sections, and their defaults.
//!
//! A setting is a field of its section, and that is the only place where it is written. The mechanism is
//! in the crate `watchfire-settings`.

mod channels;
mod cluster;
mod limits;
mod sections;
#[cfg(all(test, feature = "settings-file"))]
mod tests;
mod traces;

pub use channels::{
    ChannelRule, ChannelSettings, HistoryRule, JoinRule, OwnTopics, PublishRule, RuleError,
};
pub use cluster::{ClusterSettings, HistoryStorage};
pub use limits::Limits;
pub use sections::{LogFormat, LogSettings, ProxyHeader, ServerSettings, Settings, SocketSettings};
pub use traces::TraceSettings;
pub use watchfire_auth::AuthSettings;
pub use watchfire_certificates::{AcmeChallenge, AcmeSettings, TlsSettings};
pub use watchfire_hooks::{Hook, HookSettings, OnFailure};
#[cfg(feature = "settings-file")]
pub use watchfire_settings::SettingsError;
pub use watchfire_settings::{ByteSize, TOKEN_BYTES_MIN, section_limits};

/// Collects settings in layers: the defaults, then each layer overrides those before it.
///
/// ```
/// let mut layers = watchfire::Layers::new();
/// layers.text("site.toml", "[limits]\nchannels_per_socket_max = 5").unwrap();
/// layers.environment([("WATCHFIRE_SERVER_SHARDS".into(), "1".into())]).unwrap();
/// layers.assign("--set", "socket.idle_timeout=2m").unwrap();
/// let settings = layers.settings().unwrap();
/// assert_eq!(settings.limits.channels_per_socket_max, 5);
/// assert_eq!(settings.server.shards, 1);
///
/// let error = layers.assign("--set", "limits.chanels_per_socket_max=7").unwrap_err();
/// assert!(error.to_string().contains("did you mean `limits.channels_per_socket_max`?"));
/// ```
#[cfg(feature = "settings-file")]
pub type Layers = watchfire_settings::Layers<Settings>;
