//! The engine for the processes of one machine.

use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use watchfire_types::NodeId;

use crate::driver;
use crate::shared::{Arrival, Shared, State};
use crate::{
    Bus, BusLimits, BusTotals, Handler, Loss, NODES_MAX, Readiness, TOPIC_BYTES_MAX, Undelivered,
};

/// A bus between processes of one machine, over one stream socket for each other process.
///
/// It has one thread. Callers put what they say into the queues, under one short lock, and wake
/// the thread when it sleeps; it writes all that has come together in one call for each node.
///
/// ```
/// use std::sync::Arc;
/// use std::os::unix::net::UnixStream;
///
/// use watchfire_bus::{Bus, BusLimits, Handler, LocalBus, Loss};
/// use watchfire_types::NodeId;
///
/// struct Tells(std::sync::mpsc::Sender<String>);
///
/// impl Handler for Tells {
///     fn up(&self, _node: NodeId) {}
///     fn down(&self, _node: NodeId) {}
///     fn forgotten(&self, _: &str) {}
///     fn interested(&self, _node: NodeId, _topic: &str) {}
///     fn ready(&self, _up_to: u64) {}
///     fn message(&self, from: NodeId, message: &[u8]) {
///         let _ = self.0.send(format!("{from} says {}", String::from_utf8_lossy(message)));
///     }
/// }
///
/// let (sender, heard) = std::sync::mpsc::channel();
/// let one = LocalBus::start(NodeId(1), BusLimits::default())?;
/// let two = LocalBus::start(NodeId(2), BusLimits::default())?;
/// one.attach(Arc::new(Tells(sender.clone())));
/// two.attach(Arc::new(Tells(sender)));
///
/// let (ours, theirs) = UnixStream::pair()?;
/// one.link(NodeId(2), ours)?;
/// two.link(NodeId(1), theirs)?;
/// while one.nodes().is_empty() {
///     std::thread::yield_now();
/// }
/// one.send(NodeId(2), "hello".into(), Loss::Drop).unwrap();
/// assert_eq!(heard.recv().unwrap(), "node 1 says hello");
/// # std::io::Result::Ok(())
/// ```
pub struct LocalBus {
    shared: Arc<Shared>,
    /// The keys of the hash by which interest is asked for, outside the lock.
    hasher: RandomState,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LocalBus {
    /// Start the bus's thread. Fails for a `me` of [`NODES_MAX`] or more.
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

    /// Set the handler, before the first link.
    ///
    /// The bus keeps the handler until it is stopped; a handler that keeps the bus, too, keeps it
    /// alive until then.
    ///
    /// # Panics
    ///
    /// When the bus has a handler already.
    pub fn attach(&self, handler: Arc<dyn Handler>) {
        let before = self.shared.lock().handler.replace(handler);
        assert!(before.is_none(), "a bus has one handler");
    }

    /// Add the link to a node, or replace it: then the node is down first, and up again.
    ///
    /// Subscribes wait for the node from now on. Fails for a node of [`NODES_MAX`] or more, for
    /// this one, without a handler, and when the bus was stopped.
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
        state.arrive(Arrival { node, stream, handler });
        self.shared.wake(state);
        Ok(())
    }

    /// End all links and the thread, and let go of the handler, which is not called any more.
    ///
    /// Queued messages are written as far as the sockets take them at once.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        self.shared.wake(state);
        let thread = self.thread.lock().take();
        // From inside the handler it ends after the call.
        if let Some(thread) = thread.filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Does something under the lock, and wakes the thread if that made work for it.
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
        assert!(topic.len() <= TOPIC_BYTES_MAX, "a topic was checked before");
        self.with(|state| state.subscribe(topic))
    }

    fn unsubscribe(&self, topic: &str) {
        self.with(|state| state.unsubscribe(topic));
    }

    fn hears(&self, topic: &str) -> bool {
        self.shared.lock().interest.hears(topic)
    }

    fn publish(&self, topic: &str, message: Bytes, loss: Loss) -> usize {
        let hash = self.hasher.hash_one(topic);
        self.with(|state| {
            let nodes = state.interest.interested(hash);
            state.send_each(nodes, message, loss)
        })
    }

    fn send(&self, to: NodeId, message: Bytes, loss: Loss) -> Result<(), Undelivered> {
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
    let why = format!("{node} cannot be: a bus has nodes below {NODES_MAX}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
