use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Socket, Type};

use crate::poller::{Poller, Ready};
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status};

const READ_BYTES: usize = 65_536;
const PORT_FIRST: u16 = 10_000;
const PORTS: u32 = 50_000;
/// 127.x networks that a process uses in turns, so that ports leave TIME_WAIT before they are used
/// again.
const NETWORKS: u32 = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server did not accept it.
    Refused,
    Closed,
    Reset,
}

impl End {
    pub fn counter(self, status: &mut Status) -> &mut u64 {
        match self {
            End::Refused => &mut status.refused,
            End::Closed => &mut status.turned_away,
            End::Reset => &mut status.reset,
        }
    }
}

struct Conn {
    socket: Option<Socket>,
    /// The owner, as chosen by the clients that opened it.
    owner: u32,
    /// Distinguishes this connection from earlier ones with the same index.
    generation: u32,
    is_connected: bool,
}

/// The connections of one process, its one buffer and its timers.
pub struct Net {
    poller: Poller,
    conns: Vec<Conn>,
    free: Vec<u32>,
    /// Bytes of incomplete messages by connection; most have none.
    rests: HashMap<u32, Vec<u8>>,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    servers: Vec<SocketAddr>,
    process: u8,
    sources_taken: u32,
    buffer: Vec<u8>,
}

/// The clients of one kind, which interpret the bytes of their connections.
pub trait Clients {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()>;
    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()>;
    /// Handle received bytes. Returns how many were consumed; the rest is passed again with more
    /// bytes.
    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize>;
    /// The connection has ended, and its id is no longer valid.
    fn ended(&mut self, net: &mut Net, owner: u32, end: End) -> Result<()>;
    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()>;
    /// Called after every turn; returns the latest time of the next turn.
    fn turned(&mut self, net: &mut Net, now_ns: u64) -> Result<u64>;
    fn status(&mut self) -> &mut Status;
}

