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
//! Without features, the crate has channels, presence, histories, rules, the HTTP API and the
//! operator's listener. Each feature adds one part, and the crates that it needs. A setting of a part
//! that the program does not have is an error at the start, which names the feature.
//!
//! | feature | adds |
//! |---|---|
//! | `cluster` | several machines, over NATS |
//! | `embed` | `EmbeddedServer::router` for applications with an HTTP server of their own |
//! | `hooks` | questions to a backend about joins and messages |
//! | `jwt` | tokens of clients |
//! | `logging` | `start_logging` |
//! | `otlp` | `start_traces`: distributed traces, over OTLP |
//! | `pages` | `Server::with_pages`: the web client, pages, sprites, the gateway to libp2p peers |
//! | `profiles` | CPU profiles of the running program; not in `full` |
//! | `settings-file` | `Layers`: settings from TOML files, the environment and the command line |
//! | `tls` | HTTPS, with certificates from files and ACME servers |
//! | `full` | all of them but `profiles` |
//!
//! # Versions
//!
//! The crate follows semantic versioning: until 1.0, a minor version may change the API, and a patch
//! version does not. A new setting, a new metric or a new feature is no change of the API; a changed
//! default is one. The crates whose names begin with `watchfire-` are parts of this one, and change
//! without notice.

pub use watchfire_server::*;
