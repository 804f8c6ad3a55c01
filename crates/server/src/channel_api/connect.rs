//! A client's request to connect, and the application's answer.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use watchfire_auth::SocketToken;
use watchfire_channels::handshake::Params;

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
#[derive(Clone, Default)]
pub struct Connected {
    /// An id that this socket shares with others of the same user, such as `users:42`.
    /// [`crate::Endpoint::disconnect`] closes all sockets with an id.
    pub id: Option<String>,
    /// Data of the application for this socket, read with [`crate::Socket::assigns`].
    pub assigns: Option<Arc<dyn Any + Send + Sync>>,
}

impl Connected {
    /// Attaches a verified token, beside the application's data.
    pub(crate) fn attach_token(&mut self, token: Arc<SocketToken>) {
        let application = self.assigns.take();
        self.assigns = Some(Arc::new(WithToken { application, token }));
    }

    /// The verified token.
    pub(crate) fn token(&self) -> Option<&SocketToken> {
        token_in(self.assigns.as_ref()?)
    }

    /// Attaches a token instead of an earlier one, and keeps all other data.
    pub(crate) fn replace_token(&mut self, token: Arc<SocketToken>) {
        let assigns = self.assigns.take();
        let address = assigns.as_ref().and_then(|all| all.downcast_ref::<WithAddress>());
        let address = address.map(|with_address| with_address.address);
        let others = assigns.as_ref().and_then(without_address);
        self.assigns = match others.and_then(|others| others.downcast_ref::<WithToken>()) {
            Some(with_token) => with_token.application.clone(),
            None => others.cloned(),
        };
        self.attach_token(token);
        if let Some(address) = address {
            self.attach_address(address);
        }
    }

    /// Attaches the client's address, after the token.
    pub(crate) fn attach_address(&mut self, address: IpAddr) {
        let others = self.assigns.take();
        self.assigns = Some(Arc::new(WithAddress { others, address }));
    }
}

/// The data of a socket that connected with a token. Others have no such record.
pub(super) struct WithToken {
    pub application: Option<Arc<dyn Any + Send + Sync>>,
    pub token: Arc<SocketToken>,
}

/// The data of a socket with its client's address, which the server keeps only for hooks.
pub(super) struct WithAddress {
    others: Option<Arc<dyn Any + Send + Sync>>,
    pub address: IpAddr,
}

/// The verified token in the data of a socket.
pub(crate) fn token_in(assigns: &Arc<dyn Any + Send + Sync>) -> Option<&SocketToken> {
    let others = without_address(assigns)?;
    others.downcast_ref::<WithToken>().map(|with_token| &*with_token.token)
}

/// The data of a socket beside its client's address.
pub(super) fn without_address(
    assigns: &Arc<dyn Any + Send + Sync>,
) -> Option<&Arc<dyn Any + Send + Sync>> {
    match assigns.downcast_ref::<WithAddress>() {
        Some(with_address) => with_address.others.as_ref(),
        None => Some(assigns),
    }
}

/// A refused socket. The client gets status 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;
