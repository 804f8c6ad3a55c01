//! The sockets of all users, and the bytes on them.
//!
//! The wire opens connections, moves bytes with or without TLS, and finds HTTP responses and WebSocket messages in
//! them. It answers pings and close frames, and knows no steps. Its driver says what to send, and acts on what
//! arrives. An error of a function here means that the connection is of no more use.

mod addresses;
mod connection;
mod poll;
mod rate_limit;
mod source_addresses;

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ClientConfig;
use watchfire_report::Histogram;
use watchfire_types::{Instant, Rng};

use super::Share;
use super::reports::Gauge;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::frame::{self, Opcode};
use crate::http::{self, Exchange, Response};
use crate::open_files::make_room_for_files;
use crate::sampling::seed_for;
use crate::scenario::{Scenario, Target};
use crate::tally::Delta;
use crate::tls::TlsConnection;

use addresses::{Addresses, Tried};
use poll::Poll;
use source_addresses::SourceAddresses;

pub(super) use poll::Key;
pub(super) use rate_limit::RateLimit;

/// Most unsent bytes of one user. A user whose server does not read ends with an error.
const OUTBOX_BYTES_MAX: usize = 1 << 20;
/// Part of the seed of the masks of frames.
const MASKS: u64 = u64::MAX - 2;

/// A part of the received bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming<'a> {
    /// A part of a message, or a frame that the wire has handled.
    Nothing,
    Response(Response<'a>),
    Message {
        is_text: bool,
        payload: Cow<'a, [u8]>,
    },
    /// The server closes the websocket with this code.
    Closed(u16),
}

/// The result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(usize),
    /// The socket has no more bytes.
    Drained,
    /// A signal came first.
    Interrupted,
    /// The server has ended the connection.
    Ended,
}

/// The bytes of a read after decryption, and whether the server has ended the connection.
pub(super) type Decrypted = (Vec<u8>, bool);

/// The connection of one user.
#[derive(Default)]
pub(super) struct Connection {
    /// Incomplete received data; `None` while idle.
    inbox: Option<Box<Inbox>>,
    /// Bytes that the kernel has not accepted yet.
    outbox: Option<Box<Outbox>>,
    /// The state of TLS, if the server uses it.
    tls: Option<Box<TlsConnection>>,
    socket: Option<OwnedFd>,
    /// When it began, in [`micros`].
    begun: u32,
    /// The addresses of the server that were tried for it.
    tried: Tried,
    /// The index of the server.
    target: u16,
    state: State,
    /// Changes with each new socket, so that bytes of the old one are not mixed in.
    serial: u8,
    /// The index of the address of the server.
    address: u8,
    /// The socket is not connected yet, as far as is known.
    is_connecting: bool,
    /// The first answer is awaited.
    is_opening: bool,
    /// Whether the socket is registered in epoll for reading, and for writing.
    is_watched: bool,
    is_write_watched: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    /// The upgrade request was sent, or waits until the socket is connected.
    Upgrading,
    Open,
    /// The close frame was sent.
    Closing,
    Http,
    /// Server-sent events are received.
    Stream,
}

struct Outbox(Vec<u8>);

/// Bytes of incomplete frames or of an incomplete response.
#[derive(Default)]
struct Inbox {
    unread: Vec<u8>,
    /// The frames of a fragmented message so far.
    fragments: Vec<u8>,
    fragments_opcode: Option<Opcode>,
}

pub(super) struct Wire<'a> {
    targets: &'a [Target],
    clock: Clock,
    poll: Poll,
    addresses: Addresses,
    sources: SourceAddresses,
    tls_client: Option<Arc<ClientConfig>>,
    masks: Rng,
    frame_buffer: Vec<u8>,
    /// How many connections await their first answer.
    opening: u64,
    opening_max: u64,
    /// Open websockets and event streams, and polls in the background.
    connected: Gauge,
    bytes_in: u64,
    bytes_out: u64,
    connect_times: Histogram,
}

