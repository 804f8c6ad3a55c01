//! How many bytes one data channel may have under way, found from the receipts of the other side.
//!
//! The twin of `web/packages/pages/src/swarm/direct/send-window.ts`, where the reasons stand. Both must pass
//! `tests/vectors/send_windows.json`. `experiments/gate` includes this file. All about several windows on one line is
//! absent: a terminal opens no lanes.

use std::collections::VecDeque;

/// A time, or a point in time, on a clock that the caller has.
pub(super) type Millis = f64;

/// Fits into the shortest queues of home routers, into the default buffer of a socket on Linux, and into the first
/// round trips of SCTP.
pub(super) const START_BYTES: usize = 64 << 10;
const BYTES_MIN: usize = 16 << 10;
pub(super) const BYTES_MAX: usize = 4 << 20;
const FRAME_BYTES_MIN: f64 = 4096.0;
const FRAME_TIME: Millis = 5.0;
/// The window grows by at most this in a round trip.
const STEP_BYTES: usize = 160 << 10;
/// Marks are at least this far apart, unless the window is full.
const MARK_BYTES_MIN: f64 = 4096.0;
const MARK_BYTES_MAX: f64 = 65536.0;
/// The time that bytes may spend in the queue of the slowest link.
const QUEUE_TIME: Millis = 20.0;
/// The part of the window by which two senders on one line come to have the same rate.
const EXTRA: f64 = 350.0;
/// A queue this long ends the start.
const START_QUEUE_MAX: Millis = 4.0;
/// Frames are sent at this part of the window in a round trip, after a burst.
const PACE: f64 = 1.2;
const BURST_BYTES: f64 = 65536.0;
const RATES_MAX: usize = 8;
const LOCAL_MAX: Millis = 3.0;
const LOCAL_BYTES_MIN: usize = 512 << 10;
/// Rounds with a long queue before it is of others.
const LONG_ROUNDS: u32 = 3;

#[derive(Debug)]
pub(super) struct SendWindow {
    /// With fractions, as in the browser.
    bytes: f64,
    sent_bytes: u64,
    received_bytes: u64,
    /// When that was confirmed, and when it was sent.
    received_at: Millis,
    received_sent_at: Millis,
    /// The marks without a receipt, in order. Bounded by the window.
    marks: VecDeque<Mark>,
    marked_bytes: u64,
    /// The shortest round trip.
    shortest: Millis,
    is_starting: bool,
    /// Bytes that may be sent without a pause, since when.
    credit: f64,
    credit_at: Millis,
    round: Round,
    /// Whether SCTP sent all that it got in the last round.
    was_free: bool,
    /// The rates of the last rounds, in bytes per millisecond.
    rates: VecDeque<f64>,
    /// The first of several rounds in a row with a long queue.
    long: Option<Long>,
}

/// A frame that the other side confirms, and what was confirmed when it was sent.
#[derive(Debug)]
struct Mark {
    /// All bytes that were sent, up to its end.
    bytes: u64,
    at: Millis,
    received_bytes: u64,
    received_at: Millis,
    /// The time between the sending of what was confirmed and of this one.
    sent_for: Millis,
}

/// A round trip: it ends when all that was sent before it is confirmed.
#[derive(Debug)]
struct Round {
    until: u64,
    shortest: Millis,
    /// The least bytes that waited in SCTP. `None`: nobody looked.
    least_buffered: Option<usize>,
    /// Whether the window kept something from being sent.
    was_limited: bool,
}

impl Round {
    fn new(until: u64) -> Self {
        Round { until, shortest: Millis::INFINITY, least_buffered: None, was_limited: false }
    }
}

#[derive(Debug)]
struct Long {
    rate: f64,
    round_trip: Millis,
    rounds: u32,
}

impl SendWindow {
    pub(super) fn new() -> Self {
        SendWindow {
            bytes: START_BYTES as f64,
            sent_bytes: 0,
            received_bytes: 0,
            received_at: 0.0,
            received_sent_at: 0.0,
            marks: VecDeque::new(),
            marked_bytes: 0,
            shortest: Millis::INFINITY,
            is_starting: true,
            credit: 0.0,
            credit_at: 0.0,
            round: Round::new(0),
            was_free: false,
            rates: VecDeque::new(),
            long: None,
        }
    }

    /// Bytes that may still be sent. There is always room for a frame while no mark awaits its receipt.
    pub(super) fn room(&self) -> f64 {
        let room = self.bytes - (self.sent_bytes - self.received_bytes) as f64;
        if self.marks.is_empty() { room.max(1.0) } else { room }
    }

    /// How long to wait before the next frame.
    pub(super) fn pause(&mut self, now: Millis) -> Millis {
        if self.shortest == Millis::INFINITY || self.is_local() {
            return 0.0;
        }
        // Bytes per millisecond.
        let pace = self.bytes / self.shortest * PACE;
        self.credit = BURST_BYTES.min(self.credit + (now - self.credit_at) * pace);
        self.credit_at = now;
        if self.credit > 0.0 { 0.0 } else { (-self.credit / pace).max(1.0) }
    }

