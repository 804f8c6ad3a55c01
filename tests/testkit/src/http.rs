//! HTTP requests, each on a plain connection of its own.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::DEADLINE;

/// A request, after whose answer the server closes the connection.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request line and the headers, without the empty line.
    head: String,
    has_host: bool,
    body: Vec<u8>,
    timeout: Duration,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Request {
        let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        Request { head, has_host: false, body: Vec::new(), timeout: DEADLINE }
    }

    pub fn get(path: &str) -> Request {
        Request::new("GET", path)
    }

    /// A request with a body, and its length.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Request {
        let body = body.into();
        let request = Request::new("POST", path).line(format!("content-length: {}", body.len()));
        Request { body, ..request }
    }

    /// Adds a header such as `accept: */*`. Without a host among them, the host is `localhost`.
    #[must_use]
    pub fn line(mut self, line: impl Display) -> Request {
        let line = format!("{line}\r\n");
        self.has_host |= line.to_lowercase().starts_with("host:");
        self.head += &line;
        self
    }

    /// Leaves the host out.
    #[must_use]
    pub fn without_host(self) -> Request {
        Request { has_host: true, ..self }
    }

    #[must_use]
    pub fn lines<L: Display>(self, lines: impl IntoIterator<Item = L>) -> Request {
        lines.into_iter().fold(self, Request::line)
    }

    /// Waits at most this long for more bytes.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Request {
        Request { timeout, ..self }
    }

    /// Sends the request, and returns the connection.
    pub fn send(&self, to: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let host = if self.has_host { "" } else { "host: localhost\r\n" };
        let head = format!("{}{host}\r\n", self.head);
        stream.write_all(&[head.as_bytes(), &self.body].concat())?;
        Ok(stream)
    }

    /// Sends the request, and returns the answer, or why there is none.
    pub fn try_to(&self, to: impl ToSocketAddrs) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        self.send(to)?.read_to_end(&mut bytes)?;
        let answer = Answer::parse(&bytes, self.head.starts_with("HEAD "));
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends the request, and returns the answer.
    #[track_caller]
    pub fn to(&self, to: impl ToSocketAddrs) -> Answer {
        self.try_to(to).unwrap_or_else(|error| panic!("{error}: no answer to {}", self.head))
    }
}

/// An answer to a request.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    /// All lines up to the body, in lower case.
    pub head: String,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// Whether the body ended where its head says.
    pub is_complete: bool,
}

impl Answer {
    /// Parses all bytes of a connection; `None` if they are no answer.
    pub fn parse(bytes: &[u8], is_to_head: bool) -> Option<Answer> {
        let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let (headers, rest) = (headers(&head), &bytes[end + 4..]);
        let (body, is_complete) = if is_to_head || matches!(status, 101 | 204 | 304) {
            (rest.to_vec(), rest.is_empty())
        } else if headers.contains_key("transfer-encoding") {
            dechunked(rest)
        } else {
            let length = headers.get("content-length").and_then(|length| length.parse().ok());
            (rest.to_vec(), length.is_none_or(|length: usize| length == rest.len()))
        };
        Some(Answer { status, head: head.to_lowercase(), headers, body, is_complete })
    }

    /// Reads the answer to a request that was sent.
    #[track_caller]
    pub fn read(mut stream: impl Read) -> Answer {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the answer arrives");
        Answer::parse(&bytes, false).expect("an answer")
    }

    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// The body as JSON; `null` if it is not.
    pub fn json_or_null(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The headers of a head, with names in lower case. The values of several lines of one name are joined with `, `.
pub(crate) fn headers(head: &str) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(':')) {
        let known: &mut String = headers.entry(name.to_ascii_lowercase()).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(value.trim());
    }
    headers
}

/// The body of these chunks, and whether the last one is there.
fn dechunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size =
            usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).expect("a size");
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest == b"\r\n");
        }
        if rest.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
    (body, false)
}

/// Sends bytes on a new connection, and returns the text that comes until its end.
#[track_caller]
pub fn exchange(to: impl ToSocketAddrs, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(to).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    stream.write_all(bytes.as_ref()).expect("the bytes are sent");
    let mut received = String::new();
    stream.read_to_string(&mut received).expect("the answer is text");
    received
}
