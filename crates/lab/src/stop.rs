//! Ends a load before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Told once, by whoever wants the load to end; all clones hear of it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// End the load. Who is there is counted as cut off.
    pub fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the load is to end.
    pub fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
