//! Hooks: the server asks a backend about clients, joins and messages, and tells it which channels
//! end.
//!
//! [`Hooks`] is the handle of a process. A channel asks with [`Hooks::ask`], which never waits. The
//! thread [`HookThread`] sends the requests over HTTP, and sends each decision to the shard of
//! the channel, or to the client that connects. The requests are signed (`signature`). After several
//! failures in a row, the [`Breaker`](breaker::Breaker) stops them for a while.
//!
//! The channel that asks is in `rules`; `shard` asks about clients that connect. This folder knows
//! no rules.

mod breaker;
mod connect;
mod count;
mod error;
mod handle;
mod metrics;
mod notices;
mod question;
mod request;
mod signature;
#[cfg(feature = "hooks")]
mod thread;
#[cfg(not(feature = "hooks"))]
#[path = "../without/hook_thread.rs"]
mod thread;
mod verdict;

pub(crate) use connect::{ConnectBody, ConnectVerdict};
pub use error::HookError;
pub(crate) use handle::Hooks;
pub(crate) use notices::LeaveNotice;
pub(crate) use question::{
    ClientMessage, ConnectReply, DecidedJoin, DecidedMessage, JoinTicket, Question, Recipient, Slot,
};
pub(crate) use request::{ChannelId, HookRequest};
pub(crate) use thread::HookThread;
pub(crate) use verdict::{Allowed, Verdict};
