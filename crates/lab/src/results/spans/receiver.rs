//! Receives the spans of nodes over OTLP/HTTP, on a loopback address.
//!
//! It is the smallest server that an exporter needs: `POST /NODE/v1/traces` with a `Content-Length`, one request
//! after another on a connection. Nodes in network namespaces cannot reach it there, so it listens in each of them too.
//! A thread serves each connection, because a run has few, and they are idle.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::otlp::decode;
use crate::results::trace::{Span, Value};

/// Spans of one node. Further ones are dropped.
const NODE_SPANS_MAX: usize = 10_000;
const NODE_BYTES_MAX: usize = 8 << 20;
/// Spans of one run.
const RUN_SPANS_MAX: usize = 1_000_000;
const RUN_BYTES_MAX: usize = 256 << 20;
/// The body of a request. An exporter sends at most 512 spans in one.
const BODY_BYTES_MAX: usize = 4 << 20;
const LINE_BYTES_MAX: u64 = 4096;
const HEADERS_MAX: usize = 64;
/// Connections at a time. Further ones are closed.
const CONNECTIONS_MAX: usize = 1200;
const STACK_BYTES: usize = 256 << 10;
/// How long a connection may be silent. An exporter connects again.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long a listener may outlive the run.
const CLOSE_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Receives spans until it is dropped.
pub struct Receiver {
    loopback: Listening,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Received>,
    connections: AtomicUsize,
}

/// The spans of a run.
#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    bytes: usize,
    /// Spans and bytes of each node.
    nodes: BTreeMap<usize, (usize, usize)>,
    cut: u64,
}

impl Received {
    fn add(&mut self, node: usize, spans: Vec<Span>) {
        for span in spans {
            let bytes = len(&span);
            let (count, node_bytes) = self.nodes.entry(node).or_default();
            let has_room = *count < NODE_SPANS_MAX
                && *node_bytes + bytes <= NODE_BYTES_MAX
                && self.spans.len() < RUN_SPANS_MAX
                && self.bytes + bytes <= RUN_BYTES_MAX;
            if has_room {
                *count += 1;
                *node_bytes += bytes;
                self.bytes += bytes;
                self.spans.push(span);
            } else {
                self.cut += 1;
            }
        }
    }
}

/// The bytes of memory that a span needs.
fn len(span: &Span) -> usize {
    let attribute = |(key, value): &(String, Value)| match value {
        Value::Text(text) => 64 + key.len() + text.len(),
        _ => 64 + key.len(),
    };
    let attributes: usize = span.attributes.iter().map(attribute).sum();
    let error = span.error.as_ref().map_or(0, String::len);
    size_of::<Span>() + span.name.len() + error + attributes
}

impl Receiver {
    /// Listens on a free port of the loopback device.
    pub fn start() -> io::Result<Receiver> {
        let shared = Arc::default();
        let loopback = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Receiver { loopback: Listening::start(loopback, &shared)?, shared })
    }

    /// The endpoint for the exporter of a node.
    pub fn endpoint(&self, node: usize) -> String {
        self.loopback.endpoint(node)
    }

    /// Listens at one more place, such as a network namespace, until the result is dropped.
    pub fn listen(&self, listener: TcpListener) -> io::Result<Listening> {
        Listening::start(listener, &self.shared)
    }

    /// The spans since the last call, and the number that was dropped.
    pub fn take(&self) -> (Vec<Span>, u64) {
        let mut received = self.shared.received.lock().unwrap_or_else(PoisonError::into_inner);
        let Received { spans, cut, .. } = std::mem::take(&mut *received);
        (spans, cut)
    }
}

/// A place where a receiver listens.
pub struct Listening {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
}

impl Listening {
    fn start(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<Listening> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (shared, is_closed) = (Arc::clone(shared), Arc::new(AtomicBool::new(false)));
        let of_thread = Arc::clone(&is_closed);
        let accept = move || accept_until(&listener, &of_thread, &shared);
        thread::Builder::new().name("spans".into()).stack_size(STACK_BYTES).spawn(accept)?;
        Ok(Listening { address, is_closed })
    }

    /// The endpoint for the exporter of a node.
    pub fn endpoint(&self, node: usize) -> String {
        format!("http://{}/{node}", self.address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

fn accept_until(listener: &TcpListener, is_closed: &AtomicBool, shared: &Arc<Shared>) {
    while !is_closed.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => start_serving(stream, shared),
            // No connection from here can wake a listener in a namespace. So each looks from time to time.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = [PollFd::new(listener, PollFlags::IN)];
                let _ = poll(&mut ready, Some(&CLOSE_INTERVAL));
            }
            Err(_) => return,
        }
    }
}

