//! The most bytes that a connection may have in flight, as TCP's congestion control allows.

use std::time::Duration;

use watchfire_types::Instant;

/// Bytes of one packet's payload.
pub(super) const SEGMENT_BYTES: u64 = 1460;

/// Segments of the initial window.
const SEGMENTS_AT_FIRST: u64 = 10;

/// The share of the window that remains after a loss.
const AFTER_LOSS: f64 = 0.7;

/// CUBIC's constant C, in segments per second cubed.
const CUBIC: f64 = 0.4;

/// Slow start, and CUBIC after the first loss or mark.
///
/// Absent on purpose: a smaller window after an idle time, timeouts, and pacing.
#[derive(Clone, Debug)]
pub(super) struct Window {
    bytes: f64,
    max: f64,
    /// The last loss, and the window before it; `None` in slow start.
    loss: Option<(Instant, f64)>,
    /// Seconds from the last loss until the window has its size from before.
    recovery: f64,
}

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes = (SEGMENTS_AT_FIRST * SEGMENT_BYTES) as f64;
        let max = bytes_max as f64;
        Window { bytes: bytes.min(max), max, loss: None, recovery: 0.0 }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(super) fn handle_acknowledged(&mut self, now: Instant, bytes: u64, round_trip: Duration) {
        let Some((lost_at, before)) = self.loss else {
            self.bytes = (self.bytes + bytes as f64).min(self.max);
            return;
        };
        let since = now.since(lost_at).as_secs_f64();
        let segment = SEGMENT_BYTES as f64;
        let from_recovery = since - self.recovery;
        let cubic = before + CUBIC * from_recovery * from_recovery * from_recovery * segment;
        // On short paths, the window of Reno is larger.
        let round_trips = since / round_trip.as_secs_f64().max(1e-6);
        let reno = before * AFTER_LOSS + 0.53 * segment * round_trips;
        self.bytes = self.bytes.max(cubic.max(reno)).min(self.max);
    }

    /// Shrinks the window after a loss or a mark from a long queue, at most once per round trip.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Duration) {
        if self.loss.is_some_and(|(at, _)| now.since(at) < round_trip) {
            return;
        }
        self.loss = Some((now, self.bytes));
        let segment = SEGMENT_BYTES as f64;
        self.recovery = cube_root(self.bytes / segment * (1.0 - AFTER_LOSS) / CUBIC);
        self.bytes = (self.bytes * AFTER_LOSS).max(2.0 * segment);
    }
}

/// Newton's method, since the result of `cbrt` differs from machine to machine.
fn cube_root(of: f64) -> f64 {
    if of <= 0.0 {
        return 0.0;
    }
    let mut root = of.max(1.0);
    for _ in 0..64 {
        root -= (root * root * root - of) / (3.0 * root * root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn slow_start_doubles_every_round_trip_up_to_the_limit() {
        let mut window = Window::new(100_000);
        for (round, expected) in [29_200, 58_400, 100_000, 100_000].into_iter().enumerate() {
            window.handle_acknowledged(at(round as u64), window.bytes(), ROUND_TRIP);
            assert_eq!(window.bytes(), expected);
        }
    }

    #[test]
    fn a_loss_shrinks_the_window_by_three_tenths_and_it_recovers_with_time() {
        let mut window = Window::new(1_000_000);
        window.handle_acknowledged(at(0), 900_000, ROUND_TRIP);
        let before = window.bytes();
        window.cut(at(100), ROUND_TRIP);
        window.cut(at(150), ROUND_TRIP);
        assert_eq!(window.bytes(), before * 7 / 10);
        window.handle_acknowledged(at(7_000), 1460, ROUND_TRIP);
        assert!(window.bytes() < before && window.bytes() > before * 9 / 10);
        window.handle_acknowledged(at(9_000), 1460, ROUND_TRIP);
        assert!(window.bytes() >= before);
    }

    #[test]
    fn cube_roots_are_right() {
        for (of, root) in [(0.0, 0.0), (1e-9, 1e-3), (27.0, 3.0), (1e9, 1e3)] {
            assert!((cube_root(of) - root).abs() < 1e-6, "{of}");
        }
    }
}
