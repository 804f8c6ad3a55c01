//! Metrics of sprites.

use watchfire::feature::Counter;

/// Counts of sprites at this process.
#[derive(Debug, Default)]
pub(super) struct SpriteMetrics {
    /// Accepted throws, whether a neighbour took the sprite or it returned.
    pub throws: Counter,
}
