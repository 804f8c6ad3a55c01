//! A feature that is written outside of this crate, as `examples/feature` has it.

#[path = "../../../../examples/feature/src/greetings.rs"]
mod greetings;

use watchfire::{Server, StartError};
use watchfire_operator::{AdminSettings, Operator};
use watchfire_testkit::Client;

use crate::support::{get, metric, settings, settings_without_operator};
use greetings::GreetingSettings;

#[test]
fn a_feature_that_is_given_twice_prevents_the_start() {
    let server = Server::new(settings()).with(Operator::new()).with(Operator::new());
    let error = server.start().err().expect("the server does not start").to_string();
    assert!(error.starts_with("cannot start with two features named \"operator\""), "{error}");
}

#[test]
fn a_section_that_no_feature_reads_prevents_the_start_and_names_the_missing_feature() {
    let mut settings = settings_without_operator();
    settings.section_mut::<AdminSettings>().token = "a token of the operator".into();
    let error = Server::new(settings.clone()).start().err().expect("the server does not start");
    assert!(
        matches!(error, StartError::Unread { section: "admin", feature: "watchfire-operator" }),
        "{error}"
    );
    let checked = Server::new(settings.clone()).check().unwrap_err();
    assert_eq!(checked.to_string(), error.to_string());
    assert!(Server::new(settings).with(Operator::new()).check().is_ok());
}

#[test]
fn a_feature_is_added_with_one_call() {
    let mut settings = settings();
    settings.section_mut::<GreetingSettings>().text = "good days".into();
    let server = Server::new(settings).with(greetings::Greetings).with(Operator::new());
    let server = server.start().expect("the server starts");
    assert!(get(&server, "/greetings").ends_with("\r\n\r\n0 good days"));
    let mut client = Client::connect(server.address());
    client.join("greetings", serde_json::json!({}));
    assert!(get(&server, "/greetings").ends_with("\r\n\r\n1 good days"));
    assert_eq!(metric(&server, "watchfire_greetings_total"), 1);
}

/// Every block of code in the walk of CONTRIBUTING.md is a part of the example.
#[test]
fn the_walk_of_contributing_shows_the_example() {
    let contributing = include_str!("../../../../CONTRIBUTING.md");
    let heading = "\n## Add a channel feature, end to end\n";
    let (_, walk) = contributing.split_once(heading).expect("the walk");
    let (walk, _) = walk.split_once("\n## ").expect("another chapter follows");
    let unindented = |code: &str| code.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let example = unindented(include_str!("../../../../examples/feature/src/greetings.rs"));
    let blocks: Vec<&str> = walk.split("```").skip(1).step_by(2).collect();
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    for block in blocks {
        let code = unindented(block.strip_prefix("rust\n").expect("a block of Rust"));
        assert!(example.contains(code.trim_end()), "greetings.rs does not contain:\n{code}");
    }
}
