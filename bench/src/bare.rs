//! The baseline: the cost of a socket and a delivery in the kernel alone.
//!
//! It keeps a list of sockets and nothing else: no topics, no refs, no limits, no timeouts. Each
//! read must return whole messages (small ones on loopback do), and the kernel must accept each
//! write at once. Otherwise it closes the socket, and the client reports that. It knows three messages:
//! a join of one topic, a heartbeat with the ref 2, and `new_msg`, which it sends to all.
//!
//! Threads and processes tell each other of broadcasts by datagrams, one for each thread.
//!
//! As the `serve` program of an experiment it prints the event `ready` with its URL.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::process::Child;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use rustix::event::epoll::EventFlags;
use rustix::net::{SendFlags, send};
use sha1::{Digest as _, Sha1};
use socket2::Socket;

use crate::baseline::{self, Sockets, listen, print_ready};
use crate::limits::raise_open_files;
use crate::message::{self, HEARTBEAT_ANSWER, JOINED};
use crate::poller::Poller;

const READ_BYTES: usize = 65_536;
const LISTENER: u64 = u64::MAX;
const BUS: u64 = u64::MAX - 1;

#[derive(clap::Args)]
pub struct Settings {
    /// Address to listen on; port 0 selects a free port. The program prints the URL.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Threads, each with its own listener on the same port and its own sockets; 0 for one on each core.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Processes, each with that number of threads. Several can hold more sockets than one may open files.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// The place of this process among several, which the first one starts.
    #[arg(long, hide = true, default_value_t = 0)]
    place: usize,
    /// The process that has started this one, and that it ends with.
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

/// Serves until killed.
pub fn serve(settings: &Settings) -> Result<Infallible> {
    settings.parent.map(baseline::end_with).transpose()?;
    raise_open_files()?;
    let first = listen(settings.listen)?;
    let address = first.local_addr()?.as_socket().context("not an IP address")?;
    let threads = match settings.threads {
        0 => thread::available_parallelism()?.get(),
        threads => threads,
    };
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(listen(address)?);
    }
    let from = settings.place * threads;
    let ends = (from..from + threads).map(|index| receiver(address, index));
    let ends = ends.collect::<Result<Vec<_>>>()?;
    let _others = settings.start_others(address, threads)?;
    let bus = Arc::new(Bus::open(address, settings.processes * threads)?);
    print_ready(address)?;

    let mut threads = Vec::new();
    for (index, (listener, from_others)) in listeners.into_iter().zip(ends).enumerate() {
        let bus = bus.clone();
        threads.push(thread::spawn(move || {
            Broadcaster::new(from + index, listener, bus, from_others)?.run()
        }));
    }
    for thread in threads {
        thread.join().expect("a broadcaster does not panic")?;
    }
    unreachable!("a broadcaster ends only with an error")
}

impl Settings {
    /// Starts the other processes, and waits until they listen.
    fn start_others(&self, address: SocketAddr, threads: usize) -> Result<Vec<Child>> {
        ensure!(self.processes > 0, "cannot serve with 0 processes; use at least 1");
        let places = (1..self.processes).filter(|_| self.place == 0);
        baseline::start_processes(places.map(|place| {
            let mut arguments = vec!["bare".into(), "--listen".into(), address.to_string()];
            for (name, value) in
                [("--threads", threads), ("--processes", self.processes), ("--place", place)]
            {
                arguments.extend([name.into(), value.to_string()]);
            }
            arguments
        }))
    }
}

/// Sends broadcasts to all threads, of all processes.
struct Bus {
    sender: UnixDatagram,
    threads: Vec<UnixAddress>,
}

impl Bus {
    fn open(address: SocketAddr, threads: usize) -> Result<Bus> {
        let threads = (0..threads).map(|index| bus_address(address, index));
        Ok(Bus { sender: UnixDatagram::unbound()?, threads: threads.collect::<Result<_>>()? })
    }
}

/// The end of the bus at a thread.
fn receiver(address: SocketAddr, index: usize) -> Result<UnixDatagram> {
    let receiver = UnixDatagram::bind_addr(&bus_address(address, index)?)?;
    receiver.set_nonblocking(true)?;
    Ok(receiver)
}

