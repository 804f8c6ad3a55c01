//! A WebSocket server that only notes when messages arrive, and compares that with the schedule of their users. So any
//! load generator can be asked how late it sends. `make bench-lateness` does so.
//!
//! `cargo run -p watchfire-load --example arrivals -- ADDRESS:PORT USERS MESSAGES`
//!
//! Each user opens a connection, and sends its messages, one a second. A message is due a number of seconds after the
//! first one. The schedule of a user is the earliest one that its messages allow: the message that
//! was the least late counts as in time. So a user may begin when it likes, and a clock that runs slow shows.
//!
//! It writes events for `watchfire lab`: the address, and the figures whenever no connection is open.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use rustix::event::epoll::{self, EventData, EventFlags};
use serde_json::json;
use sha1::{Digest as _, Sha1};
use slab::Slab;
use watchfire_report::Histogram;

/// The time between two messages of a user.
const PERIOD: Duration = Duration::from_secs(1);
/// Longer requests and messages are refused.
const UNREAD_BYTES_MAX: usize = 64 << 10;
/// Messages of a user that are noted. Further ones are not counted.
const MESSAGES_MAX: usize = 1 << 16;
const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 256;
/// The key of the listener. The key of a connection is its slot.
const LISTENER: u64 = u64::MAX;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, users, messages] = args.as_slice() else {
        bail!("cannot run: give ADDRESS:PORT, the number of users, and the messages of each");
    };
    let number = |text: &String, name: &str| {
        let number = text.parse::<u64>().ok().filter(|number| *number > 0);
        number.with_context(|| format!("cannot use {text:?} as the number of {name}"))
    };
    let expected = number(users, "users")?.checked_mul(number(messages, "messages")?);
    let expected = expected.with_context(|| {
        format!("cannot expect {users} times {messages} messages: give smaller numbers")
    })?;
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    listener.set_nonblocking(true)?;
    let address = format!("ws://{}", listener.local_addr()?);
    Server::new(listener, expected)?.run(&address)
}

/// A connection of a user.
struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
    is_open: bool,
    /// When its messages arrived.
    arrivals: Vec<Instant>,
}

struct Server {
    listener: TcpListener,
    epoll: OwnedFd,
    connections: Slab<Connection>,
    /// How many messages all users send together.
    expected: u64,
    lateness: Histogram,
    arrived: u64,
    users: u64,
}

