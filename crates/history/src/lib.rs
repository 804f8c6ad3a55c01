//! The recent messages of a topic, by epoch and offset.
//!
//! Absent on purpose: clocks, I/O, and a bound over the logs of all topics.

mod log;

pub use log::{Bounds, Log, Position, Since};
