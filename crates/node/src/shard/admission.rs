//! Who is let in: what a request is, and whether its client may connect.

use std::net::{IpAddr, SocketAddr};

use channels::Serializer;
use channels::handshake::{Params, Scheme, negotiate};
use edge::{RequestHead, Route};
use hub::Subscriptions;
use vocab::{PeerId, SocketId};

use super::Shard;
use super::client::{Admission, Allowance, Client, Tenancy, Transport};
use crate::app::{Connect, Connected};
use crate::sites::Meant;
use crate::world::World;

/// What [`Shard::route_request`] found out, for when the handshake is done.
pub(crate) enum Ticket {
    WebSocket { serializer: Serializer, connected: Connected, counted: Option<IpAddr> },
    Poll { session: u32 },
    SpritePoll { plane: Box<str>, peer: PeerId },
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The query cannot be read.
    BadQuery,
    /// Its page comes from a host that may not connect.
    Origin,
    /// It asked for subprotocols that are not spoken here.
    Subprotocol,
    /// It asked for a serializer that does not exist.
    Version,
    /// The application refused it.
    Application,
    /// Its address has as many sockets as it may.
    TooManySockets,
}

impl Denial {
    pub fn reason(self) -> &'static str {
        match self {
            Denial::BadQuery => "connect_query",
            Denial::Origin => "connect_origin",
            Denial::Subprotocol => "connect_subprotocol",
            Denial::Version => "connect_version",
            Denial::Application => "connect_application",
            Denial::TooManySockets => "sockets_per_address",
        }
    }

    pub fn status(self) -> u16 {
        match self {
            Denial::BadQuery => 400,
            Denial::TooManySockets => 429,
            _ => 403,
        }
    }

    fn body(self) -> &'static str {
        match self {
            Denial::TooManySockets => "this address has as many sockets as it may\n",
            _ => "",
        }
    }
}

/// What a client asks to be let in with.
pub(crate) struct Asking<'a> {
    pub query: &'a str,
    pub origin: Option<&'a str>,
    pub host: &'a str,
    pub auth_token: Option<&'a str>,
    pub from: SocketAddr,
}

/// A client that is let in.
pub(crate) struct Admitted {
    pub serializer: Serializer,
    pub connected: Connected,
    /// The address that counts it, to be released when it goes.
    pub counted: Option<IpAddr>,
}

impl World {
    /// Let a client in, in Phoenix's order of checks.
    pub fn admit(&self, asking: &Asking<'_>) -> Result<Admitted, Denial> {
        self.admission(asking).inspect_err(|denial| {
            self.metrics.refused(denial.reason());
            tracing::debug!(from = %asking.from, reason = denial.reason(), "not let in");
        })
    }

    fn admission(&self, asking: &Asking<'_>) -> Result<Admitted, Denial> {
        let params = Params::parse(asking.query).map_err(|_| Denial::BadQuery)?;
        let has_tls = self.settings.tls.cert.as_os_str() != "";
        let scheme = if has_tls { Scheme::Https } else { Scheme::Http };
        if !self.origins.allows(asking.origin, scheme, asking.host) {
            return Err(Denial::Origin);
        }
        let serializer = params.serializer().map_err(|_| Denial::Version)?;
        let connect = Connect { params: &params, auth_token: asking.auth_token, from: asking.from };
        let connected = (self.registry.on_connect)(&connect).map_err(|_| Denial::Application)?;
        let counted = self.addresses.admit(asking.from.ip()).map_err(|_| Denial::TooManySockets)?;
        Ok(Admitted { serializer, connected, counted })
    }
}

impl Shard {
    /// Say what a request is, from its head alone.
    pub(super) fn route_request(
        &mut self,
        from: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Route<Ticket> {
        // A site has no sockets; the router says so.
        if self.world.sites.meant(head.headers("host"), head.authority()) != Meant::App {
            return Route::Http;
        }
        if head.path() == self.world.websocket_path {
            self.route_websocket(from, head)
        } else if head.path() == self.world.longpoll_path {
            self.route_poll(head)
        } else {
            self.route_sprite_poll(head).unwrap_or(Route::Http)
        }
    }

    fn route_websocket(&self, from: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        if let Err(refusal) = head.websocket_key() {
            self.world.metrics.refused("not_an_upgrade");
            return Route::Refuse { status: 400, body: refusal.reason() };
        }
        let deny = |denial: Denial| Route::Refuse { status: denial.status(), body: denial.body() };
        let Ok(subprotocols) = negotiate(head.headers("sec-websocket-protocol"), &[]) else {
            self.world.metrics.refused(Denial::Subprotocol.reason());
            return deny(Denial::Subprotocol);
        };
        let admitted = self.world.admit(&Asking {
            query: head.query(),
            origin: head.header("origin"),
            host: head.header("host").unwrap_or(""),
            auth_token: subprotocols.auth_token.as_deref(),
            from,
        });
        match admitted {
            Err(denial) => deny(denial),
            Ok(Admitted { serializer, connected, counted }) => Route::Upgrade {
                protocol: subprotocols.protocol.map(Into::into),
                ticket: Ticket::WebSocket { serializer, connected, counted },
            },
        }
    }

    pub(super) fn admit_websocket(&mut self, socket: SocketId, ticket: Ticket) -> u32 {
        let Ticket::WebSocket { serializer, connected, counted } = ticket else {
            unreachable!("a poll's ticket opens no websocket")
        };
        tracing::debug!(?socket, ?serializer, "open");
        self.add_client(Transport::WebSocket(socket), serializer, connected, counted)
    }

    pub(super) fn add_client(
        &mut self,
        transport: Transport,
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
    ) -> u32 {
        self.world.metrics.opened(matches!(transport, Transport::WebSocket(_)));
        let key = self.clients.insert(Client {
            transport,
            subscriptions: Subscriptions::default(),
            allowance: Allowance::default(),
            serializer,
            generation: 0,
            admission: None,
        });
        let id = connected.id.map(|id| self.subscribe_id(key, &id));
        if id.is_some() || counted.is_some() || connected.assigns.is_some() {
            let admission = Admission { assigns: connected.assigns, id, counted };
            self.clients[key as usize].admission = Some(Box::new(admission));
        }
        key
    }

    fn subscribe_id(&mut self, key: u32, id: &str) -> hub::SubscriptionId {
        let subscriptions = &mut self.clients[key as usize].subscriptions;
        let subscription = self.hub.subscribe(key, subscriptions, &id_topic(id));
        self.slot_mut(subscription).tenant = Tenancy::SocketId;
        subscription
    }
}

/// The topic that stands for a socket's id: one that no client can join.
pub(super) fn id_topic(id: &str) -> String {
    format!("\0{id}")
}
