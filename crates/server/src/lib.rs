//! A Watchfire server: Phoenix channels, pages that are available while a peer has them open, and
//! the HTTP routes for both.
//!
//! The binary is a thin wrapper around [`Server`]; an application uses the same library to run
//! channels of its own:
//!
//! ```
//! use watchfire_server::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Server, Settings, Socket};
//!
//! struct Orders;
//!
//! impl Channel for Orders {
//!     type State = ();
//!
//!     fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
//!         Ok(Joined::with(()))
//!     }
//!
//!     fn handle_in(
//!         &self,
//!         _: &mut (),
//!         socket: &mut Socket<'_>,
//!         event: &str,
//!         payload: Payload<'_>,
//!     ) -> HandleIn {
//!         socket.broadcast(event, payload)?;
//!         Ok(Outcome::Reply(Reply::ok(payload)))
//!     }
//! }
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).channel("orders:*", Orders).start().unwrap();
//! let note = serde_json::json!({ "from": "the application itself" });
//! server.endpoint().broadcast("orders:42", "note", note).unwrap();
//! ```
//!
//! The server is not a store. It keeps data from clients only until it has forwarded them.

// A build without a feature keeps the code that only this feature uses, so that the rest has no
// conditions.
#![cfg_attr(
    not(all(feature = "cluster", feature = "hooks", feature = "jwt", feature = "pages")),
    allow(dead_code, unused_imports)
)]

mod addresses;
mod admin;
mod api;
mod app;
mod auth;
#[cfg(any(feature = "hooks", feature = "jwt", feature = "tls"))]
mod causes;
mod cluster;
mod denied_addresses;
#[cfg(test)]
mod differing_machines;
mod embedded;
mod feature;
#[cfg(feature = "pages")]
mod gateway;
mod hangups;
mod history;
mod hooks;
mod http;
#[cfg(any(feature = "hooks", feature = "jwt", feature = "otlp", feature = "tls"))]
mod https_connector;
#[cfg(feature = "logging")]
mod logging;
#[cfg(not(feature = "logging"))]
#[path = "without/logging.rs"]
mod logging;
mod machines;
mod memory;
mod metrics;
#[cfg(all(test, feature = "hooks", feature = "jwt"))]
mod model;
mod multi_process;
#[cfg(not(feature = "cluster"))]
#[path = "without/nats.rs"]
mod nats;
mod not_built;
mod operator;
mod own_client;
#[cfg(feature = "pages")]
mod page_features;
#[cfg(not(feature = "pages"))]
#[path = "without/page_features.rs"]
mod page_features;
#[cfg(feature = "pages")]
mod pages;
mod presence;
mod process;
#[cfg(feature = "profiles")]
mod profiles;
#[cfg(not(feature = "profiles"))]
#[path = "without/profiles.rs"]
mod profiles;
mod proxies;
mod restart;
#[cfg(feature = "pages")]
mod rooms;
mod rules;
mod run;
mod seed;
mod server;
mod service_manager;
mod settings;
mod shard;
#[cfg(feature = "pages")]
mod sites;
#[cfg(not(feature = "pages"))]
#[path = "without/sites.rs"]
mod sites;
mod small_listener;
#[cfg(feature = "pages")]
mod sprites;
#[cfg(feature = "pages")]
mod stun;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without/tls.rs"]
mod tls;
mod token;
mod traces;
mod unix_time;
#[cfg(feature = "pages")]
mod visitors;
#[cfg(feature = "pages")]
mod web_client;

#[cfg(feature = "cluster")]
use watchfire_nats as nats;

pub use admin::AdminError;
pub use api::ApiKeyError;
pub use app::{
    Body, Channel, ChannelAddress, Connect, Connected, Crash, Endpoint, HandleIn, Joined, Outcome,
    Payload, PayloadError, PendingReply, Refusal, Refused, Reply, Socket,
};
pub use auth::AuthError;
pub use embedded::{EmbeddedServer, Refused as ConnectionRefused};
#[cfg(feature = "pages")]
pub use gateway::GatewayError;
pub use hooks::HookError;
#[cfg(feature = "logging")]
pub use logging::{LogError, start_logging};
pub use machines::ClusterError;
pub use multi_process::{RunError, Started};
pub use not_built::NotBuilt;
pub use page_features::PagesError;
#[cfg(feature = "pages")]
pub use pages::DenyFileError;
pub use process::{raise_open_file_limit, stop_signal};
#[cfg(feature = "profiles")]
pub use profiles::{CpuProfile, Profile, ProfileError};
pub use proxies::NetworkError;
pub use server::{RunningServer, Server, StartError};
pub use settings::{
    AcmeChallenge, AcmeSettings, AdminSettings, ApiKey, ApiListen, ApiScope, ApiSettings,
    AuthSettings, ByteSize, ChannelRule, ChannelSettings, ClusterSettings, DhtRole, HistoryRule,
    Hook, HookSettings, JoinRule, Limits, LogFormat, LogSettings, OnFailure, P2pSettings,
    PageSettings, ProxyHeader, PublishRule, RuleError, ServerSettings, Settings, SitesSettings,
    SocketSettings, StunSettings, TlsSettings, TraceSettings,
};
#[cfg(feature = "settings-file")]
pub use settings::{Layers, SettingsError};
#[cfg(feature = "pages")]
pub use sites::SitesError;
#[cfg(feature = "pages")]
pub use stun::StunError;
#[cfg(feature = "tls")]
pub use tls::{AcmeSetupError, DomainError, TlsStartError};
pub use traces::{Traces, TracesError, start_traces};
pub use watchfire_channels::handshake::Params;
pub use watchfire_hub::TrackError;
