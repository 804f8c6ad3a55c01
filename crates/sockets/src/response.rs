//! The responses that the event loop writes itself.

use bytes::Bytes;
use http::StatusCode;

use crate::head::accept_key;

/// The response to a parked upgrade request: see [`crate::Sockets::open_parked`].
#[derive(Debug)]
pub struct Handshake(Box<[u8]>);

impl Handshake {
    /// The response to a request with this [`crate::RequestHead::websocket_key`].
    pub fn new(key: &str, protocol: Option<&str>) -> Self {
        let mut response = Vec::new();
        put_handshake(key, protocol, &mut response);
        Handshake(response.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Replaces `response` with the response to a valid WebSocket handshake.
pub(crate) fn put_handshake(key: &str, protocol: Option<&str>, response: &mut Vec<u8>) {
    response.clear();
    response.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
          sec-websocket-accept: ",
    );
    response.extend_from_slice(&accept_key(key));
    response.extend_from_slice(b"\r\n");
    // A control character in the protocol could inject headers.
    if let Some(protocol) = protocol.filter(|name| !name.bytes().any(|b| b.is_ascii_control())) {
        response.extend_from_slice(b"sec-websocket-protocol: ");
        response.extend_from_slice(protocol.as_bytes());
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"\r\n");
}

/// A response, after which the connection ends, says so (RFC 9112, section 9.6). The first part has the whole head.
pub(crate) fn last_response(parts: &[Bytes]) -> Vec<Bytes> {
    let mut last = parts.to_vec();
    if let Some(first) = last.first_mut()
        && let Some(end) = first.windows(4).position(|four| four == b"\r\n\r\n")
    {
        let (head, rest) = first.split_at(end + 2);
        *first = [head, b"connection: close\r\n", rest].concat().into();
    }
    last
}

/// A response with a status and one line, after which the connection ends. That of a `HEAD` ends before the
/// line (RFC 9110, 9.3.2).
pub(crate) fn refusal(status: u16, reason: &str, is_head: bool) -> Bytes {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let name = status.canonical_reason().unwrap_or("Refused");
    let version = match status {
        StatusCode::UPGRADE_REQUIRED => {
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        }
        _ => "",
    };
    let line_end = if reason.is_empty() { "" } else { "\n" };
    let content = match is_head {
        true => "\r\n".to_owned(),
        false => {
            let len = reason.len() + line_end.len();
            format!("content-length: {len}\r\n\r\n{reason}{line_end}")
        }
    };
    format!(
        "HTTP/1.1 {} {name}\r\nconnection: close\r\n{version}\
         content-type: text/plain; charset=utf-8\r\n{content}",
        status.as_u16(),
    )
    .into()
}

/// A comment of server-sent events, which clients ignore.
pub(crate) const STREAM_HEARTBEAT: &[u8] = b":\n\n";

/// The last event of a stream that the server ends, in the form in which a channel of Phoenix fails: the client may
/// connect again. The reasons of this crate are ASCII, whose escapes are those of JSON.
pub(crate) fn last_event(reason: &str) -> Bytes {
    format!("event: phx_error\ndata: {{\"reason\":{reason:?}}}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_refusal_is_a_complete_response() {
        let response = refusal(403, "not from there", false);
        assert!(text(&response).starts_with("HTTP/1.1 403 Forbidden\r\n"));
        assert!(text(&response).ends_with("content-length: 15\r\n\r\nnot from there\n"));
        assert!(text(&refusal(403, "", false)).ends_with("content-length: 0\r\n\r\n"));
        assert!(text(&refusal(403, "not from there", true)).ends_with("charset=utf-8\r\n\r\n"));
    }

    #[test]
    fn the_refusal_of_another_version_names_the_supported_one() {
        assert!(text(&refusal(426, "", false)).contains("\r\nsec-websocket-version: 13\r\n"));
    }

    #[test]
    fn a_protocol_cannot_inject_a_header() {
        let handshake = |protocol| {
            let mut response = b"old content".to_vec();
            put_handshake("dGhlIHNhbXBsZSBub25jZQ==", Some(protocol), &mut response);
            String::from_utf8(response).unwrap()
        };
        assert!(!handshake("phoenix\r\nset-cookie: a=b").contains("set-cookie"));
        assert!(handshake("phoenix").contains("\r\nsec-websocket-protocol: phoenix\r\n"));
        assert!(handshake("phoenix").starts_with("HTTP/1.1 101 "));
    }
}
