//! An epoll inside tokio's epoll.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use mio::{Events, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shard's own epoll, which tokio watches as one descriptor: its sockets need no task each,
/// and all else on the thread is ordinary tokio.
pub(super) struct NestedPoll {
    poll: AsyncFd<Poll>,
}

impl NestedPoll {
    pub(super) fn new(poll: Poll) -> io::Result<Self> {
        // SAFETY: the descriptor of a `mio::Poll` is open and the same until it is dropped, which
        // `AsyncFd` does, after its own end; nothing here takes the `Poll` out or replaces it.
        let poll = unsafe { AsyncFd::register_with_interest(poll, Interest::READABLE) }?;
        Ok(NestedPoll { poll })
    }

    /// Wait for an event.
    pub(super) async fn ready(&self) {
        // The readiness is kept until `take` finds less than it asked for. An error can only mean
        // that the runtime is ending, and this task with it.
        let _ = self.poll.readable().await;
    }

    /// Take the events that are there, as many as fit; true when there may be more.
    pub(super) fn take(&mut self, events: &mut Events) -> bool {
        events.clear();
        let taken = self.poll.try_io_mut(Interest::READABLE, |poll| {
            poll.poll(events, Some(Duration::ZERO))?;
            // Fewer than requested: nothing is left, so tokio must watch again.
            let is_full = events.iter().count() == events.capacity();
            if is_full { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        taken.is_ok()
    }
}
