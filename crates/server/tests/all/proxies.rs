//! Requests that come through proxies, and their invalid headers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{get, http, metric, settings};
use watchfire::{RunningServer, Server, Settings, StartError};
use watchfire_testkit::{DEADLINE, UPGRADE};

fn start(change: impl FnOnce(&mut Settings)) -> RunningServer {
    let mut settings = settings();
    change(&mut settings);
    crate::start(settings)
}

/// The status of an upgrade with these header lines.
fn upgrade(server: &RunningServer, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    write!(stream, "{UPGRADE}host: own.example\r\n{lines}\r\n").expect("the request is sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("a status line");
    String::from_utf8_lossy(&status[9..]).into_owned()
}

#[test]
fn a_head_full_of_proxy_headers_is_refused_without_growth() {
    let server = start(|_| {});
    let many = "x-forwarded-for: 192.0.2.1\r\n".repeat(1_000_000);
    let long = format!("x-forwarded-for: {}\r\n", "192.0.2.1, ".repeat(100_000));
    for lines in [many, long] {
        let mut stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        let mut reader = stream.try_clone().expect("a second handle");
        // The server may close the connection before it has received all.
        let writer = std::thread::spawn(move || {
            let head = format!("GET / HTTP/1.1\r\nhost: own.example\r\n{lines}\r\n");
            stream.write_all(head.as_bytes()).ok();
        });
        let mut status = [0; 12];
        reader.read_exact(&mut status).expect("a status line");
        assert_eq!(&status, b"HTTP/1.1 431");
        writer.join().expect("the writer ends");
    }
    assert_eq!(metric(&server, "watchfire_sockets_partial_bytes"), 0);
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_long_list_within_the_limit_of_a_head_is_read() {
    let server = start(|settings| {
        settings.limits.sockets_per_address_max = 1;
        settings.limits.loopback_limited = true;
    });
    for (junk, client) in [
        ("x,".repeat(7_000), "192.0.2.1"),
        ("192.0.2.1, ".repeat(1_000), "192.0.2.2"),
        ("192.0.2.2, unknown, ".repeat(500), "192.0.2.3"),
    ] {
        let line = format!("x-forwarded-for: {junk}{client}");
        assert_eq!(upgrade(&server, &[&line]), "101", "{client}");
    }
}

#[test]
fn invalid_entries_count_for_the_proxy_that_sent_them() {
    let server = start(|settings| {
        settings.limits.sockets_per_address_max = 1;
        settings.limits.loopback_limited = true;
    });
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    write!(stream, "{UPGRADE}host: own.example\r\n\r\n").expect("the request is sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("a status line");
    assert_eq!(&status, b"HTTP/1.1 101");
    for value in ["unknown", "\"", "_x", "[::1", "\u{1}", "192.0.2.1, 300.1.1.1", ",", ""] {
        let line = format!("x-forwarded-for: {value}");
        let status = upgrade(&server, &[&line]);
        // A control character makes the head invalid.
        assert!(status == "429" || (value == "\u{1}" && status == "400"), "{value:?}: {status}");
    }
    assert_eq!(upgrade(&server, &["x-forwarded-for: 192.0.2.1:443"]), "101");
    assert_eq!(upgrade(&server, &["x-forwarded-for: [2001:db8::1]:443"]), "101");
}

#[test]
fn the_public_url_comes_before_a_forwarded_host() {
    let client = "x-forwarded-for: 192.0.2.1";
    let foreign = ["origin: https://evil.example", "x-forwarded-host: evil.example", client];
    let own = ["origin: https://own.example"];
    // A trusted proxy names the host that the client requested.
    let by_proxy = start(|_| {});
    assert_eq!(upgrade(&by_proxy, &foreign), "101");
    assert_eq!(upgrade(&by_proxy, &["origin: https://evil.example", client]), "403");
    assert_eq!(upgrade(&by_proxy, &["origin: https://own.example", client]), "101");

    let fixed = start(|settings| settings.server.public_url = "https://own.example".into());
    assert_eq!(upgrade(&fixed, &foreign), "403");
    assert_eq!(upgrade(&fixed, &own), "101");

    let untrusted = start(|settings| settings.server.trusted_proxies = Vec::new());
    assert_eq!(upgrade(&untrusted, &foreign), "403");
    // Without a trusted proxy the client is on loopback, where any name may lead.
    assert_eq!(upgrade(&untrusted, &own), "403");
}

#[test]
fn web_pages_of_other_origins_may_not_send_proxy_headers() {
    let server = start(|settings| settings.socket.check_origin = vec!["any".into()]);
    for (header, is_allowed) in
        [("x-phoenix-authtoken", true), ("x-forwarded-for", false), ("x-forwarded-host", false)]
    {
        let response = http(
            &server,
            &format!(
                "OPTIONS /socket/longpoll HTTP/1.1\r\nhost: own.example\r\nconnection: close\r\n\
                 origin: https://evil.example\r\naccess-control-request-method: POST\r\n\
                 access-control-request-headers: {header}\r\n\r\n"
            ),
        );
        let head = response.to_lowercase();
        let allows = head
            .lines()
            .any(|line| line.starts_with("access-control-allow-headers") && line.contains(header));
        assert_eq!(allows, is_allowed, "{header}: {response}");
    }
}

#[test]
fn an_address_of_the_proxy_protocol_must_be_one_of_the_listeners() {
    let mut wrong = settings();
    let address: SocketAddr = "192.0.2.1:4001".parse().expect("an address");
    wrong.server.proxy_protocol = vec![address];
    let error = Server::new(wrong).start().err().expect("the server does not start");
    assert!(matches!(&error, StartError::ProxyProtocol { address: at } if *at == address));
    assert_eq!(
        error.to_string(),
        "cannot use server.proxy_protocol 192.0.2.1:4001: the server does not listen there; add \
         the address to server.listen"
    );
}

#[test]
fn a_proxy_header_names_the_client_and_its_own_forwarding_headers_are_not_believed() {
    let server = start(|settings| {
        settings.server.proxy_protocol = settings.server.listen.clone();
        settings.limits.sockets_per_address_max = 1;
    });
    let open = |client: &str, lines: &str| {
        let mut stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        let proxied = format!("PROXY TCP4 {client} 198.51.100.1 51000 443\r\n{UPGRADE}");
        write!(stream, "{proxied}host: own.example\r\n{lines}\r\n").expect("the request is sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("a status line");
        (String::from_utf8_lossy(&status[9..]).into_owned(), stream)
    };
    let (status, _first) = open("192.0.2.1", "");
    assert_eq!(status, "101");
    assert_eq!(open("192.0.2.1", "x-forwarded-for: 192.0.2.77\r\n").0, "429");
    assert_eq!(open("192.0.2.2", "").0, "101");
    // The address in the PROXY header is itself that of a trusted proxy.
    assert_eq!(open("127.0.0.1", "x-forwarded-for: 192.0.2.1\r\n").0, "429");
    assert_eq!(open("127.0.0.1", "x-forwarded-for: 192.0.2.3\r\n").0, "101");
}
