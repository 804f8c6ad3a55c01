//! A channel server for Phoenix clients, as a library.
//!
//! A channel is a type that implements [`Channel`]. Any Phoenix client connects to it, over WebSocket
//! or long poll, with presence and binary messages. The server runs on Linux.
//!
//! ```
//! use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Server, Settings, Socket};
//!
//! struct Rooms;
//!
//! impl Channel for Rooms {
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
//!         Ok(Outcome::NoReply)
//!     }
//! }
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).channel("rooms:*", Rooms).start().unwrap();
//! println!("ws://{}/socket", server.address());
//! ```
//!
//! [`Server::run`] serves until a signal, in one process or in several. [`Server::start`] serves in the
//! background. [`Server::embed`] serves connections that the application accepts itself.
//!
//! # Features
//!
//! Without features, the crate has channels, presence, histories and rules. Each feature
//! adds one part, and the crates that it needs. A setting of a part that the program does not have is an
//! error at the start, which names the feature. The crates `watchfire-api` (the HTTP API for other
//! programs) and `watchfire-operator` (the operator's listener) are given to a server with
//! [`Server::with`].
//!
//! | feature | adds |
//! |---|---|
//! | `cluster` | several machines, over NATS |
//! | `embed` | `EmbeddedServer::router` for applications with an HTTP server of their own |
//! | `hooks` | questions to a backend about joins and messages |
//! | `jwt` | tokens of clients |
//! | `logging` | `start_logging` |
//! | `otlp` | `start_traces`: distributed traces, over OTLP |
//! | `settings-file` | `Layers`: settings from TOML files, the environment and the command line |
//! | `tls` | HTTPS, with certificates from files and ACME servers |
//! | `full` | all of them |
//! | `testing` | the module `testing`: tests of channels without a port; `full` does not have it |
//!
//! # Versions
//!
//! The crate follows semantic versioning: until 1.0, a minor version may change the API, and a patch
//! version does not. A new setting, a new metric or a new feature is no change of the API; a changed
//! default is one. The crates whose names begin with `watchfire-` are parts of this one, and change
//! without notice.

#![warn(missing_docs)]

// The modules import only those in the lines below their own:
//
// ```text
// model                     the tests of a whole server against a model
// internal                  what Watchfire's own features import beside `feature`
// run, testing
// embedded, multi_process
// server                    starts the parts
// http
// members, rules, shard
// feature, hooks            a feature is given to a server, and sees what is below
// channel_api, restart
// history
// addresses, machines, presence
// cluster, logging, proxies, tls, traces
// memory, metrics, not_built, own_client, process, seed, service_manager, settings, token, unix_time
// ```

mod addresses;
mod channel_api;
mod cluster;
mod embedded;
pub mod feature;
mod history;
mod hooks;
mod http;
#[doc(hidden)]
pub mod internal;
mod logging;
mod machines;
mod members;
mod memory;
mod metrics;
#[cfg(test)]
mod model;
mod multi_process;
mod not_built;
mod own_client;
mod presence;
mod process;
mod proxies;
mod restart;
mod rules;
mod run;
mod seed;
mod server;
mod service_manager;
mod settings;
mod shard;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod token;
mod traces;
mod unix_time;

pub use channel_api::{
    Body, Channel, ChannelAddress, Connect, Connected, Crash, Endpoint, HandleIn, Joined, Outcome,
    Payload, PayloadError, PendingReply, PublishError, Published, Refusal, Refused, Reply, Socket,
};
#[doc(hidden)]
pub use cluster::Samples;
pub use embedded::{EmbeddedServer, Refused as ConnectionRefused};
#[cfg(feature = "logging")]
pub use logging::{LogError, start_logging};
pub use machines::ClusterError;
pub use members::Members;
pub use multi_process::{RunError, Started};
pub use not_built::NotBuilt;
pub use process::{raise_open_file_limit, stop_signal};
pub use proxies::NetworkError;
pub use server::{RunningServer, Server, StartError};
pub use settings::{
    AcmeChallenge, AcmeSettings, AuthSettings, ByteSize, ChannelRule, ChannelSettings,
    ClusterSettings, HistoryRule, HistoryStorage, Hook, HookSettings, JoinRule, Limits, LogFormat,
    LogSettings, OnFailure, ProxyHeader, PublishRule, RuleError, ServerSettings, Settings,
    SocketSettings, TlsSettings, TraceSettings,
};
#[cfg(feature = "settings-file")]
pub use settings::{Layers, SettingsError};
#[cfg(feature = "tls")]
pub use tls::{AcmeSetupError, DomainError, TlsStartError};
pub use traces::{Traces, TracesError, start_traces};
pub use watchfire_auth::AuthError;
pub use watchfire_channels::handshake::Params;
pub use watchfire_hooks::HookError;
pub use watchfire_hub::TrackError;
pub use watchfire_types::Instant;

/// The causes that errors of this crate hold, so that an application can name them.
pub mod causes {
    pub use watchfire_channels::PatternError;
    pub use watchfire_channels::handshake::OriginPatternError;
    #[cfg(feature = "cluster")]
    pub use watchfire_cluster::nats::{JoinError, NatsError};
    pub use watchfire_cluster::workers::SuperviseError;
    #[cfg(feature = "tls")]
    pub use watchfire_sockets::TlsError;
    pub use watchfire_sockets::{ListenError, LoopPanic, StartError as SocketsError};
    #[cfg(feature = "otlp")]
    pub use watchfire_traces::otlp::OtlpError;
}
