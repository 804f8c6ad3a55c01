//! A shard: the event loop of one core's sockets.

mod accept;
mod drain;
mod nested_poll;
mod proxied;
mod read;
mod read_queue;
mod request;
mod timeouts;
mod websocket;

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mio::Events;
use tokio::sync::{mpsc, watch};
use tokio::time::{Sleep, sleep};
use watchfire_types::{Instant, ShardId};

use self::accept::Acceptors;
use self::drain::Drain;
use self::nested_poll::NestedPoll;
pub(crate) use self::proxied::TrustedProxies;
use self::read_queue::ReadQueue;
use self::timeouts::Sweep;
use crate::counters::SocketCounters;
use crate::handler::SocketHandler;
use crate::handoff::Moved;
use crate::http::{Lender, Next, Returned, Returns};
use crate::limits::SocketLimits;
use crate::shard_sender::ShardReceiver;
use crate::shard_sockets::{Clock, Sockets, socket_of};
use crate::tls::{TlsAcceptor, TlsTerminator};

/// Events taken from the epoll in one turn; HTTP runs between two turns.
const EVENTS_PER_TURN: usize = 256;

/// Messages given to the handler in one turn.
const MESSAGES_PER_TURN: usize = 256;

/// The buffer that all sockets of a shard are read into.
const READ_BYTES: usize = 64 * 1024;
/// Time after which a turn reads no further socket. So clients that send as fast as they can do not keep
/// messages to other clients waiting.
const READ_TIME: Duration = Duration::from_millis(5);

/// The period in which the handler is ticked and a part of the slab is swept.
const TICK: Duration = Duration::from_millis(100);

/// The state of the socket server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lifecycle {
    /// Connections from other processes are served; new ones wait in the listeners.
    Paused,
    Running,
    Draining {
        period: Duration,
    },
}

/// The shard's connections to the other threads.
pub(crate) struct Threads {
    pub(crate) shard: ShardId,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<SocketLimits>,
    pub(crate) counters: Arc<SocketCounters>,
    /// Senders to every shard, including this one.
    pub(crate) movers: Vec<mpsc::Sender<Moved>>,
    pub(crate) moves: mpsc::Receiver<Moved>,
    pub(crate) lifecycle: watch::Receiver<Lifecycle>,
}

/// A shard with its system resources, before its thread starts.
pub(crate) struct Prepared<M> {
    threads: Threads,
    listeners: Vec<OwnedFd>,
    acceptor: Option<TlsAcceptor>,
    proxies: Arc<TrustedProxies>,
    messages: ShardReceiver<M>,
    poll: mio::Poll,
}

/// One core's sockets, and the handler behind them.
pub(crate) struct EventLoop<T: SocketHandler> {
    handler: T,
    sockets: Sockets,
    threads: Threads,
    nested_poll: NestedPoll,
    events: Events,
    buffer: Box<[u8]>,
    handshake: Vec<u8>,
    acceptors: Acceptors,
    proxies: Arc<TrustedProxies>,
    read_queue: ReadQueue,
    messages: ShardReceiver<T::Message>,
    returns: Rc<Returns>,
    lender: Lender,
    sweep: Sweep,
    drain: Option<Drain>,
    /// Whether new connections wait in the listeners.
    is_paused: bool,
    next_tick: Instant,
    /// The number of moves of the connection that is being handled.
    hops: u8,
    /// The number of connections from which new ones are offered to other processes.
    crowded_from: u64,
}

/// The reason why a shard woke up.
enum Woken<M> {
    Events,
    Message(Option<M>),
    Moved(Option<Moved>),
    Returned,
    Tick,
    Lifecycle(bool),
}

impl<T: SocketHandler> EventLoop<T> {
    /// Allocates the system resources, so that a failure prevents the server's start.
    pub(crate) fn prepare(
        threads: Threads,
        listeners: Vec<OwnedFd>,
        acceptor: Option<TlsAcceptor>,
        proxies: Arc<TrustedProxies>,
        messages: ShardReceiver<T::Message>,
    ) -> io::Result<Prepared<T::Message>> {
        Ok(Prepared { threads, listeners, acceptor, proxies, messages, poll: mio::Poll::new()? })
    }
}

