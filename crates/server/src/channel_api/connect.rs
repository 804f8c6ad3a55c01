//! A client's request to connect, and the application's answer.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use watchfire_auth::SocketToken;
use watchfire_channels::handshake::Params;

use super::watched_messages::Direction;

/// A client's request to connect.
#[derive(Debug)]
pub struct Connect<'a> {
    /// The query parameters of the URL.
    pub params: &'a Params,
    /// The token from the `phoenix` subprotocol or from `X-Phoenix-AuthToken`.
    pub auth_token: Option<&'a str>,
    /// The client's address. Behind a trusted proxy, the one that the proxy names, with port 0.
    pub from: SocketAddr,
}

/// An accepted socket.
///
/// ```
/// use watchfire::Connected;
///
/// let connected = Connected::default().with_id("users:42").with_assigns("Alice".to_owned());
/// ```
#[derive(Default)]
pub struct Connected {
    pub(crate) id: Option<String>,
    /// `None` if it is empty, as for most sockets.
    pub(crate) data: Option<Box<SocketData>>,
}

/// The data of a socket from its connect, which the server keeps.
#[derive(Default)]
pub struct SocketData {
    pub application: Option<Box<dyn Any + Send + Sync>>,
    pub token: Option<Arc<SocketToken>>,
    /// The client's address, which the server keeps only for hooks.
    pub address: Option<IpAddr>,
    /// `None`: the client's site may connect, or it has none.
    pub guest: Option<Box<dyn Guest>>,
}

/// A client whose site may not connect (`socket.check_origin`), and which a part of the server admitted
/// nevertheless. Dropping it gives its place back.
#[doc(hidden)]
pub trait Guest: Send + Sync {
    /// Why the guest may not join a topic. `None`: it joins as every client does.
    fn refusal_of_join(&self, topic: &str) -> Option<&'static str>;

    /// Counts bytes that the guest sent to another client of a topic, or got from one.
    fn count_bytes(&self, direction: Direction, bytes: usize);
}

/// Why a part admits no guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum NoGuest {
    /// Clients of this origin are no guests of the part.
    Origin,
    /// There are too many guests.
    Full,
}

impl Connected {
    /// Sets an id that this socket shares with others of the same user, such as `users:42`.
    /// [`crate::Endpoint::disconnect`] closes all sockets with an id.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the application's data of this socket, which [`crate::Socket::assigns`] returns.
    pub fn with_assigns(mut self, assigns: impl Any + Send + Sync) -> Self {
        self.data_mut().application = Some(Box::new(assigns));
        self
    }

    pub(crate) fn data_mut(&mut self) -> &mut SocketData {
        self.data.get_or_insert_default()
    }

    /// The verified token.
    pub(crate) fn token(&self) -> Option<&SocketToken> {
        self.data.as_ref()?.token.as_deref()
    }
}

/// A refused socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

impl Refused {
    /// Refuses the socket with status 403. A WebSocket request gets the reason as the body of the response.
    pub const fn because(reason: &'static str) -> Self {
        Refused { status: 403, reason }
    }

    /// Sets the status of the response to a WebSocket request, such as 401. Long polls always get 403.
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}
