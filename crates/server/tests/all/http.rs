//! The routes of every server.

use watchfire::{Connected, StartError, TlsStartError};
use watchfire_operator::AdminSettings;
use watchfire_testkit::{Client, Request, UPGRADE, find};

use crate::server as watchfire;
use crate::support::{self, get, http, metric, settings};
use crate::{start_error, with_operator};

#[test]
fn a_running_server_is_healthy() {
    let response = get(&watchfire(), "/healthz");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nok\n"), "{response}");
}

#[test]
fn a_running_server_is_ready_and_names_its_conditions() {
    let response = get(&watchfire(), "/readyz");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let body = response.split("\r\n\r\n").nth(1).expect("a body");
    let health: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let expected = serde_json::json!({
        "ready": true,
        "conditions": {
            "accepting": { "ok": true },
            "processes": { "ok": true, "up": 1, "of": 1, "missing": [] },
            "event_loops": { "ok": true, "of": 2, "panicked": [] },
            "threads": { "ok": true, "panicked": [] },
        },
    });
    assert_eq!(health, expected);
}

#[test]
fn limits_are_served_as_json_to_every_site() {
    let response = get(&watchfire(), "/limits");
    assert!(response.contains("\r\naccess-control-allow-origin: *\r\n"), "{response}");
    let body = response.split("\r\n\r\n").nth(1).expect("a body");
    let limits: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(limits["limits"]["longpoll_body_bytes_max"]["value"], 8_000_000);
}

#[test]
fn a_websocket_request_without_an_upgrade_gets_400() {
    let response = get(&watchfire(), "/socket/websocket");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
}

#[test]
fn the_answer_to_a_head_has_no_body() {
    for path in ["/socket/websocket", "/socket/longpoll", "/healthz"] {
        let head = format!("HEAD {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let response = http(&watchfire(), &head);
        assert!(response.starts_with("HTTP/1.1 ") && response.ends_with("\r\n\r\n"), "{response}");
        assert_eq!(response.matches("\r\n\r\n").count(), 1, "{response}");
    }
}

#[test]
fn a_slash_too_many_in_the_path_of_the_socket_does_not_matter() {
    let server = watchfire();
    for path in ["//socket/websocket", "/socket//websocket", "/socket/websocket/"] {
        let url = format!("ws://{}{path}?vsn=2.0.0", server.address());
        let mut client = Client::connect_to(server.address(), &url).expect("it connects");
        assert_eq!(client.push("phoenix", "heartbeat", serde_json::json!({}))["status"], "ok");
    }
    let opened = get(&server, "/socket//longpoll?vsn=2.0.0");
    let (_, token) = opened.split_once("\"token\":\"").expect("a session");
    let token = token.split('"').next().expect("a token");
    let heartbeat = r#"[null,"1","phoenix","heartbeat",{}]"#;
    let path = format!("/socket/longpoll/?vsn=2.0.0&token={token}");
    let posted = Request::post(&path, heartbeat).to(server.address());
    assert_eq!(posted.text(), "{\"status\":200}");
    let polled = get(&server, &format!("//socket//longpoll?vsn=2.0.0&token={token}"));
    assert!(polled.contains("phx_reply"), "{polled}");
}

#[test]
fn metrics_are_in_the_format_that_is_asked_for() {
    let server = watchfire();
    let metrics = |accept: &str| {
        let request = Request::get("/metrics").line(format!("accept: {accept}"));
        let answer = request.to(support::admin_address(&server));
        (answer.header("content-type").to_owned(), answer.text().to_owned())
    };
    let (media_type, text) = metrics("text/plain;version=0.0.4");
    assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("\n# TYPE watchfire_refusals_total counter\n"), "{text}");
    assert!(!text.contains("# EOF"));
    let (_, open) = metrics("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1");
    assert!(open.contains("\n# TYPE watchfire_refusals counter\n"), "{open}");
}

#[test]
fn a_path_or_a_query_of_the_operator_that_is_not_utf_8_gets_400() {
    let server = watchfire();
    for path in ["/admin/topics?prefix=%E4", "/admin/connections/%E4"] {
        assert_eq!(Request::get(path).to(support::admin_address(&server)).status, 400, "{path}");
    }
}

#[test]
fn a_handshake_of_another_version_gets_426_with_the_version_of_the_server() {
    let request = "GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\n\
                   connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 8\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let response = http(&watchfire(), request);
    assert!(response.starts_with("HTTP/1.1 426 "), "{response}");
    assert!(response.contains("\r\nsec-websocket-version: 13\r\n"), "{response}");
}

#[test]
fn pages_of_no_origin_of_the_server_may_not_connect_over_any_transport() {
    let server = watchfire();
    for headers in [
        "host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n",
        // A page of a domain that has the address 127.0.0.1 meanwhile.
        "host: attacker.example\r\norigin: http://attacker.example\r\n",
    ] {
        let websocket = format!("{UPGRADE}{headers}\r\n");
        assert!(http(&server, &websocket).starts_with("HTTP/1.1 403 "), "{headers}");
        for method in ["GET", "POST"] {
            let long_poll = format!(
                "{method} /socket/longpoll?vsn=2.0.0 HTTP/1.1\r\n{headers}\
                 connection: close\r\n\r\n"
            );
            let response = http(&server, &long_poll);
            assert!(response.ends_with("{\"status\":403}"), "{method}: {headers}: {response}");
        }
    }
}

