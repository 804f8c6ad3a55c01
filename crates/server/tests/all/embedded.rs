//! Servers inside an application that has the listener.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::support::settings_without_operator as settings;
use axum::Router;
use axum::routing::get;
use serde_json::json;
use watchfire::{
    Channel, EmbeddedServer, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Server, Settings,
    Socket, StartError,
};
use watchfire_testkit::{Client, exchange};

struct Echo;

impl Channel for Echo {
    type State = ();

    fn join(&self, socket: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()).response(json!({ "topic": socket.topic() })))
    }

    fn handle_in(
        &self,
        (): &mut (),
        _: &mut Socket<'_>,
        _: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        Ok(Outcome::Reply(Reply::ok(payload)))
    }
}

fn embed(settings: Settings) -> EmbeddedServer {
    Server::new(settings).channel("echo:*", Echo).embed().expect("the server starts")
}

/// Serves an axum application on a thread of its own, until the test ends.
fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    listener.set_nonblocking(true).expect("a listener");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            axum::serve(listener, app).await.expect("axum serves");
        });
    });
    address
}

fn get_from(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    exchange(address, request)
}

#[test]
fn a_router_has_websockets_below_a_path_of_an_application() {
    let server = embed(settings());
    let app = Router::new()
        .route("/", get(async || "the application"))
        .nest("/realtime", server.router());
    let address = serve(app);
    assert!(get_from(address, "/").ends_with("the application"));

    let url = format!("ws://{address}/realtime/socket/websocket?vsn=2.0.0");
    let mut client = Client::connect_to(address, &url).expect("the socket is accepted");
    let joined = client.join("echo:1", json!({}));
    assert_eq!(joined, json!({ "status": "ok", "response": { "topic": "echo:1" } }));
    assert_eq!(server.clients(), 1);
    // Larger than every buffer on the way.
    let text = "x".repeat(40_000);
    let reply = client.push("echo:1", "say", json!({ "text": text }));
    assert_eq!(reply["response"]["text"].as_str().map(str::len), Some(text.len()));
    server.endpoint().broadcast("echo:1", "note", json!({ "n": 1 })).expect("room in the queue");
    assert_eq!(client.receive_event("note"), json!({ "n": 1 }));
}

#[test]
fn a_router_passes_on_long_polls_and_refusals() {
    let server = embed(settings());
    let address = serve(server.router());
    let poll = get_from(address, "/socket/longpoll?vsn=2.0.0");
    assert!(poll.starts_with("HTTP/1.1 200 OK"), "{poll}");
    assert!(poll.contains(r#""status":410"#) && poll.contains(r#""token":"#), "{poll}");

    let refused = get_from(address, "/socket/websocket?vsn=2.0.0");
    assert!(refused.starts_with("HTTP/1.1 400"), "not an upgrade: {refused}");
    let url = format!("ws://{address}/socket/websocket?vsn=9.0.0");
    assert!(Client::connect_to(address, &url).is_err(), "the version is unknown");
}

#[test]
fn an_application_counts_as_the_address_of_its_client() {
    let mut settings = settings();
    settings.limits.sockets_per_address_max = 1;
    settings.limits.loopback_limited = true;
    let server = embed(settings);
    let address = serve(server.router());
    let url = format!("ws://{address}/socket/websocket?vsn=2.0.0");
    let first = Client::connect_to(address, &url).expect("the first socket is accepted");
    assert!(Client::connect_to(address, &url).is_err(), "the address has a socket");
    drop(first);
}

#[test]
fn accepted_connections_get_sockets_and_routes() {
    let routes = Router::new().route("/hello", get(async || "from the application"));
    let server = Server::new(settings()).channel("echo:*", Echo).routes(routes);
    let server = server.embed().expect("the server starts");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            server.accept(connection).expect("the event loops run");
        }
    });
    assert!(get_from(address, "/hello").ends_with("from the application"));
    let url = format!("ws://{address}/socket/websocket?vsn=2.0.0");
    let mut client = Client::connect_to(address, &url).expect("the socket is accepted");
    let reply = client.join("echo:1", json!({}));
    assert_eq!(reply["status"], "ok");
}

#[test]
fn settings_of_a_listener_are_refused() {
    type Change = fn(&mut Settings);
    let changes: [(&str, Change); 4] = [
        ("tls", |settings| settings.tls.cert = "cert.pem".into()),
        ("server.proxy_protocol", |settings| {
            settings.server.proxy_protocol = vec![([127, 0, 0, 1], 4000).into()];
        }),
        ("server.processes", |settings| settings.server.processes = 2),
        ("cluster.nats", |settings| settings.cluster.nats = vec!["nats://127.0.0.1".into()]),
    ];
    for (name, change) in changes {
        let mut settings = settings();
        change(&mut settings);
        match Server::new(settings).embed() {
            Err(StartError::Embedded { setting }) => assert_eq!(setting, name),
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => panic!("{name} was accepted"),
        }
    }
}

#[test]
fn a_server_without_an_address_is_refused() {
    let mut settings = settings();
    settings.server.listen.clear();
    let error = Server::new(settings).start().err().expect("there is no address");
    assert_eq!(error.to_string(), "cannot start without an address: set server.listen");
}
