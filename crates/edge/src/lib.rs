//! Sockets by the million: event loops, websocket upgrade, framing, bounded queues, and what
//! becomes of a consumer that does not read.
//!
//! One *shard* per core: a thread with a tokio `current_thread` runtime, a listener of its own, and
//! a slab of 40-byte socket records over one epoll that is nested in tokio's. An idle socket has no
//! task, no timer and no buffer. The shard looks at the head of each request itself: a websocket
//! upgrade and a parked GET stay in the slab, everything else is lent to hyper for one request and
//! an axum [`axum::Router`].
//!
//! The server behind the sockets is a [`Tenant`], one per shard, called on the shard's own thread.
//! This crate knows HTTP/1.1 and RFC 6455, and nothing of what the messages mean.
//!
//! Not here on purpose: HTTP/2, compression of websockets, and any state shared between shards
//! other than [`EdgeCounters`].
//!
//! ```no_run
//! use edge::{CloseCause, EdgeSettings, RequestHead, Route, Sockets, Tenant, frame};
//! use std::net::SocketAddr;
//! use vocab::{Instant, SocketId};
//!
//! /// Says everything back.
//! struct Echo;
//!
//! impl Tenant for Echo {
//!     type Ticket = ();
//!     type Mail = ();
//!
//!     fn route(&mut self, _: Instant, _: SocketAddr, head: &RequestHead<'_>) -> Route<()> {
//!         match head.websocket_key() {
//!             Ok(_) => Route::Upgrade { protocol: None, ticket: () },
//!             Err(_) => Route::Http,
//!         }
//!     }
//!     fn open(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 { 0 }
//!     fn park(&mut self, _: &mut Sockets, _: SocketId, _: ()) -> u32 { 0 }
//!     fn text(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, text: &str) {
//!         let _ = sockets.send(socket, &frame::text_frame(text.as_bytes()));
//!     }
//!     fn binary(&mut self, sockets: &mut Sockets, socket: SocketId, _: u32, bytes: &[u8]) {
//!         let _ = sockets.send(socket, &frame::binary_frame(bytes));
//!     }
//!     fn close(&mut self, _: &mut Sockets, _: SocketId, _: u32, _: CloseCause) {}
//!     fn mail(&mut self, _: &mut Sockets, _: ()) {}
//!     fn tick(&mut self, _: &mut Sockets, _: Instant) {}
//!     fn work(&mut self, _: &mut Sockets) -> bool { false }
//!     fn drain(&mut self, _: &mut Sockets) {}
//! }
//!
//! let settings = EdgeSettings { listen: vec!["127.0.0.1:0".parse()?], ..Default::default() };
//! let edge = edge::start(settings, axum::Router::new(), |_, _| Echo)?;
//! println!("ws://{}", edge.local_addr());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod frame;

mod counters;
mod edge;
mod head;
mod http;
mod listen;
mod mailbox;
mod outbound;
mod parcel;
mod place;
mod record;
mod settings;
mod shard;
mod sockets;
mod steering;
mod tenant;
mod tls;
mod wire;

pub use counters::{EdgeCounters, EdgeTotals};
pub use edge::{Edge, StartError, start};
pub use head::{HeadError, HeadSlots, RequestHead, UpgradeRefusal};
pub use listen::{ListenError, Listeners, PartsError};
pub use mailbox::{Mailbox, MailboxFull};
pub use parcel::{Adopter, Parcel, Taker};
pub use settings::{EdgeLimits, EdgeSettings, TlsFiles};
pub use sockets::{OfferError, SendError, Sockets};
pub use steering::Steering;
pub use tenant::{CloseCause, Route, Tenant};
pub use tls::TlsError;
