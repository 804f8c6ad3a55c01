//! Routing of requests by their heads alone.

use std::net::SocketAddr;

use watchfire_channels::handshake::{is_same_path, negotiate};
use watchfire_sockets::{Handshake, RequestHead, Route};

use super::client::{ConnectTicket, Opening, Ticket};
use super::clients::Clients;
use super::connect_rules::{Admitted, ConnectRefusal, ConnectRequest, WEBSOCKET, origin_of};
use super::long_polls::is_session;
use super::parking::route_parked;
use super::process_state::ProcessState;
use super::streams::{STREAM_PATH, route_stream};
use crate::feature::Verdict;
use crate::proxies::ForwardedClient;
use crate::token::{TokenKey, request_token};

/// Routes a request by its head alone. `clients` are those of the shard that received it.
pub(super) fn route_request(
    shared: &ProcessState,
    clients: &Clients,
    from: SocketAddr,
    head: &RequestHead<'_>,
) -> Route<Ticket> {
    for gate in &shared.gates {
        match gate.judge(head, &|| client_of(shared, from, head).from.ip()) {
            Verdict::Pass => {}
            Verdict::HttpOnly => return Route::Http,
            Verdict::Refuse { status, body, reason } => {
                shared.metrics.refused(reason);
                return Route::Refuse { status, body };
            }
        }
    }
    if is_same_path(head.path(), &shared.websocket_path) {
        route_websocket(shared, from, head)
    } else if is_same_path(head.path(), &shared.longpoll_path) {
        route_poll(shared, clients, from, head)
    } else if is_same_path(head.path(), STREAM_PATH) {
        route_stream(shared, head, &client_of(shared, from, head))
    } else {
        route_parked(shared, head).unwrap_or(Route::Http)
    }
}

fn route_websocket(
    shared: &ProcessState,
    from: SocketAddr,
    head: &RequestHead<'_>,
) -> Route<Ticket> {
    let metrics = &shared.metrics;
    let key = match head.websocket_key() {
        Ok(key) => key,
        Err(refusal) => {
            metrics.refused("not_an_upgrade");
            return Route::Refuse { status: refusal.status(), body: refusal.reason() };
        }
    };
    let refuse =
        |refusal: ConnectRefusal| Route::Refuse { status: refusal.status(), body: refusal.body() };
    let Ok(subprotocols) = negotiate(head.headers("sec-websocket-protocol"), &[]) else {
        metrics.refused(ConnectRefusal::Subprotocol.reason());
        return refuse(ConnectRefusal::Subprotocol);
    };
    let client = client_of(shared, from, head);
    if let Some(decider) = shared.addresses.decider(client.from.ip()) {
        return Route::HandOff(decider);
    }
    let admitted = shared.connect_rules.admit(&ConnectRequest {
        transport: WEBSOCKET,
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
            let opening =
                Opening::WebSocket { handshake: Handshake::new(key, protocol), serializer };
            let waiting = ConnectTicket { opening, connected, counted, question };
            Route::Park { ticket: Ticket::Connecting(Box::new(waiting)) }
        }
    }
}

/// A request for a session of another process goes there. A GET for a session of this shard is
/// parked; a GET for a session of another shard moves there. All other requests go to the
/// router, which opens sessions and reads POSTs.
fn route_poll(
    shared: &ProcessState,
    clients: &Clients,
    from: SocketAddr,
    head: &RequestHead<'_>,
) -> Route<Ticket> {
    let header = head.header("x-phoenix-longpoll-token");
    let token = request_token(header, head.query());
    if let Some(node) = token.and_then(TokenKey::node_of)
        && node != shared.cluster.me()
        && shared.cluster.can_move_to(node)
    {
        return Route::HandOff(node);
    }
    if head.method() != "GET" {
        return Route::Http;
    }
    match token.and_then(|token| shared.sessions.open(token)) {
        Some(id) if id.shard != clients.shard() => Route::Move(id.shard),
        Some(id) if is_session(clients, id.client, id.generation) => {
            Route::Park { ticket: Ticket::Poll { session: id.client } }
        }
        // The router opens a session.
        _ => match shared.addresses.decider(client_of(shared, from, head).from.ip()) {
            Some(decider) => Route::HandOff(decider),
            None => Route::Http,
        },
    }
}

/// The client of a request, which may have come through proxies.
fn client_of<'a>(
    shared: &ProcessState,
    from: SocketAddr,
    head: &'a RequestHead<'_>,
) -> ForwardedClient<'a> {
    let host = head.header("host").unwrap_or("");
    shared.proxies.client(from, host, |name| head.values(name))
}