/// Serves a connection in a thread, unless there are too many.
fn start_serving(stream: TcpStream, shared: &Arc<Shared>) {
    if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        shared.connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let of_thread = Arc::clone(shared);
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // A connection that breaks loses its spans, as it would with any collector.
        let _ = serve(&stream, &of_thread);
        of_thread.connections.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let (status, node, body) = match request {
            Ok((node, body)) => ("200 OK", Some(node), body),
            Err(status) => (status, None, Vec::new()),
        };
        let spans = node.map(|node| (node, decode(node, &body)));
        let status = match spans {
            Some((node, Some(spans))) => {
                let mut received = shared.received.lock().unwrap_or_else(PoisonError::into_inner);
                received.add(node, spans);
                status
            }
            Some((_, None)) => "400 Bad Request",
            None => status,
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
        );
        { stream }.write_all(head.as_bytes())?;
        if node.is_none() {
            // The body of a refused request was not read.
            return Ok(());
        }
    }
    Ok(())
}

/// The node and the body of a request, or the status that refuses it.
type Request = Result<(usize, Vec<u8>), &'static str>;

/// Reads the next request; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let Some(first) = read_line(reader)? else { return Ok(None) };
    let mut len: Option<usize> = None;
    for _ in 0..HEADERS_MAX {
        let Some(line) = read_line(reader)? else { return Ok(None) };
        if line.is_empty() {
            return body(reader, &first, len).map(Some);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            len = value.trim().parse().ok();
        }
    }
    Ok(Some(Err("431 Request Header Fields Too Large")))
}

fn body(
    reader: &mut BufReader<&TcpStream>,
    first: &str,
    len: Option<usize>,
) -> io::Result<Request> {
    let path = first.strip_prefix("POST /").and_then(|rest| rest.split(' ').next());
    let node =
        path.and_then(|path| path.strip_suffix("/v1/traces")).and_then(|node| node.parse().ok());
    let Some(node) = node else { return Ok(Err("404 Not Found")) };
    let Some(len) = len else { return Ok(Err("411 Length Required")) };
    if len > BODY_BYTES_MAX {
        return Ok(Err("413 Content Too Large"));
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    Ok(Ok((node, body)))
}

/// A line without its end; `None` at the end of the connection.
fn read_line(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\r');
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::spans::otlp::request;

    /// Sends a request on a connection, and returns the first line of the answer.
    fn send(stream: &TcpStream, head: &str, body: &[u8]) -> String {
        { stream }.write_all(head.as_bytes()).unwrap();
        { stream }.write_all(body).unwrap();
        let mut reader = BufReader::new(stream);
        let first = read_line(&mut reader).unwrap().unwrap_or_default();
        while read_line(&mut reader).unwrap().is_some_and(|line| !line.is_empty()) {}
        first
    }

    fn head(node: &str, len: usize) -> String {
        format!("POST /{node}/v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n")
    }

    #[test]
    fn spans_of_a_connection_belong_to_the_node_of_its_endpoint() {
        let receiver = Receiver::start().unwrap();
        assert!(receiver.endpoint(7).ends_with("/7"));
        let stream = TcpStream::connect(receiver.loopback.address).unwrap();
        for name in ["get", "connect"] {
            let body = request(name, None);
            assert_eq!(send(&stream, &head("7", body.len()), &body), "HTTP/1.1 200 OK");
        }
        let (spans, cut) = receiver.take();
        assert_eq!((spans.len(), cut), (2, 0));
        assert!(spans.iter().all(|span| span.node == Some(7)));
        assert_eq!(receiver.take().0, []);
    }

    #[test]
    fn spans_arrive_at_a_further_place_too() {
        let receiver = Receiver::start().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listening = receiver.listen(listener).unwrap();
        let stream = TcpStream::connect(listening.address).unwrap();
        let body = request("get", None);
        assert_eq!(send(&stream, &head("3", body.len()), &body), "HTTP/1.1 200 OK");
        assert_eq!(receiver.take().0[0].node, Some(3));
    }

    #[test]
    fn a_bad_request_is_refused() {
        let receiver = Receiver::start().unwrap();
        for (head, body, status) in [
            (head("7", 4), &b"\xff\xff\xff\xff"[..], "400"),
            (head("x", 0), b"", "404"),
            (head("7", BODY_BYTES_MAX + 1), b"", "413"),
            ("POST /7/v1/traces HTTP/1.1\r\n\r\n".to_owned(), b"", "411"),
        ] {
            let stream = TcpStream::connect(receiver.loopback.address).unwrap();
            let answer = send(&stream, &head, body);
            assert!(answer.contains(status), "{head}: {answer}");
        }
        assert_eq!(receiver.take(), (Vec::new(), 0));
    }

    #[test]
    fn a_node_with_too_many_spans_is_cut_and_the_others_are_not() {
        let mut received = Received::default();
        let [span] = &*decode(1, &request("get", None)).unwrap() else { panic!("one span") };
        received.add(1, vec![span.clone(); NODE_SPANS_MAX + 5]);
        received.add(2, vec![span.clone()]);
        assert_eq!((received.spans.len(), received.cut), (NODE_SPANS_MAX + 1, 5));
        let large = Span { name: "x".repeat(NODE_BYTES_MAX), ..span.clone() };
        received.add(3, vec![large]);
        assert_eq!(received.cut, 6);
    }
}
