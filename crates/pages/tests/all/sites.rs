//! Hosts of sites: they serve the shell and the service worker, and nothing else.

use watchfire::{RunningServer, Server};
use watchfire_pages::{PagesError, SitesError, SitesSettings};

use crate::support::{get, http, metric, settings};
use crate::{server, start, with_pages};

const CID: &str = "bafybeicl2vqmrnvrbfywpem5bcbbv2vx4fwsg5ooa6yvmczz3dvh5f7pzm";

/// Sends a request with these head lines. Returns the response's head in lower case, and its body.
fn request(server: &RunningServer, lines: &[&str]) -> (String, String) {
    let text = format!("{}\r\nconnection: close\r\n\r\n", lines.join("\r\n"));
    let response = http(server, &text);
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    (head.to_lowercase(), body.to_owned())
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).expect("a status")
}

#[test]
fn a_site_has_its_shell_and_its_worker() {
    let server = server();
    let host = format!("host: {CID}.localhost:4000");
    let (head, body) = request(&server, &["GET /.watchfire/shell HTTP/1.1", &host]);
    assert_eq!(status(&head), "200", "{head}");
    assert!(head.contains("frame-ancestors localhost:4000\r\n"), "{head}");
    assert!(head.contains("sandbox allow-scripts allow-same-origin allow-forms;"), "{head}");
    assert!(head.contains("default-src 'none'"), "{head}");
    assert!(head.contains("connection-allowlist: (response-origin)"), "{head}");
    assert!(body.contains("serviceWorker"), "{body}");

    let worker = ["GET /.watchfire/worker.js HTTP/1.1", &host, "service-worker: script"];
    let (head, _) = request(&server, &worker);
    assert_eq!(status(&head), "200", "{head}");
    assert!(head.contains("service-worker-allowed: /"), "{head}");
    assert!(head.contains("content-type: text/javascript"), "{head}");
}

#[test]
fn a_sites_host_serves_nothing_else() {
    let server = server();
    let host = format!("host: {CID}.localhost:4000");
    let upgrade = [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let paths = [
        "/",
        "/index.html",
        "/site.html",
        "/site-worker.js",
        "/frame",
        "/chat",
        "/p/x",
        "/limits",
        "/metrics",
        "/healthz",
        "/favicon.svg",
        "/sprites/a/join",
        "/sprites/a/poll?token=x",
        "/socket/websocket?vsn=2.0.0",
        "/socket/longpoll?vsn=2.0.0",
        "/.watchfire/worker.js",
        "/.watchfire/shell/",
        "/.watchfire/shell?word",
        "/.watchfire/shell?",
        "/.watchfire/../limits",
        "//limits",
        "/.watchfire",
    ];
    for path in paths {
        for method in ["GET", "POST", "HEAD", "OPTIONS", "PUT"] {
            let line = format!("{method} {path} HTTP/1.1");
            let mut lines = vec![line.as_str(), &host];
            if path.starts_with("/socket/websocket") {
                lines.extend(upgrade);
            }
            let (head, body) = request(&server, &lines);
            assert_eq!(status(&head), "404", "{line}: {head}");
            assert!(
                head.contains("content-security-policy: default-src 'none'; sandbox"),
                "{head}"
            );
            assert!(!head.contains("access-control"), "{head}");
            assert!(
                body.is_empty() || body.starts_with("The tab that has the page open"),
                "{body}"
            );
        }
    }
    let (head, _) = request(&server, &["POST /.watchfire/shell HTTP/1.1", &host]);
    assert_eq!(status(&head), "404", "{head}");
    let as_worker = ["GET /.watchfire/shell HTTP/1.1", &host, "service-worker: script"];
    assert_eq!(status(&request(&server, &as_worker).0), "404");
    assert!(metric(&server, r#"watchfire_refusals_total{reason="site"}"#) > 80);
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 0);
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="longpoll"}"#), 0);
}

#[test]
fn a_site_cannot_pass_for_the_app_with_a_forwarding_header() {
    let server = server();
    let host = format!("host: {CID}.localhost:4000");
    for forwarded in ["x-forwarded-host: localhost:4000", "x-forwarded-host: example.org"] {
        for target in ["/healthz", "/socket/longpoll?vsn=2.0.0"] {
            let line = format!("GET {target} HTTP/1.1");
            let (head, _) = request(&server, &[&line, &host, forwarded]);
            assert_eq!(status(&head), "404", "{forwarded}, {target}: {head}");
        }
    }
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="longpoll"}"#), 0);
}

