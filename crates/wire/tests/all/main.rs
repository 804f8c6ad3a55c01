//! Networks with real sockets, in namespaces of this machine.

mod links;
mod punching;

use watchfire_wire::{Wire, WirePlan};

/// Starts a network. Each test that does so is ignored, because only some machines and users can; `make rust-test` runs it
/// there.
fn start(plan: WirePlan) -> Wire {
    Wire::start(plan).unwrap_or_else(|error| panic!("{error}"))
}
