//! Promises of a server with pages, as its clients see them.

#[path = "../../../server/tests/all/support/mod.rs"]
mod support;

mod admin;
mod deny_list;
mod gateway;
mod http;
mod operator_view;
mod pages;
mod sites;
mod sprites;
mod stun;

use watchfire::{RunningServer, Server};
use watchfire_operator::Operator;
use watchfire_pages::Pages;

fn server() -> RunningServer {
    let server = Server::new(support::settings()).with(Pages::new()).with(Operator::new());
    server.start().expect("the server starts")
}
