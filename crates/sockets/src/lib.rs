//! A server for millions of sockets: event loops, WebSocket upgrade, framing and bounded queues.
//!
//! The hard parts are explained at the head of their files: the epoll inside tokio's epoll
//! (`shard/nested_poll.rs`), the slab of records (`record.rs`), connections lent to hyper (`http/mod.rs`),
//! timeouts and slow clients (`shard/timeouts.rs`), TLS (`tls/mod.rs`), and connections that move to
//! another process (`handoff.rs`).
//!
//! There is one *shard* per core. It is a thread with a tokio `current_thread` runtime, its own
//! listener, and a slab of 40-byte socket records over one epoll that is nested in tokio's. An idle
//! socket has no task, no timer and no buffer. The shard parses the head of each request.
//! WebSockets and parked GETs stay in the slab; any other connection is lent to hyper and an
//! [`axum::Router`] for one request.
//!
//! The server behind the sockets is a [`SocketHandler`], one per shard, called on the shard's own
//! thread. This crate implements HTTP/1.1 and RFC 6455, and does not interpret messages.
//!
//! Absent on purpose: HTTP/2, WebSocket compression, and any state shared between shards other than
//! [`SocketCounters`].
//!
//! ```no_run
//! use watchfire_sockets::{CloseCause, SocketServerSettings, RequestHead, Route, Sockets, SocketHandler, frame};
//! use std::net::SocketAddr;
//! use watchfire_types::{Instant, SocketId};
//!
//! /// Sends every message back.
//! struct Echo;
//!
//! impl SocketHandler for Echo {
//!     type Ticket = ();
//!     type Message = ();
//!
//!     fn route(&mut self, _: Instant, _: SocketAddr, head: &RequestHead<'_>) -> Route<()> {
//!         match head.websocket_key() {
//!             Ok(_) => Route::Upgrade { protocol: None, ticket: () },
//!             Err(_) => Route::Http,
//!         }
//!     }
//!     fn handle_open(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 { 0 }
//!     fn handle_park(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 { 0 }
//!     fn handle_text(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, text: &str) {
//!         let _ = sockets.send(socket, &frame::text_frame(text.as_bytes()));
//!     }
//!     fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, bytes: &[u8]) {
//!         let _ = sockets.send(socket, &frame::binary_frame(bytes));
//!     }
//!     fn handle_close(&mut self, _: &mut Sockets, _: SocketId, _: u32, _: CloseCause) {}
//!     fn handle_message(&mut self, _: &mut Sockets, _: ()) {}
//!     fn handle_tick(&mut self, _: &mut Sockets, _: Instant) {}
//!     fn run_pending_work(&mut self, _: &mut Sockets) -> bool { false }
//!     fn handle_drain(&mut self, _: &mut Sockets) {}
//! }
//!
//! let settings = SocketServerSettings { listen: vec!["127.0.0.1:0".parse()?], ..Default::default() };
//! let server = watchfire_sockets::start(settings, axum::Router::new(), |_, _| Echo)?;
//! println!("ws://{}", server.local_addr());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod frame;
pub mod small_listener;

mod authority;
mod balancing;
mod connection_view;
mod count;
mod counters;
mod forwarded;
mod handler;
mod handoff;
mod head;
mod http;
mod limits;
mod listen;
mod loop_health;
mod outbound_queue;
mod proxy_header;
mod record;
mod response;
mod server;
mod settings;
mod shard;
mod shard_sender;
mod shard_sockets;
mod tcp_info;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod wire;

pub use authority::is_host_and_port;
pub use balancing::ConnectionBalancer;
pub use connection_view::{ConnectionState, ConnectionView};
pub use count::{Count, Histogram, HistogramTotals};
pub use counters::{CloseCause, ShardQueue, SocketCounters, SocketHistograms, SocketTotals};
pub use forwarded::{
    ForwardedClient, ForwardingHeader, ForwardingProxies, NetworkError, is_forwarding_header,
};
pub use handler::{Route, SocketHandler};
pub use handoff::{Adopter, ClientAddress, HandoffConnection, HandoffTarget};
pub use head::{HeadError, HeadSlots, RequestHead, UpgradeRefusal};
pub use limits::SocketLimits;
pub use listen::{InheritedListener, ListenError, Listeners, PartsError};
pub use loop_health::{LoopPanic, LoopWatch};
pub use proxy_header::{ProxyHeader, ProxyHeaderError};
pub use response::Handshake;
pub use server::{SocketServer, StartError, start};
pub use settings::{ProxyProtocol, SocketServerSettings};
pub use shard_sender::{ShardQueueFull, ShardSender};
pub use shard_sockets::{OfferError, SendError, Sockets};
pub use tcp_info::TcpInfo;
pub use tls::Certificates;
#[cfg(feature = "tls")]
pub use tls::{Certificate, FindChallenge, TlsError, TlsFiles};
/// For the crates above that run threads beside the event loops.
pub use watchfire_types::VitalThread;
