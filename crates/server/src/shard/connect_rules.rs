//! Which clients may connect.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use watchfire_channels::Serializer;
use watchfire_channels::handshake::{OriginPolicy, Params};

use super::refused_origins::RefusedOrigins;
use crate::addresses::Addresses;
use crate::app::{Connect, Connected, OnConnect};
use crate::metrics::Metrics;

/// Why a client may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectRefusal {
    /// The query cannot be parsed.
    InvalidQuery,
    /// The client's page comes from an origin that may not connect.
    Origin,
    /// The client requested only subprotocols that the server does not have.
    Subprotocol,
    /// The client requested a serializer that does not exist.
    Version,
    /// The application refused the client.
    Application,
    /// The client's address has as many sockets as it may have.
    TooManySockets,
}

impl ConnectRefusal {
    /// The reason in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            ConnectRefusal::InvalidQuery => "connect_query",
            ConnectRefusal::Origin => "connect_origin",
            ConnectRefusal::Subprotocol => "connect_subprotocol",
            ConnectRefusal::Version => "connect_version",
            ConnectRefusal::Application => "connect_application",
            ConnectRefusal::TooManySockets => "sockets_per_address",
        }
    }

    pub(super) fn status(self) -> u16 {
        match self {
            ConnectRefusal::InvalidQuery => 400,
            ConnectRefusal::TooManySockets => 429,
            _ => 403,
        }
    }

    pub(super) fn body(self) -> &'static str {
        match self {
            ConnectRefusal::TooManySockets => {
                "too many sockets from this address; close some, or wait\n"
            }
            _ => "",
        }
    }
}

/// A client's request to connect.
pub(crate) struct ConnectRequest<'a> {
    pub query: &'a str,
    pub origin: Option<&'a str>,
    pub host: &'a str,
    pub auth_token: Option<&'a str>,
    pub from: SocketAddr,
}

/// A client that may connect.
pub(crate) struct Admitted {
    pub serializer: Serializer,
    pub connected: Connected,
    /// The address that the client counts against, to be released when it disconnects.
    pub counted: Option<IpAddr>,
}

/// Decides which clients may connect.
pub(crate) struct ConnectRules {
    pub origins: OriginPolicy,
    /// The host and port of `server.public_url`, with which origins are compared instead of the
    /// request's.
    pub public_host: Option<String>,
    pub refused_origins: RefusedOrigins,
    pub on_connect: OnConnect,
    pub addresses: Arc<Addresses>,
    pub metrics: Arc<Metrics>,
}

impl ConnectRules {
    /// Decides whether a client may connect, with the checks in Phoenix's order.
    pub fn admit(&self, request: &ConnectRequest<'_>) -> Result<Admitted, ConnectRefusal> {
        self.check(request).inspect_err(|refusal| {
            self.metrics.refused(refusal.reason());
            tracing::debug!(from = %request.from, reason = refusal.reason(), "connect refused");
        })
    }

    /// Whether a page of this origin may connect, by a request to this host. Logs a refusal.
    pub fn allows_origin(&self, origin: Option<&str>, host: &str) -> bool {
        let host = self.public_host.as_deref().unwrap_or(host);
        let allows = self.origins.allows(origin, host);
        if let (false, Some(origin)) = (allows, origin) {
            self.refused_origins.log(origin, host);
        }
        allows
    }

    fn check(&self, request: &ConnectRequest<'_>) -> Result<Admitted, ConnectRefusal> {
        let params = Params::parse(request.query).map_err(|_| ConnectRefusal::InvalidQuery)?;
        if !self.allows_origin(request.origin, request.host) {
            return Err(ConnectRefusal::Origin);
        }
        let serializer = params.serializer().map_err(|_| ConnectRefusal::Version)?;
        let connect =
            Connect { params: &params, auth_token: request.auth_token, from: request.from };
        let connected = (self.on_connect)(&connect).map_err(|_| ConnectRefusal::Application)?;
        let counted = self.addresses.admit(request.from.ip());
        let counted = counted.map_err(|_| ConnectRefusal::TooManySockets)?;
        Ok(Admitted { serializer, connected, counted })
    }
}
