//! Timeouts, without a timer for each socket.

use std::time::Duration;

use vocab::SocketId;

use super::{Shard, TICK};
use crate::head::HeadError;
use crate::record::{Record, State};
use crate::settings::EdgeLimits;
use crate::tenant::{CloseCause, Tenant};

/// Ticks in which the whole slab is swept. A pass over a million records takes 2-3 ms.
const TICKS_PER_PASS: usize = 10;

/// Slots that are swept in a tick in any case.
const SLOTS_PER_TICK_MIN: usize = 4096;

/// Where the sweep is, and the limits in ticks.
pub(super) struct Sweep {
    next: usize,
    head: u32,
    keep_alive: u32,
    idle: u32,
    close: u32,
    slow: u32,
}

/// What is due for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Due {
    /// Nothing more is expected of it.
    Ended,
    /// Its head takes too long.
    LateHead,
    /// It is silent.
    Idle,
    /// It does not read.
    Slow,
}

impl Sweep {
    pub(super) fn new(limits: &EdgeLimits) -> Self {
        Sweep {
            next: 0,
            head: in_ticks(limits.head_timeout),
            keep_alive: in_ticks(limits.keep_alive_timeout),
            idle: in_ticks(limits.idle_timeout),
            close: in_ticks(limits.close_timeout),
            slow: in_ticks(limits.slow_timeout),
        }
    }

    fn due(&self, record: &Record, tick: u32) -> Option<Due> {
        if let Some(queue) = &record.outbound
            && tick.wrapping_sub(queue.progressed()) > self.slow
        {
            return Some(if record.is_open() { Due::Slow } else { Due::Ended });
        }
        let (limit, due) = match &record.state {
            State::Parked { .. } | State::Dead => return None,
            // The next request of a client that has not read its last answer waits for that.
            State::Head { .. } if record.outbound.is_some() => return None,
            State::Head { held: Some(_), .. } => (self.head, Due::LateHead),
            State::Head { held: None, is_reused: true } => (self.keep_alive, Due::Ended),
            State::Head { held: None, is_reused: false } => (self.head, Due::Ended),
            State::Open(_) => (self.idle, Due::Idle),
            State::Closing(_) | State::Lingering => (self.close, Due::Ended),
        };
        // More, not as much: both ticks are rounded down.
        (tick.wrapping_sub(record.seen) > limit).then_some(due)
    }
}

fn in_ticks(limit: Duration) -> u32 {
    u32::try_from(limit.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u32::MAX)
}

impl<T: Tenant> Shard<T> {
    /// Sweep a part of the slab.
    pub(super) fn sweep(&mut self) {
        let slots = self.sockets.slab.slots();
        let part = slots.div_ceil(TICKS_PER_PASS).max(SLOTS_PER_TICK_MIN).min(slots);
        for _ in 0..part {
            if self.sweep.next >= slots {
                self.sweep.next = 0;
            }
            if let Some((id, record)) = self.sockets.slab.at(self.sweep.next)
                && let Some(due) = self.sweep.due(record, self.sockets.tick)
            {
                self.settle_due(id, due);
            }
            self.sweep.next += 1;
        }
        self.settle();
    }

    fn settle_due(&mut self, id: SocketId, due: Due) {
        match due {
            Due::Ended => self.sockets.hang_up(id),
            Due::LateHead => {
                self.sockets.count().head_errors.add(1);
                self.refuse(id, 408, "the request's head took too long");
            }
            Due::Idle => self.sockets.close_for(id, CloseCause::Idle, 1001, "idle"),
            Due::Slow => self.sockets.close_for(id, CloseCause::Slow, 1013, "slow consumer"),
        }
    }

    /// Refuse a head that cannot be read.
    pub(super) fn refuse_head(&mut self, id: SocketId, error: HeadError) {
        self.sockets.count().head_errors.add(1);
        let reason = match error {
            HeadError::Malformed => "not an HTTP/1 request",
            HeadError::TooLarge => "the request's head is too large",
            HeadError::BodyLength => "the length of the request's body is ambiguous",
        };
        self.refuse(id, error.status(), reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;
    use crate::outbound::Outbound;
    use crate::record::{Held, Slab};

    fn due(state: State, outbound: Option<Outbound>, tick: u32) -> Option<Due> {
        let mut slab = Slab::default();
        let id = slab.insert(std::fs::File::open("/dev/null").unwrap().into(), 0, state);
        slab.get_mut(id).unwrap().outbound = outbound.map(Box::new);
        Sweep::new(&EdgeLimits::default()).due(slab.get(id).unwrap(), tick)
    }

    fn unread() -> Option<Outbound> {
        Some(Outbound::begin(bytes::Bytes::from_static(b"unread"), 0, 0))
    }

    #[test]
    fn each_state_has_its_own_patience() {
        let head = |held: bool, is_reused| State::Head {
            held: held.then(|| Box::new(Held::default())),
            is_reused,
        };
        assert_eq!(due(head(false, false), None, 100), None);
        assert_eq!(due(head(false, false), None, 101), Some(Due::Ended));
        assert_eq!(due(head(true, true), None, 101), Some(Due::LateHead));
        assert_eq!(due(head(false, true), None, 600), None);
        assert_eq!(due(head(false, true), None, 601), Some(Due::Ended));
        assert_eq!(due(State::Open(Decoder::default()), None, 601), Some(Due::Idle));
        assert_eq!(due(State::Closing(Decoder::default()), None, 51), Some(Due::Ended));
        assert_eq!(due(State::Lingering, None, 51), Some(Due::Ended));
        let parked = State::Parked { held: None, keeps_alive: true };
        assert_eq!(due(parked, None, u32::MAX), None);
    }

    #[test]
    fn a_queue_without_progress_is_slow() {
        assert_eq!(due(State::Open(Decoder::default()), unread(), 300), None);
        assert_eq!(due(State::Open(Decoder::default()), unread(), 301), Some(Due::Slow));
        assert_eq!(due(State::Lingering, unread(), 301), Some(Due::Ended));
    }
}
