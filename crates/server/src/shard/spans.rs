//! The spans of connects and joins.

use std::borrow::Cow;

use serde::Deserialize;
use watchfire_channels::{Message, Payload};
use watchfire_traces::{Kind, Span, TraceContext, is_on};

/// The parameter of a socket, and the member of a join's payload, with the span of the client.
const TRACEPARENT: &str = "traceparent";

#[derive(Deserialize)]
struct JoinParams<'a> {
    #[serde(borrow)]
    traceparent: Cow<'a, str>,
}

/// The span of a join: below the span of the client, or the first of a new trace.
pub(super) fn join_span(message: &Message<'_>) -> Span {
    if !is_on() {
        return Span::off();
    }
    let parent = match message.payload {
        Payload::Json(text) => serde_json::from_str::<JoinParams<'_>>(text)
            .ok()
            .and_then(|params| TraceContext::parse(params.traceparent.as_bytes())),
        Payload::Binary(_) => None,
    };
    let mut span = Span::below_or_root(parent, "join", Kind::Server);
    if span.is_recorded() {
        span.set("messaging.destination.name", message.topic.to_string());
    }
    span
}

/// The span of a client that connects, below the one that its query names.
pub(super) fn connect_span(transport: &'static str, query: &str) -> Span {
    if !is_on() {
        return Span::off();
    }
    let parent = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| *name == TRACEPARENT)
        .and_then(|(_, value)| TraceContext::parse(value.as_bytes()));
    let mut span = Span::below(parent, "connect", Kind::Server);
    span.set("watchfire.transport", transport);
    span
}
