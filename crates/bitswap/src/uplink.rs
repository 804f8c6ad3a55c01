use std::time::Duration;

use watchfire_types::Instant;

/// Limits the bytes of blocks that are under way to all peers together.
///
/// Blocks that are sent to many peers at the same time all arrive late. Sent one after the other, most
/// arrive sooner and are passed on sooner. So the window is no larger than fills the uplink. A
/// doubled window is kept if bytes then leave faster. From the usual window on, half of it is tried
/// first: the window grows only if bytes then leave more slowly, because receivers are slow. Bytes
/// that stand still wait for their receivers and do not count.
#[derive(Debug)]
pub(crate) struct Uplink {
    /// Bytes of messages with blocks that are under way.
    in_flight_bytes: usize,
    /// Bytes of all messages with blocks so far.
    sent_bytes: u64,
    window: usize,
    /// A larger window must bring a greater gain.
    usual_max: usize,
    /// The best rate found, in bytes per second, and the least window that reached it.
    best: (u64, usize),
    /// The last rate found; 0 before the first.
    rate: u64,
    rounds_without_gain: u32,
    /// Whether half the window is being tried, to see whether bytes then leave more slowly.
    is_halved: bool,
    round_from: Instant,
    round_bytes: usize,
    /// Whether a block waited because the window was full.
    is_limiting: bool,
    left_at: Instant,
    /// The longest recent time in which nothing left.
    gap: Duration,
    /// The length of the longest recent message, in bytes.
    message_bytes: usize,
}

/// Least length of a round. Shorter rounds would measure the pauses of a busy machine.
const ROUND_MIN: Duration = Duration::from_millis(20);

/// Messages that are sent one after the other at the start.
const MESSAGES_AT_FIRST: usize = 16;

/// Messages that the least window may hold after the start, on a fast link.
const MESSAGES_MAX: usize = 6;

/// Most bytes of a message of several blocks while the link's rate is not known.
const BATCH_BYTES_AT_FIRST: usize = 128 << 10;

/// Smallest value of [`Uplink::batch_bytes_max`].
const BATCH_BYTES_MIN: usize = 16 << 10;

/// Rounds without a gain after which another window is tried again.
const ROUNDS_BEFORE_PROBE: u32 = 16;

/// Gain in rate that keeps a doubled window, in eighths.
const GAIN: u64 = 1;

/// The same from the usual window on.
const GREAT_GAIN: u64 = 2;

/// Least time without progress after which other peers get their turn.
const STUCK_AFTER: Duration = Duration::from_secs(2);

impl Uplink {
    /// `usual_max` is the largest window that a small gain justifies, in bytes.
    pub(crate) const fn new(usual_max: usize) -> Self {
        Uplink {
            in_flight_bytes: 0,
            sent_bytes: 0,
            window: 0,
            usual_max,
            best: (0, 0),
            rate: 0,
            rounds_without_gain: 0,
            is_halved: false,
            round_from: Instant::ZERO,
            round_bytes: 0,
            is_limiting: false,
            left_at: Instant::ZERO,
            gap: Duration::ZERO,
            message_bytes: 128 << 10,
        }
    }

    /// The least window. At the start it is two messages, because many peers wait for each block.
    /// Later it is what leaves in 0.7 seconds, from two to [`MESSAGES_MAX`] messages: the link does
    /// not wait for slow receivers, and blocks are not committed too early.
    fn window_min(&self) -> usize {
        let two = self.message_bytes * 2;
        if self.sent_bytes <= (self.message_bytes * MESSAGES_AT_FIRST) as u64 {
            return two;
        }
        let moment = usize::try_from(self.best.0).unwrap_or(usize::MAX) / 10 * 7;
        moment.clamp(two, self.message_bytes * MESSAGES_MAX)
    }

    /// Bytes that may be sent now, when `reading` more bytes are already being read.
    pub(crate) fn take_room(&mut self, reading: usize) -> usize {
        let room = self.window_now().saturating_sub(self.in_flight_bytes + reading);
        self.is_limiting |= room == 0;
        room
    }

    /// Most bytes of a message of several blocks: what leaves in a quarter of a second. Longer
    /// messages would delay other peers on a slow link, and leave less to cancel.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        match self.rate {
            0 => BATCH_BYTES_AT_FIRST,
            rate => usize::try_from(rate / 4).unwrap_or(usize::MAX).max(BATCH_BYTES_MIN),
        }
    }

    pub(crate) fn handle_sent(&mut self, now: Instant, bytes: usize) {
        if self.in_flight_bytes == 0 {
            self.round_from = now;
            self.round_bytes = 0;
            self.left_at = now;
        }
        self.in_flight_bytes += bytes;
        self.sent_bytes += bytes as u64;
        self.message_bytes = bytes.max(self.message_bytes / 8 * 7);
    }

    /// Bytes left, or their peer disconnected.
    pub(crate) fn handle_left(&mut self, now: Instant, bytes: usize) {
        self.in_flight_bytes -= bytes;
        self.gap = now.since(self.left_at).max(self.gap / 16 * 15);
        self.left_at = now;
        self.round_bytes += bytes;
        let took = now.since(self.round_from);
        let window = self.window_now();
        // Bytes that were sent before the window was halved leave first.
        let round = if self.is_halved { self.best.1 } else { window };
        if self.round_bytes < round || took < ROUND_MIN {
            return;
        }
        let rate = u128::from(self.round_bytes as u64) * 1_000_000_000 / took.as_nanos();
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.rate = rate;
        self.round_from = now;
        self.round_bytes = 0;
        if !std::mem::take(&mut self.is_limiting) {
            return;
        }
        if std::mem::take(&mut self.is_halved) {
            let is_slower = rate < self.best.0 / 8 * 7;
            if !is_slower && self.best.1 > self.usual_max {
                self.best = (rate, window);
            }
            self.window = if is_slower { self.best.1 * 2 } else { self.best.1 };
            return;
        }
        let gain = if window < self.usual_max { GAIN } else { GREAT_GAIN };
        if rate > self.best.0.saturating_add(self.best.0 / 8 * gain) {
            self.best = (rate, window);
            self.window = self.doubled(window);
            self.rounds_without_gain = 0;
            return;
        }
        self.window = self.best.1;
        self.rounds_without_gain += 1;
        if self.rounds_without_gain >= ROUNDS_BEFORE_PROBE {
            self.rounds_without_gain = 0;
            self.best = (rate, self.window_now());
            self.is_halved = self.best.1 >= self.usual_max;
            self.window = match self.is_halved {
                true => self.best.1 / 2,
                false => self.doubled(self.best.1),
            };
        }
    }

    fn window_now(&self) -> usize {
        if self.is_halved { self.window } else { self.window.max(self.window_min()) }
    }

    /// Twice the window, up to the usual maximum.
    fn doubled(&self, window: usize) -> usize {
        window.max((window * 2).min(self.usual_max))
    }

    /// When to check whether bytes still leave.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let response_timeout = STUCK_AFTER.max(self.gap * 4);
        (self.is_limiting && self.in_flight_bytes > 0).then(|| self.left_at + response_timeout)
    }

    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.next_wake().is_some_and(|at| at <= now)
    }

    /// Bytes that are under way now do not count any more.
    pub(crate) const fn give_up(&mut self) {
        self.in_flight_bytes = 0;
        self.is_limiting = false;
    }
}
