//! Metrics of sprites.

use watchfire::feature::Counter;

#[derive(Debug, Default)]
pub(super) struct SpriteMetrics {
    /// Accepted throws, whether a neighbour took the sprite or it returned.
    pub throws: Counter,
}
