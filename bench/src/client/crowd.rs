use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Socket, Type};

use super::conversation::{Conversation, Event};
use super::long_poll::{LongPoll, Speaker};
use super::orders::{Order, Orders, Outcome, Transport};
use super::phoenix::Phoenix;
use super::socket_io::SocketIo;
use super::source::Sources;
use super::websocket::{Language, Websocket};
use crate::limits;
use crate::poller::{Poller, Ready};

/// Sockets on their way to a join at once; well under the server's accept backlog.
const OPENING_MAX: usize = 256;
/// An order that takes longer has failed.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);
/// Servers hang up after 60 s of silence. Runs are shorter than this, so it rarely costs CPU.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(45);
const READ_BYTES: usize = 65_536;
const STDIN: u64 = u64::MAX;

/// Read orders from stdin and carry them out until stdin ends.
pub fn obey() -> Result<()> {
    limits::raise_open_files()?;
    let mut crowd = Crowd::new()?;
    let mut orders = Orders::default();
    let mut buffer = vec![0; READ_BYTES];
    crowd.poller.add(io::stdin(), STDIN, EventFlags::IN)?;
    loop {
        let mut heard = Vec::new();
        let turned = crowd.turn(|| {
            let len = rustix::io::read(io::stdin(), &mut buffer)?;
            heard = orders.take_in(&buffer[..len]);
            Ok(len > 0)
        });
        match turned {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return report(&Outcome::Failed(format!("{error:#}"))),
        }
        for order in heard {
            if let Err(error) = crowd.start(&order?) {
                return report(&Outcome::Failed(format!("{error:#}")));
            }
        }
        if let Some(done) = crowd.take_done() {
            report(&done)?;
        }
    }
}

fn report(outcome: &Outcome) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, outcome)?;
    writeln!(stdout)?;
    Ok(stdout.flush()?)
}

/// A socket and its conversation.
struct Seat {
    socket: Option<Socket>,
    conversation: Conversation,
    connected: bool,
    /// Whether this seat has done its part of the order.
    done: bool,
    /// Bytes of a message that is not whole yet; mostly empty.
    rest: Vec<u8>,
}

/// What all seats are to do.
struct Task {
    order: Order,
    started_at: Instant,
    first_at: Option<Instant>,
    seats_done: usize,
}

struct Crowd {
    poller: Poller,
    seats: Vec<Seat>,
    /// Seats of the crowd; one more beyond them is the speaker's for long polls.
    size: usize,
    /// Seats that began to connect.
    begun: usize,
    server: Option<SocketAddr>,
    sources: Sources,
    task: Option<Task>,
    heartbeats_sent_at: Instant,
    buffer: Vec<u8>,
    out: Vec<u8>,
    events: Vec<Event>,
}

impl Crowd {
    fn new() -> Result<Self> {
        Ok(Crowd {
            poller: Poller::new()?,
            seats: Vec::new(),
            size: 0,
            begun: 0,
            server: None,
            sources: Sources::default(),
            task: None,
            heartbeats_sent_at: Instant::now(),
            buffer: vec![0; READ_BYTES],
            out: Vec::new(),
            events: Vec::new(),
        })
    }

    fn start(&mut self, order: &Order) -> Result<()> {
        ensure!(self.task.is_none(), "an order came before the last one was done");
        let now = Instant::now();
        self.task =
            Some(Task { order: order.clone(), started_at: now, first_at: None, seats_done: 0 });
        for seat in &mut self.seats {
            seat.done = false;
        }
        match *order {
            Order::Open { server, transport, sockets } => self.open(server, transport, sockets),
            Order::Broadcast => self.say(),
            Order::Heartbeat => self.send_heartbeats(),
            Order::Close => self.close(),
        }
    }

    /// The outcome, once every seat has done its part.
    fn take_done(&mut self) -> Option<Outcome> {
        let task = self.task.take_if(|task| task.seats_done == self.size)?;
        let now = Instant::now();
        let micros = |at: Instant| (at - task.started_at).as_micros() as u64;
        if task.order == Order::Close {
            self.seats.clear();
            self.size = 0;
        }
        Some(Outcome::Done { first_us: micros(task.first_at.unwrap_or(now)), last_us: micros(now) })
    }

