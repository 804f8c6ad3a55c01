//! A handler that does what the path says, and a client that speaks in bytes.

mod certificate;
mod client;
mod handler;
mod handoff_pipe;

pub use certificate::Certificate;
pub use client::{Client, Frame, masked, masked_header, upgrade_request};
pub use handler::{Event, TestServer};

use std::sync::mpsc;
use std::time::Duration;

/// How long a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Receive, or fail the test.
pub fn receive<T>(from: &mpsc::Receiver<T>) -> T {
    from.recv_timeout(DEADLINE).expect("an event within the deadline")
}