impl<M: Send + 'static> Prepared<M> {
    /// Runs until the socket server is dropped or drained.
    pub(crate) async fn run<T: SocketHandler<Message = M>>(
        self,
        router: Router,
        make: impl FnOnce(ShardId) -> T,
    ) {
        let shard = self.threads.shard;
        match self.into_shard(router, make) {
            Ok(shard) => shard.run().await,
            Err(error) => tracing::error!(shard = shard.0, %error, "cannot start a shard"),
        }
    }

    fn into_shard<T: SocketHandler<Message = M>>(
        self,
        router: Router,
        make: impl FnOnce(ShardId) -> T,
    ) -> io::Result<EventLoop<T>> {
        let Prepared { threads, listeners, acceptor, proxies, messages, poll } = self;
        let (shard, limits, counters) =
            (threads.shard, threads.limits.clone(), threads.counters.clone());
        let returns = Rc::new(Returns::default());
        let terminator = |acceptor| {
            let (returns, limits) = (returns.clone(), limits.clone());
            TlsTerminator::new(acceptor, returns, limits, counters.clone(), shard)
        };
        let tls = acceptor.map(terminator);
        let lender = Lender {
            router,
            returns: returns.clone(),
            limits: limits.clone(),
            counters: counters.clone(),
            shard,
        };
        let registry = poll.registry().try_clone()?;
        let is_paused = *threads.lifecycle.borrow() == Lifecycle::Paused;
        Ok(EventLoop {
            handler: make(shard),
            acceptors: Acceptors::open(listeners, &registry, tls, proxies.listeners())?,
            proxies,
            sockets: Sockets::new(shard, limits.clone(), counters, registry, threads.clock),
            nested_poll: NestedPoll::new(poll)?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            handshake: Vec::new(),
            read_queue: ReadQueue::default(),
            messages,
            returns,
            lender,
            sweep: Sweep::new(&limits),
            drain: None,
            is_paused,
            next_tick: threads.clock.now() + TICK,
            hops: 0,
            crowded_from: accept::crowded_from(limits.sockets_max, threads.movers.len()),
            threads,
        })
    }
}

impl<T: SocketHandler> EventLoop<T> {
    async fn run(mut self) {
        let mut timer = Box::pin(sleep(TICK));
        loop {
            let has_more = self.turn();
            if self.is_over() {
                return;
            }
            if has_more {
                // Let HTTP and TLS tasks run, and tokio poll its descriptors.
                tokio::task::yield_now().await;
            }
            let woken = match has_more {
                true => self.check_lifecycle(),
                false => Some(self.wait(timer.as_mut()).await),
            };
            match woken {
                Some(Woken::Message(Some(message))) => self.deliver(message),
                Some(Woken::Moved(Some(moved))) => self.adopt_moved(moved),
                Some(Woken::Lifecycle(false)) => return,
                Some(Woken::Lifecycle(true)) => self.follow_lifecycle(),
                _ => {}
            }
        }
    }

    /// Sleeps until an event, a message or the next tick.
    async fn wait(&mut self, mut timer: Pin<&mut Sleep>) -> Woken<T::Message> {
        let until_tick = self.next_tick.since(self.threads.clock.now());
        timer.as_mut().reset(tokio::time::Instant::now() + until_tick);
        tokio::select! {
            () = self.nested_poll.ready() => Woken::Events,
            () = self.returns.notify.notified() => Woken::Returned,
            message = self.messages.recv(), if !self.messages.is_closed() => Woken::Message(message),
            moved = self.threads.moves.recv() => Woken::Moved(moved),
            () = timer => Woken::Tick,
            changed = self.threads.lifecycle.changed() => Woken::Lifecycle(changed.is_ok()),
        }
    }

    /// Checks for a change of [`Lifecycle`], without waiting.
    fn check_lifecycle(&mut self) -> Option<Woken<T::Message>> {
        match self.threads.lifecycle.has_changed() {
            Ok(false) => None,
            changed => Some(Woken::Lifecycle(changed.is_ok())),
        }
    }

