//! The clients of `make scale` against the Node server of the same protocol, told by hand.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
const WINDOWS: u64 = 20;

/// A child that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails only when it has ended already
        let _ = self.0.wait();
    }
}

fn sprites_server() -> (Ends, u16) {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/sprites.mjs");
    let server = Ends(Command::new("node").arg(script).arg(port.to_string()).spawn().unwrap());
    let started_at = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(started_at.elapsed() < PATIENCE, "the server takes no connections");
        std::thread::yield_now();
    }
    (server, port)
}

fn tell(stdin: &mut ChildStdin, order: &Value) {
    writeln!(stdin, "{order}").unwrap();
}

#[test]
fn every_sprite_thrown_arrives_at_a_neighbour() {
    let (_server, port) = sprites_server();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    command.args(["scale", "--clients", "throwers"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut clients = Ends(command.spawn().unwrap());
    let mut stdin = clients.0.stdin.take().unwrap();
    let lines = BufReader::new(clients.0.stdout.take().unwrap()).lines();

    let server = format!("127.0.0.1:{port}");
    tell(&mut stdin, &serde_json::json!({"order": "setup", "servers": [server], "process": 250}));
    tell(&mut stdin, &serde_json::json!({"order": "join", "count": WINDOWS, "opening_max": 4}));
    let started_at = Instant::now();
    let mut is_throwing = false;
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let status = &line["status"];
        let seen = |what: &str| status[what].as_u64().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(seen("wrong"), 0, "{line}");
        if seen("present") == WINDOWS && !is_throwing {
            is_throwing = true;
            let order = serde_json::json!(
                {"order": "throw", "every_ns": 20_000_000, "until_ns": u64::MAX}
            );
            tell(&mut stdin, &order);
        }
        // Each has thrown several times, and only what is under way has not arrived.
        let flying = (seen("throws") - seen("wrapped")).saturating_sub(seen("arrivals"));
        if seen("throws") >= WINDOWS * 5 {
            assert!(flying <= WINDOWS, "{line}");
            return;
        }
        assert!(started_at.elapsed() < PATIENCE, "{line}");
    }
    panic!("the clients ended");
}

#[test]
fn a_percentage_that_means_nothing_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    let output = command.args(["scale", "million", "--percent", "0"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("above 0, at most 100"));
}
