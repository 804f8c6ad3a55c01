//! TLS termination.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use tungstenite::Message;
use watchfire_sockets::{SocketServerSettings, StartError, TlsError, TlsFiles};

use super::support::{Certificate, Event, TestServer, receive};

fn start_error(files: TlsFiles) -> TlsError {
    let settings = SocketServerSettings { tls: Some(files), ..SocketServerSettings::default() };
    match TestServer::try_start(settings) {
        Err(StartError::Tls(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the server started"),
    }
}

#[test]
fn http_and_websockets_work_over_tls() {
    let certificate = Certificate::new("round-trip");
    let server = certificate.server();
    let mut page = certificate.connect(&server);
    let address = page.sock.local_addr().unwrap().to_string();
    page.write_all(b"GET /whoami HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut response = Vec::new();
    let mut buffer = [0; 4096];
    while !response.ends_with(address.as_bytes()) {
        let len = page.read(&mut buffer).unwrap();
        assert!(len > 0, "{}", String::from_utf8_lossy(&response));
        response.extend_from_slice(&buffer[..len]);
    }

    let stream = certificate.connect(&server);
    let (mut peer, _) = tungstenite::client("wss://localhost/echo", stream).unwrap();
    assert!(matches!(receive(&server.events), Event::Opened(..)));
    for len in [0, 5, 70_000, 3_000_000] {
        let message = Message::binary(vec![7; len]);
        peer.send(message.clone()).unwrap();
        assert!(peer.read().unwrap() == message, "{len} bytes");
    }
    peer.close(None).unwrap();
    assert!(matches!(peer.read(), Ok(Message::Close(_))));
    drop((peer, page));
    server.eventually("both connections are closed", |totals| totals.connections_now == 0);
    assert_eq!(server.totals().tls_failures, 0);
}

#[test]
fn a_drain_sends_close_frames_over_tls() {
    let certificate = Certificate::new("drain");
    let server = certificate.server();
    let stream = certificate.connect(&server);
    let (mut peer, _) = tungstenite::client("wss://localhost/listen", stream).unwrap();
    assert!(matches!(receive(&server.events), Event::Opened(..)));
    let reading = std::thread::spawn(move || {
        let message = peer.read().unwrap();
        (message, peer.read().unwrap_err())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.server.drain(Duration::ZERO));
    let (message, end) = reading.join().unwrap();
    let Message::Close(Some(close)) = message else { panic!("{message:?}") };
    assert_eq!(u16::from(close.code), 1012);
    assert!(matches!(end, tungstenite::Error::ConnectionClosed), "{end}");
}

#[test]
fn a_client_that_sends_plain_http_to_a_tls_listener_is_counted() {
    let certificate = Certificate::new("plain");
    let server = certificate.server();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    server.eventually("it is counted", |totals| totals.tls_failures == 1);
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
}

#[test]
fn an_error_in_a_certificate_names_its_file() {
    let good = Certificate::new("good");
    let other = Certificate::new("other");
    let missing = good.directory.join("missing.pem");
    let empty = good.directory.join("empty.pem");
    std::fs::write(&empty, "not a certificate\n").unwrap();
    let with = |cert: &PathBuf, key: &PathBuf| TlsFiles { cert: cert.clone(), key: key.clone() };

    let error = start_error(with(&missing, &good.files.key));
    assert!(matches!(&error, TlsError::Unreadable { path, .. } if *path == missing), "{error}");
    let error = start_error(with(&empty, &good.files.key));
    assert!(matches!(&error, TlsError::NoCertificate { path } if *path == empty), "{error}");
    let error = start_error(with(&good.files.cert, &good.files.cert));
    assert!(matches!(error, TlsError::NoKey { .. }), "{error}");
    let error = start_error(with(&good.files.cert, &other.files.key));
    assert!(matches!(error, TlsError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("cert.pem"), "{error}");
}