    /// The longest frame: a few milliseconds of a slow line, so that a want does not wait behind a long one.
    pub(super) fn frame_bytes(&self) -> usize {
        (self.best_rate() * FRAME_TIME).floor().max(FRAME_BYTES_MIN) as usize
    }

    /// Whether the other side should confirm a frame of this length, which is sent next.
    pub(super) fn asks_for(&self, frame_bytes: usize) -> bool {
        let unmarked = (self.sent_bytes - self.marked_bytes) as f64 + frame_bytes as f64;
        // The first frame shows the path before SCTP keeps anything waiting.
        self.marked_bytes == 0
            || unmarked >= (self.bytes / 8.0).clamp(MARK_BYTES_MIN, MARK_BYTES_MAX)
            || self.room() <= frame_bytes as f64
    }

    /// SCTP kept this much waiting when it got the next frames.
    pub(super) fn handle_buffered(&mut self, bytes: usize) {
        let least = self.round.least_buffered.unwrap_or(bytes);
        self.round.least_buffered = Some(least.min(bytes));
    }

    /// Whether both ends are on one machine or in one room.
    pub(super) fn is_local(&self) -> bool {
        self.shortest <= LOCAL_MAX
    }

    /// A frame was given to the channel.
    pub(super) fn handle_sent(&mut self, now: Millis, frame_bytes: usize, is_marked: bool) {
        if self.sent_bytes == self.received_bytes {
            (self.received_at, self.received_sent_at) = (now, now);
        }
        self.sent_bytes += frame_bytes as u64;
        self.credit -= frame_bytes as f64;
        self.round.was_limited |= self.room() <= 0.0;
        if !is_marked {
            return;
        }
        self.marked_bytes = self.sent_bytes;
        self.marks.push_back(Mark {
            bytes: self.sent_bytes,
            at: now,
            received_bytes: self.received_bytes,
            received_at: self.received_at,
            sent_for: now - self.received_sent_at,
        });
    }

    /// The other side has received this many bytes. Returns whether that is true of an honest peer.
    pub(super) fn handle_receipt(&mut self, now: Millis, received_bytes: u64) -> bool {
        let Some(mark) = self.marks.pop_front().filter(|mark| mark.bytes == received_bytes) else {
            return false;
        };
        self.received_bytes = received_bytes;
        (self.received_at, self.received_sent_at) = (now, mark.at);
        let round_trip = now - mark.at;
        self.shortest = self.shortest.min(round_trip);
        self.round.shortest = self.round.shortest.min(round_trip);
        if received_bytes >= self.round.until {
            self.end_round(&mark, now);
        }
        true
    }

    fn end_round(&mut self, mark: &Mark, now: Millis) {
        // Receipts of a tab that was busy come together, faster than the line is. The bytes did not leave faster than it.
        let time = (now - mark.received_at).max(mark.sent_for).max(1.0);
        let rate = (self.received_bytes - mark.received_bytes) as f64 / time;
        let best = self.best_rate();
        let round = std::mem::replace(&mut self.round, Round::new(self.sent_bytes));
        // A round in which there was less to send than the window tells nothing of the line, unless it was faster.
        if !round.was_limited && rate < best {
            return;
        }
        if self.rates.len() == RATES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        // Bytes that waited for SCTP, in this round or since the one before, do not tell how long they were in a queue
        // of the line.
        let was_free = std::mem::replace(&mut self.was_free, round.least_buffered == Some(0));
        let queue = (was_free && self.was_free).then_some(round.shortest - self.shortest);
        if self.is_starting {
            match queue {
                Some(queue) if queue > START_QUEUE_MAX => self.is_starting = false,
                Some(_) => self.resize(2.0 * self.bytes),
                None => {}
            }
        } else if queue.is_some_and(|queue| queue > 2.0 * QUEUE_TIME) {
            self.shrink(rate, round.shortest);
        } else {
            self.long = None;
            let is_short = queue.is_some_and(|queue| queue < START_QUEUE_MAX);
            let part = if is_short { self.shortest / 4.0 } else { 0.0 };
            self.fit(best.max(rate), QUEUE_TIME.max(part));
        }
    }

    /// The queue is too long.
    fn shrink(&mut self, rate: f64, round_trip: Millis) {
        self.rates.clear();
        self.rates.push_back(rate);
        let long = self.long.get_or_insert(Long { rate, round_trip, rounds: 0 });
        let is_of_others = long.rounds >= LONG_ROUNDS
            && rate < long.rate * 0.75
            && round_trip > long.round_trip * 0.85;
        long.rounds += 1;
        if is_of_others {
            self.shortest = round_trip;
            self.long = None;
        }
        self.fit(rate, QUEUE_TIME);
    }

    /// Takes what leaves in the shortest round trip and in this time of a queue.
    fn fit(&mut self, rate: f64, queue_time: Millis) {
        self.resize(rate * (self.shortest + queue_time) + EXTRA * rate.sqrt());
    }

    fn resize(&mut self, bytes: f64) {
        let least = if self.is_local() { LOCAL_BYTES_MIN } else { BYTES_MIN };
        let target = bytes.min(self.bytes + STEP_BYTES as f64).min(BYTES_MAX as f64);
        self.bytes = target.max(least as f64);
    }

    /// The highest rate of the last rounds.
    fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}
