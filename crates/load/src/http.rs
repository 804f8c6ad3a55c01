//! The part of HTTP/1.1 that a client without pipelining needs (RFC 9112).

use std::borrow::Cow;
use std::mem::MaybeUninit;

use memchr::memmem;

/// More headers than this are an error.
const HEADERS_MAX: usize = 1024;
/// A longer head, with the interim responses before it, is an error.
const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, PartialEq)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// The status line and the headers.
    pub(crate) head: &'a [u8],
    /// The body without chunk headers.
    pub(crate) body: Cow<'a, [u8]>,
    /// Length of head and body in bytes, with the interim responses before them.
    pub(crate) len: usize,
    /// Whether the connection accepts another request.
    pub(crate) is_kept_alive: bool,
    /// `Sec-WebSocket-Accept`, or empty.
    pub(crate) websocket_accept: &'a str,
    /// The values of all `Set-Cookie` headers.
    pub(crate) cookies: Vec<&'a [u8]>,
}

/// Why received bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// They break the syntax or the framing of HTTP/1.1.
    Invalid,
    /// The connection ended within the response.
    Cut,
}

/// Facts about the request and the connection that decide where a response ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    /// The request was a `HEAD`: no response to it has a body.
    pub(crate) is_head: bool,
    /// The server has closed the connection.
    pub(crate) is_ended: bool,
}

/// How the body of a response is delimited (RFC 9112, section 6.3).
enum Framing {
    None,
    Chunked,
    Length(usize),
    /// Until the connection ends.
    Close,
}

/// Parses a response; `None` while it is incomplete. Interim responses before it are skipped: all
/// of 1xx except 101, which ends the use of HTTP on its connection.
pub(crate) fn decode(
    bytes: &[u8],
    exchange: Exchange,
) -> Result<Option<Response<'_>>, ResponseError> {
    let mut skipped = 0;
    loop {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = parser().parse_response_with_uninit_headers(
            &mut response,
            &bytes[skipped..],
            &mut headers,
        );
        let head_len = match parsed {
            // The limit covers the interim responses too: a server could send them without end.
            Ok(httparse::Status::Complete(len)) if skipped + len <= HEAD_BYTES_MAX => len,
            Ok(httparse::Status::Partial) if bytes.len() - skipped >= HEAD_BYTES_MAX => {
                return Err(ResponseError::Invalid);
            }
            Ok(httparse::Status::Partial) if exchange.is_ended => return Err(ResponseError::Cut),
            Ok(httparse::Status::Partial) => return Ok(None),
            Ok(httparse::Status::Complete(_)) | Err(_) => return Err(ResponseError::Invalid),
        };
        let status = response.code.unwrap_or(0);
        skipped += head_len;
        if !matches!(status, 100..=199) || status == 101 {
            let head = &bytes[skipped - head_len..skipped];
            return finish(&response, head, bytes, skipped, exchange);
        }
    }
}

/// Accepts what RFC 9112 lets a client repair.
fn parser() -> httparse::ParserConfig {
    let mut config = httparse::ParserConfig::default();
    // Section 5.2: a folded line is read as one line.
    config.allow_obsolete_multiline_headers_in_responses(true);
    // Section 5.1: such space is removed.
    config.allow_spaces_after_header_name_in_responses(true);
    config
}

/// The response whose head has been parsed. Its body begins at `begin`.
fn finish<'a>(
    head: &httparse::Response<'_, 'a>,
    head_bytes: &'a [u8],
    bytes: &'a [u8],
    begin: usize,
    exchange: Exchange,
) -> Result<Option<Response<'a>>, ResponseError> {
    let status = head.code.unwrap_or(0);
    let rest = &bytes[begin..];
    let framing = framing(head, exchange)?;
    let found = match framing {
        Framing::None => Some((Cow::from(&rest[..0]), 0)),
        Framing::Chunked => unchunked(rest)?.map(|(body, len)| (Cow::from(body), len)),
        Framing::Length(length) => rest.get(..length).map(|body| (Cow::from(body), length)),
        Framing::Close => exchange.is_ended.then(|| (Cow::from(rest), rest.len())),
    };
    let Some((body, len)) = found else {
        return if exchange.is_ended { Err(ResponseError::Cut) } else { Ok(None) };
    };
    let websocket_accept = values(head, "sec-websocket-accept").next();
    Ok(Some(Response {
        status,
        head: head_bytes,
        body,
        len: begin + len,
        is_kept_alive: is_kept_alive(head, &framing),
        websocket_accept: websocket_accept
            .map_or("", |value| str::from_utf8(value).unwrap_or("").trim()),
        cookies: values(head, "set-cookie").collect(),
    }))
}

fn framing(
    head: &httparse::Response<'_, '_>,
    exchange: Exchange,
) -> Result<Framing, ResponseError> {
    if exchange.is_head || matches!(head.code, Some(100..=199 | 204 | 304)) {
        return Ok(Framing::None);
    }
    if let Some(last) = elements(head, "transfer-encoding").last() {
        // Another coding than `chunked` at the end is delimited by the end of the connection.
        let is_chunked = last.eq_ignore_ascii_case("chunked");
        return Ok(if is_chunked { Framing::Chunked } else { Framing::Close });
    }
    let mut lengths = elements(head, "content-length");
    let Some(first) = lengths.next() else { return Ok(Framing::Close) };
    // The same length may be repeated, by a gateway that joined two lines for example.
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || lengths.any(|other| other != first) {
        return Err(ResponseError::Invalid);
    }
    first.parse().map(Framing::Length).map_err(|_| ResponseError::Invalid)
}

