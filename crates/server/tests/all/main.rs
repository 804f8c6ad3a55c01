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
mod streams;
mod support;
mod testing;
mod tokens;

use watchfire::{RunningServer, Server, Settings, StartError};
use watchfire_operator::Operator;

/// A server with all that this program tests.
fn with_operator(settings: Settings) -> Server {
    Server::new(settings).with(Operator::new())
}

fn start(settings: Settings) -> RunningServer {
    with_operator(settings).start().expect("the server starts")
}

fn start_error(settings: Settings) -> StartError {
    with_operator(settings).start().err().expect("the server does not start")
}

fn server() -> RunningServer {
    start(support::settings())
}
