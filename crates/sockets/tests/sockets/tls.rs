//! TLS termination.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::HandshakeKind;
use tungstenite::Message;
use watchfire_sockets::{Certificates, TlsError, TlsFiles};

use super::support::{Certificate, Event, receive};

#[test]
fn http_and_websockets_work_over_tls() {
    let certificate = Certificate::new();
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

/// Its unread bytes may be at the TLS task, where the shard does not see them.
#[test]
fn the_server_waits_for_the_end_of_a_tls_client() {
    let certificate = Certificate::new();
    let server = certificate.server();
    let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    for (request, answer) in [
        (format!("GET / {head}\r\n"), "hello"),
        (format!("POST /reverse {head}content-length: 3\r\n\r\nabc"), "cba"),
    ] {
        let mut client = certificate.connect(&server);
        client.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.ends_with(answer), "{response}");
        assert_eq!(server.totals().connections_now, 1, "{request}");
        drop(client);
        server.eventually("its connection is closed", |totals| totals.connections_now == 0);
    }
}

#[test]
fn a_drain_sends_close_frames_over_tls() {
    let certificate = Certificate::new();
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
    let certificate = Certificate::new();
    let server = certificate.server();
    let _client = server.sending("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    server.eventually("it is counted", |totals| totals.tls_failures == 1);
    server.eventually("the connection is closed", |totals| totals.connections_now == 0);
}

#[test]
fn an_error_in_a_certificate_names_its_file() {
    let good = Certificate::new();
    let other = Certificate::new();
    let missing = good.directory.path().join("missing.pem");
    let empty = good.directory.path().join("empty.pem");
    std::fs::write(&empty, "not a certificate\n").unwrap();
    let error_of = |files: TlsFiles| watchfire_sockets::Certificate::read(&files).unwrap_err();
    let with = |cert: &PathBuf, key: &PathBuf| TlsFiles { cert: cert.clone(), key: key.clone() };

    let error = error_of(with(&missing, &good.files.key));
    assert!(matches!(&error, TlsError::Unreadable { path, .. } if *path == missing), "{error}");
    let error = error_of(with(&empty, &good.files.key));
    assert!(matches!(&error, TlsError::NoCertificate { path } if *path == empty), "{error}");
    let error = error_of(with(&good.files.cert, &good.files.cert));
    assert!(matches!(error, TlsError::NoKey { .. }), "{error}");
    let error = error_of(with(&good.files.cert, &other.files.key));
    assert!(matches!(error, TlsError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("cert.pem"), "{error}");
}

#[test]
fn a_new_certificate_is_used_for_new_handshakes_and_open_connections_continue() {
    let (first, second) = (Certificate::new(), Certificate::new());
    let certificates = first.certificates();
    let server = first.server_with(certificates.clone());
    let (mut open, _) =
        tungstenite::client("wss://localhost/echo", first.connect(&server)).unwrap();

    certificates.replace(second.read());
    let (mut new, _) =
        tungstenite::client("wss://localhost/echo", second.connect(&server)).unwrap();
    for peer in [&mut open, &mut new] {
        peer.send(Message::text("still here")).unwrap();
        assert_eq!(peer.read().unwrap(), Message::text("still here"));
    }
    let mut old = first.connect(&server);
    assert!(old.write_all(b"GET / HTTP/1.1\r\n").is_err(), "the first certificate is gone");
}

#[test]
fn sessions_are_resumed_also_after_a_new_certificate() {
    let (first, second) = (Certificate::new(), Certificate::new());
    let certificates = first.certificates();
    let server = first.server_with(certificates.clone());
    let client = Arc::new(first.client());
    let mut kinds = Vec::new();
    for attempt in 0..3 {
        if attempt == 2 {
            certificates.replace(second.read());
        }
        let mut stream = first.connect_with(&server, client.clone());
        // The client receives the tickets of the session with the response.
        stream.write_all(b"GET /whoami HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        kinds.push(stream.conn.handshake_kind().unwrap());
    }
    assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]);
}

#[test]
fn without_a_certificate_handshakes_fail_until_there_is_one() {
    let certificate = Certificate::new();
    let certificates = Arc::new(Certificates::new(None));
    let server = certificate.server_with(certificates.clone());
    assert!(certificate.connect(&server).write_all(b"GET / HTTP/1.1\r\n").is_err());
    server.eventually("the failure is counted", |totals| totals.tls_failures == 1);
    certificates.replace(certificate.read());
    certificate.connect(&server).write_all(b"GET / HTTP/1.1\r\n").unwrap();
}

#[test]
fn the_handshake_of_an_acme_server_gets_the_certificate_of_its_challenge() {
    let (own, challenge) = (Certificate::new(), Certificate::new());
    let answer = challenge.read();
    let certificates = Certificates::new(Some(own.read()))
        .answer_challenges(move |domain| (domain == "localhost").then(|| answer.clone()));
    let server = own.server_with(Arc::new(certificates));
    let with_protocols = |client: &Certificate, protocols: &[&[u8]]| {
        let mut config = client.client();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        client.connect_with(&server, config)
    };

    let mut validation = with_protocols(&challenge, &[b"acme-tls/1"]);
    // The server closes the connection after the handshake.
    assert_eq!(validation.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(validation.conn.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    assert_eq!(server.totals().tls_failures, 0);

    let mut browser = with_protocols(&own, &[b"acme-tls/1", b"http/1.1"]);
    browser.write_all(b"GET /whoami HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(browser.read(&mut [0; 4096]).unwrap() > 0);
}

#[test]
fn a_server_without_challenges_refuses_the_protocol_of_acme_servers() {
    let certificate = Certificate::new();
    let server = certificate.server();
    let mut config = certificate.client();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(certificate.connect_with(&server, config).read(&mut [0; 1]).is_err());
    server.eventually("the failure is counted", |totals| totals.tls_failures == 1);
}
