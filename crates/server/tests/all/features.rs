//! A feature that is written outside of this crate, as `examples/feature` has it.

#[path = "../../../../examples/feature/src/greetings.rs"]
mod greetings;

use watchfire::{Operator, Server};

use crate::support::{Client, get, metric, settings};

#[test]
fn a_feature_is_added_with_one_call() {
    let server = Server::new(settings()).with(greetings::Greetings).with(Operator::new());
    let server = server.start().expect("the server starts");
    assert!(get(&server, "/greetings").ends_with("\r\n\r\n0"));
    let mut client = Client::connect(&server);
    client.join("greetings", serde_json::json!({}));
    assert!(get(&server, "/greetings").ends_with("\r\n\r\n1"));
    assert_eq!(metric(&server, "watchfire_greetings_total"), 1);
}
