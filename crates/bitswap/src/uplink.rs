use std::time::Duration;

use watchfire_types::Instant;

/// Limits the bytes of blocks that are under way to all peers together.
///
/// Blocks that are sent to many peers at once all arrive late. Sent one after the other, all but the last
/// arrive sooner, and are passed on sooner. So no more is under way than fills the uplink. The window is
/// found by trying: twice as much is kept if the bytes then leave faster. Beyond the usual window, that is
/// tried only if half as much makes them leave more slowly, because then the receivers are slow. Bytes
/// that stand still wait for their receivers and do not count.
#[derive(Debug)]
pub(crate) struct Uplink {
    held: usize,
    /// Of all messages so far.
    sent_bytes: u64,
    window: usize,
    /// Beyond, much has to be gained.
    usual_max: usize,
    /// The best rate found, in bytes a second, and the least window that it was found with.
    best: (u64, usize),
    /// The last rate found; 0 before the first.
    rate: u64,
    rounds_without_gain: u32,
    /// Whether half is tried, to see whether that makes the bytes leave more slowly.
    is_halved: bool,
    round_from: Instant,
    round_bytes: usize,
    /// Whether something waited because of the window.
    is_limiting: bool,
    left_at: Instant,
    /// The longest time of late in which nothing left.
    gap: Duration,
    /// The longest message of late.
    message: usize,
}

/// Least length of a round, for the hiccups of a busy machine.
const ROUND_MIN: Duration = Duration::from_millis(20);

/// Messages that are sent one after the other at first.
const MESSAGES_AT_FIRST: usize = 16;

/// Messages that are under way later, at least, where the link is fast.
const MESSAGES_MAX: usize = 6;

/// Bytes of a message of several blocks while the link's rate is not known.
const BATCH_BYTES_AT_FIRST: usize = 128 << 10;

/// Least bytes at which a message of several blocks ends.
const BATCH_BYTES_MIN: usize = 16 << 10;

/// Rounds after which twice as much is tried again.
const ROUNDS_BEFORE_PROBE: u32 = 16;

/// What twice as much has to gain, in eighths of the rate, to be kept.
const GAIN: u64 = 1;

/// The same beyond the usual.
const GREAT_GAIN: u64 = 2;

/// When nothing leaves for at least so long, other peers get their chance.
const STUCK_AFTER: Duration = Duration::from_secs(2);

impl Uplink {
    /// More than `usual_max` bytes are under way only where that makes the bytes leave much faster.
    pub(crate) const fn new(usual_max: usize) -> Self {
        Uplink {
            held: 0,
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
            message: 128 << 10,
        }
    }

    /// One peer after the other at first, when each block is awaited by many; later more of them: some take
    /// what we send slowly, for what others send them, and the link is not to wait for them. No more than leaves
    /// within a moment, or it would be promised too early.
    fn least(&self) -> usize {
        let two = self.message * 2;
        if self.sent_bytes <= (self.message * MESSAGES_AT_FIRST) as u64 {
            return two;
        }
        let moment = usize::try_from(self.best.0).unwrap_or(usize::MAX) / 10 * 7;
        moment.clamp(two, self.message * MESSAGES_MAX)
    }

    /// Bytes that may be sent now, `reading` of which are spoken for.
    pub(crate) fn take_room(&mut self, reading: usize) -> usize {
        let room = self.window_now().saturating_sub(self.held + reading);
        self.is_limiting |= room == 0;
        room
    }

    /// Most bytes of a message of several blocks: what leaves within a moment, so that on a slow link others are
    /// not kept waiting, and what is taken back can still be kept back.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        match self.rate {
            0 => BATCH_BYTES_AT_FIRST,
            rate => usize::try_from(rate / 4).unwrap_or(usize::MAX).max(BATCH_BYTES_MIN),
        }
    }

    pub(crate) fn handle_sent(&mut self, now: Instant, bytes: usize) {
        if self.held == 0 {
            self.round_from = now;
            self.round_bytes = 0;
            self.left_at = now;
        }
        self.held += bytes;
        self.sent_bytes += bytes as u64;
        self.message = bytes.max(self.message / 8 * 7);
    }

    /// Bytes left, or are given up with their peer.
    pub(crate) fn handle_left(&mut self, now: Instant, bytes: usize) {
        self.held -= bytes;
        self.gap = now.since(self.left_at).max(self.gap / 16 * 15);
        self.left_at = now;
        self.round_bytes += bytes;
        let took = now.since(self.round_from);
        let window = self.window_now();
        // What was under way before half is tried leaves first.
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
        if self.is_halved { self.window } else { self.window.max(self.least()) }
    }

    /// Twice as much, but no more than the usual.
    fn doubled(&self, window: usize) -> usize {
        window.max((window * 2).min(self.usual_max))
    }

    /// When to look whether anything leaves at all.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let response_timeout = STUCK_AFTER.max(self.gap * 4);
        (self.is_limiting && self.held > 0).then(|| self.left_at + response_timeout)
    }

    /// Whether nothing leaves any more.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.next_wake().is_some_and(|at| at <= now)
    }

    /// What is under way now does not count any more.
    pub(crate) const fn give_up(&mut self) {
        self.held = 0;
        self.is_limiting = false;
    }
}