impl<'a> Wire<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        share: Share,
        clock: Clock,
    ) -> std::io::Result<Wire<'a>> {
        let has_tls = scenario.targets.iter().any(|target| target.is_tls);
        let tls_client = has_tls.then(|| scenario.tls.client().map_err(std::io::Error::other));
        let poll = Poll::new()?;
        make_room_for_files(poll.descriptor(), share.of(scenario.files_at_once_max()));
        Ok(Wire {
            targets: &scenario.targets,
            clock,
            poll,
            addresses: Addresses::new(&scenario.targets),
            sources: SourceAddresses::new(scenario, share),
            tls_client: tls_client.transpose()?,
            masks: Rng::from_seed(seed_for(scenario.seed, share.index as u64, MASKS)),
            frame_buffer: Vec::new(),
            opening: 0,
            // A share of zero would never let a user arrive.
            opening_max: share.of(scenario.opening_max).max(1),
            connected: Gauge::default(),
            bytes_in: 0,
            bytes_out: 0,
            connect_times: Histogram::new(),
        })
    }

    /// Waits for events until this time, unless some are left; `None` does not wait.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> std::io::Result<()> {
        let until = until.filter(|until| *until > self.clock.now());
        self.poll.wait(until.map(|until| self.clock.monotonic_at(until)))
    }

    pub(super) fn next_event(&mut self) -> Option<(Key, EventFlags)> {
        self.poll.next_event()
    }

    /// Whether further connections must wait until others have had their first answer.
    pub(super) fn is_opening_many(&self) -> bool {
        self.opening >= self.opening_max
    }

    /// Moves the figures since the last report.
    pub(super) fn report(&mut self, delta: &mut Delta) {
        delta.connected = self.connected.take_most();
        delta.counts.bytes_in = std::mem::take(&mut self.bytes_in);
        delta.counts.bytes_out = std::mem::take(&mut self.bytes_out);
        delta.stages.connect = self.connect_times.take();
    }

    /// Begins to connect to the next address of the server. The caller sends a request, and then has the
    /// connection watched.
    pub(super) fn connect(
        &mut self,
        connection: &mut Connection,
        user: u32,
    ) -> Result<(), Failure> {
        let now = self.clock.now();
        let next = self.addresses.next(connection.target, user, connection.tried, now);
        let (address, server) = next.expect("a server has an address that was not tried");
        connection.tried.add(address);
        connection.address = address as u8;
        connection.begun = micros(now);
        (connection.is_connecting, connection.is_opening) = (true, true);
        self.opening += 1;
        let target = usize::from(connection.target);
        connection.socket = Some(self.sources.connect(target, server)?);
        if self.targets[target].is_tls
            && let Some(client) = &self.tls_client
        {
            let tls = TlsConnection::new(client, self.targets[target].host());
            connection.tls = Some(Box::new(tls.map_err(Failure::Tls)?));
        }
        Ok(())
    }

    /// Notes that a connection has failed. Returns whether another address of the server can be tried instead.
    pub(super) fn has_next_address(
        &mut self,
        connection: &Connection,
        user: u32,
        failure: Failure,
    ) -> bool {
        if !failure.is_of_address() || !connection.is_connecting {
            return false;
        }
        self.note_failed(connection);
        let (target, tried) = (connection.target, connection.tried);
        self.addresses.next(target, user, tried, self.clock.now()).is_some()
    }

    /// Other users try the address of this connection after the others, if it was not connected yet.
    pub(super) fn note_failed(&mut self, connection: &Connection) {
        if connection.is_connecting {
            let now = self.clock.now();
            self.addresses.note_failed(connection.target, connection.address, now);
        }
    }

    fn note_connected(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.is_connecting) {
            self.connect_times.record(micros_since(connection.begun, self.clock.now()));
            self.addresses.note_connected(connection.target, connection.address);
        }
    }

    /// The first answer over the connection has come, or none will.
    pub(super) fn note_answered(&mut self, connection: &mut Connection) {
        self.opening -= u64::from(std::mem::take(&mut connection.is_opening));
    }

    /// The websocket or event stream is open.
    pub(super) fn note_open(&mut self, connection: &mut Connection, is_stream: bool) {
        connection.state = if is_stream { State::Stream } else { State::Open };
        self.connected.add();
    }

    /// Registers a new socket for events with this key.
    pub(super) fn watch(&mut self, connection: &mut Connection, key: Key) -> Result<(), Failure> {
        let Connection { socket: Some(socket), is_watched: false, .. } = connection else {
            return Ok(());
        };
        connection.is_watched = true;
        connection.is_write_watched = connection.outbox.is_some();
        self.poll.add(socket, key, connection.is_write_watched).map_err(Failure::from_errno)
    }

    /// Has events of the socket reported again, also of bytes that have waited.
    pub(super) fn watch_again(
        &mut self,
        connection: &mut Connection,
        key: Key,
    ) -> Result<(), Failure> {
        let Connection { socket: Some(socket), is_watched: true, .. } = connection else {
            return Ok(());
        };
        connection.is_write_watched |= connection.outbox.is_some();
        self.poll.modify(socket, key, connection.is_write_watched).map_err(Failure::from_errno)
    }

    /// Sends bytes, encrypted if the connection uses TLS. It keeps those that the kernel does not accept.
    pub(super) fn write(
        &mut self,
        connection: &mut Connection,
        key: Key,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let Some(tls) = &mut connection.tls else { return self.write_raw(connection, key, bytes) };
        let mut out = Vec::new();
        tls.write(bytes);
        tls.take_output(&mut out);
        self.write_raw(connection, key, &out)
    }

    fn write_raw(
        &mut self,
        connection: &mut Connection,
        key: Key,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(Outbox(outbox)) = connection.outbox.as_deref_mut() {
            if outbox.len() + bytes.len() > OUTBOX_BYTES_MAX {
                return Err(Failure::NotReading);
            }
            outbox.extend_from_slice(bytes);
            return Ok(());
        }
        let socket = connection.socket.as_ref().ok_or(Failure::Ended)?;
        let written = match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(Failure::from_errno(errno)),
        };
        if written > 0 {
            self.bytes_out += written as u64;
            self.note_connected(connection);
        }
        if written < bytes.len() {
            connection.outbox = Some(Box::new(Outbox(bytes[written..].to_vec())));
            self.watch_again(connection, key)?;
        }
        Ok(())
    }

    /// Sends one frame.
    pub(super) fn send_frame(
        &mut self,
        connection: &mut Connection,
        key: Key,
        opcode: Opcode,
        payload: &[u8],
    ) -> Result<(), Failure> {
        let mut buffer = std::mem::take(&mut self.frame_buffer);
        buffer.clear();
        frame::encode(opcode, payload, self.masks.next_u64() as u32, &mut buffer);
        let sent = self.write(connection, key, &buffer);
        self.frame_buffer = buffer;
        sent
    }

    /// Writes the queued bytes, because the socket is writable again.
    pub(super) fn flush(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let (written, ended) = connection.flush();
        if written > 0 {
            self.bytes_out += written;
            self.note_connected(connection);
        }
        ended.map_err(Failure::from_errno)
    }

    /// Reads once from the socket.
    pub(super) fn read(
        &mut self,
        connection: &Connection,
        buffer: &mut [u8],
    ) -> Result<Read, Failure> {
        let Some(socket) = &connection.socket else { return Ok(Read::Drained) };
        match rustix::net::recv(socket, buffer, RecvFlags::empty()) {
            Ok((0, _)) => Ok(Read::Ended),
            Ok((len, _)) => {
                self.bytes_in += len as u64;
                Ok(Read::Bytes(len))
            }
            Err(Errno::INTR) => Ok(Read::Interrupted),
            Err(Errno::AGAIN) => Ok(Read::Drained),
            Err(errno) => Err(Failure::from_errno(errno)),
        }
    }

    /// Decrypts the bytes of a read; `None` without TLS.
    pub(super) fn decrypt(
        &mut self,
        connection: &mut Connection,
        key: Key,
        bytes: &[u8],
    ) -> Result<Option<Decrypted>, Failure> {
        let Some(tls) = &mut connection.tls else { return Ok(None) };
        let (mut received, mut out) = (Vec::new(), Vec::new());
        let is_ended = tls.read(bytes, &mut received);
        // Parts of the handshake, or the alert that tells the server what was wrong.
        tls.take_output(&mut out);
        self.write_raw(connection, key, &out)?;
        is_ended.map(|is_ended| Some((received, is_ended))).map_err(Failure::Tls)
    }

    /// The response or the frame that the bytes begin with, and its length; `None` while it is incomplete.
    pub(super) fn decode<'b>(
        &mut self,
        connection: &mut Connection,
        key: Key,
        bytes: &'b [u8],
        exchange: Exchange,
    ) -> Result<Option<(Incoming<'b>, usize)>, Failure> {
        if connection.is_http() {
            let response = http::decode(bytes, exchange)?;
            return Ok(response.map(|response| {
                let len = response.len;
                (Incoming::Response(response), len)
            }));
        }
        if connection.state == State::Stream {
            return Ok(http::event(bytes).map(|event| {
                let payload = Cow::Borrowed(event);
                let message = Incoming::Message { is_text: true, payload };
                (if http::has_data(event) { message } else { Incoming::Nothing }, event.len())
            }));
        }
        let Some((frame, len)) = frame::decode(bytes)? else { return Ok(None) };
        let incoming = match frame.opcode {
            Opcode::Ping if connection.is_open() => {
                self.send_frame(connection, key, Opcode::Pong, frame.payload)?;
                Incoming::Nothing
            }
            Opcode::Close if connection.is_open() => {
                let code = frame::close_code(frame.payload)?;
                let echo = frame.payload.get(..2).unwrap_or_default();
                self.send_frame(connection, key, Opcode::Close, echo)?;
                // 1005 stands for a frame without a code (RFC 6455, section 7.4.1).
                Incoming::Closed(code.unwrap_or(1005))
            }
            Opcode::Ping | Opcode::Pong | Opcode::Close => Incoming::Nothing,
            Opcode::Text | Opcode::Binary | Opcode::Continuation => connection.assemble(&frame)?,
        };
        Ok(Some((incoming, len)))
    }

    /// Closes the socket without a close frame, and drops its unread bytes.
    pub(super) fn close(&mut self, connection: &mut Connection) {
        if matches!(connection.state, State::Open | State::Closing | State::Stream) {
            self.connected.remove();
        }
        self.note_answered(connection);
        *connection = connection.next();
    }

    /// Takes the connection from its user, who can open another one. A websocket still counts as connected.
    pub(super) fn take(&mut self, connection: &mut Connection) -> Option<Connection> {
        self.note_answered(connection);
        // An event of this socket has the same key as an event of the next one.
        self.poll.remove(connection.socket.as_ref()?);
        let next = connection.next();
        let taken = std::mem::replace(connection, next);
        Some(Connection { is_connecting: false, is_watched: false, ..taken })
    }

    /// Counts a poll in the background as connected.
    pub(super) fn add_background_poll(&mut self) {
        self.connected.add();
    }

    pub(super) fn remove_background_poll(&mut self) {
        self.connected.remove();
    }
}

