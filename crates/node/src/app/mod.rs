//! What an application writes: channels, and the rule that lets a socket in.

mod channel;
mod connect;
mod payload;
mod registry;
mod socket;
mod states;

pub use channel::{Channel, Crash, HandleIn, Joined, Outcome, Refusal, Reply};
pub use channels::Payload;
pub use connect::{Connect, Connected, Refused};
pub use payload::{Body, PayloadError};
pub(crate) use registry::{AnyChannel, Registry};
pub use socket::{ChannelAddress, PendingReply, Socket};
pub(crate) use socket::{Effect, Relayed, ReplyTo};
pub(crate) use states::{AnyStates, StateId};
