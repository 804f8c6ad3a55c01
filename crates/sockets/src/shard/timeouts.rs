//! Timeouts without a timer for each socket, and the sweep for slow clients.
//!
//! # The reason
//!
//! Each socket has a timeout at any time: for its head, for silence, for its close, for a queue that
//! does not move. A timer for each would cost more memory than the record itself, and would be moved
//! with each message. Here a message writes four bytes, the tick (tenths of a second) at which the
//! socket was seen, and a sweep compares them later.
//!
//! # The sweep, in numbers
//!
//! Ten times a second it looks at a tenth of the slab, and at 4,096 slots at least. A pass over a
//! million records takes 2 to 3 ms, so a tenth holds up other work for about 0.3 ms. A timeout is
//! noticed up to a second late: with `idle_timeout = 60s`, a silent client is closed 60 to 61 seconds
//! after its last byte. Ticks are rounded down, so a timeout never comes early.
//!
//! # Slow clients
//!
//! A client that reads slower than it is sent to makes the server keep its messages. Two rules end
//! this, both with code 1013. Each of them alone would miss one kind of client:
//!
//! - **The queue is full** (`queued_bytes_max`, `shard_sockets/writing.rs`). This rule acts during the
//!   send. It bounds the memory of a client that reads a little: at 10 KB/s from a topic of 50 KB/s,
//!   a queue of 1 MiB is full after 26 seconds, although it moves all the time. A client that reads more
//!   than about 100 KB/s is awaited instead (`outbound_queue.rs`), and its publishers are slowed.
//! - **The queue does not move** for `slow_timeout` (here). This rule finds a client that no longer
//!   reads at all on a quiet topic: one message of 200 KB, of which the kernel took half, would never
//!   fill the queue, and would stay until the client leaves. The tick of the queue's last progress is
//!   in `outbound_queue.rs`.
//!
//! # The bound
//!
//! The queue of a client that does not read is dropped after `slow_timeout` and a pass. The figure
//! `queued_bytes_largest` is the largest queue of the last pass.

use std::time::Duration;

use bytes::Bytes;
use watchfire_types::SocketId;

use super::{EventLoop, TICK};
use crate::counters::CloseCause;
use crate::handler::SocketHandler;
use crate::head::HeadError;
use crate::limits::SocketLimits;
use crate::record::{Record, State};
use crate::response::STREAM_HEARTBEAT;

/// Ticks for one sweep of the whole slab. A pass over a million records takes 2-3 ms.
const TICKS_PER_PASS: usize = 10;

/// The least number of slots that are swept in each tick. A smaller slab is swept whole.
const SLOTS_PER_TICK_MIN: usize = 4096;

/// The position of the sweep, and the limits in ticks.
pub(super) struct Sweep {
    next: usize,
    /// Bytes of the largest queue that this pass over the slab has found.
    queued_bytes_largest: usize,
    head: u32,
    keep_alive: u32,
    idle: u32,
    heartbeat: u32,
    close: u32,
    slow: u32,
}

/// The timeout that has passed for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Timeout {
    /// The connection ends without a response.
    Ended,
    /// A new connection sent nothing.
    LateRequest,
    /// The header of the PROXY protocol is incomplete.
    LateProxyHeader,
    /// The request's head is incomplete.
    LateHead,
    /// An open WebSocket sent nothing.
    Idle,
    /// A proxy, or the kernel, must see that an event stream goes on.
    Heartbeat,
    /// An open WebSocket or event stream does not read.
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
            heartbeat: in_ticks(limits.idle_timeout / 2),
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
            State::Head { held: None, is_reused: false } => (self.head, Timeout::LateRequest),
            State::Open(_) => (self.idle, Timeout::Idle),
            State::Stream => (self.heartbeat, Timeout::Heartbeat),
            State::Closing(_) | State::Lingering => (self.close, Timeout::Ended),
        };
        // Greater, not equal, because both ticks are rounded down.
        (tick.wrapping_sub(record.seen) > limit).then_some(due)
    }
}

fn in_ticks(limit: Duration) -> u32 {
    u32::try_from(limit.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u32::MAX)
}

