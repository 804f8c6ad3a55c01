//! The head of a request: its line and headers, borrowed from the received bytes.

use std::cell::OnceCell;
use std::mem::MaybeUninit;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use crate::authority::is_host_and_port;

const HEADERS_MAX: usize = 100;

/// Space for the headers of one [`RequestHead`].
pub struct HeadSlots<'a>([MaybeUninit<httparse::Header<'a>>; HEADERS_MAX]);

impl Default for HeadSlots<'_> {
    fn default() -> Self {
        HeadSlots([const { MaybeUninit::uninit() }; HEADERS_MAX])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("not an HTTP/1 request")]
    Malformed,
    /// The head has more than 100 headers, or more bytes than `head_bytes_max`.
    #[error("the request's head is too large")]
    TooLarge,
    /// An HTTP/1.1 request without a `Host` header, or a request with several (RFC 9112, 3.2).
    #[error("an HTTP/1.1 request needs exactly one host header")]
    Host,
    /// The `Host` header, or the target's URL, has no valid host (RFC 9112, 3.2).
    #[error("the host of the request is not valid: send a name or an address, and a port")]
    InvalidHost,
    #[error("the length of the request's body is ambiguous")]
    BodyLength,
}

impl HeadError {
    pub const fn status(self) -> u16 {
        match self {
            HeadError::Malformed
            | HeadError::Host
            | HeadError::InvalidHost
            | HeadError::BodyLength => 400,
            HeadError::TooLarge => 431,
        }
    }
}

/// How a request's body is delimited (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// A number of bytes; 0 for no body.
    Bytes(u64),
    Chunked,
}

/// A request's line and headers.
///
/// ```
/// use watchfire_sockets::{HeadSlots, RequestHead};
///
/// let bytes = b"GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// let mut slots = HeadSlots::default();
/// let (head, len) = RequestHead::parse(bytes, &mut slots).unwrap().unwrap();
/// assert_eq!((head.method(), head.path(), head.query()), ("GET", "/socket/websocket", "vsn=2.0.0"));
/// assert_eq!(head.header("Host"), Some("localhost"));
/// assert_eq!(len, bytes.len());
/// ```
pub struct RequestHead<'a> {
    method: &'a str,
    authority: Option<&'a str>,
    path: &'a str,
    query: &'a str,
    is_http_1_1: bool,
    headers: &'a [httparse::Header<'a>],
    /// Cached, because the handler and the shard both read it.
    websocket_key: OnceCell<Result<&'a str, UpgradeRefusal>>,
}

