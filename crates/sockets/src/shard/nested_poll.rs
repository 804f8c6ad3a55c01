//! An epoll inside tokio's epoll.
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

    /// Wait for an event.
    pub(super) async fn ready(&self) {
        // Readiness stays set until `take` returns false. An error means that the runtime, and so
        // this task, is ending.
        let _ = self.poll.readable().await;
    }

    /// Take pending events, up to the capacity of `events`; true if there may be more.
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
