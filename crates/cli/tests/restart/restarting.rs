//! SIGUSR2: the program on disk takes over.

use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use std::os::unix::fs::MetadataExt as _;

use watchfire_testkit::{Client, eventually, is_running};

use crate::server::{Installation, Prober, get};

#[test]
fn a_restart_starts_the_installed_program_and_answers_every_connection() {
    for processes in ["1", "2"] {
        let installation = Installation::new();
        let mut server = installation.serve(&["--processes", processes]);
        let prober = Prober::start(server.address);
        let first = server.pid;
        // Twice: the second restart passes on inherited listeners.
        for _ in 0..2 {
            let mut open = Client::connect(server.address);
            installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
            let new = server.restart();
            assert_eq!(open.receive_close(), 1012);
            let inode = |path: &Path| fs::metadata(path).expect("a program").ino();
            let running = PathBuf::from(format!("/proc/{new}/exe"));
            assert_eq!(inode(&running), inode(&installation.program()));
            Client::connect(server.address);
        }
        server.child.wait().expect("the first program ends");
        assert_ne!(first, server.pid);
        // The operator's listener was in use when the new program started.
        assert!(server.metric("watchfire_pages_available").is_some(), "{}", server.log());
        assert!(prober.count() > 0);
        server.stop();
        assert!(TcpStream::connect(server.address).is_err());
    }
}

#[test]
fn a_program_that_does_not_start_leaves_the_running_server_alone() {
    let installation = Installation::new();
    let mut server = installation.serve(&["--processes", "2"]);
    let prober = Prober::start(server.address);
    let open = Client::connect(server.address);
    installation.install_broken();
    server.signal("-USR2");
    eventually("the failure is logged", || server.log().contains("the server continues unchanged"));
    assert!(server.log().contains("exit status: 1"), "{}", server.log());
    let mut stream = open.stream();
    stream.set_nonblocking(true).expect("a mode");
    let error = stream.read(&mut [0; 1]).expect_err("it is open and silent");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);

    installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
    server.restart();
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_restart_applies_changed_settings_also_to_addresses_and_processes() {
    let installation = Installation::new();
    let settings = installation.folder.path().join("settings.toml");
    let write = |listen: &str, processes: u32| {
        let text = format!("[server]\nlisten = [{listen}]\nprocesses = {processes}\nshards = 1\n");
        fs::write(&settings, text).expect("a file");
    };
    write(r#""127.0.0.1:0", "127.0.0.2:0""#, 1);
    let mut command = Command::new(installation.program());
    command.arg("serve").arg("--config").arg(&settings);
    let mut server = installation.start(command);
    let (first, port) = (server.address, server.address.port());
    let second = SocketAddr::from(([127, 0, 0, 2], port));
    let third = SocketAddr::from(([127, 0, 0, 3], port));
    assert!(get(second, "/healthz").is_ok() && get(third, "/healthz").is_err());

    let prober = Prober::start(first);
    // More processes than sockets, one address less and another one more.
    write(&format!(r#""127.0.0.1:0", "{third}""#), 3);
    let old = server.pid;
    server.restart();
    assert!(get(third, "/healthz").is_ok());
    eventually("the old server ends", || !is_running(old));
    assert!(get(second, "/healthz").is_err());
    assert_eq!(server.workers().len(), 3);

    // Fewer processes than sockets.
    write(r#""127.0.0.1:0""#, 1);
    server.restart();
    let answers = (0..50).filter(|_| get(first, "/healthz").is_ok_and(|(status, _)| status == 200));
    assert_eq!(answers.count(), 50);
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn the_gateway_of_the_new_program_waits_for_the_port_of_the_old_one() {
    // QUIC does not share its port between two programs.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let installation = Installation::new();
    let listen = format!("p2p.listen=/ip4/127.0.0.1/udp/{port}/quic-v1");
    let mut server = installation.serve(&["--set", &listen]);
    let listening = |log: String| log.matches("the gateway is listening").count();
    assert_eq!(listening(server.log()), 1);
    server.restart();
    eventually("the new gateway listens", || listening(server.log()) == 2);
    assert!(server.log().contains("the gateway waits for its port"), "{}", server.log());
    server.stop();
}
