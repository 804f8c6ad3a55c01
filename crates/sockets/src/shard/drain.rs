//! Draining: a shard closes its WebSockets spread over time.

use std::time::Duration;

use watchfire_types::Instant;

use super::{EventLoop, Lifecycle};
use crate::counters::CloseCause;
use crate::handler::SocketHandler;
use crate::record::State;

/// How long a connection that was accepted just before the drain may take to send its request, in
/// ticks. The client does not know of the drain, so it would take a disconnect for a failure.
const FIRST_REQUEST_TICKS: u32 = 10;

/// Turns in which a drain accepts the connections that wait in the listeners. One turn accepts at
/// most 64 from each, so this is more than the longest backlog; a flood cannot extend it.
const ACCEPT_TURNS_MAX: usize = 1024;

pub(super) struct Drain {
    began: Instant,
    period: Duration,
    /// WebSockets and event streams that were open when the drain began.
    total: usize,
    closed: usize,
    /// The slot to look at next.
    next: usize,
}

impl Drain {
    /// The number of these that should be closed by now.
    fn wanted(&self, now: Instant) -> usize {
        let passed = now.since(self.began);
        if passed >= self.period {
            return usize::MAX;
        }
        (self.total as f64 * passed.as_secs_f64() / self.period.as_secs_f64()) as usize
    }
}

impl<T: SocketHandler> EventLoop<T> {
    pub(super) fn follow_lifecycle(&mut self) {
        let stage = *self.threads.lifecycle.borrow_and_update();
        self.is_paused &= stage == Lifecycle::Paused;
        if let (Lifecycle::Draining { period }, None) = (stage, &self.drain) {
            self.begin_drain(period);
        }
    }

    fn begin_drain(&mut self, period: Duration) {
        // Their clients are connected already: the close would reset them.
        self.acceptors.note_all_ready();
        for _ in 0..ACCEPT_TURNS_MAX {
            if !self.accept() {
                break;
            }
        }
        self.acceptors.close_all(self.sockets.registry());
        self.sockets.is_draining = true;
        self.returns.is_draining.set(true);
        self.drain = Some(Drain {
            began: self.sockets.now(),
            period,
            total: self.sockets.len(),
            closed: 0,
            next: 0,
        });
        self.handler.handle_drain(&mut self.sockets);
        self.settle();
        self.drain_some();
    }

    /// Ends connections that are between two requests, or late with their first one.
    fn disconnect_idle(&mut self) {
        let tick = self.sockets.tick;
        for slot in 0..self.sockets.slab.slots() {
            if let Some((id, record)) = self.sockets.slab.at(slot)
                && is_idle(&record.state, tick.wrapping_sub(record.seen))
                && record.outbound.is_none()
            {
                self.sockets.disconnect(id);
            }
        }
        self.settle();
    }

    /// Closes WebSockets and event streams up to the number that is due now.
    pub(super) fn drain_some(&mut self) {
        let Some(mut drain) = self.drain.take() else { return };
        self.disconnect_idle();
        let wanted = drain.wanted(self.sockets.now());
        while drain.closed < wanted
            && let Some(slot) = (drain.next < self.sockets.slab.slots()).then_some(drain.next)
        {
            drain.next += 1;
            if let Some((id, record)) = self.sockets.slab.at(slot)
                && record.is_open()
            {
                drain.closed += 1;
                self.sockets.close_for(id, CloseCause::Drained, 1012, "the server restarts");
            }
        }
        self.settle();
        self.drain = Some(drain);
    }

    /// Whether the drain is complete, or has timed out.
    pub(super) fn is_over(&self) -> bool {
        let Some(drain) = &self.drain else { return false };
        let time_limit = drain.period + self.threads.limits.close_timeout;
        let is_empty = self.sockets.shard_connections() == 0 && self.returns.tls_now.get() == 0;
        is_empty || self.sockets.now().since(drain.began) > time_limit
    }
}

/// Whether a connection is between two requests, or late with its first one after `ticks`.
fn is_idle(state: &State, ticks: u32) -> bool {
    match state {
        State::Head { held: None, is_reused: true } => true,
        State::Head { held: None, .. } | State::ProxyHeader => ticks > FIRST_REQUEST_TICKS,
        _ => false,
    }
}
