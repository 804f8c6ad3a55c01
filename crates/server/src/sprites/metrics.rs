//! Metrics of sprites.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;

/// Counts of sprites at this process.
#[derive(Debug, Default)]
pub(super) struct SpriteMetrics {
    /// Accepted throws, whether a neighbour took the sprite or it returned.
    pub throws: Counter<u64, AtomicU64>,
}