    /// Does a bounded amount of each kind of work; true if work is left.
    fn turn(&mut self) -> bool {
        self.sockets.set_now(self.threads.clock.now());
        let more_events = self.handle_events();
        let more_accepts = !self.is_paused && self.accept();
        self.handle_read_queue();
        self.handle_returned();
        self.handle_messages();
        if self.next_tick <= self.sockets.now() {
            self.handle_tick();
        }
        if self.sockets.take_relieved() {
            self.read_unread();
            self.handler.handle_relief(&mut self.sockets);
            self.settle();
        }
        self.handle_resumed();
        let more_work = self.handler.run_pending_work(&mut self.sockets);
        self.settle();
        more_events || more_accepts || more_work || self.read_queue.len() > 0
    }

    fn handle_events(&mut self) -> bool {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let has_more = self.nested_poll.take(&mut events);
        for event in &events {
            if self.acceptors.note_ready(event.token()) {
                continue;
            }
            let id = socket_of(event.token());
            if event.is_writable() {
                self.sockets.flush(id);
            }
            let is_ending = event.is_read_closed() || event.is_error();
            if event.is_readable() || is_ending {
                match self.has_read_enough() {
                    true => self.read_queue.push(id),
                    false => self.read(id, is_ending),
                }
            }
        }
        self.settle();
        self.events = events;
        has_more
    }

    fn handle_read_queue(&mut self) {
        for _ in 0..self.read_queue.len() {
            if let Some(id) = self.read_queue.pop() {
                self.read(id, true);
            }
            if self.has_read_enough() {
                break;
            }
        }
    }

    /// Whether this turn must go on to other work. At least one socket is read in each turn.
    fn has_read_enough(&self) -> bool {
        self.sockets.elapsed(self.sockets.now()) >= READ_TIME
    }

    fn handle_returned(&mut self) {
        while let Some(returned) = self.returns.pop() {
            self.adopt_returned(returned);
        }
    }

    fn handle_messages(&mut self) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(message) = self.messages.try_recv() else { break };
            self.deliver(message);
        }
        while let Ok(moved) = self.threads.moves.try_recv() {
            self.adopt_moved(moved);
        }
    }

    fn handle_tick(&mut self) {
        self.next_tick = self.sockets.now() + TICK;
        self.sockets.count().ticks.add(1);
        self.sockets.count().tls_now.set(self.returns.tls_now.get() as u64);
        self.acceptors.retry();
        self.read_unread();
        let now = self.sockets.now();
        self.handler.handle_tick(&mut self.sockets, now);
        self.settle();
        self.sweep();
        self.drain_some();
    }

    /// Reads the sockets again whose own queue was too long.
    fn read_unread(&mut self) {
        for id in self.sockets.take_unread() {
            self.read_queue.push(id);
        }
    }

    fn handle_resumed(&mut self) {
        while let Some((id, held)) = self.sockets.next_opened() {
            self.begin_frames(id, held);
        }
        while let Some(id) = self.sockets.next_resumed() {
            self.resume(id);
        }
    }

    fn deliver(&mut self, message: T::Message) {
        self.handler.handle_message(&mut self.sockets, message);
        self.settle();
        // Before more bytes of an opened socket are read.
        self.handle_resumed();
    }

    /// Notifies the handler of closed sockets, and frees their slots.
    fn settle(&mut self) {
        while let Some((id, key, cause)) = self.sockets.next_pending_close() {
            self.handler.handle_close(&mut self.sockets, id, key, cause);
        }
        self.sockets.free_dead();
    }

    /// Adopts a connection that hyper returned, or one whose TLS handshake is complete.
    fn adopt_returned(&mut self, returned: Returned) {
        let Returned { fd, mut bytes, client, counted, next } = returned;
        let is_reused = next != Next::First;
        let id = match self.sockets.adopt(fd, client, is_reused, counted) {
            Ok(id) => id,
            Err(error) => {
                return tracing::warn!(%error, "cannot add a returned connection to the epoll");
            }
        };
        if next == Next::End || (is_reused && self.drain.is_some()) {
            self.sockets.linger(id);
        } else {
            self.feed(id, &mut bytes);
        }
        self.settle();
    }
}
