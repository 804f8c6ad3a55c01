//! The answers to a request for an event stream: the head of its response, and refusals.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;

use super::session::CONTENT_TYPE;

/// The head of an accepted response, whose end is that of the connection. `x-accel-buffering` tells nginx to pass on
/// each event.
pub(super) static STREAM_HEAD: Bytes = Bytes::from_static(
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
      access-control-allow-origin: *\r\nx-accel-buffering: no\r\nconnection: close\r\n\r\n",
);

/// The JSON answer to a request whose stream is refused.
pub(super) fn refusal_of_stream(status: u16, response: &str) -> [Bytes; 2] {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let head = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {CONTENT_TYPE}\r\ncache-control: no-store\r\n\
         access-control-allow-origin: *\r\ncontent-length: {}\r\n\r\n",
        reason.unwrap_or("Refused"),
        response.len()
    );
    [head.into(), response.to_owned().into()]
}

/// The status of a join that was refused with this response.
pub(super) fn status_of_refusal(response: &str) -> u16 {
    #[derive(Deserialize)]
    struct Refusal<'a> {
        #[serde(borrow)]
        reason: Cow<'a, str>,
    }
    let refusal = serde_json::from_str::<Refusal<'_>>(response);
    match refusal.as_ref().map_or("", |refusal| &*refusal.reason) {
        "unmatched topic" => 404,
        "topic too long" => 414,
        "payload_too_large" => 413,
        "too fast" => 429,
        "join crashed" => 500,
        "backend_unavailable" | "no_random_bytes" => 503,
        _ => 403,
    }
}
