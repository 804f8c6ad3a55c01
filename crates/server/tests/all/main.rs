//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod applications;
mod embedded;
mod features;
mod history;
mod hooks;
mod http;
mod long_poll;
mod proxies;
mod rules;
mod support;
mod testing;
mod tokens;

use watchfire::RunningServer;

/// A server with all that this program tests.
fn server() -> RunningServer {
    support::start(support::settings())
}