    /// Wait for events and handle them; `heed_stdin` returns false when stdin has ended.
    fn turn(&mut self, heed_stdin: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.poller.wait(Some(self.wait_at_most()))?;
        let (mut stdin_is_open, mut heed_stdin) = (true, Some(heed_stdin));
        for index in 0..self.poller.len() {
            let ready = self.poller.ready(index);
            if ready.key == STDIN {
                stdin_is_open = heed_stdin.take().map_or(Ok(true), |heed| heed())?;
            } else {
                self.serve(ready).with_context(|| format!("socket {}", ready.key))?;
            }
        }
        self.fill_opening()?;
        self.keep_alive()?;
        self.check_patience()?;
        Ok(stdin_is_open)
    }

    fn wait_at_most(&self) -> Duration {
        let mut until = self.heartbeats_sent_at + HEARTBEAT_INTERVAL;
        if let Some(task) = &self.task {
            until = until.min(task.started_at + ORDER_TIMEOUT);
        }
        until.saturating_duration_since(Instant::now())
    }

    fn check_patience(&self) -> Result<()> {
        match &self.task {
            Some(task) if task.started_at.elapsed() >= ORDER_TIMEOUT => bail!(
                "{} of {} sockets were done with {:?} after {} s",
                task.seats_done,
                self.size,
                task.order,
                ORDER_TIMEOUT.as_secs()
            ),
            _ => Ok(()),
        }
    }

    fn open(&mut self, server: SocketAddr, transport: Transport, sockets: usize) -> Result<()> {
        ensure!(self.seats.is_empty(), "there are sockets already");
        self.server = Some(server);
        (self.size, self.begun) = (sockets, 0);
        self.sources.start_round();
        self.heartbeats_sent_at = Instant::now();
        let websocket = |language| Conversation::Websocket(Websocket::new(language));
        let phoenix = |phoenix| websocket(Language::Phoenix(phoenix));
        let conversation = |index| match transport {
            Transport::Websocket => phoenix(Phoenix::in_lobby()),
            Transport::ThreeTopics => phoenix(Phoenix::in_three_topics(index, sockets)),
            Transport::SocketIo => websocket(Language::SocketIo(SocketIo::default())),
            Transport::LongPoll => Conversation::LongPoll(LongPoll::default()),
        };
        self.seats.extend((0..sockets).map(|index| Seat::new(conversation(index))));
        self.fill_opening()
    }

