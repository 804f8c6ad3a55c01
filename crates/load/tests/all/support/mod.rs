//! Small test servers, and loads that use them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tungstenite::{Message, WebSocket};
use watchfire_load::{LoadOptions, Results, Source};

/// A server on a free port, with a thread for each connection.
pub fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A websocket server, with a thread for each socket.
pub fn websocket_server(
    serve: impl Fn(&mut WebSocket<TcpStream>) -> tungstenite::Result<()> + Clone + Send + 'static,
) -> SocketAddr {
    server(move |stream| {
        if let Ok(mut socket) = tungstenite::accept(stream) {
            // The client may close at any time.
            let _ = serve(&mut socket);
        }
    })
}

/// Echoes messages until the client closes.
pub fn echo(socket: &mut WebSocket<TcpStream>) -> tungstenite::Result<()> {
    loop {
        let message = socket.read()?;
        if matches!(message, Message::Text(_) | Message::Binary(_)) {
            socket.send(message)?;
        }
    }
}

/// A server that sends these bytes after the first bytes of a client.
pub fn responding(bytes: &'static [u8]) -> SocketAddr {
    use std::io::Read as _;
    server(move |mut stream| {
        let received = stream.read(&mut [0; 4096]);
        if received.is_ok() && stream.write_all(bytes).is_ok() {
            // Wait until the client closes.
            let _ = stream.read(&mut [0; 4096]);
        }
    })
}

/// Run a scenario against one server.
pub fn load(address: SocketAddr, scenario: &str) -> Results {
    let source = Source {
        name: "test.toml".into(),
        text: scenario.into(),
        target: Some(format!("ws://{address}")),
        seed: None,
    };
    let options = LoadOptions {
        worker: Default::default(),
        files_max: None,
        workers: None,
        agents: Vec::new(),
        stop: Default::default(),
    };
    watchfire_load::run_load(&source, &options, |_| {}).expect("the load runs")
}

/// A scenario of one session, with `users` arrivals in `millis` milliseconds.
pub fn scenario(users: u32, millis: u32, steps: &str) -> String {
    let rate = f64::from(users) * 1000.0 / f64::from(millis);
    format!(
        "step_timeout = \"10s\"\n[[phases]]\nduration = \"{millis}ms\"\nrate = {rate:.3}\nusers_max = {users}\n\
         [[sessions]]\nsteps = [{steps}]\n"
    )
}

/// Number of times that a step was done.
pub fn done(results: &Results, name: &str) -> u64 {
    let step = results.steps.iter().find(|step| step.name == name);
    step.unwrap_or_else(|| panic!("there is a step {name}")).due.len()
}
