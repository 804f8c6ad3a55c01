//! The HTTP routes of pages.

use watchfire_pages::PageSettings;
use watchfire_testkit::Client;

use crate::support::{self, get, settings};
use crate::{server, start};

#[test]
fn the_status_page_counts_people_and_pages_if_the_operator_wants_it() {
    assert!(!get(&server(), "/status").contains("Watchfire is up"));
    let mut settings = settings();
    settings.section_mut::<PageSettings>().status_page = true;
    let server = start(settings);
    let mut client = Client::connect(server.address());
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
    settings.section_mut::<watchfire_pages::RoomSettings>().open_rooms = true;
    let server = start(settings);
    let mut client = Client::connect(server.address());
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
        settings.section_mut::<watchfire_pages::RoomSettings>().open_rooms = is_open;
        let server = start(settings);
        let mut client = Client::connect(server.address());
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
        assert!(head.contains("x-dns-prefetch-control: off"), "{path}: {head}");
    }
}

#[test]
fn the_picture_of_a_link_has_a_whole_address_if_the_server_knows_its_own() {
    let picture = |public_url: &str, encoding: &str| {
        let mut settings = settings();
        settings.server.public_url = public_url.into();
        let server = start(settings);
        // The host of a request is never in the document.
        let head =
            "GET /p/anything HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-host: evil.example";
        let head = format!("{head}\r\naccept-encoding: {encoding}\r\nconnection: close\r\n\r\n");
        let response = support::http(&server, &head);
        let at = response.find("og:image\" content=\"").expect("a picture of a link") + 19;
        response[at..].split('"').next().expect("the rest").to_owned()
    };
    assert_eq!(picture("", "identity"), "/link.png");
    let whole = "https://fire.example/link.png";
    assert_eq!(picture("https://fire.example", "identity"), whole);
    assert_eq!(picture("https://fire.example/path/", "br"), whole);
}

#[test]
fn content_of_a_share_sheet_is_refused_without_reading_it() {
    let head = "POST /receive HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n";
    let response = support::http(&server(), &format!("{head}the first bytes")).to_lowercase();
    assert!(response.starts_with("http/1.1 303 "), "{response}");
    assert!(response.contains("location: /#received-nothing\r\n"), "{response}");
    assert!(response.contains("connection: close\r\n"), "{response}");
    assert!(get(&server(), "/receive").starts_with("HTTP/1.1 404 "));
}

#[test]
fn only_the_app_itself_may_connect_to_other_addresses() {
    let server = server();
    let policies = ["/", "/frame"].map(|path| {
        let response = get(&server, path);
        let head = response.split("\r\n\r\n").next().expect("a head").to_lowercase();
        let mut lines = head.lines();
        let policy = lines.find_map(|line| line.strip_prefix("content-security-policy: "));
        policy.expect("a policy").to_owned()
    });
    assert!(policies[0].contains("connect-src 'self' https: ws: wss:;"), "{}", policies[0]);
    assert!(policies[0].contains("script-src") || policies[0].contains("default-src 'self'"));
    assert!(!policies[1].contains("connect-src") && !policies[1].contains("https:"));
}

#[test]
fn the_frame_for_scripts_of_pages_allows_no_connections() {
    let response = get(&server(), "/frame");
    let head = response.split("\r\n\r\n").next().expect("a head").to_lowercase();
    assert!(head.contains("content-security-policy: sandbox allow-scripts; default-src 'none'"));
    assert!(head.contains("connection-allowlist: ()"), "{head}");
    assert!(head.contains("x-dns-prefetch-control: off"), "{head}");
}

#[test]
fn the_worker_that_reads_pdfs_may_only_run_and_load_its_own_code() {
    let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/web-client/assets");
    let files = std::fs::read_dir(assets).expect("a built web client");
    let names = files.map(|file| file.expect("an entry").file_name().into_string().expect("UTF-8"));
    let scripts: Vec<_> = names.filter(|name| name.ends_with("js")).collect();
    let (workers, others): (Vec<_>, Vec<_>) =
        scripts.into_iter().partition(|name| name.starts_with("pdf.worker."));
    assert_eq!(workers.len(), 1, "{workers:?}");
    let server = server();
    let policy = |name: &str| {
        let response = get(&server, &format!("/assets/{name}"));
        let head = response.split("\r\n\r\n").next().expect("a head").to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{name}: {head}");
        let mut lines = head.lines();
        let policy = lines.find_map(|line| line.strip_prefix("content-security-policy: "));
        policy.expect("a policy").to_owned()
    };
    assert_eq!(
        policy(&workers[0]),
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"
    );
    let pdf =
        others.iter().find(|name| name.starts_with("pdf-")).expect("the code that shows PDFs");
    assert!(!policy(pdf).contains("wasm-unsafe-eval"), "WebAssembly runs in the worker alone");
}
