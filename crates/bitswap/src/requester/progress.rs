use std::time::Duration;

use watchfire_types::Instant;

use super::request_window::DeliveryRate;
use crate::Limits;

/// Blocks for which the window over all peers has room at least.
const BLOCKS_REQUESTED_MIN: usize = 16;

/// The rate of all peers together since the first want.
#[derive(Debug)]
pub(crate) struct Progress {
    pub delivery: DeliveryRate,
    pub last_block_at: Instant,
    /// Wants that were added since the last time that there were none.
    pub wanted_total: usize,
    /// Second requests among those, for blocks that were requested already.
    pub endgame_requests: usize,
    /// When the first want was added, and how many bytes had arrived by then.
    started: (Instant, u64),
}

impl Progress {
    pub(crate) fn new(limits: &Limits) -> Self {
        Progress {
            delivery: DeliveryRate::new(limits, BLOCKS_REQUESTED_MIN),
            last_block_at: Instant::ZERO,
            wanted_total: 0,
            endgame_requests: 0,
            started: (Instant::ZERO, 0),
        }
    }

    /// The first want was added.
    pub(crate) const fn start(&mut self, now: Instant) {
        self.last_block_at = now;
        self.started = (now, self.delivery.delivered);
    }

    /// The last want was removed.
    pub(crate) const fn finish(&mut self) {
        (self.wanted_total, self.endgame_requests) = (0, 0);
    }

    pub(crate) fn record_block(
        &mut self,
        now: Instant,
        bytes: usize,
        from: &DeliveryRate,
        limits: &Limits,
    ) {
        self.delivery.blend_latency(from);
        self.delivery.record_block(now, bytes, limits);
        self.last_block_at = now;
    }

    /// The time for `blocks` at the mean rate since the start. The recent rate may be far
    /// higher, because blocks of several peers end together.
    pub(crate) fn time_for(&self, blocks: usize) -> Duration {
        let (from, before) = self.started;
        let bytes = u128::from(self.delivery.delivered - before);
        let wanted = u128::from(self.delivery.bytes_of_blocks(blocks));
        let nanos = wanted * self.last_block_at.since(from).as_nanos();
        Duration::from_nanos(
            u64::try_from(nanos.checked_div(bytes).unwrap_or(0)).unwrap_or(u64::MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_blocks_follows_the_mean_rate_since_the_start() {
        let limits = Limits::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut progress = Progress::new(&limits);
        progress.start(at(10));
        assert_eq!(progress.time_for(4), Duration::ZERO);
        let peer = DeliveryRate::new(&limits, 2);
        progress.record_block(at(12), 1 << 20, &peer, &limits);
        assert_eq!(progress.time_for(4), Duration::from_secs(8));
    }
}
