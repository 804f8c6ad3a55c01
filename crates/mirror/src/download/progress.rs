//! Whether a download goes on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the arrivals of a download: bytes of the registry, and hashes and blocks of other hosts. While
/// the count grows, the rest will arrive.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    pub(super) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The count.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
