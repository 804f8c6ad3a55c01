use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Socket, Type};

use super::commands::{Command, CommandReader, Outcome, Transport};
use super::conversation::Conversation;
use super::event::Event;
use super::long_poll::{LongPoll, PushSender};
use super::phoenix::Phoenix;
use super::socket_io::SocketIo;
use super::source::Sources;
use super::websocket::{Protocol, Websocket};
use crate::limits;
use crate::poller::{Poller, Ready};

/// Most sockets that connect or join at the same time; well below the server's accept backlog.
const OPENING_MAX: usize = 256;
/// A command that takes longer fails.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Servers close sockets after 60 s of silence. Most commands take less than this interval.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(45);
const READ_BYTES: usize = 65_536;
const STDIN: u64 = u64::MAX;

/// Execute commands from stdin until stdin ends.
pub fn run() -> Result<()> {
    limits::raise_open_files()?;
    let mut pool = SocketPool::new()?;
    let mut commands = CommandReader::default();
    let mut buffer = vec![0; READ_BYTES];
    pool.poller.add(io::stdin(), STDIN, EventFlags::IN)?;
    loop {
        let mut received = Vec::new();
        let turned = pool.turn(|| {
            let len = rustix::io::read(io::stdin(), &mut buffer)?;
            received = commands.receive(&buffer[..len]);
            Ok(len > 0)
        });
        match turned {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return report(&Outcome::Failed(format!("{error:#}"))),
        }
        for command in received {
            if let Err(error) = pool.start(&command?) {
                return report(&Outcome::Failed(format!("{error:#}")));
            }
        }
        if let Some(done) = pool.take_done() {
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
struct Slot {
    socket: Option<Socket>,
    conversation: Conversation,
    connected: bool,
    /// Whether this slot has done its part of the command.
    done: bool,
    /// Bytes of an incomplete message; mostly empty.
    rest: Vec<u8>,
}

/// The command that all slots execute.
struct Task {
    command: Command,
    started_at: Instant,
    first_at: Option<Instant>,
    slots_done: usize,
}

struct SocketPool {
    poller: Poller,
    slots: Vec<Slot>,
    /// Slots of the pool; with long polls one more slot belongs to the sender.
    size: usize,
    /// Slots that have started to connect.
    started: usize,
    server: Option<SocketAddr>,
    sources: Sources,
    task: Option<Task>,
    heartbeats_sent_at: Instant,
    buffer: Vec<u8>,
    out: Vec<u8>,
    events: Vec<Event>,
}

impl SocketPool {
    fn new() -> Result<Self> {
        Ok(SocketPool {
            poller: Poller::new()?,
            slots: Vec::new(),
            size: 0,
            started: 0,
            server: None,
            sources: Sources::default(),
            task: None,
            heartbeats_sent_at: Instant::now(),
            buffer: vec![0; READ_BYTES],
            out: Vec::new(),
            events: Vec::new(),
        })
    }

    fn start(&mut self, command: &Command) -> Result<()> {
        ensure!(self.task.is_none(), "a command arrived before the previous one was done");
        let now = Instant::now();
        self.task =
            Some(Task { command: command.clone(), started_at: now, first_at: None, slots_done: 0 });
        for slot in &mut self.slots {
            slot.done = false;
        }
        match *command {
            Command::Open { server, transport, sockets } => self.open(server, transport, sockets),
            Command::Broadcast => self.push(),
            Command::Heartbeat => self.send_heartbeats(),
            Command::Close => self.close(),
        }
    }

    /// The outcome, once every slot has done its part.
    fn take_done(&mut self) -> Option<Outcome> {
        let task = self.task.take_if(|task| task.slots_done == self.size)?;
        let now = Instant::now();
        let micros = |at: Instant| (at - task.started_at).as_micros() as u64;
        if task.command == Command::Close {
            self.slots.clear();
            self.size = 0;
        }
        Some(Outcome::Done { first_us: micros(task.first_at.unwrap_or(now)), last_us: micros(now) })
    }

    /// Wait for events and handle them; `read_stdin` returns false when stdin has ended.
    fn turn(&mut self, read_stdin: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.poller.wait(Some(self.wait_at_most()))?;
        let (mut stdin_is_open, mut read_stdin) = (true, Some(read_stdin));
        for index in 0..self.poller.len() {
            let ready = self.poller.ready(index);
            if ready.key == STDIN {
                stdin_is_open = read_stdin.take().map_or(Ok(true), |read| read())?;
            } else {
                self.serve(ready).with_context(|| format!("socket {}", ready.key))?;
            }
        }
        self.fill_opening()?;
        self.keep_alive()?;
        self.check_timeout()?;
        Ok(stdin_is_open)
    }

    fn wait_at_most(&self) -> Duration {
        let mut until = self.heartbeats_sent_at + HEARTBEAT_INTERVAL;
        if let Some(task) = &self.task {
            until = until.min(task.started_at + COMMAND_TIMEOUT);
        }
        until.saturating_duration_since(Instant::now())
    }

    fn check_timeout(&self) -> Result<()> {
        match &self.task {
            Some(task) if task.started_at.elapsed() >= COMMAND_TIMEOUT => bail!(
                "{} of {} sockets were done with {:?} after {} s",
                task.slots_done,
                self.size,
                task.command,
                COMMAND_TIMEOUT.as_secs()
            ),
            _ => Ok(()),
        }
    }

    fn open(&mut self, server: SocketAddr, transport: Transport, sockets: usize) -> Result<()> {
        ensure!(self.slots.is_empty(), "there are sockets already");
        self.server = Some(server);
        (self.size, self.started) = (sockets, 0);
        self.sources.start_round();
        self.heartbeats_sent_at = Instant::now();
        let websocket = |protocol| Conversation::Websocket(Websocket::new(protocol));
        let phoenix = |phoenix| websocket(Protocol::Phoenix(phoenix));
        let conversation = |index| match transport {
            Transport::Websocket => phoenix(Phoenix::in_lobby()),
            Transport::ThreeTopics => phoenix(Phoenix::in_three_topics(index, sockets)),
            Transport::SocketIo => websocket(Protocol::SocketIo(SocketIo::default())),
            Transport::LongPoll => Conversation::LongPoll(LongPoll::default()),
        };
        self.slots.extend((0..sockets).map(|index| Slot::new(conversation(index))));
        self.fill_opening()
    }

    /// Keep up to [`OPENING_MAX`] sockets connecting or joining.
    fn fill_opening(&mut self) -> Result<()> {
        let Some(Task { command: Command::Open { .. }, slots_done, .. }) = self.task else {
            return Ok(());
        };
        while self.started < self.size && self.started - slots_done < OPENING_MAX {
            self.connect(self.started)?;
            self.started += 1;
        }
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<()> {
        let server = self.server.context("no server to connect to")?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)
            .context("cannot create a socket; see ulimit -Hn")?;
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
        self.slots[index].socket = Some(socket);
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        let token = match &mut self.slots.first_mut().context("there are no sockets")?.conversation
        {
            Conversation::Websocket(websocket) => {
                websocket.push_message(&mut self.out);
                return self.send(0);
            }
            Conversation::LongPoll(poll) => poll.token().to_owned(),
            Conversation::PushSender(_) => bail!("the first slot is a sender"),
        };
        self.slots.truncate(self.size);
        self.slots.push(Slot::new(Conversation::PushSender(PushSender::new(&token))));
        self.connect(self.size)
    }

    fn send_heartbeats(&mut self) -> Result<()> {
        self.heartbeats_sent_at = Instant::now();
        for index in 0..self.size {
            let slot = &mut self.slots[index];
            if let (Conversation::Websocket(websocket), true) =
                (&mut slot.conversation, slot.connected)
            {
                websocket.heartbeat(&mut self.out);
                self.send(index)?;
            }
        }
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<()> {
        let command = self.task.as_ref().map(|task| &task.command);
        let may_send = !matches!(command, Some(Command::Open { .. } | Command::Close));
        if self.heartbeats_sent_at.elapsed() < HEARTBEAT_INTERVAL {
            return Ok(());
        }
        self.heartbeats_sent_at = Instant::now();
        if may_send { self.send_heartbeats() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        for index in 0..self.size {
            match &mut self.slots[index].conversation {
                Conversation::Websocket(websocket) if index % 2 == 0 => {
                    websocket.close(&mut self.out);
                    self.send(index)?;
                }
                _ => {
                    let socket = self.slots[index]
                        .socket
                        .as_ref()
                        .context("the socket is already closed")?;
                    socket.shutdown(Shutdown::Write)?;
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, ready: Ready) -> Result<()> {
        let index = ready.key as usize;
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Some(socket) = &slot.socket else { return Ok(()) };
        if !slot.connected && ready.flags.contains(EventFlags::OUT) {
            if let Some(error) = socket.take_error()? {
                return Err(error).context("cannot connect");
            }
            slot.connected = true;
            slot.conversation.open(&mut self.out);
            self.send(index)?;
        }
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if ready.flags.intersects(EventFlags::IN | ended) {
            self.read(index, ready.flags.intersects(ended))?;
        }
        Ok(())
    }

    /// Read all available bytes. Events are edge-triggered: a short read is the last one, unless
    /// the peer has closed.
    fn read(&mut self, index: usize, is_ended: bool) -> Result<()> {
        loop {
            let Some(socket) = &self.slots[index].socket else { return Ok(()) };
            let len = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE) => return self.ended(index),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("cannot read"),
            };
            self.receive(index, len)?;
            if len < self.buffer.len() && !is_ended {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, index: usize, len: usize) -> Result<()> {
        let SocketPool { slots, buffer, out, events, .. } = self;
        let slot = &mut slots[index];
        if slot.rest.is_empty() {
            let consumed = slot.conversation.receive(&buffer[..len], out, events)?;
            slot.rest.extend_from_slice(&buffer[consumed..len]);
        } else {
            slot.rest.extend_from_slice(&buffer[..len]);
            let consumed = slot.conversation.receive(&slot.rest, out, events)?;
            slot.rest.drain(..consumed);
            if slot.rest.is_empty() {
                slot.rest = Vec::new();
            }
        }
        if self.is_closing() {
            self.out.clear(); // a closing socket does not answer pings; half of them cannot send
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
        let command = self.task.as_ref().map(|task| &task.command);
        match (event, command) {
            (Event::Joined, Some(Command::Open { .. }))
            | (Event::Message, Some(Command::Broadcast))
            | (Event::HeartbeatAnswered, Some(Command::Heartbeat)) => {
                let is_first = self.mark_done(index);
                ensure!(is_first || event == Event::HeartbeatAnswered, "{event:?} arrived twice");
                Ok(())
            }
            (Event::HeartbeatAnswered, _) => Ok(()),
            (event, command) => bail!("{event:?} arrived during {command:?}"),
        }
    }

    fn is_closing(&self) -> bool {
        matches!(&self.task, Some(Task { command: Command::Close, .. }))
    }

    fn ended(&mut self, index: usize) -> Result<()> {
        let slot = &mut self.slots[index];
        match (&slot.conversation, &self.task) {
            (Conversation::PushSender(sender), _) if sender.is_answered() => slot.socket = None,
            (_, Some(Task { command: Command::Close, .. })) => {
                slot.socket = None;
                self.mark_done(index);
            }
            _ => bail!("the server closed the connection"),
        }
        Ok(())
    }

    fn mark_done(&mut self, index: usize) -> bool {
        let (slot, task) =
            (&mut self.slots[index], self.task.as_mut().expect("there is a command"));
        if std::mem::replace(&mut slot.done, true) {
            return false;
        }
        task.first_at.get_or_insert_with(Instant::now);
        task.slots_done += 1;
        true
    }

    fn send(&mut self, index: usize) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let socket = self.slots[index].socket.as_ref().context("the socket is closed")?;
        let sent = send(socket, &self.out, SendFlags::NOSIGNAL).context("cannot send")?;
        ensure!(sent == self.out.len(), "the kernel accepted {sent} of {} bytes", self.out.len());
        self.out.clear();
        Ok(())
    }
}

impl Slot {
    fn new(conversation: Conversation) -> Self {
        Slot { socket: None, conversation, connected: false, done: false, rest: Vec::new() }
    }
}
