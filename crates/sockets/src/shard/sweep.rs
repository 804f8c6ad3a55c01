//! Timeouts, without a timer for each socket.
//!
//! The sweep also closes sockets whose queue made no progress for `slow_timeout`. A full queue
//! closes its socket earlier, in `shard_sockets/writing.rs`.

use std::time::Duration;

use watchfire_types::SocketId;

use super::{Shard, TICK};
use crate::close_cause::CloseCause;
use crate::handler::SocketHandler;
use crate::head::HeadError;
use crate::limits::SocketLimits;
use crate::record::{Record, State};

/// Ticks for one sweep of the whole slab. A pass over a million records takes 2-3 ms.
const TICKS_PER_PASS: usize = 10;

/// Slots that are swept in each tick, if there are as many.
const SLOTS_PER_TICK_MIN: usize = 4096;

/// The position of the sweep, and the limits in ticks.
pub(super) struct Sweep {
    next: usize,
    /// Bytes of the largest queue that this pass over the slab has found.
    queued_bytes_largest: usize,
    head: u32,
    keep_alive: u32,
    idle: u32,
    close: u32,
    slow: u32,
}

/// The timeout that has passed for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Timeout {
    /// The connection ends without a response.
    Ended,
    /// The header of the PROXY protocol is incomplete.
    LateProxyHeader,
    /// The request's head is incomplete.
    LateHead,
    /// An open WebSocket sent nothing.
    Idle,
    /// An open WebSocket does not read.
    Slow,
}

impl Sweep {
    pub(super) fn new(limits: &SocketLimits) -> Self {
        Sweep {
            next: 0,
            queued_bytes_largest: 0,
            head: in_ticks(limits.head_timeout),
            keep_alive: in_ticks(limits.keep_alive_timeout),
            idle: in_ticks(limits.idle_timeout),
            close: in_ticks(limits.close_timeout),
            slow: in_ticks(limits.slow_timeout),
        }
    }

    fn timeout_of(&self, record: &Record, tick: u32) -> Option<Timeout> {
        if let Some(queue) = &record.outbound
            && tick.wrapping_sub(queue.progressed()) > self.slow
        {
            return Some(if record.is_open() { Timeout::Slow } else { Timeout::Ended });
        }
        let (limit, due) = match &record.state {
            State::Parked { .. } | State::Dead => return None,
            State::ProxyHeader => (self.head, Timeout::LateProxyHeader),
            // The next request waits until the client has read the last response.
            State::Head { .. } if record.outbound.is_some() => return None,
            State::Head { held: Some(_), .. } => (self.head, Timeout::LateHead),
            State::Head { held: None, is_reused: true } => (self.keep_alive, Timeout::Ended),
            State::Head { held: None, is_reused: false } => (self.head, Timeout::Ended),
            State::Open(_) => (self.idle, Timeout::Idle),
            State::Closing(_) | State::Lingering => (self.close, Timeout::Ended),
        };
        // Greater, not equal, because both ticks are rounded down.
        (tick.wrapping_sub(record.seen) > limit).then_some(due)
    }
}

fn in_ticks(limit: Duration) -> u32 {
    u32::try_from(limit.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u32::MAX)
}

impl<T: SocketHandler> Shard<T> {
    /// Sweep a part of the slab.
    pub(super) fn sweep(&mut self) {
        let slots = self.sockets.slab.slots();
        let part = slots.div_ceil(TICKS_PER_PASS).max(SLOTS_PER_TICK_MIN).min(slots);
        for _ in 0..part {
            if let Some((id, record)) = self.sockets.slab.at(self.sweep.next) {
                let queued_bytes = record.outbound.as_ref().map_or(0, |queue| queue.bytes());
                let due = self.sweep.timeout_of(record, self.sockets.tick);
                let largest = &mut self.sweep.queued_bytes_largest;
                *largest = queued_bytes.max(*largest);
                if let Some(due) = due {
                    self.apply_timeout(id, due);
                }
            }
            self.sweep.next += 1;
            if self.sweep.next >= slots {
                self.end_pass();
            }
        }
        if slots == 0 {
            self.end_pass();
        }
        self.settle();
    }

    /// Begin again at the first slot.
    fn end_pass(&mut self) {
        self.sweep.next = 0;
        let largest = std::mem::take(&mut self.sweep.queued_bytes_largest);
        self.sockets.count().queued_bytes_largest.set(largest as u64);
    }

    fn apply_timeout(&mut self, id: SocketId, due: Timeout) {
        match due {
            Timeout::Ended => self.sockets.disconnect(id),
            Timeout::LateProxyHeader => {
                self.refuse_proxy_header(id, &"it did not arrive in time");
            }
            Timeout::LateHead => {
                self.sockets.count().head_errors.add(1);
                self.refuse(id, 408, "the request's head took too long");
            }
            Timeout::Idle => self.sockets.close_for(id, CloseCause::Idle, 1001, "idle"),
            Timeout::Slow => self.sockets.close_for(id, CloseCause::Slow, 1013, "slow consumer"),
        }
    }

    /// Answer an invalid head with its error.
    pub(super) fn refuse_head(&mut self, id: SocketId, error: HeadError) {
        self.sockets.count().head_errors.add(1);
        self.refuse(id, error.status(), &error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;
    use crate::outbound::Outbound;
    use crate::record::{Held, Slab};

    fn timeout_of(state: State, outbound: Option<Outbound>, tick: u32) -> Option<Timeout> {
        let mut slab = Slab::default();
        let id = slab.insert(std::fs::File::open("/dev/null").unwrap().into(), 0, state);
        slab.get_mut(id).unwrap().outbound = outbound.map(Box::new);
        Sweep::new(&SocketLimits::default()).timeout_of(slab.get(id).unwrap(), tick)
    }

    fn unread() -> Option<Outbound> {
        Some(Outbound::begin(bytes::Bytes::from_static(b"unread"), 0, 0, 1_000))
    }

    #[test]
    fn each_state_has_its_own_timeout() {
        let head = |held: bool, is_reused| State::Head {
            held: held.then(|| Box::new(Held::default())),
            is_reused,
        };
        assert_eq!(timeout_of(head(false, false), None, 100), None);
        assert_eq!(timeout_of(head(false, false), None, 101), Some(Timeout::Ended));
        assert_eq!(timeout_of(head(true, true), None, 101), Some(Timeout::LateHead));
        assert_eq!(timeout_of(State::ProxyHeader, None, 100), None);
        assert_eq!(timeout_of(State::ProxyHeader, None, 101), Some(Timeout::LateProxyHeader));
        assert_eq!(timeout_of(head(false, true), None, 600), None);
        assert_eq!(timeout_of(head(false, true), None, 601), Some(Timeout::Ended));
        assert_eq!(timeout_of(State::Open(Decoder::default()), None, 601), Some(Timeout::Idle));
        assert_eq!(timeout_of(State::Closing(Decoder::default()), None, 51), Some(Timeout::Ended));
        assert_eq!(timeout_of(State::Lingering, None, 51), Some(Timeout::Ended));
        let parked = State::Parked { held: None, keeps_alive: true };
        assert_eq!(timeout_of(parked, None, u32::MAX), None);
    }

    #[test]
    fn a_queue_without_progress_is_slow() {
        assert_eq!(timeout_of(State::Open(Decoder::default()), unread(), 300), None);
        assert_eq!(timeout_of(State::Open(Decoder::default()), unread(), 301), Some(Timeout::Slow));
        assert_eq!(timeout_of(State::Lingering, unread(), 301), Some(Timeout::Ended));
    }
}
