//! A shard: the loop that turns one core's sockets.

mod accept;
mod again;
mod drain;
mod nested;
mod read;
mod request;
mod sweep;
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
use tokio_rustls::TlsAcceptor;
use vocab::{Instant, ShardId};

use self::accept::Doors;
use self::again::Again;
use self::drain::Drain;
use self::nested::Nested;
use self::sweep::Sweep;
use crate::counters::EdgeCounters;
use crate::http::{Lender, Next, Returned, Returns};
use crate::parcel::Moved;
use crate::settings::EdgeLimits;
use crate::sockets::{Sockets, socket_of};
use crate::tenant::Tenant;
use crate::tls::TlsDoor;

/// Events taken from the epoll in one turn; HTTP runs between two turns.
const EVENTS_PER_TURN: usize = 256;

/// Mail given to the tenant in one turn.
const MAIL_PER_TURN: usize = 256;

/// The buffer that all sockets of a shard are read into.
const READ_BYTES: usize = 64 * 1024;

/// How often the tenant is ticked and a part of the slab swept.
const TICK: Duration = Duration::from_millis(100);

/// The clock that all shards of an edge share.
#[derive(Clone, Copy)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Clock(std::time::Instant::now())
    }

    fn now(self) -> Instant {
        Instant::ZERO + self.0.elapsed()
    }
}

/// How far the edge is in its life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lifecycle {
    Running,
    Draining { period: Duration },
}

/// What ties a shard to the other threads.
pub(crate) struct Threads {
    pub(crate) shard: ShardId,
    pub(crate) clock: Clock,
    pub(crate) limits: Arc<EdgeLimits>,
    pub(crate) counters: Arc<EdgeCounters>,
    /// To every shard, this one too.
    pub(crate) movers: Vec<mpsc::Sender<Moved>>,
    pub(crate) moves: mpsc::Receiver<Moved>,
    pub(crate) lifecycle: watch::Receiver<Lifecycle>,
}

/// A shard that has all it needs from the system, and no thread yet.
pub(crate) struct Prepared<M> {
    threads: Threads,
    listeners: Vec<OwnedFd>,
    acceptor: Option<TlsAcceptor>,
    mail: mpsc::Receiver<M>,
    poll: mio::Poll,
}

/// One core's sockets, and the tenant behind them.
pub(crate) struct Shard<T: Tenant> {
    tenant: T,
    sockets: Sockets,
    threads: Threads,
    nested: Nested,
    events: Events,
    buffer: Box<[u8]>,
    /// The answer to the handshake that is just being judged.
    handshake: Vec<u8>,
    doors: Doors,
    again: Again,
    mail: mpsc::Receiver<T::Mail>,
    returns: Rc<Returns>,
    lender: Lender,
    sweep: Sweep,
    drain: Option<Drain>,
    next_tick: Instant,
    /// How often the connection that is just being looked at was moved.
    hops: u8,
    /// From how many connections on newcomers are offered to other processes.
    crowded_from: u64,
}

/// Why a shard woke up.
enum Woken<M> {
    Events,
    Mail(Option<M>),
    Moved(Option<Moved>),
    Returned,
    Tick,
    Lifecycle(bool),
}

impl<T: Tenant> Shard<T> {
    /// Ask the system for what can be refused.
    pub(crate) fn prepare(
        threads: Threads,
        listeners: Vec<OwnedFd>,
        acceptor: Option<TlsAcceptor>,
        mail: mpsc::Receiver<T::Mail>,
    ) -> io::Result<Prepared<T::Mail>> {
        Ok(Prepared { threads, listeners, acceptor, mail, poll: mio::Poll::new()? })
    }
}

impl<M: Send + 'static> Prepared<M> {
    /// Run until the edge is dropped or drained.
    pub(crate) async fn run<T: Tenant<Mail = M>>(
        self,
        router: Router,
        make: impl FnOnce(ShardId) -> T,
    ) {
        let shard = self.threads.shard;
        match self.furnish(router, make) {
            Ok(shard) => shard.run().await,
            Err(error) => tracing::error!(shard = shard.0, %error, "a shard could not start"),
        }
    }

    fn furnish<T: Tenant<Mail = M>>(
        self,
        router: Router,
        make: impl FnOnce(ShardId) -> T,
    ) -> io::Result<Shard<T>> {
        let Prepared { threads, listeners, acceptor, mail, poll } = self;
        let (shard, limits, counters) =
            (threads.shard, threads.limits.clone(), threads.counters.clone());
        let returns = Rc::new(Returns::default());
        let tls = acceptor.map(|acceptor| TlsDoor {
            acceptor,
            returns: returns.clone(),
            limits: limits.clone(),
            counters: counters.clone(),
            shard,
        });
        let lender = Lender {
            router,
            returns: returns.clone(),
            limits: limits.clone(),
            counters: counters.clone(),
            shard,
        };
        let registry = poll.registry().try_clone()?;
        Ok(Shard {
            tenant: make(shard),
            doors: Doors::open(listeners, &registry, tls)?,
            sockets: Sockets::new(shard, limits.clone(), counters, registry),
            nested: Nested::new(poll)?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            handshake: Vec::new(),
            again: Again::default(),
            mail,
            returns,
            lender,
            sweep: Sweep::new(&limits),
            drain: None,
            next_tick: threads.clock.now() + TICK,
            hops: 0,
            crowded_from: accept::crowded_from(limits.sockets_max, threads.movers.len()),
            threads,
        })
    }
}