impl<T: SocketHandler> EventLoop<T> {
    pub(super) fn sweep(&mut self) {
        let slots = self.sockets.slab.slots();
        let part = slots.div_ceil(TICKS_PER_PASS).max(SLOTS_PER_TICK_MIN).min(slots);
        for _ in 0..part {
            if let Some((id, record)) = self.sockets.slab.at(self.sweep.next) {
                let queued_bytes = record.outbound.as_ref().map_or(0, |queue| queue.bytes());
                let due = self.sweep.timeout_of(record, self.sockets.tick);
                let largest = &mut self.sweep.queued_bytes_largest;
                *largest = queued_bytes.max(*largest);
                if let Some(due) = due.and_then(|due| self.due_after_read(id, due)) {
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

    /// Begins again at the first slot.
    fn end_pass(&mut self) {
        self.sweep.next = 0;
        let largest = std::mem::take(&mut self.sweep.queued_bytes_largest);
        self.sockets.count().queued_bytes_largest.set(largest as u64);
    }

    /// The timeout that is still due when the socket is read: this loop may be late, and not the client.
    fn due_after_read(&mut self, id: SocketId, due: Timeout) -> Option<Timeout> {
        if due == Timeout::Heartbeat {
            return Some(due);
        }
        self.read(id, false);
        self.sweep.timeout_of(self.sockets.slab.get(id)?, self.sockets.tick)
    }

    fn apply_timeout(&mut self, id: SocketId, due: Timeout) {
        match due {
            Timeout::Ended => self.sockets.disconnect(id),
            Timeout::LateRequest => {
                self.sockets.count().closes_late.add(1);
                self.sockets.disconnect(id);
            }
            Timeout::LateProxyHeader => {
                self.refuse_proxy_header(id, &"it did not arrive in time");
            }
            Timeout::LateHead => {
                self.sockets.count().closes_late.add(1);
                self.sockets.count().head_errors.add(1);
                self.refuse(id, 408, "the request's head took too long");
            }
            Timeout::Heartbeat => {
                let tick = self.sockets.tick;
                if let Some(record) = self.sockets.slab.get_mut(id) {
                    record.seen = tick;
                }
                // A client that does not read is closed as a slow one, and `TCP_USER_TIMEOUT` finds one that is gone.
                self.sockets.send(id, &Bytes::from_static(STREAM_HEARTBEAT)).ok();
            }
            Timeout::Idle => self.sockets.close_for(id, CloseCause::Idle, 1001, "idle"),
            Timeout::Slow => self.sockets.close_for(id, CloseCause::Slow, 1013, "slow consumer"),
        }
    }

    /// Answers an invalid head with its error.
    pub(super) fn refuse_head(&mut self, id: SocketId, error: HeadError) {
        self.sockets.count().head_errors.add(1);
        self.refuse(id, error.status(), &error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;
    use crate::outbound_queue::Outbound;
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
        assert_eq!(timeout_of(head(false, false), None, 101), Some(Timeout::LateRequest));
        assert_eq!(timeout_of(head(true, true), None, 101), Some(Timeout::LateHead));
        assert_eq!(timeout_of(State::ProxyHeader, None, 100), None);
        assert_eq!(timeout_of(State::ProxyHeader, None, 101), Some(Timeout::LateProxyHeader));
        assert_eq!(timeout_of(head(false, true), None, 600), None);
        assert_eq!(timeout_of(head(false, true), None, 601), Some(Timeout::Ended));
        assert_eq!(timeout_of(State::Open(Decoder::default()), None, 601), Some(Timeout::Idle));
        assert_eq!(timeout_of(State::Stream, None, 300), None);
        assert_eq!(timeout_of(State::Stream, None, 301), Some(Timeout::Heartbeat));
        assert_eq!(timeout_of(State::Closing(Decoder::default()), None, 51), Some(Timeout::Ended));
        assert_eq!(timeout_of(State::Lingering, None, 51), Some(Timeout::Ended));
        let parked = State::Parked { held: None, keeps_alive: true };
        assert_eq!(timeout_of(parked, None, u32::MAX), None);
    }

    #[test]
    fn a_queue_without_progress_is_slow() {
        assert_eq!(timeout_of(State::Open(Decoder::default()), unread(), 300), None);
        assert_eq!(timeout_of(State::Open(Decoder::default()), unread(), 301), Some(Timeout::Slow));
        assert_eq!(timeout_of(State::Stream, unread(), 301), Some(Timeout::Slow));
        assert_eq!(timeout_of(State::Lingering, unread(), 301), Some(Timeout::Ended));
    }
}
