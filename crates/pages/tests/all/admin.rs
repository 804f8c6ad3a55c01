//! The operator's listener: where it is, whom it answers, and what it withstands.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use watchfire::{
    Channel, HandleIn, Joined, Outcome, Payload, Refusal, RunningServer, Server, Socket, StartError,
};
use watchfire_operator::{AdminError, AdminSettings};
use watchfire_testkit::{Client, DEADLINE, Request};

use crate::support;
use crate::support::{admin_address, get, metric, settings};
use crate::{start, with_pages};

const TOKEN: &str = "a token of the operator";

/// An address on which every interface listens, at a free port.
fn any_address() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

/// The status of a request to the operator's listener, with these lines after the first.
fn status(server: &RunningServer, path: &str, headers: &[&str]) -> u16 {
    let address = SocketAddr::from(([127, 0, 0, 1], admin_address(server).port()));
    Request::get(path).without_host().lines(headers).to(address).status
}

#[test]
fn the_public_port_has_neither_metrics_nor_admin_calls() {
    let mut settings = settings();
    settings.section_mut::<AdminSettings>().token = TOKEN.into();
    let server = start(settings);
    for path in ["/metrics", "/admin/denied", "/admin", "/metrics/", "//metrics"] {
        let request = Request::get(path).line(format!("authorization: Bearer {TOKEN}"));
        let answer = request.to(server.address());
        // Any path that does not exist: the app, with status 404, or a text where it is not built.
        let response = format!("{}\n{}", answer.head, answer.text());
        assert_ne!(answer.status, 200, "{path}: {response}");
        assert!(!response.contains("watchfire_"), "{path}: {response}");
        assert!(!response.contains("denied"), "{path}: {response}");
    }
    // An application without pages has them on the same listener only.
    let application = Server::new(support::settings())
        .with(watchfire_operator::Operator::new())
        .start()
        .expect("the server starts");
    assert!(get(&application, "/metrics").starts_with("HTTP/1.1 404"));
    assert_eq!(metric(&application, r#"watchfire_channels_clients{transport="websocket"}"#), 0);
}

#[test]
fn an_address_that_other_machines_reach_needs_a_token() {
    let mut open = settings();
    open.section_mut::<AdminSettings>().listen = vec![any_address()];
    let error = with_pages(open.clone()).start().err();
    let refusal = error.as_ref().and_then(StartError::of_feature);
    let Some(AdminError::NoToken { address }) = refusal else {
        panic!("it has started, or: {error:?}");
    };
    assert_eq!(*address, any_address());
    assert!(with_pages(open.clone()).check().is_err(), "--check says the same");

    open.section_mut::<AdminSettings>().token = TOKEN.into();
    let server = start(open);
    let (host, token) = ("host: localhost", &format!("authorization: Bearer {TOKEN}"));
    for path in ["/metrics", "/admin/denied", "/nothing"] {
        assert_eq!(status(&server, path, &[host]), 401, "{path}");
        assert_eq!(status(&server, path, &[host, "authorization: Bearer wrong"]), 401, "{path}");
    }
    assert_eq!(status(&server, "/metrics", &[host, token]), 200);
    assert_eq!(status(&server, "/admin/denied", &["host: admin.example.org", token]), 200);
}

#[test]
fn a_website_in_the_operators_browser_gets_nothing() {
    let server = start(settings());
    assert_eq!(status(&server, "/metrics", &["host: localhost"]), 200);
    // DNS rebinding: the name of a website leads to the loopback address.
    assert_eq!(status(&server, "/metrics", &["host: evil.example:4010"]), 403);
    for hosts in [&[][..], &["host: localhost", "host: localhost"], &["host: user@localhost"]] {
        assert_eq!(status(&server, "/metrics", hosts), 400, "{hosts:?}");
    }
    // A request of a script, and one of a picture or a form.
    let origin = "origin: http://evil.example";
    assert_eq!(status(&server, "/metrics", &["host: localhost", origin]), 403);
    let site = "sec-fetch-site: cross-site";
    assert_eq!(status(&server, "/metrics", &["host: localhost", site]), 403);
    assert_eq!(metric(&server, "watchfire_refusals_total{reason=\"admin\"}"), 3);
}

#[test]
fn an_address_in_use_is_an_error_unless_it_is_the_default() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut second = settings();
    second.section_mut::<AdminSettings>().listen = vec![taken.local_addr().expect("bound")];
    let error = with_pages(second).start().err();
    let refusal = error.as_ref().and_then(StartError::of_feature);
    assert!(matches!(refusal, Some(AdminError::Listen { .. })), "{error:?}");

    // The default port may be free, or in use by another program: this test needs it in use.
    let default = AdminSettings::default().listen;
    let _taken = TcpListener::bind(default[0]);
    let mut unset = settings();
    unset.section_mut::<AdminSettings>().listen = default;
    let server = start(unset);
    assert_eq!(server.addresses_of("operator"), []);
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));

    let mut off = settings();
    off.section_mut::<AdminSettings>().listen = Vec::new();
    assert_eq!(start(off).addresses_of("operator"), []);
}

/// A channel whose join blocks the event loop until the test lets it continue.
struct Blocking {
    is_blocked: mpsc::SyncSender<()>,
    may_continue: Mutex<mpsc::Receiver<()>>,
}

impl Channel for Blocking {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        self.is_blocked.send(()).expect("the test waits");
        let waited = self.may_continue.lock().expect("no panic").recv_timeout(DEADLINE);
        waited.expect("the test continues");
        Ok(Joined::with(()))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}

#[test]
fn the_operator_is_answered_while_the_event_loops_are_busy() {
    let (is_blocked, blocked) = mpsc::sync_channel(1);
    let (proceed, may_continue) = mpsc::sync_channel(1);
    let channel = Blocking { is_blocked, may_continue: Mutex::new(may_continue) };
    let mut settings = settings();
    settings.server.shards = 1;
    let server = Server::new(settings)
        .with(watchfire_operator::Operator::new())
        .channel("blocking", channel)
        .start()
        .expect("it starts");
    let mut client = Client::connect(server.address());
    let reference = client.send("blocking", "phx_join", serde_json::json!({}));
    blocked.recv_timeout(DEADLINE).expect("the only event loop is blocked");
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 1);
    proceed.send(()).expect("the event loop waits");
    assert_eq!(client.reply_to(&reference)["status"], "ok");
}

#[test]
fn garbage_and_long_heads_are_refused_and_the_listener_stays_up() {
    let server = start(settings());
    let long = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let garbage: [&[u8]; 6] = [
        b"\0\xff\xfe\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(admin_address(&server)).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        // The listener may close before it has read everything.
        stream.write_all(bytes).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).ok();
        let is_refused = response.is_empty() || response.starts_with(b"HTTP/1.1 4");
        assert!(is_refused, "{:?}", String::from_utf8_lossy(&response));
    }
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 0);
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn many_idle_connections_do_not_keep_the_operator_out() {
    let server = start(settings());
    let address = admin_address(&server);
    // More than the listener keeps. Half of them have sent half of a head.
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(address).expect("it listens");
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:").expect("it is sent");
        }
        idle.push(stream);
    }
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 0);
    // The oldest are closed, so that their number is bounded.
    let started = Instant::now();
    for stream in &mut idle[..200] {
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "it is closed");
        assert!(started.elapsed() < DEADLINE);
    }
    let mut client = Client::connect(server.address());
    assert_eq!(client.push("phoenix", "heartbeat", serde_json::json!({}))["status"], "ok");
    assert_eq!(metric(&server, r#"watchfire_channels_clients{transport="websocket"}"#), 1);
}