impl<T: Tenant> Shard<T> {
    async fn run(mut self) {
        let mut timer = Box::pin(sleep(TICK));
        loop {
            let has_more = self.turn();
            if self.is_over() {
                return;
            }
            if has_more {
                // Let HTTP and TLS tasks run, and tokio look at its descriptors.
                tokio::task::yield_now().await;
            }
            let woken = match has_more {
                true => self.glance(),
                false => Some(self.wait(timer.as_mut()).await),
            };
            match woken {
                Some(Woken::Mail(Some(mail))) => self.deliver(mail),
                Some(Woken::Moved(Some(moved))) => self.adopt_moved(moved),
                Some(Woken::Lifecycle(false)) => return,
                Some(Woken::Lifecycle(true)) => self.follow_lifecycle(),
                _ => {}
            }
        }
    }

    /// Sleep until something happens.
    async fn wait(&mut self, mut timer: Pin<&mut Sleep>) -> Woken<T::Mail> {
        let until_tick = self.next_tick.since(self.threads.clock.now());
        timer.as_mut().reset(tokio::time::Instant::now() + until_tick);
        tokio::select! {
            () = self.nested.ready() => Woken::Events,
            () = self.returns.bell.notified() => Woken::Returned,
            mail = self.mail.recv(), if !self.mail.is_closed() => Woken::Mail(mail),
            moved = self.threads.moves.recv() => Woken::Moved(moved),
            () = timer => Woken::Tick,
            changed = self.threads.lifecycle.changed() => Woken::Lifecycle(changed.is_ok()),
        }
    }

    /// See whether the edge's life went on, without waiting.
    fn glance(&mut self) -> Option<Woken<T::Mail>> {
        match self.threads.lifecycle.has_changed() {
            Ok(false) => None,
            changed => Some(Woken::Lifecycle(changed.is_ok())),
        }
    }

    /// Do what there is to do, a bounded bit of each kind; true when some is left.
    fn turn(&mut self) -> bool {
        self.sockets.set_now(self.threads.clock.now());
        let more_events = self.handle_events();
        let more_accepts = self.accept();
        self.handle_again();
        self.handle_returned();
        self.handle_mail();
        if self.next_tick <= self.sockets.now() {
            self.handle_tick();
        }
        self.handle_resumed();
        let more_work = self.tenant.work(&mut self.sockets);
        self.settle();
        more_events || more_accepts || more_work || self.again.len() > 0
    }

    fn handle_events(&mut self) -> bool {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let has_more = self.nested.take(&mut events);
        for event in &events {
            if self.doors.knock(event.token()) {
                continue;
            }
            let id = socket_of(event.token());
            if event.is_writable() {
                self.sockets.flush(id);
            }
            let is_ending = event.is_read_closed() || event.is_error();
            if event.is_readable() || is_ending {
                self.read(id, is_ending);
            }
        }
        self.settle();
        self.events = events;
        has_more
    }

    fn handle_again(&mut self) {
        for _ in 0..self.again.len() {
            if let Some(id) = self.again.pop() {
                self.read(id, true);
            }
        }
    }

    fn handle_returned(&mut self) {
        while let Some(returned) = self.returns.pop() {
            self.take_back(returned);
        }
    }

    fn handle_mail(&mut self) {
        for _ in 0..MAIL_PER_TURN {
            let Ok(mail) = self.mail.try_recv() else { break };
            self.deliver(mail);
        }
        while let Ok(moved) = self.threads.moves.try_recv() {
            self.adopt_moved(moved);
        }
    }

    fn handle_tick(&mut self) {
        self.next_tick = self.sockets.now() + TICK;
        self.doors.retry();
        let now = self.sockets.now();
        self.tenant.tick(&mut self.sockets, now);
        self.settle();
        self.sweep();
        self.drain_some();
    }

    fn handle_resumed(&mut self) {
        while let Some(id) = self.sockets.next_resumed() {
            self.resume(id);
        }
    }

    fn deliver(&mut self, mail: T::Mail) {
        self.tenant.mail(&mut self.sockets, mail);
        self.settle();
    }

    /// Tell the tenant who is gone, and free their slots.
    fn settle(&mut self) {
        while let Some((id, key, cause)) = self.sockets.next_farewell() {
            self.tenant.close(&mut self.sockets, id, key, cause);
        }
        self.sockets.free_dead();
    }

    /// Take a connection in that was lent to hyper, or whose TLS is ended by a task.
    fn take_back(&mut self, returned: Returned) {
        let Returned { fd, mut bytes, pair_peer, place, next } = returned;
        let is_reused = next != Next::First;
        let id = match self.sockets.adopt(fd, pair_peer, is_reused, place) {
            Ok(id) => id,
            Err(error) => return tracing::warn!(%error, "a connection was not taken back"),
        };
        if next == Next::End || (is_reused && self.drain.is_some()) {
            self.sockets.linger(id);
        } else {
            self.feed(id, &mut bytes);
        }
        self.settle();
    }
}
