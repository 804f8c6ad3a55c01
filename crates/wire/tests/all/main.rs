//! Networks with real sockets, in namespaces of this machine.

mod links;
mod punching;

use watchfire_wire::{StartError, Wire, WirePlan};

/// Starts a network. `None` where the machine or the user may not: then there is nothing to test, except in CI.
fn start(plan: WirePlan) -> Option<Wire> {
    match Wire::start(plan) {
        Ok(wire) => Some(wire),
        Err(StartError::Unsupported(missing)) if std::env::var_os("CI").is_none() => {
            println!("not tested: {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