/// Microseconds since the load began, without the upper bits: enough for times below 71 minutes.
pub(super) fn micros(at: Instant) -> u32 {
    (at.as_nanos() / 1_000) as u32
}

/// The time from a number of [`micros`].
pub(super) fn micros_since(begun: u32, at: Instant) -> Duration {
    Duration::from_micros(micros(at).wrapping_sub(begun).into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::scenario::connecting;

    const KEY: Key = Key::new(7, 0);
    const UPGRADED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    /// A wire with one connection, and the server's end of it.
    fn connected(act: impl FnOnce(Wire<'_>, Connection, TcpStream)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut scenario = connecting("");
        scenario.set_targets(&[format!("ws://{}", listener.local_addr().unwrap())]).unwrap();
        scenario.prepare("wire.toml").unwrap();
        let clock = Clock::from_origin(Duration::ZERO);
        let mut wire = Wire::new(&scenario, Share { index: 0, count: 1 }, clock).unwrap();
        let mut connection = Connection::new(0);
        wire.connect(&mut connection, KEY.number()).unwrap();
        let (server, _) = listener.accept().unwrap();
        connection.expect_response(true);
        wire.write(&mut connection, KEY, b"GET").unwrap();
        wire.watch(&mut connection, KEY).unwrap();
        act(wire, connection, server);
    }

    fn decode<'b>(wire: &mut Wire<'_>, one: &mut Connection, bytes: &'b [u8]) -> Incoming<'b> {
        let (incoming, len) =
            wire.decode(one, KEY, bytes, Exchange::default()).unwrap().expect("it is complete");
        assert_eq!(len, bytes.len());
        incoming
    }

    #[test]
    fn events_have_the_key_of_their_socket_and_bytes_are_counted() {
        connected(|mut wire, connection, mut server| {
            server.write_all(b"answer").unwrap();
            wire.wait(Some(Instant::from_nanos(u64::MAX))).unwrap();
            let (key, flags) = wire.next_event().unwrap();
            assert!(key == KEY && flags.contains(EventFlags::IN));
            let mut buffer = [0; 64];
            assert_eq!(wire.read(&connection, &mut buffer), Ok(Read::Bytes(6)));
            assert_eq!(wire.read(&connection, &mut buffer), Ok(Read::Drained));
            server.shutdown(std::net::Shutdown::Write).unwrap();
            wire.wait(Some(Instant::from_nanos(u64::MAX))).unwrap();
            assert_eq!(wire.read(&connection, &mut buffer), Ok(Read::Ended));
            let mut delta = Delta::default();
            wire.report(&mut delta);
            assert_eq!((delta.counts.bytes_in, delta.counts.bytes_out), (6, 3));
            assert_eq!(delta.stages.connect.len(), 1);
        });
    }

    #[test]
    fn fragments_become_one_message_and_a_ping_between_them_is_answered() {
        connected(|mut wire, mut connection, mut server| {
            let response = decode(&mut wire, &mut connection, UPGRADED);
            assert!(matches!(response, Incoming::Response(Response { status: 101, .. })));
            wire.note_open(&mut connection, false);
            let one = &mut connection;
            assert_eq!(decode(&mut wire, one, b"\x01\x02ab"), Incoming::Nothing);
            assert_eq!(decode(&mut wire, one, b"\x89\x01p"), Incoming::Nothing);
            let message = Incoming::Message { is_text: true, payload: Cow::from(&b"abc"[..]) };
            assert_eq!(decode(&mut wire, one, b"\x80\x01c"), message);
            let mut received = [0; 10];
            server.read_exact(&mut received).unwrap();
            assert_eq!(received[..5], *b"GET\x8a\x81", "a pong with one masked byte");
            assert_eq!(decode(&mut wire, one, b"\x88\x02\x03\xe8"), Incoming::Closed(1000));
            let invalid = wire.decode(one, KEY, b"\x81\x01\xff", Exchange::default());
            assert_eq!(invalid, Err(Failure::InvalidText));
        });
    }

    #[test]
    fn a_connection_counts_as_opening_until_it_is_answered_and_as_connected_until_it_is_closed() {
        connected(|mut wire, mut connection, _server| {
            assert_eq!(wire.opening, 1);
            wire.note_answered(&mut connection);
            wire.note_answered(&mut connection);
            assert_eq!(wire.opening, 0);
            wire.note_open(&mut connection, false);
            let serial = connection.serial();
            let mut kept = wire.take(&mut connection).unwrap();
            assert!(wire.take(&mut connection).is_none() && connection.serial() != serial);
            wire.close(&mut connection);
            let mut delta = Delta::default();
            wire.report(&mut delta);
            assert_eq!((delta.connected, wire.connected.now()), (1, 1), "a kept websocket counts");
            wire.close(&mut kept);
            assert_eq!(wire.connected.now(), 0);
        });
    }
}
