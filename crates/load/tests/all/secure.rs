//! Servers with TLS, rows of files, and values saved from messages.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tungstenite::Message;

use crate::support::{
    Seen, done, http_server, load, load_files, ok, path, scenario, server, websocket_server,
};

/// A server with TLS that answers requests, and the certificate that it has.
fn secure_server(answers_websockets: bool) -> (SocketAddr, String) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let address = server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        if answers_websockets {
            let Ok(mut socket) = tungstenite::accept(stream) else { return };
            while let Ok(message) = socket.read() {
                if message.is_text() && socket.send(message).is_err() {
                    return;
                }
            }
            return;
        }
        use std::io::{Read as _, Write as _};
        let mut buffer = [0; 4096];
        // A small request arrives in one record.
        while let Ok(1..) = stream.read(&mut buffer) {
            if stream.write_all(&ok(&"x".repeat(100_000))).is_err() {
                return;
            }
        }
    });
    (address, certified.cert.pem())
}

/// A scenario with one more table.
fn with(table: &str, scenario: &str) -> String {
    scenario.replace("[[phases]]", &format!("{table}\n[[phases]]"))
}

fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://localhost:{}", address.port())
}

#[test]
fn requests_and_websockets_go_over_tls() {
    let (address, pem) = secure_server(false);
    let steps =
        r#"{ http = { path = "/", name = "get" } }, { http = { path = "/", name = "get" } }"#;
    let text = with("[tls]\nca = \"ca.pem\"", &scenario(5, 50, steps));
    let results = load_files(&url("https", address), text, &[("ca.pem", &pem)]);
    assert_eq!((results.errors_total(), done(&results, "get")), (0, 10), "{:?}", results.errors);
    assert!(results.counts.bytes_in > 1_000_000);

    let (address, _) = secure_server(true);
    let steps = r#"{ connect = { path = "/" } }, { send = { text = "a", reply = true } },
        { disconnect = {} }"#;
    let text = with("[tls]\nverify = false", &scenario(3, 50, steps));
    let results = load_files(&url("wss", address), text, &[]);
    assert_eq!((results.errors_total(), done(&results, "send")), (0, 3), "{:?}", results.errors);
}

#[test]
fn a_certificate_that_is_not_trusted_or_for_another_name_is_an_error() {
    let (address, _) = secure_server(false);
    let (_, other) = secure_server(false);
    let steps = r#"{ http = { path = "/" } }"#;
    let text = with("[tls]\nca = \"ca.pem\"", &scenario(2, 20, steps));
    let results = load_files(&url("https", address), text, &[("ca.pem", &other)]);
    assert_eq!(results.counts.failed, 2);
    let kinds: Vec<_> = results.errors.keys().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["TLS: the certificate of the server is not trusted"]);
}

#[test]
fn a_server_without_tls_is_an_error_and_not_a_wait() {
    let address = crate::support::responding(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let text = with("[tls]\nverify = false", &scenario(1, 20, r#"{ http = { path = "/" } }"#));
    let results = load_files(&url("https", address), text, &[]);
    assert_eq!(results.counts.failed, 1);
    let kinds: Vec<_> = results.errors.keys().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["TLS: invalid data"]);
}

#[test]
fn a_tsung_file_may_have_servers_with_tls_and_their_certificates_are_not_verified() {
    let (address, _) = secure_server(false);
    let (other, _) = secure_server(false);
    let text = format!(
        r#"<tsung><servers><server host="127.0.0.1" port="{}" type="ssl"/></servers>
        <load><arrivalphase phase="1" duration="1" unit="second">
            <users maxnumber="2" arrivalrate="1000" unit="second"/></arrivalphase></load>
        <sessions><session name="a" probability="100" type="ts_http">
            <request><http url="/" method="GET"/></request>
            <request><http url="https://localhost:{}/other" method="GET"/></request>
        </session></sessions></tsung>"#,
        address.port(),
        other.port()
    );
    let results = crate::support::load_source("test.xml", text, None);
    assert_eq!((results.errors_total(), results.counts.finished), (0, 2), "{:?}", results.errors);
    assert!(results.counts.bytes_in > 400_000);
}

#[test]
fn users_take_the_rows_of_a_file_in_turn() {
    let seen = Seen::default();
    let noted = seen.clone();
    let address = http_server(move |_, head| {
        noted.push(path(head));
        ok("")
    });
    let rows = "[rows.users]\nfile = \"users.csv\"\ncolumns = [\"name\", \"quote\"]";
    let steps = r#"{ row = "users" }, { http = { path = "/${name}?q=${quote}" } }"#;
    let text = with(rows, &scenario(3, 30, steps));
    let files = [("users.csv", "ada,\"a,b\"\ngrace,c\n")];
    let results = load_files(&format!("http://{address}"), text, &files);
    assert_eq!(results.errors_total(), 0, "{:?}", results.errors);
    let mut paths = seen.all();
    paths.sort();
    assert_eq!(paths, ["/ada?q=a,b", "/ada?q=a,b", "/grace?q=c"]);
}

#[test]
fn values_of_messages_are_saved_and_groups_of_steps_are_measured() {
    let heard = Seen::default();
    let hearing = heard.clone();
    let address = websocket_server(move |socket| {
        loop {
            let Message::Text(text) = socket.read()? else { continue };
            hearing.push(text.as_str());
            let reply = match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(message) if message[3] == "phx_join" => {
                    let response = r#"{"status":"ok","response":{"token":"t-1"}}"#;
                    format!(
                        "[{},{},{},\"phx_reply\",{response}]",
                        message[0], message[1], message[2]
                    )
                }
                _ => r#"{"n":[7,8],"text":"id=42;"}"#.to_owned(),
            };
            socket.send(Message::text(reply))?;
        }
    });
    let steps = r#"
        { group = { name = "both", steps = [
          { connect = { path = "/?vsn=2.0.0" } },
          { join = { topic = "t", save = { token = "/token" } } },
        ] } },
        { send = { text = "${token}", reply = true, save = { n = "/n/1", number = { regex = "id=([0-9]+)" } } } },
        { send = { text = "${n} ${number}" } },
        { expect = { save = { none = "/none" } } },
        { disconnect = {} }"#;
    let results = load(address, &scenario(1, 20, steps));
    let errors: Vec<_> = results.errors.keys().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(errors, ["no value to save in the answer"]);
    assert_eq!(heard.all()[1..], ["t-1", "8 42"]);
    assert_eq!((done(&results, "both"), results.counts.finished), (1, 1));
}
