//! The trait that an application implements for its topics.

use std::any::Any;
use std::fmt;
use std::pin::Pin;

use serde_json::Value;
use watchfire_channels::Payload;

use super::payload::Body;
use super::reply::Reply;
use super::socket::Socket;

/// An application's channel for the topics of one pattern.
///
/// Calls run on the event loop that owns the client's socket, so they must not block. For long
/// work, return [`Outcome::later`], or move a [`Socket::reply_later`] into a thread. A panic fails that one channel with
/// `phx_error` and affects nothing else.
///
/// ```
/// use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
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
    /// The state of one joined client. `()` takes no memory.
    type State: Send + 'static;

    /// Accepts or refuses a join. The client is subscribed only after this returns.
    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Self::State>, Refusal>;

    /// Called after the reply to the join was sent and the client is subscribed: the place to track
    /// its presence and to push initial data.
    fn joined(&self, _state: &mut Self::State, _socket: &mut Socket<'_>) {}

    /// Handles a client's message.
    fn handle_in(
        &self,
        state: &mut Self::State,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn;

    /// Handles a message of the application's own code, sent with [`crate::Endpoint::send`].
    fn handle_info(
        &self,
        _state: &mut Self::State,
        _socket: &mut Socket<'_>,
        _info: Box<dyn Any + Send>,
    ) -> HandleIn {
        Ok(Outcome::NoReply)
    }

    /// Called when the client left or disconnected, or its channel was stopped or crashed. The
    /// server removes its presences.
    fn leave(&self, _state: Self::State, _socket: &mut Socket<'_>) {}
}

/// An accepted join.
///
/// ```
/// use watchfire::{Joined, Refusal};
///
/// fn join(user: Option<&str>) -> Result<Joined<u32>, Refusal> {
///     let user = user.ok_or_else(|| Refusal::because("unauthorized"))?;
///     Ok(Joined::with(0).response(serde_json::json!({ "user": user })))
/// }
/// assert!(join(Some("alice")).is_ok() && join(None).is_err());
/// ```
#[derive(Debug)]
pub struct Joined<S> {
    pub(crate) state: S,
    pub(crate) response: Body,
}

impl<S> Joined<S> {
    /// Accepts the join with an empty response.
    pub fn with(state: S) -> Self {
        Joined { state, response: Body::EMPTY }
    }

    /// Sets the response to the join.
    pub fn response(mut self, response: impl Into<Body>) -> Self {
        self.response = response.into();
        self
    }
}

/// A refused join. The response gives the reason.
#[derive(Clone, Debug)]
pub struct Refusal(pub(crate) NotJoined);

/// Why a join has not been accepted.
#[derive(Clone, Debug)]
pub enum NotJoined {
    /// It is refused with this response.
    Refused(Body),
    /// It waits. The shard calls `join` again for [`super::ShardMessage::ContinueJoin`].
    Waits,
}

impl Refusal {
    /// Refuses the join with `{"reason": reason}`.
    pub fn because(reason: &str) -> Self {
        Refusal(NotJoined::Refused(Body::reason(reason)))
    }

    /// Refuses the join with a response of the application's own.
    pub fn with(response: Value) -> Self {
        Refusal(NotJoined::Refused(response.into()))
    }

    /// Lets the join wait. Only the server's own channels do so.
    pub(crate) fn waits() -> Self {
        Refusal(NotJoined::Waits)
    }
}

/// The action of a channel after a message.
///
/// ```
/// use watchfire::{HandleIn, Outcome, Reply};
///
/// fn look_up(number: u32) -> HandleIn {
///     Ok(Outcome::later(async move {
///         tokio::task::yield_now().await; // Such as a call to a database.
///         Reply::ok(serde_json::json!({ "number": number }))
///     }))
/// }
/// ```
#[derive(Debug)]
pub enum Outcome {
    /// Sends nothing now; a reply may follow later.
    NoReply,
    /// Sends this reply.
    Reply(Reply),
    /// Sends a reply when it is known: see [`Outcome::later`].
    #[doc(hidden)]
    Later(LaterReply),
    /// Closes the channel with `phx_close`, after which a client does not rejoin.
    Stop,
    /// Sends this reply, then closes the channel as [`Outcome::Stop`] does.
    StopWith(Reply),
}

impl Outcome {
    /// Sends the reply that this future returns. It runs on the event loop, so it must not block. If it
    /// panics, the client's push times out, and the panic is counted and logged.
    pub fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Outcome::Later(LaterReply(Box::pin(reply)))
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::NoReply
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Outcome::Reply(reply)
    }
}

/// A reply that follows.
#[doc(hidden)]
pub struct LaterReply(pub(crate) Pin<Box<dyn Future<Output = Reply> + Send>>);

impl fmt::Debug for LaterReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaterReply")
    }
}

/// The result of [`Channel::handle_in`]. An error fails the channel with `phx_error`.
pub type HandleIn = Result<Outcome, Crash>;

/// An error that fails the channel. Every error type converts into it, so `?` works.
///
/// ```
/// use watchfire::{Crash, HandleIn, Outcome, Reply};
///
/// fn double(number: &str) -> HandleIn {
///     let number: u32 = number.parse()?;
///     let double = number.checked_mul(2).ok_or_else(|| Crash::because("too large"))?;
///     Ok(Outcome::Reply(Reply::ok(serde_json::json!({ "double": double }))))
/// }
/// assert!(double("21").is_ok() && double("many").is_err());
/// ```
#[derive(Debug)]
pub struct Crash(pub(crate) String);

impl Crash {
    /// Fails the channel for this reason, which goes to the log and not to the client.
    pub fn because(reason: impl fmt::Display) -> Self {
        Crash(reason.to_string())
    }
}

impl<E: std::error::Error> From<E> for Crash {
    fn from(error: E) -> Self {
        Crash(error.to_string())
    }
}
