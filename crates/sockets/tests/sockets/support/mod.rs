//! A handler whose behaviour depends on the request's path, and a client that sends bytes.

mod certificate;
mod client;
mod handler;
mod handoff_pipe;

pub use certificate::Certificate;
pub use client::{Client, Frame, masked, masked_header, upgrade_request};
pub use handler::{Command, Event, TestServer, Ticket};

use std::sync::mpsc;

use watchfire_testkit::DEADLINE;

/// Receives, or fails the test.
pub fn receive<T>(from: &mpsc::Receiver<T>) -> T {
    from.recv_timeout(DEADLINE).expect("an event within the deadline")
}