#[test]
fn long_poll_answers_other_methods_with_400() {
    let request = "PUT /socket/longpoll HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(http(&watchfire(), request).starts_with("HTTP/1.1 400 "));
}

#[test]
fn invalid_settings_prevent_the_start() {
    let mut half = settings();
    half.tls.cert = "cert.pem".into();
    let error = start_error(half);
    assert!(matches!(error, StartError::Tls(TlsStartError::Incomplete)), "{error}");

    for path in ["socket/", "", "/", "/a?b", "/a#b", "/a b", "/{a}", "/\u{e9}", "/a/../b", "/."] {
        let mut mount = settings();
        mount.socket.mount = path.into();
        let error = start_error(mount);
        assert!(error.to_string().contains(&format!("{path:?}")), "{error}");
    }

    for (public, admin) in [
        (vec!["127.0.0.1:4000", "127.0.0.1:4000"], vec![]),
        (vec!["0.0.0.0:4000", "127.0.0.1:4000"], vec![]),
        (vec!["127.0.0.1:4000"], vec!["127.0.0.1:4000"]),
        (vec!["[::1]:4000"], vec!["[::]:4000"]),
    ] {
        let addresses = |list: Vec<&str>| list.iter().map(|text| text.parse().unwrap()).collect();
        let mut taken = settings();
        taken.server.listen = addresses(public);
        taken.section_mut::<AdminSettings>().listen = addresses(admin);
        let error = with_operator(taken).check().unwrap_err();
        assert!(matches!(error, StartError::TakenAddress { .. }), "{error}");
    }
    let mut families = settings();
    families.server.listen = vec!["0.0.0.0:4000".parse().unwrap(), "[::]:4000".parse().unwrap()];
    with_operator(families).check().expect("each family has its own port");

    for url in ["http://user:word@localhost/", "http://localhost:99999/", "http:///a", "a"] {
        let mut hooks = settings();
        hooks.hooks.url = url.into();
        let error = start_error(hooks);
        assert!(error.to_string().contains("cannot use hooks.url"), "{error}");
        let mut auth = settings();
        auth.auth.jwks_url = url.into();
        let error = start_error(auth);
        assert!(error.to_string().contains("cannot use auth.jwks_url"), "{error}");
    }

    let mut origin = settings();
    origin.socket.check_origin = vec!["https://".into()];
    let error = start_error(origin);
    assert!(error.to_string().starts_with("socket.check_origin: "), "{error}");
}

/// Data of a client whose end panics, outside of any callback that catches it.
struct PanicsAtTheEnd;

impl Drop for PanicsAtTheEnd {
    fn drop(&mut self) {
        panic!("a requested panic");
    }
}

#[test]
fn a_server_with_an_event_loop_that_panicked_is_not_ready() {
    let server = with_operator(settings())
        .on_connect(|connect| match connect.params.text("user") {
            Some("panics now") => panic!("a requested panic"),
            Some(_) => Ok(Connected::default().with_assigns(PanicsAtTheEnd)),
            None => Ok(Connected::default()),
        })
        .start()
        .expect("the server starts");
    // A rule that panics refuses its client and nothing else.
    let error =
        Client::connect_with(server.address(), "vsn=2.0.0&user=panics%20now").err().unwrap();
    assert!(error.contains("403"), "{error}");
    assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200 "));

    drop(
        Client::connect_with(server.address(), "vsn=2.0.0&user=ada")
            .expect("the client is accepted"),
    );
    // Connections that wait for the ended loop are reset.
    let health = find("it is not ready", || {
        let answer = Request::get("/readyz").try_to(server.address()).ok();
        answer.filter(|answer| answer.status != 200)
    });
    assert_eq!(health.status, 503, "{health:?}");
    let health = health.text();
    let panicked = ["[0]", "[1]"].iter().any(|shards| {
        health.contains(&format!(r#""event_loops":{{"of":2,"ok":false,"panicked":{shards}}}"#))
    });
    assert!(panicked, "{health}");
    assert_eq!(metric(&server, "watchfire_sockets_loop_panics_total"), 1);
}

#[test]
fn a_host_that_is_none_gets_400_before_anything_is_compared_with_it() {
    let server = watchfire();
    for path in ["/healthz", "/socket/websocket?vsn=2.0.0", "/socket/longpoll?vsn=2.0.0"] {
        for lines in [
            "",
            "host: \r\n",
            "host: user@example.org\r\n",
            "host: a, b\r\n",
            "host: a\r\nhost: b\r\n",
            "host: a/b\r\n",
        ] {
            let head = format!("GET {path} HTTP/1.1\r\n{lines}origin: http://a\r\n\r\n");
            let response = http(&server, &head);
            assert!(response.starts_with("HTTP/1.1 400 "), "{head}{response}");
        }
    }
}
