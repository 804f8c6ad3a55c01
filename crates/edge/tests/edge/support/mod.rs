//! A tenant that does what the path says, and a client that speaks in bytes.

mod client;
mod tenant;

pub use client::{Client, Frame, masked, masked_header, upgrade_request};
pub use tenant::{Event, House};

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Wait until `holds`, which some thread is about to make true.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        std::thread::yield_now();
    }
}

/// Receive, or fail the test.
pub fn receive<T>(from: &mpsc::Receiver<T>) -> T {
    from.recv_timeout(DEADLINE).expect("an event within the deadline")
}
