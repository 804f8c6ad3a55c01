//! The bus's thread, which owns the links and the clock.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::Instant;
use tracing::{debug, error, warn};
use watchfire_types::{NodeId, VitalThread};

use crate::bus::link::{Ended, Link};
use crate::bus::shared::{NewLink, Shared, TICK};
use crate::bus::writing::Flushed;
use crate::bus::{Handler, NODES_MAX};

/// Maximum bytes of one read. All links share the buffer.
const READ_BYTES: usize = 256 * 1024;

/// The sleep when no timer is set.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The state that the tasks of the thread share.
pub(crate) struct Driver {
    pub shared: Arc<Shared>,
    pub buffer: RefCell<Box<[u8]>>,
    links: RefCell<Vec<Option<Rc<Link>>>>,
}

thread_local! {
    /// Whether this is the thread of a bus.
    static IS_BUS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs on the thread of a bus, within its handler. The thread then writes all
/// messages of the handler together.
pub(crate) fn is_bus_thread() -> bool {
    IS_BUS.get()
}

/// Runs until the bus is stopped.
pub(crate) fn run(runtime: &Runtime, shared: Arc<Shared>) {
    IS_BUS.set(true);
    let _vital = VitalThread::enter("bus");
    let driver = Rc::new(Driver {
        shared,
        buffer: RefCell::new(vec![0; READ_BYTES].into()),
        links: RefCell::new((0..NODES_MAX).map(|_| None).collect()),
    });
    let tasks = LocalSet::new();
    tasks.block_on(runtime, driver.run());
    for link in driver.links.borrow_mut().iter_mut().filter_map(Option::take) {
        let _ = link.writing.flush(&driver.shared);
        link.abort();
    }
    let mut state = driver.shared.lock();
    state.handler = None;
    state.new_links.clear();
    for node in (0..NODES_MAX).map(NodeId) {
        state.close(node);
    }
    // Dropping the tasks closes the sockets.
    drop(state);
    drop(tasks);
}

impl Driver {
    async fn run(self: &Rc<Self>) {
        let mut next_tick = None;
        loop {
            let (new_links, due) = {
                let mut state = self.shared.lock();
                if state.is_stopped {
                    return;
                }
                (std::mem::take(&mut state.new_links), std::mem::take(&mut state.due))
            };
            self.forget();
            for new_link in new_links {
                self.accept(new_link);
            }
            for node in due.iter() {
                self.write(node);
            }
            if next_tick.is_some_and(|at| at <= Instant::now()) {
                next_tick = None;
                self.tick();
            }
            let is_done = {
                let mut state = self.shared.lock();
                let needs_ticks = state.interest.needs_ticks();
                state.is_ticking = needs_ticks;
                next_tick = needs_ticks.then(|| next_tick.unwrap_or_else(|| Instant::now() + TICK));
                state.is_awake = state.has_work();
                !state.is_awake
            };
            if is_done {
                let wake_at = next_tick.unwrap_or_else(|| Instant::now() + FOREVER);
                tokio::select! {
                    () = self.shared.awake.notified() => {}
                    () = tokio::time::sleep_until(wake_at) => {}
                }
                self.shared.lock().is_awake = true;
            } else {
                // Let the links read.
                tokio::task::yield_now().await;
            }
        }
    }

    fn accept(self: &Rc<Self>, new_link: NewLink) {
        let NewLink { node, stream, handler } = new_link;
        let replaced = self.take_link(node);
        if let Some(replaced) = &replaced {
            replaced.abort();
        }
        let link = match Link::new(node, stream, handler) {
            Ok(link) => Rc::new(link),
            Err(error) => {
                error!(%node, %error, "cannot use a link's socket");
                return self.closed(node, replaced.as_deref());
            }
        };
        self.shared.lock().open(node, link.writing.clone());
        if let Some(replaced) = replaced {
            debug!(%node, "link replaced");
            call(&*replaced.handler, |handler| handler.down(node));
        }
        self.links.borrow_mut()[usize::from(node.0)] = Some(link.clone());
        debug!(%node, "link up");
        call(&*link.handler, |handler| handler.up(node));
        let ready_up_to = self.shared.lock().announce_all(node);
        notify_ready(&*link.handler, ready_up_to);
        let driver = self.clone();
        let task = tokio::task::spawn_local({
            let link = link.clone();
            async move {
                let _vital = VitalThread::enter("bus");
                let ended = link.run(&driver).await;
                driver.end(&link, ended);
            }
        });
        link.set_task(task);
    }

    /// Writes a node's queue.
    fn write(&self, node: NodeId) {
        let Some(link) = self.links.borrow()[usize::from(node.0)].clone() else { return };
        match link.writing.flush(&self.shared) {
            Flushed::All | Flushed::Stalled | Flushed::Broken => {}
            Flushed::Part => {
                self.shared.lock().due.insert(node);
            }
            Flushed::Cut => self.end(&link, Ended::Full),
        }
    }

    /// Ends a link, unless it has already been replaced.
    pub fn end(&self, link: &Rc<Link>, ended: Ended) {
        let node = link.node;
        if !self.links.borrow()[usize::from(node.0)].as_ref().is_some_and(|it| Rc::ptr_eq(it, link))
        {
            return;
        }
        self.take_link(node);
        link.abort();
        match ended {
            Ended::Eof | Ended::Io(_) => debug!(%node, %ended, "link down"),
            Ended::Full | Ended::Malformed(_) | Ended::UnexpectedAck | Ended::Panicked => {
                warn!(%node, %ended, "link cut");
                self.shared.lock().counted.cuts += 1;
            }
        }
        self.closed(node, Some(link));
    }

    fn take_link(&self, node: NodeId) -> Option<Rc<Link>> {
        self.links.borrow_mut()[usize::from(node.0)].take()
    }

    fn closed(&self, node: NodeId, link: Option<&Link>) {
        let ready_up_to = self.shared.lock().close(node);
        if let Some(link) = link {
            call(&*link.handler, |handler| handler.down(node));
        }
        let handler = self.shared.lock().handler.clone();
        if let Some(handler) = handler {
            notify_ready(&*handler, ready_up_to);
        }
    }

    /// Reports withdrawn topics to the handler.
    pub fn forget(&self) {
        let (forgotten, handler) = {
            let mut state = self.shared.lock();
            (std::mem::take(&mut state.forgotten), state.handler.clone())
        };
        if let Some(handler) = handler {
            for topic in forgotten {
                call(&*handler, |handler| handler.forgotten(&topic));
            }
        }
    }

    fn tick(&self) {
        let (ready_up_to, handler) = {
            let mut state = self.shared.lock();
            let ticked = state.interest.tick();
            state.counted.late += ticked.late;
            for topic in ticked.withdrawn {
                state.withdraw(topic);
            }
            (ticked.ready_up_to, state.handler.clone())
        };
        if let Some(handler) = handler {
            notify_ready(&*handler, ready_up_to);
        }
    }
}

/// Reports ready subscriptions to the handler.
pub(crate) fn notify_ready(handler: &dyn Handler, ready_up_to: Option<u64>) {
    if let Some(up_to) = ready_up_to {
        call(handler, |handler| handler.ready(up_to));
    }
}

/// Calls the handler. Returns whether it returned normally: a panic must not end the thread, which
/// serves all links.
pub(crate) fn call(handler: &dyn Handler, work: impl FnOnce(&dyn Handler)) -> bool {
    let has_returned = panic::catch_unwind(AssertUnwindSafe(|| work(handler))).is_ok();
    if !has_returned {
        error!("the handler of the bus panicked");
    }
    has_returned
}
