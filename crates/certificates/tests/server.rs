//! Certificates that change while the server runs, and plain HTTP that is redirected.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tempfile::TempDir;
use watchfire::{RunningServer, Server, Settings, StartError, TlsStartError};
use watchfire_operator::AdminSettings;
use watchfire_testkit::{Client, DEADLINE, Request, eventually};

/// A folder with the files of a certificate.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a new certificate and its key.
    fn certify(&self) -> CertificateDer<'static> {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        fs::write(self.path("cert.pem"), pair.cert.pem()).unwrap();
        fs::write(self.path("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        pair.cert.der().clone()
    }

    fn settings(&self) -> Settings {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut settings = Settings::default();
        settings.server.listen = vec![local];
        settings.server.shards = 2;
        settings.section_mut::<AdminSettings>().listen = vec![local];
        settings.tls.cert = self.path("cert.pem");
        settings.tls.key = self.path("key.pem");
        settings.tls.redirect_listen = vec![local];
        settings
    }

    fn server(&self) -> RunningServer {
        Server::new(self.settings())
            .with(watchfire_operator::Operator::new())
            .start()
            .expect("the server starts")
    }
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A handshake with a server that must have this certificate.
fn connect(server: &RunningServer, trusted: &CertificateDer<'static>) -> Option<TlsStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut stream).ok()?;
    }
    Some(StreamOwned::new(client, stream))
}

/// The response of the redirect listener to these bytes, once it has closed the connection.
fn plain(server: &RunningServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.redirect_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut response = Vec::new();
    // After a request that is not read whole, the end may be a reset.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

/// The response of the operator's listener to a request for the metrics.
fn metrics(server: &RunningServer) -> String {
    Request::get("/metrics").to(server.addresses_of("operator")[0]).text().to_owned()
}

#[test]
fn changed_files_are_loaded_without_closing_connections() {
    let folder = Folder::new();
    let first = folder.certify();
    let server = folder.server();
    let stream = connect(&server, &first).expect("the first certificate");
    let url = "wss://localhost/socket/websocket?vsn=2.0.0";
    let mut open = Client::over(stream, url).unwrap();

    let second = folder.certify();
    eventually("the new certificate is used", || connect(&server, &second).is_some());
    assert!(connect(&server, &first).is_none());

    // A key of another certificate: the pair stays, and SIGHUP changes nothing.
    let key = fs::read(folder.path("key.pem")).unwrap();
    folder.certify();
    fs::write(folder.path("key.pem"), key).unwrap();
    hang_up();
    assert!(connect(&server, &second).is_some());

    let last = folder.certify();
    hang_up();
    eventually("SIGHUP loads the pair", || connect(&server, &last).is_some());
    assert_eq!(open.push("phoenix", "heartbeat", json!({}))["status"], "ok");
}

/// Sends SIGHUP to this process, in which a server with TLS runs.
fn hang_up() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
}

#[test]
fn plain_http_is_redirected_to_the_port_of_tls() {
    let folder = Folder::new();
    folder.certify();
    let server = folder.server();
    let response = plain(&server, b"GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
    let location = format!("location: https://a.example:{}/a?b=c\r\n", server.address().port());
    assert!(response.contains(&location), "{response}");
    assert!(response.contains("connection: close\r\n"), "{response}");
    let response =
        plain(&server, b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
}

#[test]
fn invalid_requests_to_the_redirect_listener_are_refused() {
    let folder = Folder::new();
    folder.certify();
    let server = folder.server();
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(20_000));
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "400"),
        (b"GET / HTTP/1.0\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: a@evil.example\r\n\r\n", "400"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        (b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
        (long.as_bytes(), "4"),
    ] {
        let response = plain(&server, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        let answered = response.split(' ').nth(1).unwrap_or_default();
        assert!(answered.starts_with(status), "{shown:?}: {response}");
        assert!(!response.contains("location:"), "{shown:?}: {response}");
    }
}

#[test]
fn clients_that_send_slowly_cannot_keep_others_out() {
    let folder = Folder::new();
    folder.certify();
    let server = folder.server();
    let address = server.redirect_addresses()[0];
    let mut slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
            stream
        })
        .collect();
    let response = plain(&server, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
    // The oldest were closed to make room.
    slow[0].set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(!matches!(slow[0].read(&mut [0; 16]), Ok(1..)));
}

#[test]
fn a_start_that_fails_inside_a_runtime_is_an_error() {
    let folder = Folder::new();
    folder.certify();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = folder.settings();
    settings.server.listen = vec![taken.local_addr().unwrap()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::new(settings).with(watchfire_operator::Operator::new());
    let error = runtime.block_on(async { server.start().map(drop).unwrap_err() });
    assert!(matches!(error, StartError::Sockets(_)), "{error}");
}

#[test]
fn metrics_name_the_end_of_the_certificate_and_count_loads() {
    let folder = Folder::new();
    folder.certify();
    let server = folder.server();
    let text = metrics(&server);
    let end = text
        .lines()
        .find_map(|line| line.strip_prefix("watchfire_tls_certificate_end_timestamp_seconds "));
    // The generated certificate is valid until the year 4096.
    assert_eq!(end, Some("67090118400"), "{text}");
    assert!(text.contains("watchfire_tls_certificate_loads_total 0\n"), "{text}");
    let new = folder.certify();
    eventually("the new pair is loaded", || connect(&server, &new).is_some());
    // Another test of this process may send SIGHUP, which counts too.
    let text = metrics(&server);
    assert!(!text.contains("watchfire_tls_certificate_loads_total 0\n"), "{text}");
}

#[test]
fn settings_that_contradict_each_other_prevent_the_start() {
    let folder = Folder::new();
    folder.certify();
    let error = |settings: Settings| match Server::new(settings).start() {
        Err(StartError::Tls(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the server started"),
    };
    let mut both = folder.settings();
    both.tls.acme.domains = vec!["a.example".into()];
    assert!(matches!(error(both), TlsStartError::TwoSources));
    let mut off = folder.settings();
    (off.tls.cert, off.tls.key) = Default::default();
    assert!(matches!(error(off), TlsStartError::RedirectWithoutTls));
    let mut taken = folder.settings();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    taken.tls.redirect_listen = vec![other.local_addr().unwrap()];
    assert!(matches!(error(taken), TlsStartError::Listen { .. }));
    let garbage = folder.settings();
    fs::write(&garbage.tls.cert, "garbage").unwrap();
    let error = error(garbage);
    assert!(matches!(error, TlsStartError::Files(_)), "{error}");
}
