//! An epoll inside tokio's epoll.
//!
//! # The reason
//!
//! tokio's own sockets would need a task and a registration for each connection: several hundred
//! bytes, against the 40 bytes of a record. With a million idle clients that is some hundreds of
//! megabytes which do nothing. A thread that only waits in an epoll of its own has no such cost, but
//! then hyper, TLS and timers need a second thread, and each request would cross threads twice.
//!
//! So the shard has an epoll of its own, and tokio watches this epoll as one descriptor. An epoll is
//! readable while it holds events. tokio then wakes one task, the shard, for all sockets.
//!
//! # The rule, and an example
//!
//! Both epolls report edges: a descriptor is reported when something new happens, and not again
//! because something is left. Two levels must therefore be drained, or remembered:
//!
//! - **Events of the inner epoll.** `take` reads at most 256 events (the capacity of `events`). tokio
//!   forgets that the inner epoll is readable only after a `take` that found fewer. If 300 sockets
//!   become readable together, the first `take` returns 256 and the second one 44. Without the rule,
//!   tokio would forget after the first, and 44 clients would wait until some other socket has an
//!   event, which on a quiet server may take minutes. The price is one empty `take` whenever exactly
//!   256 events were left.
//! - **Bytes of a socket.** A socket whose bytes were not all read is not reported again. The shard
//!   keeps its id in `read_queue.rs`.
//!
//! # The bound
//!
//! One turn takes 256 events and reads for at most 5 ms. While more is left, the shard yields to
//! tokio between two turns, so that HTTP and TLS tasks of this thread run. Being woken costs one more
//! system call than a plain epoll, for up to 256 events together.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use mio::{Events, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shard's own epoll, which tokio watches as one descriptor. So sockets need no task, and
/// everything else on the thread is ordinary tokio.
pub(super) struct NestedPoll {
    poll: AsyncFd<Poll>,
}

impl NestedPoll {
    pub(super) fn new(poll: Poll) -> io::Result<Self> {
        // SAFETY: the descriptor of a `mio::Poll` stays open and unchanged until the `Poll` is
        // dropped. `AsyncFd` drops it after deregistration; no code here moves or replaces it.
        let poll = unsafe { AsyncFd::register_with_interest(poll, Interest::READABLE) }?;
        Ok(NestedPoll { poll })
    }

    pub(super) async fn ready(&self) {
        // Readiness stays set until `take` returns false. An error means that the runtime, and so
        // this task, is ending.
        let _ = self.poll.readable().await;
    }

    /// Takes pending events, up to the capacity of `events`; true if there may be more.
    pub(super) fn take(&mut self, events: &mut Events) -> bool {
        events.clear();
        let taken = self.poll.try_io_mut(Interest::READABLE, |poll| {
            poll.poll(events, Some(Duration::ZERO))?;
            // Fewer than the capacity: no event is left, so tokio must watch again.
            let is_full = events.iter().count() == events.capacity();
            if is_full { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        taken.is_ok()
    }
}
