//! Servers of a few lines each, and loads against them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tungstenite::{Message, WebSocket};
use watchfire_load::{LoadOptions, Results, Source};

/// A server on a port of its own: each connection has a thread that does this.
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

/// A websocket server: each socket has a thread that does this, until it fails.
pub fn websocket_server(
    serve: impl Fn(&mut WebSocket<TcpStream>) -> tungstenite::Result<()> + Clone + Send + 'static,
) -> SocketAddr {
    server(move |stream| {
        if let Ok(mut socket) = tungstenite::accept(stream) {
            // The client hangs up when it has enough.
            let _ = serve(&mut socket);
        }
    })
}

/// Sends back whatever comes, until the client closes.
pub fn echo(socket: &mut WebSocket<TcpStream>) -> tungstenite::Result<()> {
    loop {
        let message = socket.read()?;
        if matches!(message, Message::Text(_) | Message::Binary(_)) {
            socket.send(message)?;
        }
    }
}

/// A server that sends these bytes as soon as it has heard something.
pub fn saying(bytes: &'static [u8]) -> SocketAddr {
    use std::io::Read as _;
    server(move |mut stream| {
        let heard = stream.read(&mut [0; 4096]);
        if heard.is_ok() && stream.write_all(bytes).is_ok() {
            // Until the client hangs up.
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

/// A scenario of one session: so many users in so many milliseconds.
pub fn scenario(users: u32, millis: u32, steps: &str) -> String {
    let rate = f64::from(users) * 1000.0 / f64::from(millis);
    format!(
        "step_timeout = \"10s\"\n[[phases]]\nduration = \"{millis}ms\"\nrate = {rate:.3}\nusers_max = {users}\n\
         [[sessions]]\nsteps = [{steps}]\n"
    )
}

/// How often a step was done.
pub fn done(results: &Results, name: &str) -> u64 {
    let step = results.steps.iter().find(|step| step.name == name);
    step.unwrap_or_else(|| panic!("there is a step {name}")).due.len()
}