impl<'a> RequestHead<'a> {
    /// Parses a head. Returns it with its length in bytes; `None` if it is incomplete.
    pub fn parse(
        bytes: &'a [u8],
        slots: &'a mut HeadSlots<'a>,
    ) -> Result<Option<(Self, usize)>, HeadError> {
        let mut request = httparse::Request::new(&mut []);
        let len = match request.parse_with_uninit_headers(bytes, &mut slots.0) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if has_bare_lf(bytes) => {
                return Err(HeadError::Malformed);
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Err(_) => return Err(HeadError::Malformed),
        };
        // httparse accepts a line end without CR, which proxies interpret in different ways.
        if has_bare_lf(&bytes[..len]) {
            return Err(HeadError::Malformed);
        }
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(HeadError::Malformed);
        };
        let (authority, path, query) = split_target(target);
        let is_http_1_1 = request.version == Some(1);
        let headers = request.headers;
        let websocket_key = OnceCell::new();
        let head =
            RequestHead { method, authority, path, query, is_http_1_1, headers, websocket_key };
        head.check_host()?;
        Ok(Some((head, len)))
    }

    /// A request names one valid host, before anything is compared with it (RFC 9112, 3.2).
    fn check_host(&self) -> Result<(), HeadError> {
        let mut hosts = self.values("host");
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if is_host_and_port(host) => {}
            (Some(_), None) => return Err(HeadError::InvalidHost),
            (None, _) if !self.is_http_1_1 => {}
            _ => return Err(HeadError::Host),
        }
        match self.authority {
            Some(authority) if !is_host_and_port(authority.as_bytes()) => {
                Err(HeadError::InvalidHost)
            }
            _ => Ok(()),
        }
    }

    /// The method, such as `GET`.
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// The host and port of a target that is a URL; `None` if the target is only a path.
    pub fn authority(&self) -> Option<&'a str> {
        self.authority
    }

    /// The target's path, still percent-encoded.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The target's query, still percent-encoded and without its `?`; empty if there is none.
    pub fn query(&self) -> &'a str {
        self.query
    }

    /// The first header of this name, ignoring case; `None` also if its value is not UTF-8.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.values(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All headers of this name, in order, without values that are not UTF-8.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.values(name).filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// The key of a valid WebSocket handshake (RFC 6455, 4.2.1).
    pub fn websocket_key(&self) -> Result<&'a str, UpgradeRefusal> {
        *self.websocket_key.get_or_init(|| self.find_websocket_key())
    }

    fn find_websocket_key(&self) -> Result<&'a str, UpgradeRefusal> {
        if self.method != "GET" {
            return Err(UpgradeRefusal::NotGet);
        }
        if !self.is_http_1_1 {
            return Err(UpgradeRefusal::OldHttp);
        }
        if !self.has_token("connection", "upgrade") {
            return Err(UpgradeRefusal::NoConnectionUpgrade);
        }
        if !self.has_token("upgrade", "websocket") {
            return Err(UpgradeRefusal::NoUpgradeWebsocket);
        }
        if self.header("sec-websocket-version") != Some("13") {
            return Err(UpgradeRefusal::Version);
        }
        if self.body_length() != Ok(BodyLength::Bytes(0)) {
            return Err(UpgradeRefusal::Body);
        }
        let key = self.header("sec-websocket-key").ok_or(UpgradeRefusal::Key)?;
        if is_nonce(key) { Ok(key) } else { Err(UpgradeRefusal::Key) }
    }

    /// Whether the client keeps the connection for another request (RFC 9112, 9.3).
    pub(crate) fn keeps_alive(&self) -> bool {
        // HTTP/1.0 would need a header in the response, but the handler writes the response.
        self.is_http_1_1 && !self.has_token("connection", "close")
    }

    /// The length of the body. It is stricter than HTTP requires, so that no proxy interprets it
    /// differently.
    pub(crate) fn body_length(&self) -> Result<BodyLength, HeadError> {
        let mut lengths = self.values("content-length");
        let length = lengths.next();
        if lengths.any(|other| Some(other) != length) {
            return Err(HeadError::BodyLength);
        }
        let mut codings = self.values("transfer-encoding");
        match (codings.next(), length) {
            (None, None) => Ok(BodyLength::Bytes(0)),
            (None, Some(length)) => decimal(length).map(BodyLength::Bytes),
            (Some(coding), None)
                if self.is_http_1_1
                    && coding.trim_ascii().eq_ignore_ascii_case(b"chunked")
                    && codings.next().is_none() =>
            {
                Ok(BodyLength::Chunked)
            }
            (Some(_), _) => Err(HeadError::BodyLength),
        }
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        self.values(name).any(|value| {
            // The common case: the token is the whole value.
            if value.eq_ignore_ascii_case(token.as_bytes()) {
                return true;
            }
            let mut items = value.split(|byte| *byte == b',');
            items.any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        })
    }

    /// All values of this name as bytes, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    }
}

/// The reason why a head is not a valid WebSocket handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
pub enum UpgradeRefusal {
    NotGet,
    /// The version is older than HTTP/1.1.
    OldHttp,
    /// The `Connection` header has no token `upgrade`.
    NoConnectionUpgrade,
    /// The `Upgrade` header has no token `websocket`.
    NoUpgradeWebsocket,
    /// `Sec-WebSocket-Version` is not 13.
    Version,
    /// `Sec-WebSocket-Key` is not 16 bytes in base64.
    Key,
    Body,
}

