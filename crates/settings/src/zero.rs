//! Settings for which zero would mean that no client can be served.

use std::time::Duration;

/// A value that can be zero.
pub trait Zero {
    fn is_zero(&self) -> bool;
}

impl Zero for Duration {
    fn is_zero(&self) -> bool {
        Duration::is_zero(self)
    }
}

impl Zero for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl Zero for u32 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl Zero for u16 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}