fn bus_address(address: SocketAddr, index: usize) -> Result<UnixAddress> {
    Ok(UnixAddress::from_abstract_name(format!("watchfire-bare {address} {index}"))?)
}

/// The state of a socket: one byte beside its descriptor.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Http,
    /// A long-poll session whose join was not answered yet.
    Joining,
    Websocket,
    /// A long poll waits for a message.
    Parked,
}

/// One thread: its listener, its sockets by descriptor number, and the senders to other threads.
struct Broadcaster {
    index: usize,
    poller: Poller,
    listener: Socket,
    sockets: Sockets,
    kinds: Vec<Kind>,
    bus: Arc<Bus>,
    from_others: UnixDatagram,
    answer: Vec<u8>,
}

impl Broadcaster {
    fn new(
        index: usize,
        listener: Socket,
        bus: Arc<Bus>,
        from_others: UnixDatagram,
    ) -> Result<Self> {
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, EventFlags::IN)?;
        poller.add(&from_others, BUS, EventFlags::IN)?;
        let (sockets, kinds, answer) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Broadcaster { index, poller, listener, sockets, kinds, bus, from_others, answer })
    }

    fn run(mut self) -> Result<Infallible> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.poller.wait()?;
            for index in 0..self.poller.len() {
                match self.poller.key(index) {
                    LISTENER => self.accept()?,
                    BUS => self.receive_from_others(&mut buffer)?,
                    socket => self.read(socket as usize, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        let kinds = &mut self.kinds;
        baseline::accept_all(&self.listener, &self.poller, &mut self.sockets, |slot| {
            if slot >= kinds.len() {
                kinds.resize(slot + 1, Kind::Http);
            }
            kinds[slot] = Kind::Http;
        })
    }

    fn read(&mut self, slot: usize, buffer: &mut [u8]) {
        let Some(Some(socket)) = self.sockets.get(slot) else { return };
        let Some(len) = baseline::read(socket, buffer) else { return };
        let is_valid = len > 0
            && if self.kinds[slot] == Kind::Websocket {
                self.read_frames(slot, &mut buffer[..len])
            } else {
                self.read_requests(slot, &buffer[..len])
            };
        if !is_valid {
            self.sockets[slot] = None;
        }
    }

    /// Returns whether the socket stays.
    fn read_frames(&mut self, slot: usize, mut bytes: &mut [u8]) -> bool {
        while !bytes.is_empty() {
            let Some(message::Frame { opcode, mask: Some(mask), payload, len }) =
                message::frame(bytes)
            else {
                return false;
            };
            let start = len - payload.len();
            let (frame, rest) = std::mem::take(&mut bytes).split_at_mut(len);
            bytes = rest;
            let payload = &mut frame[start..];
            message::mask(mask, payload);
            match opcode {
                message::TEXT if contains(payload, b"\"new_msg\"") => {
                    let Some(text) = broadcast_of(payload) else { return false };
                    self.broadcast_to_all(&text);
                }
                message::TEXT => {
                    let is_join = contains(payload, b"\"phx_join\"");
                    let answer = if is_join { JOINED } else { HEARTBEAT_ANSWER };
                    self.answer.clear();
                    message::put_server_frame(message::TEXT, answer.as_bytes(), &mut self.answer);
                    self.send_answer(slot);
                }
                message::CLOSE => {
                    self.answer.clear();
                    message::put_server_frame(message::CLOSE, payload, &mut self.answer);
                    self.send_answer(slot);
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    /// Returns whether the socket stays.
    fn read_requests(&mut self, slot: usize, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some(request) = message::http_message(bytes) else { return false };
            bytes = &bytes[request.len..];
            self.answer.clear();
            if let Some(key) = request.header("sec-websocket-key") {
                self.kinds[slot] = Kind::Websocket;
                write!(
                    self.answer,
                    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
                     connection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
                    websocket_accept(key)
                )
                .expect("writing to a vector cannot fail");
            } else if request.line.starts_with("POST") {
                if contains(request.body, b"\"phx_join\"") {
                    self.kinds[slot] = Kind::Joining;
                } else if let Some(text) = broadcast_of(request.body) {
                    self.broadcast_to_all(&text);
                    self.answer.clear();
                }
                put_http_answer(r#"{"status":200}"#, &mut self.answer);
            } else if !request.line.contains("token=") {
                put_http_answer(r#"{"status":410,"token":"0","messages":[]}"#, &mut self.answer);
            } else if self.kinds[slot] == Kind::Joining {
                self.kinds[slot] = Kind::Http;
                put_poll_answer(JOINED, &mut self.answer);
            } else {
                self.kinds[slot] = Kind::Parked;
                continue;
            }
            self.send_answer(slot);
        }
        true
    }

    fn send_answer(&mut self, slot: usize) {
        send_or_close(&mut self.sockets[slot], &self.answer);
    }

    fn broadcast_to_all(&mut self, text: &str) {
        let bus = self.bus.clone();
        for (index, thread) in bus.threads.iter().enumerate() {
            if index != self.index {
                // Fails only if that thread is thousands of broadcasts behind; the client then
                // reports it.
                let _ = bus.sender.send_to_addr(text.as_bytes(), thread);
            }
        }
        self.broadcast(text);
    }

    fn receive_from_others(&mut self, buffer: &mut [u8]) -> Result<()> {
        loop {
            match self.from_others.recv(buffer) {
                Ok(len) => {
                    let text = str::from_utf8(&buffer[..len]).expect("other threads send texts");
                    self.broadcast(text);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn broadcast(&mut self, text: &str) {
        let mut frame = Vec::new();
        message::put_server_frame(message::TEXT, text.as_bytes(), &mut frame);
        let mut answer = Vec::new();
        put_poll_answer(text, &mut answer);
        for (socket, kind) in self.sockets.iter_mut().zip(&mut self.kinds) {
            match kind {
                Kind::Websocket => send_or_close(socket, &frame),
                Kind::Parked => {
                    *kind = Kind::Http;
                    send_or_close(socket, &answer);
                }
                Kind::Http | Kind::Joining => {}
            }
        }
    }
}

/// The broadcast of a push: the same message without refs. `None` if the push is not a message of Phoenix, or too long
/// for a frame with a length of two bytes.
fn broadcast_of(push: &[u8]) -> Option<String> {
    let push = str::from_utf8(push).ok().filter(|push| push.len() < usize::from(u16::MAX))?;
    let (_, rest) = push.strip_prefix('[')?.split_once(',')?;
    let (_, rest) = rest.split_once(',')?;
    Some(format!("[null,null,{rest}"))
}

/// The answer to the key of a WebSocket handshake (RFC 6455, 4.2.2).
fn websocket_accept(key: &str) -> String {
    let mut sha1 = Sha1::new();
    sha1.update(key);
    sha1.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    base64::engine::general_purpose::STANDARD.encode(sha1.finalize())
}

fn send_or_close(socket: &mut Option<OwnedFd>, bytes: &[u8]) {
    let Some(open) = socket else { return };
    if send(open, bytes, SendFlags::NOSIGNAL) != Ok(bytes.len()) {
        *socket = None;
    }
}

fn put_poll_answer(message: &str, out: &mut Vec<u8>) {
    let messages = serde_json::json!([message]);
    put_http_answer(&format!(r#"{{"status":200,"token":"0","messages":{messages}}}"#), out);
}

fn put_http_answer(body: &str, out: &mut Vec<u8>) {
    write!(
        out,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("writing to a vector cannot fail");
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_is_the_push_without_refs() {
        let push = br#"["1","3","rooms:lobby","new_msg",{"body":"a"}]"#;
        let broadcast = r#"[null,null,"rooms:lobby","new_msg",{"body":"a"}]"#;
        assert_eq!(broadcast_of(push).as_deref(), Some(broadcast));
        assert_eq!(broadcast_of(b"[\"1\"]"), None);
        assert_eq!(broadcast_of(&vec![b'['; 70_000]), None);
    }

    #[test]
    fn the_key_of_the_specification_has_its_answer() {
        let accept = websocket_accept("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
