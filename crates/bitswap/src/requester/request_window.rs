//! The request window: how fast a peer delivers, and how many bytes to request from it at a time.
//!
//! Without a window, a node must guess, and both guesses are wrong. If it requests one block of 256
//! KiB at a time over a link with a round trip of 100 ms, it gets at most 2.5 MiB a second, however
//! fast the link is. If it requests all 64 MiB of a file at a time from a peer that delivers 500 KB
//! a second, the last block waits for two minutes. Meanwhile other peers that have it are idle, and
//! the choice of blocks is two minutes old.
//!
//! So the window holds the bytes that the peer delivers within two round trips, and two blocks.
//! With 20 MiB a second, a round trip of 100 ms and blocks of 1 MiB, these are 4 MiB + 2 MiB. One
//! round trip keeps the link busy until the next request arrives. The second one lets the rate show
//! that it can grow: while the window is the bottleneck, the window doubles every round trip. Then
//! the rate stops growing, and so does the window. The second round trip counts as at least 20 ms,
//! to bridge the pauses of a busy machine.
//!
//! The rate follows an increase immediately, and a decrease slowly: each lower sample counts one
//! eighth, because a pause of a busy machine is not a slower peer. A sample lasts at least one
//! round trip and 20 ms.
//!
//! The bounds: for one peer the window is from `window_bytes_min` (512 KiB by default) to
//! `window_bytes_max` (32 MiB). The window of all peers together (`rarest_first/budget_of_all_peers.rs`)
//! has room for more than two blocks: for those that arrive in two seconds, at most 16.

use std::time::Duration;

use watchfire_types::Instant;

use crate::Limits;

/// How fast a peer delivers, and its request window.
#[derive(Debug)]
pub(crate) struct DeliveryRate {
    /// Bytes per second; 0 while unknown.
    pub rate: u64,
    /// The shortest time to an answer.
    pub base_latency: Option<Duration>,
    /// The usual time to an answer.
    pub usual_latency: Option<Duration>,
    /// Bytes to request at a time.
    pub window_bytes: usize,
    /// Bytes of all blocks that arrived.
    pub delivered: u64,
    block_bytes: usize,
    /// Blocks for which the window has room at least.
    blocks_min: usize,
    sample_from: Instant,
    sample_bytes: u64,
}

/// Least time of a sample.
const SAMPLE_MIN: Duration = Duration::from_millis(20);

impl DeliveryRate {
    pub(crate) fn new(limits: &Limits, blocks_min: usize) -> Self {
        DeliveryRate {
            rate: 0,
            base_latency: None,
            usual_latency: None,
            window_bytes: limits.window_bytes_min.max(blocks_min * limits.block_bytes_estimate),
            blocks_min,
            delivered: 0,
            block_bytes: limits.block_bytes_estimate,
            sample_from: Instant::ZERO,
            sample_bytes: 0,
        }
    }

    /// Starts a sample. Call this for the first request after the peer had none.
    pub(crate) const fn start_sample(&mut self, now: Instant) {
        self.sample_from = now;
        self.sample_bytes = 0;
    }

    /// Extends the sample: the next block may have been requested as early as this.
    pub(crate) fn extend_sample_back(&mut self, to: Instant) {
        self.sample_from = self.sample_from.min(to);
    }

    /// Records the time that an answer took.
    pub(crate) fn record_latency(&mut self, latency: Duration) {
        let base = self.base_latency;
        self.base_latency = Some(base.map_or(latency, |base| base.min(latency)));
        let usual = self.usual_latency;
        self.usual_latency = Some(usual.map_or(latency, |usual| (usual * 7 + latency) / 8));
    }

    pub(crate) const fn bytes_of_blocks(&self, blocks: usize) -> u64 {
        (blocks * self.block_bytes) as u64
    }

    /// The shortest latency; zero while unknown.
    pub(crate) fn base(&self) -> Duration {
        self.base_latency.unwrap_or_default()
    }

    /// Mixes in the latency of one of the peers that this rate covers.
    pub(crate) fn blend_latency(&mut self, of: &DeliveryRate) {
        if let Some(base) = of.base_latency {
            self.base_latency = Some(self.base_latency.map_or(base, |mean| (mean * 7 + base) / 8));
        }
    }

    pub(crate) fn record_block(&mut self, now: Instant, bytes: usize, limits: &Limits) {
        self.delivered += bytes as u64;
        self.sample_bytes += bytes as u64;
        self.block_bytes = bytes.max(self.block_bytes / 2);
        let base = self.base();
        let took = now.since(self.sample_from);
        if took < base.max(SAMPLE_MIN) {
            return;
        }
        let nanos = took.as_nanos().max(1);
        let sample = u128::from(self.sample_bytes) * 1_000_000_000 / nanos;
        let sample = u64::try_from(sample).unwrap_or(u64::MAX);
        self.rate = if sample > self.rate { sample } else { self.rate / 8 * 7 + sample / 8 };
        self.start_sample(now);
        let within = (base * 2).max(base + SAMPLE_MIN);
        let bytes = u128::from(self.rate) * within.as_nanos() / 1_000_000_000;
        // If a block takes seconds, many requests at a time would only wait.
        let ahead = usize::try_from(self.rate).unwrap_or(usize::MAX).saturating_mul(2);
        let least = ahead.clamp(2 * self.block_bytes, self.blocks_min.max(2) * self.block_bytes);
        let window = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(least);
        self.window_bytes = window.clamp(limits.window_bytes_min, limits.window_bytes_max);
    }
}

/// The time that `bytes` take at a rate of bytes per second.
pub(crate) fn transfer_time(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_what_arrives_within_two_round_trips() {
        let limits = Limits::default();
        let mut delivery = DeliveryRate::new(&limits, 2);
        assert_eq!(delivery.window_bytes, 2 * limits.block_bytes_estimate);
        delivery.record_latency(Duration::from_millis(100));
        delivery.start_sample(Instant::ZERO);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        delivery.record_block(at(50), 1 << 20, &limits);
        assert_eq!(delivery.rate, 0, "a sample takes a round trip");
        delivery.record_block(at(100), 1 << 20, &limits);
        assert_eq!(delivery.rate, 20 << 20);
        assert_eq!(delivery.window_bytes, (4 << 20) + (2 << 20));
        assert_eq!(transfer_time(5 << 20, delivery.rate), Duration::from_millis(250));
    }
}
