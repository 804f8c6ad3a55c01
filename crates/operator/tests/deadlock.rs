//! An event loop that blocks for ever or panics is noticed, while the rest of its process runs.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use support::Program;
use tungstenite::Message;

const DEADLINE: Duration = Duration::from_secs(60);

struct Server(Program);

impl Server {
    /// Each process has two event loops: with one that continues, it does not look dead.
    fn start(processes: u16, environment: &[(&str, &str)]) -> Server {
        let settings = format!("server.processes = {processes}\nserver.shards = 2");
        let mut command = Program::command(&settings);
        command.envs(environment.iter().copied());
        Server(Program::start(command))
    }

    /// Blocks the event loop that serves a new client.
    fn block(&self) {
        let stream = TcpStream::connect(self.0.address).expect("a connection");
        let url = format!("ws://{}/socket/websocket?vsn=2.0.0", self.0.address);
        let (mut client, _) = tungstenite::client(url, stream).expect("a WebSocket");
        for message in [r#"["1","1","block","phx_join",{}]"#, r#"["1","2","block","block",{}]"#] {
            client.send(Message::text(message)).expect("it is sent");
        }
        // The reply to the join shows that the messages arrive.
        client.read().expect("a reply");
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        Self::get_from(self.0.address, path)
    }

    fn get_from(address: SocketAddr, path: &str) -> Option<(u16, String)> {
        let mut connection = TcpStream::connect(address).ok()?;
        connection.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .ok()?;
        let mut response = String::new();
        connection.read_to_string(&mut response).ok()?;
        Some((response.get(9..12)?.parse().ok()?, response))
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_with_a_blocked_event_loop_is_missing_and_then_replaced() {
    let server = Server::start(2, &[]);
    eventually("both serve", || server.get("/readyz").is_some_and(|(status, _)| status == 200));
    server.block();
    eventually("one is missing", || server.get("/readyz").is_some_and(|(status, _)| status == 503));
    eventually("both serve", || server.get("/readyz").is_some_and(|(status, _)| status == 200));
    let read = || Server::get_from(server.0.admin, "/metrics");
    let metrics = || read().map(|(_, text)| text).unwrap_or_default();
    eventually("it is counted", || metrics().contains("\nwatchfire_process_hangs_total 1\n"));
}

#[test]
fn a_process_whose_event_loop_panics_ends_and_is_replaced() {
    let server = Server::start(2, &[]);
    eventually("both serve", || server.get("/readyz").is_some_and(|(status, _)| status == 200));
    let stream = TcpStream::connect(server.0.address).expect("a connection");
    let url = format!("ws://{}/socket/websocket?vsn=2.0.0&panics=yes", server.0.address);
    drop(tungstenite::client(url, stream).expect("a WebSocket"));
    let read = || Server::get_from(server.0.admin, "/metrics");
    let metrics = || read().map(|(_, text)| text).unwrap_or_default();
    eventually("it is counted", || metrics().contains("\nwatchfire_process_restarts_total 1\n"));
    eventually("both serve", || server.get("/readyz").is_some_and(|(status, _)| status == 200));
    assert!(
        metrics().contains("\nwatchfire_process_hangs_total 0\n"),
        "nothing waited for a timeout"
    );
}

#[test]
fn a_process_with_an_event_loop_that_panics_ends_with_an_error() {
    let mut server = Server::start(1, &[]);
    let stream = TcpStream::connect(server.0.address).expect("a connection");
    let url = format!("ws://{}/socket/websocket?vsn=2.0.0&panics=yes", server.0.address);
    drop(tungstenite::client(url, stream).expect("a WebSocket"));
    assert_eq!(server.0.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn a_process_with_another_thread_that_panics_is_not_ready_and_ends_with_an_error() {
    let mut server = Server::start(1, &[]);
    let stream = TcpStream::connect(server.0.address).expect("a connection");
    let url = format!("ws://{}/socket/websocket?vsn=2.0.0&thread=bus", server.0.address);
    drop(tungstenite::client(url, stream).expect("a WebSocket"));
    // It may have ended before this looks.
    eventually("it is not ready", || {
        server.get("/readyz").is_none_or(|(status, text)| {
            status == 503 && text.contains(r#""threads":{"ok":false,"panicked":["bus"]}"#)
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