#[test]
fn no_spelling_of_a_sites_host_reaches_the_app() {
    let server = server();
    let upper_case = CID.to_uppercase();
    for host in [
        format!("{CID}.localhost"),
        format!("{CID}.LOCALHOST:{}", server.address().port()),
        format!("{upper_case}.localhost."),
        format!("{CID}.localhost.:80"),
        format!("www.{CID}.localhost"),
        "www.localhost".to_owned(),
        ".localhost".to_owned(),
    ] {
        let by_header = format!("host: {host}");
        let (head, _) = request(&server, &["GET /healthz HTTP/1.1", &by_header]);
        assert_eq!(status(&head), "404", "{host}: {head}");
        let by_target = format!("GET http://{host}/healthz HTTP/1.1");
        let (head, _) = request(&server, &[&by_target, &by_header]);
        assert_eq!(status(&head), "404", "{by_target}: {head}");
        let (head, _) = request(&server, &[&by_target, "host: localhost"]);
        assert_eq!(status(&head), "400", "{by_target}: {head}");
        let by_target = "GET http://localhost/socket/longpoll?vsn=2.0.0 HTTP/1.1";
        let (head, _) = request(&server, &[by_target, &by_header]);
        assert_eq!(status(&head), "400", "{host}: {head}");
    }
    for pair in [["localhost", &format!("{CID}.localhost")], ["localhost", "localhost"]] {
        let [first, second] = pair.map(|host| format!("host: {host}"));
        for target in ["/healthz", "/socket/longpoll?vsn=2.0.0", "/.watchfire/shell"] {
            let line = format!("GET {target} HTTP/1.1");
            assert_eq!(status(&request(&server, &[&line, &first, &second]).0), "400");
            assert_eq!(status(&request(&server, &[&line, &second, &first]).0), "400");
        }
    }
    let (head, _) = request(&server, &["GET http://localhost/healthz HTTP/1.1", "host: localhost"]);
    assert_eq!(status(&head), "200", "{head}");
}

#[test]
fn the_host_is_checked_for_each_request_of_a_connection() {
    let server = server();
    let site = format!("GET /healthz HTTP/1.1\r\nhost: {CID}.localhost\r\n\r\n");
    let app = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let responses = http(&server, &format!("{app}{site}{app}{site}{last}"));
    let statuses: Vec<_> =
        responses.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["200", "404", "200", "404", "200"]);
}

#[test]
fn the_app_may_embed_its_sites_and_gets_their_authority() {
    let server = server();
    let (head, _) = request(&server, &["GET / HTTP/1.1", "host: localhost:4000"]);
    assert!(head.contains("frame-src 'self' *.localhost:4000;"), "{head}");
    let (head, _) = request(&server, &["GET / HTTP/1.1", "host: 127.0.0.1:4000"]);
    assert!(head.contains("frame-src 'self';"), "{head}");
    let sites_of = |host: &str| {
        let (_, body) = request(&server, &["GET /limits HTTP/1.1", &format!("host: {host}")]);
        serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["sites"].clone()
    };
    assert_eq!(sites_of("localhost:4000"), "localhost:4000");
    assert_eq!(sites_of("127.0.0.1:4000"), serde_json::Value::Null);
    assert_eq!(sites_of("fire.example.org"), serde_json::Value::Null);
}

#[test]
fn a_configured_domain_has_sites_for_its_app() {
    let mut with_domain = settings();
    with_domain.section_mut::<SitesSettings>().domain = "pages.example.org".into();
    with_domain.section_mut::<SitesSettings>().app = "https://fire.example.net".into();
    let server = start(with_domain);
    let host = format!("host: {CID}.pages.example.org");
    let (head, _) = request(&server, &["GET /.watchfire/shell HTTP/1.1", &host]);
    assert!(head.contains("frame-ancestors https://fire.example.net\r\n"), "{head}");
    let bare = ["GET / HTTP/1.1", "host: pages.example.org"];
    assert_eq!(status(&request(&server, &bare).0), "404");
    let (head, _) = request(&server, &["GET / HTTP/1.1", "host: fire.example.net"]);
    assert!(head.contains("frame-src 'self' *.pages.example.org;"), "{head}");

    let mut half = settings();
    half.section_mut::<SitesSettings>().domain = "pages.example.org".into();
    let error = with_pages(half).start().map(|_| ()).unwrap_err();
    let refusal = error.of_feature();
    assert!(matches!(refusal, Some(PagesError::Sites(SitesError::App(_)))), "{error}");
}

#[test]
fn a_server_without_pages_has_no_sites() {
    let server = Server::new(settings())
        .with(watchfire_operator::Operator::new())
        .start()
        .expect("the server starts");
    let (head, body) =
        request(&server, &["GET /healthz HTTP/1.1", &format!("host: {CID}.localhost")]);
    assert_eq!((status(&head), body.as_str()), ("200", "ok\n"));
    assert!(!get(&server, "/limits").contains("sites"));
}
