//! The calls for profiles of a program that was built without them.
#![cfg(not(feature = "profiles"))]

#[path = "../../server/tests/all/support/mod.rs"]
mod support;

use watchfire::Server;
use watchfire_operator::Operator;

#[test]
fn a_program_without_profiles_says_which_feature_it_lacks() {
    let server = Server::new(support::settings()).with(Operator::new());
    let server = server.start().expect("the server starts");
    for path in ["/debug/pprof/profile?seconds=1", "/debug/flamegraph"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = support::http_to(support::admin_address(&server), &request);
        let is_told = answer.contains("--features profiles");
        assert!(answer.starts_with("HTTP/1.1 501 ") && is_told, "{answer}");
    }
}
