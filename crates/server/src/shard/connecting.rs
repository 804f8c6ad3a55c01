//! Routing of requests, and new clients.

use std::net::{IpAddr, SocketAddr};

use watchfire_channels::Serializer;
use watchfire_channels::handshake::{is_same_path, negotiate};
use watchfire_hub::{SubscriptionId, Subscriptions};
use watchfire_sockets::{Handshake, RequestHead, Route};
use watchfire_types::SocketId;

use super::client::{
    Client, ConnectTicket, ConnectionDetails, RateLimits, Ticket, Transport, Use, id_topic,
};
use super::connect_rules::{Admitted, ConnectRefusal, ConnectRequest, origin_of};
use super::state::Shard;
use crate::channel_api::Connected;
use crate::feature::Verdict;
use crate::proxies::ForwardedClient;

impl Shard {
    /// Routes a request by its head alone.
    pub(super) fn route_request(
        &mut self,
        from: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Route<Ticket> {
        for gate in &self.shared.gates {
            match gate.judge(head, &|| self.client_of(from, head).from.ip()) {
                Verdict::Pass => {}
                Verdict::HttpOnly => return Route::Http,
                Verdict::Refuse { status, body, reason } => {
                    self.shared.metrics.refused(reason);
                    return Route::Refuse { status, body };
                }
            }
        }
        if is_same_path(head.path(), &self.shared.websocket_path) {
            self.route_websocket(from, head)
        } else if is_same_path(head.path(), &self.shared.longpoll_path) {
            self.route_poll(from, head)
        } else {
            self.route_parked(head).unwrap_or(Route::Http)
        }
    }

    fn route_websocket(&self, from: SocketAddr, head: &RequestHead<'_>) -> Route<Ticket> {
        let metrics = &self.shared.metrics;
        let key = match head.websocket_key() {
            Ok(key) => key,
            Err(refusal) => {
                metrics.refused("not_an_upgrade");
                return Route::Refuse { status: refusal.status(), body: refusal.reason() };
            }
        };
        let refuse = |refusal: ConnectRefusal| Route::Refuse {
            status: refusal.status(),
            body: refusal.body(),
        };
        let Ok(subprotocols) = negotiate(head.headers("sec-websocket-protocol"), &[]) else {
            metrics.refused(ConnectRefusal::Subprotocol.reason());
            return refuse(ConnectRefusal::Subprotocol);
        };
        let client = self.client_of(from, head);
        if let Some(decider) = self.shared.addresses.decider(client.from.ip()) {
            return Route::HandOff(decider);
        }
        let admitted = self.shared.connect_rules.admit(&ConnectRequest {
            transport: "websocket",
            query: head.query(),
            origin: origin_of(head.values("origin")),
            host: client.host,
            auth_token: subprotocols.auth_token.as_deref(),
            from: client.from,
        });
        let protocol = subprotocols.protocol;
        match admitted {
            Err(refusal) => refuse(refusal),
            Ok(Admitted { serializer, connected, counted, question: None }) => Route::Upgrade {
                protocol: protocol.map(Into::into),
                ticket: Ticket::WebSocket { serializer, connected, counted: counted.keep() },
            },
            Ok(Admitted { serializer, connected, counted, question: Some(question) }) => {
                let handshake = Handshake::new(key, protocol);
                let waiting = ConnectTicket { handshake, serializer, connected, counted, question };
                Route::Park { ticket: Ticket::Connecting(Box::new(waiting)) }
            }
        }
    }

    /// The client of a request, which may have come through proxies.
    pub(super) fn client_of<'a>(
        &self,
        from: SocketAddr,
        head: &'a RequestHead<'_>,
    ) -> ForwardedClient<'a> {
        let host = head.header("host").unwrap_or("");
        self.shared.proxies.client(from, host, |name| head.values(name))
    }

    pub(super) fn open_websocket(&mut self, socket: SocketId, ticket: Ticket) -> u32 {
        let Ticket::WebSocket { serializer, connected, counted } = ticket else {
            unreachable!("the ticket of a parked request opens no WebSocket at once")
        };
        tracing::debug!(?socket, ?serializer, "opened");
        self.add_client(Transport::WebSocket(socket), serializer, connected, counted)
    }

    pub(super) fn add_client(
        &mut self,
        transport: Transport,
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
    ) -> u32 {
        self.metrics.clients_now(matches!(transport, Transport::WebSocket(_))).add(1);
        let key = self.clients.insert(Client {
            transport,
            subscriptions: Subscriptions::default(),
            rates: RateLimits::default(),
            serializer,
            generation: 0,
            details: None,
        });
        let id = connected.id.map(|id| self.subscribe_id(key, &id));
        if id.is_some() || counted.is_some() || connected.data.is_some() {
            let details = ConnectionDetails { data: connected.data, id, counted };
            self.clients[key as usize].details = Some(Box::new(details));
        }
        key
    }

    fn subscribe_id(&mut self, key: u32, id: &str) -> SubscriptionId {
        let subscriptions = &mut self.clients[key as usize].subscriptions;
        let subscription = self.hub.subscribe(key, subscriptions, &id_topic(id));
        self.records.open(subscription, 0, Use::SocketId);
        subscription
    }
}
