//! The HTTP routes of pages.

use watchfire_pages::PageSettings;

use crate::support::{self, Client, get, settings};
use crate::{server, start};

#[test]
fn the_status_page_counts_people_and_pages_if_the_operator_wants_it() {
    assert!(!get(&server(), "/status").contains("Watchfire is up"));
    let mut settings = settings();
    settings.section_mut::<PageSettings>().status_page = true;
    let server = start(settings);
    let mut client = Client::connect(&server);
    let page = "page:bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
    client.join(page, serde_json::json!({ "have": "all" }));
    let response = get(&server, "/status");
    assert!(response.contains("<dt>People here</dt><dd>1</dd>"), "{response}");
    assert!(response.contains("<dt>Pages available</dt><dd>1</dd>"), "{response}");
    assert!(
        response.contains("default-src 'none'") && !response.contains("127.0.0.1"),
        "{response}"
    );
}

#[test]
fn metrics_count_clients_joins_and_refusals() {
    let mut settings = settings();
    settings.channels.open_rooms = true;
    let server = start(settings);
    let mut client = Client::connect(&server);
    client.join("rooms:lobby", serde_json::json!({}));
    client.join("unknown", serde_json::json!({}));
    assert_eq!(support::metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 1);
    assert_eq!(
        support::metric(&server, r#"watchfire_channels_joins_total{outcome="accepted"}"#),
        1
    );
    let refused = r#"watchfire_refusals_total{reason="unmatched_topic"}"#;
    assert_eq!(support::metric(&server, refused), 1);
    assert!(support::metrics(&server).ends_with("# EOF\n"));
}

#[test]
fn rooms_are_an_unknown_topic_until_the_operator_opens_them() {
    for is_open in [false, true] {
        let mut settings = settings();
        settings.channels.open_rooms = is_open;
        let server = start(settings);
        let mut client = Client::connect(&server);
        let reply = client.join("rooms:lobby", serde_json::json!({}));
        let unmatched = serde_json::json!({
            "status": "error", "response": { "reason": "unmatched topic" },
        });
        assert_eq!(reply == unmatched, !is_open, "{reply}");
        let limits = get(&server, "/limits");
        let body = limits.split("\r\n\r\n").nth(1).expect("a body");
        let limits: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(limits["rooms"], is_open);
    }
}

#[test]
fn the_app_has_a_restrictive_content_security_policy() {
    for path in ["/", "/chat", "/p/anything", "/no/such/path"] {
        let response = get(&server(), path);
        let head = response.split("\r\n\r\n").next().expect("a head").to_lowercase();
        assert!(head.contains("content-security-policy: default-src 'self'"), "{path}: {head}");
        assert!(head.contains("frame-src 'self'"), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
    }
}

#[test]
fn the_frame_for_scripts_of_pages_allows_no_connections() {
    let response = get(&server(), "/frame");
    let head = response.split("\r\n\r\n").next().expect("a head").to_lowercase();
    assert!(head.contains("content-security-policy: sandbox allow-scripts; default-src 'none'"));
    assert!(head.contains("connection-allowlist: ()"), "{head}");
}
