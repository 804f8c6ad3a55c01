//! The part of HTTP/1.1 that a client without pipelining needs.

use memchr::memmem;

/// More headers than this are an error.
const HEADERS_MAX: usize = 64;
/// A longer head is an error.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A complete response.
#[derive(Debug, PartialEq)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    /// The body without chunk headers.
    pub(crate) body: std::borrow::Cow<'a, [u8]>,
    /// Length of head and body in bytes.
    pub(crate) len: usize,
    /// Whether the connection accepts another request.
    pub(crate) is_kept_alive: bool,
    /// `Sec-WebSocket-Accept`, or empty.
    pub(crate) websocket_accept: &'a str,
}

/// The received bytes are not a valid response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidResponse;

/// Parse a response; `None` while it is incomplete. `is_ended`: the connection has ended.
pub(crate) fn decode(
    bytes: &[u8],
    is_ended: bool,
) -> Result<Option<Response<'_>>, InvalidResponse> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if !is_ended && bytes.len() < HEAD_BYTES_MAX => {
            return Ok(None);
        }
        Ok(httparse::Status::Partial) | Err(_) => return Err(InvalidResponse),
    };
    let status = response.code.unwrap_or(0);
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map_or("", |header| str::from_utf8(header.value).unwrap_or("").trim())
    };
    let rest = &bytes[head_len..];
    let has_no_body = matches!(status, 100..200 | 204 | 304);
    let is_chunked = header("transfer-encoding").to_ascii_lowercase().ends_with("chunked");
    let length = header("content-length");
    let (body, len): (std::borrow::Cow<'_, [u8]>, usize) = if has_no_body {
        (rest[..0].into(), 0)
    } else if is_chunked {
        match unchunked(rest)? {
            Some((body, len)) => (body.into(), len),
            None if is_ended => return Err(InvalidResponse),
            None => return Ok(None),
        }
    } else if length.is_empty() {
        if !is_ended {
            return Ok(None);
        }
        (rest.into(), rest.len())
    } else {
        let length: usize = length.parse().map_err(|_| InvalidResponse)?;
        match rest.get(..length) {
            Some(body) => (body.into(), length),
            None if is_ended => return Err(InvalidResponse),
            None => return Ok(None),
        }
    };
    let is_measured = has_no_body || is_chunked || !length.is_empty();
    let is_kept_alive = is_measured
        && response.version == Some(1)
        && !header("connection").eq_ignore_ascii_case("close");
    let websocket_accept = header("sec-websocket-accept");
    Ok(Some(Response { status, body, len: head_len + len, is_kept_alive, websocket_accept }))
}

/// The body of a chunked response, and its length with chunk headers.
fn unchunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, InvalidResponse> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (head, len) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((head, len))) => (head, len),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(InvalidResponse),
        };
        at += head;
        if len == 0 {
            // Trailers end with an empty line.
            return Ok(match bytes[at..].starts_with(b"\r\n") {
                true => Some((body, at + 2)),
                false => memmem::find(&bytes[at..], b"\r\n\r\n").map(|end| (body, at + end + 4)),
            });
        }
        let end =
            usize::try_from(len).ok().and_then(|len| at.checked_add(len)).ok_or(InvalidResponse)?;
        let Some(chunk) = bytes.get(at..end) else { return Ok(None) };
        body.extend_from_slice(chunk);
        match bytes.get(end..end.saturating_add(2)) {
            Some(b"\r\n") => at = end + 2,
            Some(_) => return Err(InvalidResponse),
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

    #[test]
    fn the_length_of_a_body_comes_from_its_head_or_its_chunks() {
        for bytes in [SIZED, CHUNKED] {
            let response = decode(bytes, false).unwrap().unwrap();
            assert_eq!((response.status, &*response.body), (200, &b"hello"[..]));
            assert_eq!(response.len, bytes.len());
            assert!(response.is_kept_alive);
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut], false), Ok(None), "cut at {cut}");
                assert_eq!(decode(&bytes[..cut], true), Err(InvalidResponse), "ended at {cut}");
            }
        }
    }

    #[test]
    fn a_body_without_a_length_ends_with_its_connection() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nhello";
        assert_eq!(decode(bytes, false), Ok(None));
        let response = decode(bytes, true).unwrap().unwrap();
        assert_eq!(&*response.body, b"hello");
        assert!(!response.is_kept_alive);
    }

    #[test]
    fn an_upgrade_has_no_body_and_frames_may_follow() {
        let bytes = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x=\r\n\r\n\x81\x00";
        let response = decode(bytes, false).unwrap().unwrap();
        assert_eq!((response.status, response.websocket_accept), (101, "x="));
        assert_eq!(&bytes[response.len..], b"\x81\x00");
    }

    #[test]
    fn invalid_responses_are_rejected() {
        let cases: [&[u8]; 4] = [
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        ];
        for bytes in cases {
            assert_eq!(decode(bytes, false), Err(InvalidResponse), "{}", bytes.escape_ascii());
        }
        assert_eq!(decode(&vec![b'H'; HEAD_BYTES_MAX], false), Err(InvalidResponse));
    }
}
