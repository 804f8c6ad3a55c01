//! The clients of `make scale` with the Node server of the same protocol.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);
const CLIENTS: u64 = 20;

/// A child process that is killed with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails only if it has already ended
        let _ = self.0.wait();
    }
}

fn sprites_server() -> (KilledOnDrop, u16) {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/sprites.mjs");
    let server =
        KilledOnDrop(Command::new("node").arg(script).arg(port.to_string()).spawn().unwrap());
    let started_at = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(started_at.elapsed() < TIMEOUT, "the server accepts no connections");
        std::thread::yield_now();
    }
    (server, port)
}

fn send(stdin: &mut ChildStdin, order: &Value) {
    writeln!(stdin, "{order}").unwrap();
}

#[test]
fn every_thrown_sprite_arrives_at_a_neighbour() {
    let (_server, port) = sprites_server();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    command.args(["scale", "--clients", "throwers"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut clients = KilledOnDrop(command.spawn().unwrap());
    let mut stdin = clients.0.stdin.take().unwrap();
    let lines = BufReader::new(clients.0.stdout.take().unwrap()).lines();

    let server = format!("127.0.0.1:{port}");
    send(&mut stdin, &serde_json::json!({"order": "setup", "servers": [server], "process": 250}));
    send(&mut stdin, &serde_json::json!({"order": "join", "count": CLIENTS, "opening_max": 4}));
    let started_at = Instant::now();
    let mut is_throwing = false;
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let status = &line["status"];
        let count = |name: &str| status[name].as_u64().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(count("wrong"), 0, "{line}");
        if count("present") == CLIENTS && !is_throwing {
            is_throwing = true;
            let order = serde_json::json!(
                {"order": "throw", "every_ns": 20_000_000, "until_ns": u64::MAX}
            );
            send(&mut stdin, &order);
        }
        // Each client has thrown several times; only sprites in flight have not arrived.
        let in_flight = (count("throws") - count("wrapped")).saturating_sub(count("arrivals"));
        if count("throws") >= CLIENTS * 5 {
            assert!(in_flight <= CLIENTS, "{line}");
            return;
        }
        assert!(started_at.elapsed() < TIMEOUT, "{line}");
    }
    panic!("the clients ended");
}

#[test]
fn an_invalid_percentage_is_rejected() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    let output = command.args(["scale", "million", "--percent", "0"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("above 0, at most 100"));
}
