//! Promises of a server with pages, as its clients see them.

#[path = "../../../server/tests/all/support/mod.rs"]
mod support;

mod admin;
mod closings;
mod deny_list;
mod gateway;
mod guests;
mod http;
mod neighbours;
mod operator_view;
mod pages;
mod sites;
mod sprites;
mod start_errors;
mod stun;

use watchfire::{RunningServer, Server, Settings};
use watchfire_operator::Operator;
use watchfire_pages::Pages;

/// A server with pages and the operator's listener.
fn with_pages(settings: Settings) -> Server {
    Server::new(settings).with(Pages::new()).with(Operator::new())
}

fn start(settings: Settings) -> RunningServer {
    with_pages(settings).start().expect("the server starts")
}

fn server() -> RunningServer {
    start(support::settings())
}