    /// Keep [`OPENING_MAX`] sockets on their way while there are seats left to fill.
    fn fill_opening(&mut self) -> Result<()> {
        let Some(Task { order: Order::Open { .. }, seats_done, .. }) = self.task else {
            return Ok(());
        };
        while self.begun < self.size && self.begun - seats_done < OPENING_MAX {
            self.connect(self.begun)?;
            self.begun += 1;
        }
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<()> {
        let server = self.server.context("no server to connect to")?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)
            .context("no socket to be had, see ulimit -Hn")?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        loop {
            match socket.bind(&self.sources.take_next().into()) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => break bound.context("cannot bind a 127.x address")?,
            }
        }
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                return Err(error).with_context(|| format!("cannot connect to {server}"));
            }
            _ => {}
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.poller.add(&socket, index as u64, flags)?;
        self.seats[index].socket = Some(socket);
        Ok(())
    }

    fn say(&mut self) -> Result<()> {
        let token = match &mut self.seats.first_mut().context("nobody is there")?.conversation {
            Conversation::Websocket(websocket) => {
                websocket.say(&mut self.out);
                return self.send(0);
            }
            Conversation::LongPoll(poll) => poll.token().to_owned(),
            Conversation::Speaker(_) => bail!("a speaker alone cannot be heard"),
        };
        self.seats.truncate(self.size);
        self.seats.push(Seat::new(Conversation::Speaker(Speaker::new(&token))));
        self.connect(self.size)
    }

    fn send_heartbeats(&mut self) -> Result<()> {
        self.heartbeats_sent_at = Instant::now();
        for index in 0..self.size {
            let seat = &mut self.seats[index];
            if let (Conversation::Websocket(websocket), true) =
                (&mut seat.conversation, seat.connected)
            {
                websocket.heartbeat(&mut self.out);
                self.send(index)?;
            }
        }
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<()> {
        let order = self.task.as_ref().map(|task| &task.order);
        let may_speak = !matches!(order, Some(Order::Open { .. } | Order::Close));
        if self.heartbeats_sent_at.elapsed() < HEARTBEAT_INTERVAL {
            return Ok(());
        }
        self.heartbeats_sent_at = Instant::now();
        if may_speak { self.send_heartbeats() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        for index in 0..self.size {
            match &mut self.seats[index].conversation {
                Conversation::Websocket(websocket) if index % 2 == 0 => {
                    websocket.close(&mut self.out);
                    self.send(index)?;
                }
                _ => {
                    let socket = self.seats[index].socket.as_ref().context("closed already")?;
                    socket.shutdown(Shutdown::Write)?;
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, ready: Ready) -> Result<()> {
        let index = ready.key as usize;
        let Some(seat) = self.seats.get_mut(index) else { return Ok(()) };
        let Some(socket) = &seat.socket else { return Ok(()) };
        if !seat.connected && ready.flags.contains(EventFlags::OUT) {
            if let Some(error) = socket.take_error()? {
                return Err(error).context("cannot connect");
            }
            seat.connected = true;
            seat.conversation.open(&mut self.out);
            self.send(index)?;
        }
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if ready.flags.intersects(EventFlags::IN | ended) {
            self.read(index, ready.flags.intersects(ended))?;
        }
        Ok(())
    }

    /// Read what is there. Edge-triggered: a short read is the end unless the peer has ended too.
    fn read(&mut self, index: usize, to_the_end: bool) -> Result<()> {
        loop {
            let Some(socket) = &self.seats[index].socket else { return Ok(()) };
            let len = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE) => return self.ended(index),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("cannot read"),
            };
            self.take_in(index, len)?;
            if len < self.buffer.len() && !to_the_end {
                return Ok(());
            }
        }
    }

    fn take_in(&mut self, index: usize, len: usize) -> Result<()> {
        let Crowd { seats, buffer, out, events, .. } = self;
        let seat = &mut seats[index];
        if seat.rest.is_empty() {
            let understood = seat.conversation.take_in(&buffer[..len], out, events)?;
            seat.rest.extend_from_slice(&buffer[understood..len]);
        } else {
            seat.rest.extend_from_slice(&buffer[..len]);
            let understood = seat.conversation.take_in(&seat.rest, out, events)?;
            seat.rest.drain(..understood);
            if seat.rest.is_empty() {
                seat.rest = Vec::new();
            }
        }
        if self.is_closing() {
            self.out.clear(); // who leaves answers nobody's ping, and half cannot any more
        }
        self.send(index)?;
        let events = std::mem::take(&mut self.events);
        for event in &events {
            self.count(index, *event)?;
        }
        self.events = events;
        self.events.clear();
        Ok(())
    }

    fn count(&mut self, index: usize, event: Event) -> Result<()> {
        let order = self.task.as_ref().map(|task| &task.order);
        match (event, order) {
            (Event::Joined, Some(Order::Open { .. }))
            | (Event::Message, Some(Order::Broadcast))
            | (Event::HeartbeatAnswered, Some(Order::Heartbeat)) => {
                let is_news = self.mark_done(index);
                ensure!(is_news || event == Event::HeartbeatAnswered, "{event:?} came twice");
                Ok(())
            }
            (Event::HeartbeatAnswered, _) => Ok(()),
            (event, order) => bail!("{event:?} came during {order:?}"),
        }
    }

    fn is_closing(&self) -> bool {
        matches!(&self.task, Some(Task { order: Order::Close, .. }))
    }

    fn ended(&mut self, index: usize) -> Result<()> {
        let seat = &mut self.seats[index];
        match (&seat.conversation, &self.task) {
            (Conversation::Speaker(speaker), _) if speaker.is_answered() => seat.socket = None,
            (_, Some(Task { order: Order::Close, .. })) => {
                seat.socket = None;
                self.mark_done(index);
            }
            _ => bail!("the server ended the connection"),
        }
        Ok(())
    }

    fn mark_done(&mut self, index: usize) -> bool {
        let (seat, task) = (&mut self.seats[index], self.task.as_mut().expect("there is an order"));
        if std::mem::replace(&mut seat.done, true) {
            return false;
        }
        task.first_at.get_or_insert_with(Instant::now);
        task.seats_done += 1;
        true
    }

    fn send(&mut self, index: usize) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let socket = self.seats[index].socket.as_ref().context("the socket is closed")?;
        let sent = send(socket, &self.out, SendFlags::NOSIGNAL).context("cannot send")?;
        ensure!(sent == self.out.len(), "the kernel took {sent} of {} bytes", self.out.len());
        self.out.clear();
        Ok(())
    }
}

impl Seat {
    fn new(conversation: Conversation) -> Self {
        Seat { socket: None, conversation, connected: false, done: false, rest: Vec::new() }
    }
}
