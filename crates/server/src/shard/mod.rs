//! One event loop's part of the server: its clients, their channels, and the messages to them.
//!
//! [`Shard`] is a [`watchfire_sockets::SocketHandler`]. It passes received messages to the protocol
//! cores and to channels, and sends their results. Its parts:
//!
//! - `connecting` routes requests, and decides whether their clients may connect, `connect_decisions`
//!   lets them wait for the backend's decision;
//! - `receiving` decodes messages and applies the protocol's rules and the rate limits;
//! - `joining` handles joins and leaves, `pending_joins` the joins that wait for other
//!   processes or for their channel, `crowding` those that wait until their client has read;
//! - `callbacks` runs an application's callbacks, `effects` applies the effects that they requested;
//! - `delivery` sends to one client, and broadcasts in slices;
//! - `backpressure` knows whose queues are full and move, and which publishers wait for them, `awaited`
//!   has their records;
//! - `presence_rounds` selects the changes of presence to broadcast next, `presence_broadcast` sends
//!   them;
//! - `questions` answers questions about this shard's clients, `connection_scan` looks at its
//!   connections for an operator, and `watches` keeps the last messages of a few of them;
//! - `history` replays missed messages at a join, on topics with a history;
//! - `longpoll` has the long-poll sessions, `parking` the requests that features park;
//! - `waiting` has the records of everything that waits.
//!
//! # Ends of clients
//!
//! A message to a client may end it. A message to a WebSocket closes the socket when the queue is
//! full, and a message to a long-poll session ends the session. Any call into a channel sends
//! messages, also to other clients: the push of a presence list, the reply to forwarded data. If
//! such a message removed its client, the code that sent it would hold a channel that is gone.
//!
//! So no message removes a client. A closed socket is reported by `crates/sockets` in a call of its
//! own (`handle_close`). A session that ends takes no more messages, and its client is removed when
//! the call of the event loop that ended it is over (`event_loop`, `remove_ended_sessions`). Until
//! then every client, channel and subscription that the call has looked up is there.
//!
//! # Slow readers
//!
//! The socket of a slow reader is closed in `crates/sockets`, not here: `sockets::outbound` queues
//! the frames that the kernel's buffer does not take, and closes the socket with 1013 when its
//! queue is over `limits.queued_bytes_max` and does not move, or makes no progress for
//! `socket.slow_timeout`. That crate alone knows how much a socket has read. It then calls
//! `handle_close` here, and the client's channels end as for any other close.
//!
//! This folder adds three rules. Publishers wait for a queue that is full and moves (`backpressure`). Forwarded data is offered with a lower bound (`effects`): when the
//! queue is over half of the limit, the sender gets an error and may send to another peer, and the
//! socket stays open. A long-poll session has its own queue (`watchfire_channels::longpoll`), which
//! ends the session when it is full and the client does not poll.

mod awaited;
mod backpressure;
mod callbacks;
mod client;
mod clients;
mod connect_decisions;
mod connect_rules;
mod connecting;
mod connection_scan;
mod crowding;
mod delivery;
mod effects;
mod event_loop;
mod history;
mod history_topics;
mod joining;
mod longpoll;
mod parking;
mod pending_joins;
mod presence_broadcast;
mod presence_rounds;
mod questions;
mod receiving;
mod refused_origins;
mod scan_queue;
mod session;
mod shard_messages;
mod shared;
mod spans;
mod state;
mod subscriptions;
mod waiting;
mod watches;

pub(crate) use connect_rules::{
    Admitted, ConnectHook, ConnectRefusal, ConnectRequest, ConnectRules, origin_of,
};
pub(crate) use refused_origins::RefusedOrigins;
pub(crate) use session::CONTENT_TYPE;
pub(crate) use shared::Shared;
pub(crate) use state::Shard;
