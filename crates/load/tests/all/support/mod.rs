//! Small test servers, and loads that use them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use tungstenite::{Message, WebSocket};
use watchfire_load::{LoadOptions, Results, Source};
pub use watchfire_testkit::serve as server;
use watchfire_testkit::{answer_requests, response};

/// A server of HTTP on a free port: `answer` gets the number of the connection and the head of each
/// request, and returns the bytes of its answer.
pub fn http_server(answer: impl Fn(usize, &str) -> Vec<u8> + Clone + Send + 'static) -> SocketAddr {
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    server(move |stream| {
        let connection = connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        answer_requests(stream, |request| Some(answer(connection, &request.head)));
    })
}

/// A response with this body.
pub fn ok(body: &str) -> Vec<u8> {
    response("200 OK", &[], body)
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

/// Runs a scenario against one server.
pub fn load(address: SocketAddr, scenario: &str) -> Results {
    load_url(&format!("ws://{address}"), scenario)
}

/// Runs a scenario against the server of a URL.
pub fn load_url(url: &str, scenario: &str) -> Results {
    load_source("test.toml", scenario.to_owned(), Some(url.to_owned()))
}

/// Runs a scenario in TOML or in Tsung's XML. The name is for errors.
pub fn load_source(name: &str, text: String, target: Option<String>) -> Results {
    let targets = target.into_iter().collect();
    let source = Source { name: name.to_owned(), text, targets, ..Source::default() };
    run(&source)
}

/// Runs a scenario that names other files.
pub fn load_files(url: &str, text: String, files: &[(&str, &str)]) -> Results {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let (name, targets) = ("test.toml".to_owned(), vec![url.to_owned()]);
    run(&Source { name, text, files: files.collect(), targets, seed: None })
}

fn run(source: &Source) -> Results {
    watchfire_load::run_load(source, &LoadOptions::default(), |_| {}).expect("the load runs")
}

/// A scenario of Tsung with this content of `<load>` and of `<sessions>`.
pub fn tsung(address: SocketAddr, load: &str, sessions: &str) -> Results {
    let text = format!(
        r#"<tsung><clients><client host="localhost" maxusers="100"/></clients>
        <servers><server host="127.0.0.1" port="{}" type="tcp"/></servers>
        <load duration="20" unit="second">{load}</load>
        <options><option name="global_number" value="4"/></options>
        <sessions>{sessions}</sessions></tsung>"#,
        address.port()
    );
    load_source("test.xml", text, None)
}

/// The requests that a server has seen, in order.
#[derive(Clone, Default)]
pub struct Seen(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl Seen {
    pub fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The path of a request.
pub fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
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