impl Server {
    fn new(listener: TcpListener, expected: u64) -> anyhow::Result<Server> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Server {
            listener,
            epoll,
            connections: Slab::new(),
            expected,
            lateness: Histogram::new(),
            arrived: 0,
            users: 0,
        })
    }

    fn run(mut self, address: &str) -> anyhow::Result<()> {
        say(&json!({ "event": "ready", "url": address }))?;
        self.tell_figures()?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
            let found = match epoll::wait(&self.epoll, &mut events[..], None) {
                Ok((found, _)) => found,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let keys: Vec<u64> = found.iter().map(|event| event.data.u64()).collect();
            for key in keys {
                if key == LISTENER {
                    self.accept()?;
                } else if self.connections.contains(key as usize)
                    && !self.read(key as usize, &mut buffer)
                {
                    self.end(key as usize)?;
                }
            }
        }
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error).context("cannot accept a connection"),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let entry = self.connections.vacant_entry();
            let key = EventData::new_u64(entry.key() as u64);
            epoll::add(&self.epoll, &stream, key, EventFlags::IN | EventFlags::RDHUP)?;
            let arrivals = Vec::new();
            entry.insert(Connection { stream, unread: Vec::new(), is_open: false, arrivals });
        }
    }

    /// Reads what a connection has; `false` once it has ended.
    fn read(&mut self, slot: usize, buffer: &mut [u8]) -> bool {
        let connection = &mut self.connections[slot];
        match connection.stream.read(buffer) {
            Ok(0) => false,
            Ok(len) => {
                connection.unread.extend_from_slice(&buffer[..len]);
                connection.receive(Instant::now())
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    fn end(&mut self, slot: usize) -> io::Result<()> {
        // The kernel forgets the socket with its last descriptor.
        let connection = self.connections.remove(slot);
        if connection.is_open {
            self.users += 1;
            self.arrived += connection.arrivals.len() as u64;
            lateness(&connection.arrivals).for_each(|late| self.lateness.record(late));
        }
        if self.connections.is_empty() { self.tell_figures() } else { Ok(()) }
    }

    fn tell_figures(&self) -> io::Result<()> {
        let mut figures = BTreeMap::from([
            ("messages that did not arrive", self.expected.abs_diff(self.arrived) as f64),
            ("users", self.users as f64),
        ]);
        let quantiles = [
            ("lateness, median, ms", 0.5),
            ("lateness, p99, ms", 0.99),
            ("lateness, p99.9, ms", 0.999),
            ("lateness, max, ms", 1.0),
        ];
        for (name, share) in quantiles.into_iter().filter(|_| !self.lateness.is_empty()) {
            figures.insert(name, self.lateness.quantile(share).as_secs_f64() * 1e3);
        }
        say(&json!({ "event": "figures", "figures": figures }))
    }
}

impl Connection {
    /// Handles the request and the messages that are complete; `false` once the connection ends.
    fn receive(&mut self, now: Instant) -> bool {
        if !self.is_open {
            let Some(end) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                return self.unread.len() <= UNREAD_BYTES_MAX;
            };
            let request: Vec<u8> = self.unread.drain(..end + 4).collect();
            match upgrade(&request) {
                Some(response) if self.stream.write_all(response.as_bytes()).is_ok() => {
                    self.is_open = true;
                }
                _ => return false,
            }
        }
        while let Some((opcode, len)) = frame(&self.unread) {
            match opcode {
                // The server closes first, as RFC 6455 asks it to.
                CLOSE => {
                    let _ = self.stream.write_all(&[0x80 | CLOSE, 0]);
                    return false;
                }
                TEXT | BINARY if self.arrivals.len() < MESSAGES_MAX => self.arrivals.push(now),
                _ => {}
            }
            self.unread.drain(..len);
        }
        self.unread.len() <= UNREAD_BYTES_MAX
    }
}

/// How late each message was by the earliest schedule that all of them allow.
fn lateness(arrivals: &[Instant]) -> impl Iterator<Item = Duration> {
    let first = arrivals.first().copied();
    let shifts = arrivals.iter().zip(0..).filter_map(move |(at, index): (_, u32)| {
        Some(at.duration_since(first?).as_secs_f64() - (PERIOD * index).as_secs_f64())
    });
    let shifts: Vec<f64> = shifts.collect();
    let earliest = shifts.iter().copied().fold(0.0, f64::min);
    shifts.into_iter().map(move |shift| Duration::from_secs_f64(shift - earliest))
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// The opcode and the length of the first frame, if it is complete.
fn frame(bytes: &[u8]) -> Option<(u8, usize)> {
    let [first, second, rest @ ..] = bytes else { return None };
    let mask = if second & 0x80 != 0 { 4 } else { 0 };
    let (len, head) = match (second & 0x7f, rest) {
        (126, [a, b, ..]) => (usize::from(u16::from_be_bytes([*a, *b])), 4),
        // A message this long is refused.
        (126 | 127, _) => return None,
        (len, _) => (usize::from(len), 2),
    };
    let whole = head + mask + len;
    (bytes.len() >= whole).then_some((first & 0x0f, whole))
}

/// The response that opens a WebSocket; `None` if the request does not ask for one.
fn upgrade(request: &[u8]) -> Option<String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(request).ok()?;
    let key = parsed.headers.iter().find(|header| {
        header.name.eq_ignore_ascii_case("sec-websocket-key") && !header.value.is_empty()
    })?;
    let mut sha1 = Sha1::new();
    sha1.update(key.value);
    sha1.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = base64::engine::general_purpose::STANDARD.encode(sha1.finalize());
    Some(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ))
}

fn say(event: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{event}")?;
    out.flush()
}
