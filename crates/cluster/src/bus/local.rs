//! The bus for the processes of one machine.

use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::Bytes;
use watchfire_types::NodeId;

use crate::bus::driver;
use crate::bus::shared::{NewLink, Shared, State};
use crate::bus::{
    Bus, BusLimits, BusTotals, Handler, Loss, NODES_MAX, NodeQueue, Readiness, SendError,
    TOPIC_BYTES_MAX,
};

/// A bus between processes of one machine, over one stream socket for each other process.
///
/// It has one thread. Callers append to queues under one short lock, and wake the thread if it
/// sleeps. The thread writes all messages queued for a node in one system call. A single message for
/// one node is written by its caller, without the thread.
///
/// ```
/// use std::sync::Arc;
/// use std::os::unix::net::UnixStream;
///
/// use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss};
/// use watchfire_types::NodeId;
///
/// struct Forward(std::sync::mpsc::Sender<String>);
///
/// impl Handler for Forward {
///     fn up(&self, _node: NodeId) {}
///     fn down(&self, _node: NodeId) {}
///     fn forgotten(&self, _: &str) {}
///     fn interested(&self, _node: NodeId, _topic: &str) {}
///     fn ready(&self, _up_to: u64) {}
///     fn message(&self, from: NodeId, message: &[u8]) {
///         let _ = self.0.send(format!("{from}: {}", String::from_utf8_lossy(message)));
///     }
/// }
///
/// let (sender, received) = std::sync::mpsc::channel();
/// let one = LocalBus::start(NodeId(1), BusLimits::default())?;
/// let two = LocalBus::start(NodeId(2), BusLimits::default())?;
/// one.attach(Arc::new(Forward(sender.clone())));
/// two.attach(Arc::new(Forward(sender)));
///
/// let (ours, theirs) = UnixStream::pair()?;
/// one.link(NodeId(2), ours)?;
/// two.link(NodeId(1), theirs)?;
/// while one.nodes().is_empty() {
///     std::thread::yield_now();
/// }
/// one.send(NodeId(2), "hello".into(), Loss::Drop).unwrap();
/// assert_eq!(received.recv().unwrap(), "node 1: hello");
/// # std::io::Result::Ok(())
/// ```
pub struct LocalBus {
    shared: Arc<Shared>,
    /// The hash keys of topics, for hashing outside the lock.
    hasher: RandomState,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LocalBus {
    /// Starts the bus's thread. Fails if `me` is [`NODES_MAX`] or more.
    pub fn start(me: NodeId, limits: BusLimits) -> io::Result<LocalBus> {
        check(me)?;
        let hasher = RandomState::new();
        let shared = Arc::new(Shared::new(me, limits, hasher.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("bus".into()).spawn({
            let shared = shared.clone();
            move || driver::run(&runtime, shared)
        })?;
        Ok(LocalBus { shared, hasher, thread: Mutex::new(Some(thread)) })
    }

    /// Sets the handler, before the first link.
    ///
    /// The bus keeps the handler until it is stopped. So a handler that keeps the bus keeps it
    /// alive until then.
    ///
    /// # Panics
    ///
    /// When the bus has a handler already.
    pub fn attach(&self, handler: Arc<dyn Handler>) {
        let before = self.shared.lock().handler.replace(handler);
        assert!(before.is_none(), "a bus has one handler");
    }

    /// Adds the link to a node. An existing link is replaced: the node is down first, then up.
    ///
    /// Subscriptions wait for the node from now on. Fails for a node of [`NODES_MAX`] or more, for
    /// the own node, without a handler, and on a stopped bus.
    pub fn link(&self, node: NodeId, stream: UnixStream) -> io::Result<()> {
        check(node)?;
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if node == self.shared.me {
            return refuse("a node has no link to itself");
        }
        stream.set_nonblocking(true)?;
        let mut state = self.shared.lock();
        if state.is_stopped {
            return refuse("the bus has been stopped");
        }
        let Some(handler) = state.handler.clone() else {
            return refuse("a bus needs a handler before its first link");
        };
        state.add_link(NewLink { node, stream, handler });
        self.shared.wake(state);
        Ok(())
    }

    /// Whether there is a link to this node, or one is about to be used. After [`Handler::down`], it replaces the one that
    /// ended.
    pub fn has_link(&self, node: NodeId) -> bool {
        self.shared.lock().interest.is_peer(node)
    }

    /// Ends all links and the thread, and drops the handler, which is not called any more.
    ///
    /// Queued messages are written as far as the sockets accept them without waiting.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        self.shared.wake(state);
        let thread = self.thread.lock().take();
        // Inside the handler the thread cannot join itself; it ends after this call.
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Runs `work` under the lock, and wakes the thread if there is new work for it.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.lock();
        let result = work(&mut state);
        self.shared.wake(state);
        result
    }
}

impl Bus for LocalBus {
    fn me(&self) -> NodeId {
        self.shared.me
    }

    fn subscribe(&self, topic: &str) -> Readiness {
        assert!(topic.len() <= TOPIC_BYTES_MAX, "the topic is too long");
        self.with(|state| state.subscribe(topic))
    }

    fn unsubscribe(&self, topic: &str) {
        self.with(|state| state.unsubscribe(topic));
    }

    fn is_subscribed(&self, topic: &str) -> bool {
        self.shared.lock().interest.is_announced(topic)
    }

    fn publish(&self, topic: &str, message: Bytes, loss: Loss) -> usize {
        let hash = self.hasher.hash_one(topic);
        self.with(|state| {
            let nodes = state.interest.interested(hash);
            state.send_each(nodes, message, loss)
        })
    }

    fn send(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError> {
        let mut state = self.shared.lock();
        let sent = state.send(to, message, loss);
        let may_write = sent.is_ok() && !driver::is_bus_thread();
        let writing = may_write.then(|| state.writing_if_idle(to, Instant::now())).flatten();
        self.shared.wake(state);
        if let Some(writing) = writing {
            writing.write_now(&self.shared);
        }
        sent
    }

    fn send_in_turn(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), SendError> {
        self.with(|state| state.send(to, message, loss))
    }

    fn send_all(&self, message: Bytes, loss: Loss) {
        self.with(|state| {
            let nodes = state.up();
            state.send_each(nodes, message, loss);
        });
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.shared.lock().up().iter().collect()
    }

    fn totals(&self) -> BusTotals {
        self.shared.lock().totals()
    }

    fn queues(&self) -> Vec<NodeQueue> {
        self.shared.lock().queues()
    }
}

impl Drop for LocalBus {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check(node: NodeId) -> io::Result<()> {
    if node.0 < NODES_MAX {
        return Ok(());
    }
    let why = format!("invalid {node}: ids must be below {NODES_MAX}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