impl UpgradeRefusal {
    /// One line for the client's developer.
    pub const fn reason(self) -> &'static str {
        match self {
            UpgradeRefusal::NotGet => "a websocket upgrade is a GET",
            UpgradeRefusal::OldHttp => "a websocket upgrade needs HTTP/1.1",
            UpgradeRefusal::NoConnectionUpgrade => "the connection header lacks upgrade",
            UpgradeRefusal::NoUpgradeWebsocket => "the upgrade header lacks websocket",
            UpgradeRefusal::Version => "sec-websocket-version must be 13",
            UpgradeRefusal::Key => "sec-websocket-key must be 16 bytes in base64",
            UpgradeRefusal::Body => "a websocket upgrade has no body",
        }
    }

    /// The HTTP status of the response: 426 for another version, with a header that names the
    /// supported one; otherwise 400.
    pub const fn status(self) -> u16 {
        match self {
            UpgradeRefusal::Version => 426,
            _ => 400,
        }
    }
}

/// Whether `key` is 16 bytes in base64: 22 characters, the last of which encodes only two bits.
fn is_nonce(key: &str) -> bool {
    let [front @ .., b'A' | b'Q' | b'g' | b'w', b'=', b'='] = key.as_bytes() else { return false };
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    front.len() == 21 && front.iter().all(is_base64)
}

/// The `Sec-WebSocket-Accept` value for a handshake's key.
pub(crate) fn accept_key(key: &str) -> [u8; 28] {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let mut text = [0; 28];
    STANDARD.encode_slice(hash.finalize(), &mut text).expect("20 bytes are 28 in base64");
    text
}

/// The authority, path and query of a request's target, which may be a URL (RFC 9112, 3.2.2).
fn split_target(target: &str) -> (Option<&str>, &str, &str) {
    let (authority, target) = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), target)
        }
        _ => (None, target),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (authority, if path.is_empty() { "/" } else { path }, query)
}

/// Whether a line ends in LF without the CR before it (RFC 9112, 2.2).
fn has_bare_lf(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', bytes).any(|at| at == 0 || bytes[at - 1] != b'\r')
}

