//! The bytes that one direct connection may buffer and have in flight.
//!
//! SCTP doubles its congestion window with each round trip until something is lost, and sends everything that the
//! window allows in one burst. When the receiver is busy for a moment, its operating system drops the datagrams that do
//! not fit into the buffer of the socket. SCTP notices the loss of the end of a burst only after a second. So this
//! window grows slowly, and after such a pause it is smaller and grows even more slowly.

use std::time::Duration;

use watchfire_types::Instant;

/// Fits into the default buffer of a socket on Linux.
const START_BYTES: usize = 64 << 10;
const MIN_BYTES: usize = 32 << 10;
pub(super) const MAX_BYTES: usize = 1 << 20;
/// The window grows by this part of what was acknowledged: by an eighth in each round trip.
const GROWTH_PART: f64 = 8.0;
/// When nothing was acknowledged for this time, the end of a burst is lost. SCTP repeats it after a second. No path has
/// such a long round trip.
const PAUSE_MIN: Duration = Duration::from_millis(900);
/// After a pause, the window doubles in about this time.
const DOUBLING_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct SendWindow {
    /// With fractions: acknowledgements that come often add less than a byte each.
    bytes: f64,
    has_paused: bool,
    is_paused: bool,
    /// When bytes were last acknowledged, or when there was nothing to acknowledge.
    moved_at: Instant,
}

impl SendWindow {
    pub(super) fn new(now: Instant) -> Self {
        SendWindow { bytes: START_BYTES as f64, has_paused: false, is_paused: false, moved_at: now }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// The other side has acknowledged this many more bytes. Others are buffered or in flight.
    pub(super) fn update(&mut self, now: Instant, acknowledged: usize, buffered: usize) {
        let passed = now.since(self.moved_at);
        if buffered > 0 && passed >= PAUSE_MIN && !self.is_paused {
            self.bytes = (self.bytes / 2.0).max(MIN_BYTES as f64);
            (self.has_paused, self.is_paused) = (true, true);
        }
        if acknowledged > 0 && !self.is_paused {
            let grown = match self.has_paused {
                true => self.bytes * passed.div_duration_f64(DOUBLING_TIME),
                false => acknowledged as f64 / GROWTH_PART,
            };
            self.bytes = (self.bytes + grown).min(MAX_BYTES as f64);
        }
        if acknowledged > 0 || buffered == 0 {
            (self.moved_at, self.is_paused) = (now, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_grows_by_an_eighth_in_each_round_trip_up_to_its_limit() {
        let mut now = Instant::ZERO;
        let mut window = SendWindow::new(now);
        let mut round_trips = 0;
        while window.bytes() < MAX_BYTES {
            now += 50 * MS;
            let bytes = window.bytes();
            window.update(now, bytes, bytes);
            round_trips += 1;
        }
        assert_eq!((window.bytes(), round_trips), (MAX_BYTES, 24));
    }

    #[test]
    fn a_pause_halves_the_window_once_and_it_then_grows_with_the_time() {
        let mut now = Instant::ZERO;
        let mut window = SendWindow::new(now);
        window.update(now, MAX_BYTES * 8, 0);
        for _ in 0..30 {
            now += 100 * MS;
            window.update(now, 0, 1000);
        }
        assert_eq!(window.bytes(), MAX_BYTES / 2);
        for _ in 0..5000 {
            now += MS;
            window.update(now, 10_000, 1000);
        }
        let grown = window.bytes() as f64 / (MAX_BYTES / 2) as f64;
        assert!((1.4..1.8).contains(&grown), "{grown}");
    }

    #[test]
    fn time_without_anything_to_send_is_no_pause() {
        let mut window = SendWindow::new(Instant::ZERO);
        window.update(Instant::ZERO + 60_000 * MS, 0, 0);
        window.update(Instant::ZERO + 60_400 * MS, 0, 1000);
        assert_eq!(window.bytes(), START_BYTES);
    }

    #[test]
    fn many_pauses_leave_room_for_two_frames() {
        let mut now = Instant::ZERO;
        let mut window = SendWindow::new(now);
        for acknowledged in [0, 1].repeat(50) {
            now += 500 * MS;
            window.update(now, acknowledged, 1000);
        }
        assert!(
            window.bytes() >= MIN_BYTES && window.bytes() < 2 * MIN_BYTES,
            "{}",
            window.bytes()
        );
    }
}