impl Net {
    pub fn new() -> Result<Self> {
        Ok(Net {
            poller: Poller::new()?,
            conns: Vec::new(),
            free: Vec::new(),
            rests: HashMap::new(),
            timers: BinaryHeap::new(),
            servers: Vec::new(),
            process: 0,
            sources_taken: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    pub fn set_up(&mut self, servers: Vec<SocketAddr>, process: u8) {
        (self.servers, self.process) = (servers, process);
    }

    pub fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    /// A choice of a server that is not the first one, unless there is only one.
    pub fn other_server(&self, choice: u32) -> u32 {
        match self.servers.len() as u32 {
            0 | 1 => 0,
            servers => 1 + choice % (servers - 1),
        }
    }

    /// Begin to connect for `owner`; `choice` selects the server, modulo their number.
    pub fn connect(&mut self, owner: u32, choice: u32) -> Result<ConnId> {
        let server = *self
            .servers
            .get(choice as usize % self.servers.len().max(1))
            .context("no server to connect to")?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)
            .context("cannot create a socket; see ulimit -Hn")?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        loop {
            match socket.bind(&self.next_source().into()) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => break bound.context("cannot bind a 127.x address")?,
            }
        }
        let index = self.free.pop().unwrap_or(self.conns.len() as u32);
        let connecting = socket.connect(&server.into());
        let generation = self.conns.get(index as usize).map_or(0, |conn| conn.generation + 1);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.poller.add(&socket, key_of(index, generation), flags)?;
        let conn = Conn { socket: Some(socket), owner, generation, is_connected: false };
        match self.conns.get_mut(index as usize) {
            Some(slot) => *slot = conn,
            None => self.conns.push(conn),
        }
        let code = connecting.as_ref().err().and_then(io::Error::raw_os_error);
        // An immediate refusal is also reported as an event, a hang-up.
        let reported = [Errno::INPROGRESS, Errno::CONNREFUSED].map(Errno::raw_os_error);
        if !code.is_some_and(|code| reported.contains(&code)) {
            connecting.with_context(|| format!("cannot connect to {server}"))?;
        }
        Ok(ConnId(index))
    }

    /// The next source address. The kernel has few ports for one address and searches long for the
    /// last free ones, so this process chooses them.
    fn next_source(&mut self) -> SocketAddrV4 {
        let (network, port) = (self.sources_taken / PORTS % NETWORKS, self.sources_taken % PORTS);
        self.sources_taken = self.sources_taken.wrapping_add(1);
        let address = Ipv4Addr::new(127, 16 + network as u8, self.process, 1);
        SocketAddrV4::new(address, PORT_FIRST + port as u16)
    }

    /// Send bytes. Returns false if the kernel did not accept all of them at once.
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> bool {
        let Some(socket) = &self.conns[conn.0 as usize].socket else { return false };
        send(socket, bytes, SendFlags::NOSIGNAL) == Ok(bytes.len())
    }

    /// Close a connection; no more events follow.
    pub fn close(&mut self, conn: ConnId) {
        let conn_slot = &mut self.conns[conn.0 as usize];
        if conn_slot.socket.take().is_some() {
            self.rests.remove(&conn.0);
            self.free.push(conn.0);
        }
    }

    pub fn set_timer(&mut self, at_ns: u64, key: u64) {
        self.timers.push(Reverse((at_ns, key)));
    }

    pub fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// The next due timer: its time and key.
    pub fn take_timer(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let Reverse((at, _)) = self.timers.peek()?;
        if *at > now_ns {
            return None;
        }
        self.timers.pop().map(|Reverse(timer)| timer)
    }

    pub fn wait(&mut self, until_ns: u64) -> Result<usize> {
        let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
        self.poller.wait(Some(timeout))?;
        Ok(self.poller.len())
    }

    pub fn ready(&self, index: usize) -> Ready {
        self.poller.ready(index)
    }

    /// Handle the events of a connection.
    pub fn serve(&mut self, clients: &mut impl Clients, ready: Ready) -> Result<()> {
        let (index, generation) = (ready.key as u32, (ready.key >> 32) as u32);
        let Some(conn) = self.conns.get_mut(index as usize) else { return Ok(()) };
        if conn.generation != generation || conn.socket.is_none() {
            return Ok(()); // an event of a closed connection
        }
        let (id, owner) = (ConnId(index), conn.owner);
        if !conn.is_connected {
            let error = conn.socket.as_ref().and_then(|socket| socket.take_error().ok()?);
            if error.is_some() || ready.flags.contains(EventFlags::HUP) {
                let code = error.and_then(|error| error.raw_os_error());
                let reset = code.is_some_and(|code| code != Errno::CONNREFUSED.raw_os_error());
                return self.end(clients, id, if reset { End::Reset } else { End::Refused });
            }
            if !ready.flags.contains(EventFlags::OUT) {
                return Ok(());
            }
            conn.is_connected = true;
            clients.connected(self, id, owner)?;
        }
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if ready.flags.intersects(EventFlags::IN | ended) {
            self.read(clients, id, generation, ready.flags.intersects(ended))?;
        }
        Ok(())
    }

    /// Read all available bytes. Events are edge-triggered: a short read is the last one, unless
    /// the peer has closed.
    fn read(
        &mut self,
        clients: &mut impl Clients,
        id: ConnId,
        generation: u32,
        is_ended: bool,
    ) -> Result<()> {
        loop {
            let conn = &self.conns[id.0 as usize];
            // The clients may have closed it, and its index may be in use again.
            let (Some(socket), true) = (&conn.socket, conn.generation == generation) else {
                return Ok(());
            };
            let owner = conn.owner;
            let mut buffer = std::mem::take(&mut self.buffer);
            let read = recv(socket, &mut buffer[..], RecvFlags::empty());
            let taken = match read {
                Ok((len, _)) if len > 0 => {
                    self.deliver(clients, id, generation, owner, &buffer[..len]).map(|()| len)
                }
                _ => Ok(0),
            };
            self.buffer = buffer;
            let len = taken?;
            match read {
                Ok((0, _)) => return self.end(clients, id, End::Closed),
                Ok(_) if len < READ_BYTES && !is_ended => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNRESET | Errno::PIPE) => return self.end(clients, id, End::Reset),
                Err(error) => bail!("cannot read: {error}"),
            }
        }
    }

    fn deliver(
        &mut self,
        clients: &mut impl Clients,
        id: ConnId,
        generation: u32,
        owner: u32,
        new: &[u8],
    ) -> Result<()> {
        let rest = self.rests.remove(&id.0);
        let joined;
        let mut bytes = match rest {
            Some(mut rest) => {
                rest.extend_from_slice(new);
                joined = rest;
                &joined[..]
            }
            None => new,
        };
        while !bytes.is_empty() {
            let consumed = clients.bytes(self, id, owner, bytes)?;
            bytes = &bytes[consumed..];
            let conn = &self.conns[id.0 as usize];
            if conn.generation != generation || conn.socket.is_none() {
                return Ok(());
            }
            if consumed == 0 {
                self.rests.insert(id.0, bytes.to_vec());
                return Ok(());
            }
        }
        Ok(())
    }

    fn end(&mut self, clients: &mut impl Clients, id: ConnId, end: End) -> Result<()> {
        let owner = self.conns[id.0 as usize].owner;
        self.close(id);
        clients.ended(self, owner, end)
    }
}

fn key_of(index: u32, generation: u32) -> u64 {
    u64::from(index) | u64::from(generation) << 32
}
