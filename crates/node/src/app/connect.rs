use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use channels::handshake::Params;

/// What a client brings when it connects.
#[derive(Debug)]
pub struct Connect<'a> {
    /// The parameters of its URL.
    pub params: &'a Params,
    /// The token of the `phoenix` subprotocol or of `X-Phoenix-AuthToken`.
    pub auth_token: Option<&'a str>,
    /// Where it comes from.
    pub from: SocketAddr,
}

/// A socket is let in.
#[derive(Clone, Default)]
pub struct Connected {
    /// A topic that stands for this socket, such as `users:42`:
    /// [`crate::Endpoint::disconnect`] closes the sockets that carry it.
    pub id: Option<String>,
    /// What the application wants to know of this socket later: [`crate::Socket::assigns`].
    pub assigns: Option<Arc<dyn Any + Send + Sync>>,
}

/// A socket is refused with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;
