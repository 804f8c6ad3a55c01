//! Whether a download goes on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the arrivals of a download: bytes of the registry, and hashes and blocks of other hosts. While
/// the count grows, the rest will arrive.
#[derive(Debug, Default)]
pub struct Progress {
    here: AtomicU64,
    elsewhere: AtomicU64,
}

impl Progress {
    /// Something arrived at this host.
    pub(super) fn note(&self) {
        self.here.fetch_add(1, Ordering::Relaxed);
    }

    /// Something arrived at another host that fetches the same blob.
    pub(super) fn note_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// Arrivals at this host.
    pub(super) fn here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }

    /// All arrivals.
    pub fn count(&self) -> u64 {
        self.here() + self.elsewhere.load(Ordering::Relaxed)
    }
}