fn decimal(digits: &[u8]) -> Result<u64, HeadError> {
    let text = std::str::from_utf8(digits).map_err(|_| HeadError::BodyLength)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HeadError::BodyLength);
    }
    text.parse().map_err(|_| HeadError::BodyLength)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
        Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    fn key(head: &str) -> Result<String, UpgradeRefusal> {
        let mut slots = HeadSlots::default();
        let (head, _) = RequestHead::parse(head.as_bytes(), &mut slots).unwrap().unwrap();
        head.websocket_key().map(str::to_owned)
    }

    fn body_length(headers: &str) -> Result<BodyLength, HeadError> {
        let text = format!("POST / HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let mut slots = HeadSlots::default();
        let (head, _) = RequestHead::parse(text.as_bytes(), &mut slots).unwrap().unwrap();
        head.body_length()
    }

    #[test]
    fn a_valid_handshake_has_a_key_and_an_accept_value() {
        let key = key(UPGRADE).unwrap();
        assert_eq!(&accept_key(&key), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_decodes_to_16_bytes() {
        let mut candidates = vec![String::new(), "==".into(), "é=".repeat(8)];
        for len in 0..20 {
            candidates.push(STANDARD.encode(&b"\xff\xfb0123456789abcdefgh"[..len]));
        }
        for last in 0..=127_u8 {
            candidates.push(format!("dGhlIHNhbXBsZSBub25jZ{}==", char::from(last)));
            candidates.push(format!("{}GhlIHNhbXBsZSBub25jZQ==", char::from(last)));
        }
        for key in candidates {
            let decoded = STANDARD.decode(&key);
            assert_eq!(is_nonce(&key), decoded.is_ok_and(|bytes| bytes.len() == 16), "{key:?}");
        }
    }

    #[test]
    fn an_invalid_handshake_names_what_is_missing() {
        let table = [
            ("GET", "POST", UpgradeRefusal::NotGet),
            ("HTTP/1.1", "HTTP/1.0", UpgradeRefusal::OldHttp),
            ("keep-alive, Upgrade", "keep-alive", UpgradeRefusal::NoConnectionUpgrade),
            ("WebSocket", "h2c", UpgradeRefusal::NoUpgradeWebsocket),
            ("Version: 13", "Version: 8", UpgradeRefusal::Version),
            ("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=", UpgradeRefusal::Key),
            ("Host: h", "Host: h\r\nContent-Length: 4", UpgradeRefusal::Body),
        ];
        for (from, to, refusal) in table {
            assert_eq!(key(&UPGRADE.replacen(from, to, 1)), Err(refusal), "{to}");
        }
    }

    #[test]
    fn a_body_whose_end_is_ambiguous_is_refused() {
        assert_eq!(body_length(""), Ok(BodyLength::Bytes(0)));
        assert_eq!(body_length("Content-Length: 12\r\n"), Ok(BodyLength::Bytes(12)));
        assert_eq!(body_length("Transfer-Encoding: Chunked\r\n"), Ok(BodyLength::Chunked));
        for headers in [
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(body_length(headers), Err(HeadError::BodyLength), "{headers}");
        }
    }

    #[test]
    fn a_target_may_be_a_url() {
        assert_eq!(split_target("http://host:80/a?b=c"), (Some("host:80"), "/a", "b=c"));
        assert_eq!(split_target("http://host?b"), (Some("host"), "/", "b"));
        assert_eq!(split_target("http://host"), (Some("host"), "/", ""));
        assert_eq!(split_target("/a?to=http://host/"), (None, "/a", "to=http://host/"));
        assert_eq!(split_target("*"), (None, "*", ""));
    }

    #[test]
    fn an_incomplete_head_is_awaited_and_an_invalid_one_is_an_error() {
        for len in 0..UPGRADE.len() {
            let mut slots = HeadSlots::default();
            assert!(matches!(RequestHead::parse(&UPGRADE.as_bytes()[..len], &mut slots), Ok(None)));
        }
        let mut slots = HeadSlots::default();
        let hello = b"\x16\x03\x01\x02\x00\x01";
        assert_eq!(RequestHead::parse(hello, &mut slots).err(), Some(HeadError::Malformed));
    }

    #[test]
    fn a_request_names_one_valid_host() {
        let error = |head: &str| {
            let mut slots = HeadSlots::default();
            RequestHead::parse(head.as_bytes(), &mut slots).err()
        };
        for version in ["1.0", "1.1"] {
            for host in
                ["", " ", "user@example.org", "a, b", "a,b", "a b", "[::1", "h:x", "caf\u{e9}"]
            {
                let head = format!("GET / HTTP/{version}\r\nHost: {host}\r\n\r\n");
                assert_eq!(error(&head), Some(HeadError::InvalidHost), "{head}");
            }
            let head = format!("GET / HTTP/{version}\r\nHost: a\r\nhost: a\r\n\r\n");
            assert_eq!(error(&head), Some(HeadError::Host));
            for url in ["http://user@a/", "http:///", "http://a,b/", "http://?a"] {
                let head = format!("GET {url} HTTP/{version}\r\nHost: a\r\n\r\n");
                assert_eq!(error(&head), Some(HeadError::InvalidHost), "{head}");
            }
            for host in ["a:4000", "[::1]:80", "\ta.example "] {
                assert_eq!(error(&format!("GET / HTTP/{version}\r\nHost: {host}\r\n\r\n")), None);
            }
        }
        assert_eq!(error("GET / HTTP/1.1\r\n\r\n"), Some(HeadError::Host));
        assert_eq!(error("GET / HTTP/1.0\r\n\r\n"), None);
    }

    #[test]
    fn more_than_a_hundred_headers_are_too_many() {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101));
        let mut slots = HeadSlots::default();
        let error = RequestHead::parse(head.as_bytes(), &mut slots).err();
        assert_eq!(error, Some(HeadError::TooLarge));
    }
}
