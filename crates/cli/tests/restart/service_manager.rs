//! The protocol of systemd: sockets, readiness and the watchdog.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use watchfire_testkit::Client;

use crate::server::{Installation, Prober};

#[test]
fn a_socket_of_the_service_manager_replaces_the_configured_ones_and_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let installation = Installation::new();
    // As a service manager does: the socket is descriptor 3, and the pid names the program.
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
        drop(Client::connect(address));
    }
    server.restart();
    drop(Client::connect(address));
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_proxy_names_the_client_on_a_socket_of_the_service_manager() {
    for processes in ["1", "2"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let installation = Installation::new();
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" "$@""#]);
        command.arg(installation.program()).args(["serve", "--processes", processes]);
        command.args(["--set", &format!("server.proxy_protocol={address}")]);
        command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "watchfire.socket");
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
        let mut server = installation.start(command);
        let answer = |header: &str| {
            let mut connection = TcpStream::connect(address).expect("a connection");
            let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            write!(connection, "{header}{request}").expect("it is sent");
            let mut response = String::new();
            // Without its header, the connection is reset.
            let _ = connection.read_to_string(&mut response);
            response
        };
        let header = "PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n";
        assert!(answer(header).starts_with("HTTP/1.1 200"), "{}", server.log());
        assert_eq!(answer(""), "");
        server.stop();
    }
}

#[test]
fn a_descriptor_that_is_not_a_listener_is_an_error() {
    let installation = Installation::new();
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
        let installation = Installation::new();
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
