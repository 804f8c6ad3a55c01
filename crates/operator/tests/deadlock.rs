//! An event loop that blocks for ever or panics is noticed, while the rest of its process runs. A process that ends is
//! started again.

mod support;

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::json;
use support::Program;
use watchfire_testkit::{Answer, Client, DEADLINE, Request, eventually};

const TOKEN: &str = "a token of the operator";

struct Server(Program);

impl Server {
    /// Each process has two event loops: with one that continues, it does not look dead.
    fn start(processes: u16, environment: &[(&str, &str)]) -> Server {
        let settings =
            format!("server.processes = {processes}\nserver.shards = 2\nadmin.token = {TOKEN:?}");
        let mut command = Program::command(&settings);
        command.envs(environment.iter().copied());
        Server(Program::start(command))
    }

    /// Blocks the event loop that serves a new client.
    fn block(&self) {
        let mut client = Client::connect(self.0.address);
        let join = client.send("block", "phx_join", json!({}));
        client.send("block", "block", json!({}));
        // The reply to the join shows that the messages arrive.
        client.reply_to(&join);
    }

    fn get(&self, path: &str) -> Option<Answer> {
        get(self.0.address, path)
    }

    /// Whether `/readyz` has this status.
    fn answers(&self, status: u16) -> bool {
        self.get("/readyz").is_some_and(|answer| answer.status == status)
    }

    fn metrics_contain(&self, line: &str) -> bool {
        get(self.0.admin, "/metrics").is_some_and(|answer| answer.text().contains(line))
    }
}

/// The answer that comes within a second.
fn get(address: SocketAddr, path: &str) -> Option<Answer> {
    Request::get(path).within(Duration::from_secs(1)).try_to(address).ok()
}

#[test]
fn a_process_with_a_blocked_event_loop_is_missing_and_then_replaced() {
    let server = Server::start(2, &[]);
    eventually("both serve", || server.answers(200));
    server.block();
    eventually("one is missing", || server.answers(503));
    eventually("both serve", || server.answers(200));
    eventually("it is counted", || server.metrics_contain("\nwatchfire_process_hangs_total 1\n"));
}

#[test]
fn a_process_that_the_operator_ends_is_replaced_unless_it_is_the_only_one() {
    let end = |server: &Server, process: u16| {
        let request = Request::new("POST", &format!("/admin/processes/{process}/end"));
        let authorization = format!("authorization: Bearer {TOKEN}");
        request.lines([&authorization]).to(server.0.admin).status
    };
    let server = Server::start(2, &[]);
    eventually("both serve", || server.answers(200));
    assert_eq!(end(&server, 2), 404);
    assert_eq!(end(&server, 1), 200);
    eventually("it is counted", || {
        server.metrics_contain("\nwatchfire_process_restarts_total 1\n")
    });
    eventually("both serve", || server.answers(200));
    assert_eq!(end(&Server::start(1, &[]), 0), 409);
}

#[test]
fn a_process_whose_event_loop_panics_ends_and_is_replaced() {
    let server = Server::start(2, &[]);
    eventually("both serve", || server.answers(200));
    drop(Client::connect_with(server.0.address, "vsn=2.0.0&panics=yes").expect("a WebSocket"));
    eventually("it is counted", || {
        server.metrics_contain("\nwatchfire_process_restarts_total 1\n")
    });
    eventually("both serve", || server.answers(200));
    assert!(
        server.metrics_contain("\nwatchfire_process_hangs_total 0\n"),
        "nothing waited for a timeout"
    );
}

#[test]
fn a_process_with_an_event_loop_that_panics_ends_with_an_error() {
    let mut server = Server::start(1, &[]);
    drop(Client::connect_with(server.0.address, "vsn=2.0.0&panics=yes").expect("a WebSocket"));
    assert_eq!(server.0.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn a_process_with_another_thread_that_panics_is_not_ready_and_ends_with_an_error() {
    let mut server = Server::start(1, &[]);
    drop(Client::connect_with(server.0.address, "vsn=2.0.0&thread=bus").expect("a WebSocket"));
    // It may have ended before this looks.
    eventually("it is not ready", || {
        server.get("/readyz").is_none_or(|answer| {
            let panicked = r#""threads":{"ok":false,"panicked":["bus"]}"#;
            answer.status == 503 && answer.text().contains(panicked)
        })
    });
    assert_eq!(server.0.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn the_watchdog_is_not_served_while_an_event_loop_is_blocked() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let notifications = UnixDatagram::bind(&path).expect("a socket");
    notifications.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    let micros = TIMEOUT.as_micros().to_string();
    let notify = path.to_str().expect("a text");
    let server = Server::start(1, &[("NOTIFY_SOCKET", notify), ("WATCHDOG_USEC", &micros)]);
    let receive = || {
        let mut buffer = [0; 256];
        let len = notifications.recv(&mut buffer)?;
        std::io::Result::Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
    };
    while !receive().expect("a notification").contains("WATCHDOG=1") {}
    server.block();
    // The watchdog would be served twice in its timeout. One report may be on its way, and the
    // event loop may have ticked since then.
    notifications.set_read_timeout(Some(2 * TIMEOUT)).expect("a timeout");
    let late = std::iter::from_fn(|| receive().ok()).take(3).count();
    assert!(late <= 2, "the watchdog is served");
}
