//! Event streams: clients that read one topic over HTTP, as server-sent events (HTML, 9.2).
//!
//! A stream is a client with one channel. Its request is parked until the join is accepted, or refused with a JSON
//! answer. Then `crates/sockets` writes events to it as it writes frames to a WebSocket, with the same queue and the same
//! bounds. The client sends nothing more, and the connection ends with the channel.

use std::net::IpAddr;

use serde_json::json;
use watchfire_channels::Serializer;
use watchfire_channels::handshake::Params;
use watchfire_sockets::{RequestHead, Route, Sockets};
use watchfire_types::SocketId;

use super::client::{ConnectTicket, Opening, StreamJoin, StreamTicket, Ticket, Transport};
use super::clients::Clients;
use super::connect_rules::{Admitted, ConnectRefusal, ConnectRequest, origin_of};
use super::process_state::ProcessState;
use super::stream_answers::refusal_of_stream;
use crate::channel_api::Connected;
use crate::proxies::ForwardedClient;

/// The path of event streams.
pub(crate) const STREAM_PATH: &str = "/api/stream";
/// Parameters of the request that its join does not get.
const OWN_PARAMETERS: [&str; 5] = ["topic", "token", "vsn", "last_event_id", "last"];

pub(super) fn route_stream(
    shared: &ProcessState,
    head: &RequestHead<'_>,
    client: &ForwardedClient<'_>,
) -> Route<Ticket> {
    if head.method() != "GET" {
        return Route::Http;
    }
    if let Some(decider) = shared.addresses.decider(client.from.ip()) {
        return Route::HandOff(decider);
    }
    let bearer = head.header("authorization").and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let join = join_of(head).ok_or(ConnectRefusal::InvalidQuery);
    let join = join.inspect_err(|refusal| {
        shared.connect_rules.note_refusal(*refusal, client.from.ip());
    });
    let admitted = join.and_then(|join| {
        let admitted = shared.connect_rules.admit(&ConnectRequest {
            transport: "events",
            query: head.query(),
            origin: origin_of(head.values("origin")),
            host: client.host,
            auth_token: bearer.map(|(_, token)| token.trim()),
            from: client.from,
        });
        admitted.map(|admitted| (join, admitted))
    });
    let ticket = match admitted {
        Err(refusal) => Ticket::Stream(Box::new(Err(refusal))),
        Ok((join, Admitted { connected, counted, question: None, .. })) => {
            Ticket::Stream(Box::new(Ok(StreamTicket { join, connected, counted })))
        }
        Ok((join, Admitted { connected, counted, question: Some(question), .. })) => {
            let opening = Opening::Stream(join);
            Ticket::Connecting(Box::new(ConnectTicket { opening, connected, counted, question }))
        }
    };
    Route::Park { ticket }
}

/// The join that a request asks for. The header of the last event's id comes from a browser that connects again, so it is
/// newer than the parameter of the URL.
fn join_of(head: &RequestHead<'_>) -> Option<StreamJoin> {
    let params = Params::parse(head.query()).ok()?;
    let topic = params.text("topic")?.to_owned();
    let after = head.header("last-event-id").or_else(|| params.text("last_event_id"));
    let history = match (after.filter(|after| !after.is_empty()), params.text("last")) {
        (Some(after), _) => Some(json!({ "after": after })),
        (None, Some(last)) => Some(json!({ "last": last.parse::<u32>().ok()? })),
        (None, None) => None,
    };
    let mut payload = params.into_map();
    payload.retain(|name, _| !OWN_PARAMETERS.contains(&&**name));
    payload.extend(history.map(|history| ("history".to_owned(), history)));
    let payload = serde_json::to_string(&payload).expect("an object has a JSON form");
    Some(StreamJoin { topic, payload })
}

pub(super) fn add_stream(
    clients: &mut Clients,
    socket: SocketId,
    connected: Connected,
    counted: Option<IpAddr>,
) -> u32 {
    tracing::debug!(?socket, "opens a stream");
    clients.add(Transport::Events(socket), Serializer::Events, connected, counted)
}

/// Refuses a client before it is one.
pub(super) fn refuse_stream(sockets: &mut Sockets, socket: SocketId, refusal: ConnectRefusal) {
    let response = json!({ "reason": refusal.reason() }).to_string();
    sockets.answer(socket, &refusal_of_stream(refusal.status(), &response));
}