/// Whether the connection accepts another request (RFC 9112, section 9.3).
fn is_kept_alive(head: &httparse::Response<'_, '_>, framing: &Framing) -> bool {
    let has =
        |option: &str| elements(head, "connection").any(|one| one.eq_ignore_ascii_case(option));
    let has_header = |name: &str| values(head, name).next().is_some();
    // Both headers, or chunks in HTTP/1.0, may be an attack: the connection is not used again.
    let has_codings = has_header("transfer-encoding");
    let is_doubtful = has_codings && (has_header("content-length") || head.version == Some(0));
    let is_persistent = match head.version {
        Some(1) => true,
        _ => has("keep-alive"),
    };
    is_persistent && !has("close") && !is_doubtful && !matches!(framing, Framing::Close)
}

fn values<'a>(head: &httparse::Response<'_, 'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let named = head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

/// The elements of a list that may be spread over several headers (RFC 9110, section 5.6.1). A value
/// that is not ASCII has none.
fn elements<'a>(head: &httparse::Response<'_, 'a>, name: &str) -> impl Iterator<Item = &'a str> {
    let values = values(head, name).filter_map(|value| str::from_utf8(value).ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

/// The server-sent event at the front of the bytes, with the empty line at its end; `None` while it is incomplete.
pub(crate) fn event(bytes: &[u8]) -> Option<&[u8]> {
    let up_to = |bytes, end: &[u8]| memmem::find(bytes, end).map(|at| &bytes[..at + end.len()]);
    let event = up_to(bytes, b"\n\n");
    up_to(event.unwrap_or(bytes), b"\n\r\n").or(event)
}

/// Whether a client gets the event: comments and other fields alone are none (HTML, 9.2.6).
pub(crate) fn has_data(event: &[u8]) -> bool {
    let name = |line: &[u8]| line.split(|byte| b":\r".contains(byte)).next() == Some(b"data");
    event.split(|byte| *byte == b'\n').any(name)
}

/// The body of a chunked response, and its length with chunk headers and trailers.
fn unchunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ResponseError> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (head, len) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((head, len))) => (head, len),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(ResponseError::Invalid),
        };
        at += head;
        if len == 0 {
            // Trailers end with an empty line.
            return Ok(match bytes[at..].starts_with(b"\r\n") {
                true => Some((body, at + 2)),
                false => memmem::find(&bytes[at..], b"\r\n\r\n").map(|end| (body, at + end + 4)),
            });
        }
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| at.checked_add(len))
            .ok_or(ResponseError::Invalid)?;
        let Some(chunk) = bytes.get(at..end) else { return Ok(None) };
        body.extend_from_slice(chunk);
        match bytes.get(end..end.saturating_add(2)) {
            Some(b"\r\n") => at = end + 2,
            Some(_) => return Err(ResponseError::Invalid),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 \r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const OPEN: Exchange = Exchange { is_head: false, is_ended: false };
    const ENDED: Exchange = Exchange { is_head: false, is_ended: true };

    #[test]
    fn an_event_ends_with_an_empty_line_and_counts_with_a_field_of_data() {
        let read = |bytes: &'static str| {
            event(bytes.as_bytes()).map(|event| (event.len(), has_data(event)))
        };
        assert_eq!(read("event: a\ndata: b\n"), None);
        assert_eq!(read("event: a\ndata: b\n\ndata: c\n\n"), Some((18, true)));
        assert_eq!(read("data\r\n\r\nid: 1\n\n"), Some((8, true)));
        for others in [": data\n\n", "event: data\n\n", "data-set: b\r\n\r\n", "\n\n"] {
            assert_eq!(read(others), Some((others.len(), false)), "{others:?}");
        }
    }

    #[test]
    fn the_length_of_a_body_comes_from_its_head_or_its_chunks() {
        for bytes in [SIZED, CHUNKED, INTERIM] {
            let response = decode(bytes, OPEN).unwrap().unwrap();
            assert_eq!((response.status, &*response.body), (200, &b"hello"[..]));
            assert_eq!(response.len, bytes.len());
            assert!(response.is_kept_alive);
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut], OPEN), Ok(None), "cut at {cut}");
                assert_eq!(decode(&bytes[..cut], ENDED), Err(ResponseError::Cut), "ended at {cut}");
            }
        }
    }

    #[test]
    fn a_body_without_a_length_ends_with_its_connection() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nhello";
        assert_eq!(decode(bytes, OPEN), Ok(None));
        let response = decode(bytes, ENDED).unwrap().unwrap();
        assert_eq!(&*response.body, b"hello");
        assert!(!response.is_kept_alive);
    }

    #[test]
    fn an_upgrade_has_no_body_and_frames_may_follow() {
        let bytes = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x=\r\n\r\n\x81\x00";
        let response = decode(bytes, OPEN).unwrap().unwrap();
        assert_eq!((response.status, response.websocket_accept), (101, "x="));
        assert_eq!(&bytes[response.len..], b"\x81\x00");
    }

    #[test]
    fn invalid_responses_are_rejected() {
        let cases: [&[u8]; 5] = [
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        ];
        for bytes in cases {
            assert_eq!(
                decode(bytes, OPEN),
                Err(ResponseError::Invalid),
                "{}",
                bytes.escape_ascii()
            );
        }
        assert_eq!(decode(&vec![b'H'; HEAD_BYTES_MAX], OPEN), Err(ResponseError::Invalid));
        let endless = b"HTTP/1.1 102 \r\n\r\n".repeat(HEAD_BYTES_MAX / 16);
        assert_eq!(decode(&endless, OPEN), Err(ResponseError::Invalid));
    }
}
