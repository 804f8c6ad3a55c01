//! The promises of the HTTP API, as its callers and the clients of its server see them.

#[path = "../../../server/tests/all/support/mod.rs"]
mod support;

mod calls;
mod differing_machines;
