//! The output of `watchfire serve` when it starts, and when it fails.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than the start of the program on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn serve(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire"));
    command.arg("serve").args(["--set", "server.drain_period=0s", "--set", "stun.enabled=false"]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

fn signal(child: &Child, signal: &str) {
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
}

/// Standard error, once the program has ended.
fn wait(mut child: Child) -> (bool, String) {
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    (child.wait().expect("it ended").success(), stderr)
}

#[test]
fn an_address_in_use_is_named_once() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    for processes in ["1", "2"] {
        let arguments = ["--listen", &address, "--processes", processes];
        let (is_success, stderr) = wait(serve(&arguments));
        assert!(!is_success);
        assert_eq!(stderr.matches("Address already in use").count(), 1, "{stderr}");
        assert!(stderr.contains(&address), "{stderr}");
    }
}

#[test]
fn the_link_of_each_listener_is_printed() {
    for processes in ["1", "2"] {
        let listeners = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"];
        let mut child = serve(&[&listeners[..], &["--processes", processes]].concat());
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let links: Vec<String> = lines
            .map(|line| line.expect("text"))
            .filter_map(|line| Some(line.strip_prefix("Watchfire is running at ")?.to_owned()))
            .take(2)
            .collect();
        assert!(links[0].starts_with("http://localhost:"), "{links:?}");
        assert!(links[1].starts_with("http://127.0.0.2:"), "{links:?}");
        signal(&child, "-TERM");
        assert!(wait(child).0);
    }
}

#[test]
fn a_closed_standard_output_does_not_stop_the_server() {
    // A free port, chosen here because the output of the program is closed.
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address: SocketAddr = free.local_addr().expect("bound");
    drop(free);
    let mut child = serve(&["--listen", &address.to_string()]);
    drop(child.stdout.take());
    let started = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(started.elapsed() < DEADLINE, "{:?}", child.try_wait());
        std::thread::yield_now();
    }
    signal(&child, "-TERM");
    let (is_success, stderr) = wait(child);
    assert!(is_success, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
