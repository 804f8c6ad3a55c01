//! The protocol of systemd: sockets, readiness and the watchdog.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::server::{Installation, Prober, websocket};

#[test]
fn a_socket_of_the_service_manager_replaces_the_configured_ones_and_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let installation = Installation::new("activation");
    // As a service manager does: the socket is descriptor 3, and the pid is that of the program.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" "$@""#]);
    command.arg(installation.program()).args(["serve", "--listen", "127.0.0.9:1"]);
    command.args(["--processes", "2", "--set", "server.shards=2"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "watchfire.socket");
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let mut server = installation.start(command);
    assert_eq!(server.address, address);
    let prober = Prober::start(address);
    for _ in 0..100 {
        drop(websocket(address));
    }
    server.restart();
    drop(websocket(address));
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_descriptor_that_is_not_a_listener_is_an_error() {
    let installation = Installation::new("not-a-listener");
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" serve"#]);
    command.arg(installation.program()).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "clients");
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    let output = command.output().expect("it runs");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot use the socket 0 (clients) of the service manager"), "{error}");
    assert!(error.contains("set ListenStream to an address and a port"), "{error}");
}

#[test]
fn the_watchdog_of_the_service_manager_is_served() {
    for processes in ["1", "2"] {
        let installation = Installation::new(&format!("watchdog-{processes}"));
        let mut command = Command::new(installation.program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--processes", processes]);
        command.env("WATCHDOG_USEC", "1000000");
        let mut server = installation.start(command);
        for _ in 0..3 {
            server.notified("WATCHDOG=1");
        }
        server.restart();
        // The old program reports only once more, together with the new process id.
        for _ in 0..3 {
            server.notified("WATCHDOG=1");
        }
        server.stop();
    }
}
