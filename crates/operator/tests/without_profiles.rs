//! The calls for profiles of a program that was built without them.
#![cfg(not(feature = "profiles"))]

#[path = "../../server/tests/all/support/mod.rs"]
mod support;

use watchfire::Server;
use watchfire_operator::Operator;
use watchfire_testkit::Request;

#[test]
fn a_program_without_profiles_says_which_feature_it_lacks() {
    let server = Server::new(support::settings()).with(Operator::new());
    let server = server.start().expect("the server starts");
    for path in ["/debug/pprof/profile?seconds=1", "/debug/flamegraph", "/admin/profile?at=0"] {
        let answer = Request::get(path).to(support::admin_address(&server));
        let is_told = answer.text().contains("--features profiles");
        assert!(answer.status == 501 && is_told, "{answer:?}");
    }
}
