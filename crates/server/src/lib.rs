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

mod addresses;
mod admin;
mod api;
mod app;
mod auth;
mod causes;
mod cluster;
mod feature;
mod gateway;
mod history;
mod hooks;
mod http;
mod https_connector;
mod logging;
mod machines;
mod memory;
mod metrics;
mod multi_process;
mod pages;
mod presence;
mod process;
mod proxies;
mod restart;
mod rooms;
mod rules;
mod run;
mod seed;
mod server;
mod service_manager;
mod settings;
mod shard;
mod sites;
mod small_listener;
mod sprites;
mod stun;
mod tls;
mod token;
mod visitors;
mod web_client;

pub use admin::AdminError;
pub use api::ApiKeyError;
pub use app::{
    Body, Channel, ChannelAddress, Connect, Connected, Crash, Endpoint, HandleIn, Joined, Outcome,
    Payload, PayloadError, PendingReply, Refusal, Refused, Reply, Socket,
};
pub use auth::AuthError;
pub use gateway::GatewayError;
pub use hooks::HookError;
pub use logging::{LogError, start_logging};
pub use machines::ClusterError;
pub use multi_process::{RunError, Started};
pub use pages::DenyFileError;
pub use process::{raise_open_file_limit, stop_signal};
pub use proxies::NetworkError;
pub use server::{RunningServer, Server, StartError};
pub use settings::{
    AcmeChallenge, AcmeSettings, AdminSettings, ApiKey, ApiListen, ApiScope, ApiSettings,
    AuthSettings, ByteSize, ChannelRule, ChannelSettings, ClusterSettings, DhtRole, HistoryRule,
    Hook, HookSettings, JoinRule, Layers, Limits, LogFormat, LogSettings, OnFailure, P2pSettings,
    PageSettings, ProxyHeader, PublishRule, RuleError, ServerSettings, Settings, SettingsError,
    SitesSettings, SocketSettings, StunSettings, TlsSettings,
};
pub use sites::SitesError;
pub use stun::StunError;
pub use tls::{AcmeSetupError, DomainError, TlsStartError};
pub use watchfire_hub::TrackError;
