use std::any::Any;
use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::{Body, Payload, Socket};

/// What an application does with the topics of one pattern.
///
/// Calls run on the event loop that owns the client's socket and must not block: for long work
/// take [`Socket::reply_later`] to a task. A panic fails that one channel with `phx_error` and
/// nothing else.
///
/// ```
/// use node::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
///
/// struct Rooms;
///
/// impl Channel for Rooms {
///     type State = ();
///
///     fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
///         Ok(Joined::with(()))
///     }
///
///     fn handle_in(
///         &self,
///         _: &mut (),
///         socket: &mut Socket<'_>,
///         event: &str,
///         payload: Payload<'_>,
///     ) -> HandleIn {
///         match event {
///             "new_msg" => socket.broadcast("new_msg", payload)?,
///             "ping" => return Ok(Outcome::Reply(Reply::ok(payload))),
///             _ => return Ok(Outcome::Reply(Reply::because("unknown event"))),
///         }
///         Ok(Outcome::NoReply)
///     }
/// }
/// ```
pub trait Channel: Send + Sync + 'static {
    /// What one joined client keeps; costs nothing when it is `()`.
    type State: Send + 'static;

    /// Let a client in, or refuse it. It is subscribed only after this returned.
    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Self::State>, Refusal>;

    /// The client has its reply and is subscribed: track it, push it what it needs.
    fn joined(&self, _state: &mut Self::State, _socket: &mut Socket<'_>) {}

    /// A client's message.
    fn handle_in(
        &self,
        state: &mut Self::State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn;

    /// A message from the application's own code, sent with [`crate::Endpoint::send`].
    fn handle_info(
        &self,
        _state: &mut Self::State,
        _socket: &mut Socket<'_>,
        _info: Box<dyn Any + Send>,
    ) -> HandleIn {
        Ok(Outcome::NoReply)
    }

    /// The client left, was stopped, crashed, or is gone. Its presences leave by themselves.
    fn leave(&self, _state: Self::State, _socket: &mut Socket<'_>) {}
}

/// A client is let in.
#[derive(Debug)]
pub struct Joined<S> {
    pub(crate) state: S,
    pub(crate) response: Body,
}

impl<S> Joined<S> {
    /// Let in, with an empty response.
    pub fn with(state: S) -> Self {
        Joined { state, response: Body::EMPTY }
    }

    /// What the client's join gets as its response.
    pub fn response(mut self, response: impl Into<Body>) -> Self {
        self.response = response.into();
        self
    }
}

/// A client is not let in; the response says why.
#[derive(Clone, Debug)]
pub struct Refusal(pub(crate) Body);

impl Refusal {
    /// Refused with `{"reason": reason}`.
    pub fn because(reason: &str) -> Self {
        Refusal(Body::reason(reason))
    }

    /// Refused with a response of the application's own.
    pub fn with(response: Value) -> Self {
        Refusal(response.into())
    }
}

/// An answer to one message.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) status: Cow<'static, str>,
    pub(crate) response: Body,
}

impl Reply {
    /// Status `ok`.
    pub fn ok(response: impl Into<Body>) -> Self {
        Reply { status: "ok".into(), response: response.into() }
    }

    /// Status `error`.
    pub fn error(response: impl Into<Body>) -> Self {
        Reply { status: "error".into(), response: response.into() }
    }

    /// Status `error` with `{"reason": reason}`.
    pub fn because(reason: &str) -> Self {
        Self::error(Body::reason(reason))
    }

    /// A status of the application's own; clients match on its text.
    pub fn with_status(status: &str, response: impl Into<Body>) -> Self {
        Reply { status: status.to_owned().into(), response: response.into() }
    }
}

/// What follows from a message.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing, or a reply that comes later.
    NoReply,
    /// This reply.
    Reply(Reply),
    /// The channel closes normally: `phx_close`, and the client does not come back.
    Stop,
    /// As [`Outcome::Stop`], after this reply.
    StopWith(Reply),
}

/// What [`Channel::handle_in`] returns; an error fails the channel with `phx_error`.
pub type HandleIn = Result<Outcome, Crash>;

/// The channel cannot go on. Every error converts into it, so `?` works.
#[derive(Debug)]
pub struct Crash(pub(crate) String);

impl Crash {
    /// Fail the channel, for this reason (which goes to the log, not to the client).
    pub fn because(reason: impl fmt::Display) -> Self {
        Crash(reason.to_string())
    }
}

impl<E: std::error::Error> From<E> for Crash {
    fn from(error: E) -> Self {
        Crash(error.to_string())
    }
}
