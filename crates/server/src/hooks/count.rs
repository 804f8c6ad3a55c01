//! Counts with a bound.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts one more, unless there are `max` already. Returns whether it is counted.
pub(super) fn add_up_to(count: &AtomicU32, max: u32) -> bool {
    let add = |count| (count < max).then(|| count + 1);
    count.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}
