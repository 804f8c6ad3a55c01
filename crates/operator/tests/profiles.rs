//! CPU profiles over the operator's listener, with real processes.

#[path = "support/mod.rs"]
mod program;
#[path = "../../server/tests/all/support/mod.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use program::Program;
use serde_json::Value;

const TOKEN: &str = "a token of the operator";
const DEADLINE: Duration = Duration::from_secs(60);

/// The program `test-server`, and its log.
struct Server {
    program: Program,
    log: std::sync::Arc<Mutex<String>>,
}

impl Server {
    fn start(settings: &str) -> Server {
        let mut command = Program::command(settings);
        command.stderr(Stdio::piped());
        let mut program = Program::start(command);
        let mut errors = program.child.stderr.take().expect("a pipe");
        let log = std::sync::Arc::<Mutex<String>>::default();
        let written = log.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = errors.read(&mut buffer) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Server { program, log }
    }

    /// The status, the head and the body of an answer of the operator's listener.
    fn get(&self, path: &str, lines: &str) -> (u16, String, Vec<u8>) {
        request(self.program.admin, path, lines)
    }

    /// Requests `/limits` until it is told to stop.
    fn load(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(request(self.program.address, "/limits", "").0, 200);
        }
    }
}

/// Stops the load, also when an assertion fails.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn send(address: SocketAddr, path: &str, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    write!(stream, "GET {path} {head}{lines}\r\n").expect("the request is sent");
    stream
}

fn request(address: SocketAddr, path: &str, lines: &str) -> (u16, String, Vec<u8>) {
    answer(send(address, path, lines))
}

fn answer(mut stream: TcpStream) -> (u16, String, Vec<u8>) {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("text");
    (head[9..12].parse().expect("a status"), head, answer[end + 4..].to_vec())
}

fn eventually<T>(what: &str, mut holds: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = holds() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a profile, when no other one runs any more. Returns its connection.
fn start_profile(server: &Server, path: &str) -> TcpStream {
    eventually("a profile runs", || {
        let mut client = send(server.program.admin, path, "");
        client.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout can be set");
        // A refusal comes at once, and the profile later.
        client.read(&mut [0]).is_err().then_some(client)
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_profile_of_a_busy_server_names_its_functions_while_the_listener_answers() {
    let server = Server::start("server.shards = 2");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        scope.spawn(|| server.load(&stop));
        let mut profile = start_profile(&server, "/debug/pprof/profile?seconds=3");
        // A second one is refused, and everything else is answered.
        let (status, head, body) = server.get("/debug/flamegraph?seconds=1", "");
        assert_eq!((status, contains(&body, "already running")), (409, true), "{head}");
        assert_eq!(server.get("/metrics", "").0, 200);
        let is_pending = profile.read(&mut [0]).is_err();
        assert!(is_pending, "the metrics are read while the profile runs");
        profile.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        let (status, head, body) = answer(profile);
        assert_eq!((status, head.contains("x-watchfire-process: 0")), (200, true), "{head}");
        assert!(contains(&body, "watchfire_sockets::") && contains(&body, "nanoseconds"));

        let (status, head, body) = server.get("/debug/flamegraph?seconds=3", "");
        let graph = String::from_utf8(body).expect("text");
        assert_eq!((status, head.contains("content-type: image/svg+xml")), (200, true), "{head}");
        assert!(graph.starts_with("<svg ") && graph.ends_with("</svg>\n"));
        assert!(graph.contains("watchfire_sockets::"), "{graph}");
    });
}

#[test]
fn a_request_that_is_not_valid_is_refused() {
    let server = Server::start(&format!("admin.token = {TOKEN:?}"));
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    for query in ["seconds=0", "seconds=61", "seconds=-1", "seconds=x", "process=1", "second=1"] {
        for path in ["/debug/pprof/profile", "/debug/flamegraph"] {
            let (status, head, body) = server.get(&format!("{path}?{query}"), &token);
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            assert_eq!((status, &body["reason"]), (400, &"bad request".into()), "{query} {head}");
        }
    }
    assert_eq!(server.get("/debug/pprof/profile?seconds=1", "").0, 401);
    assert_eq!(server.get("/debug/flamegraph?seconds=1", "").0, 401);
    let website = "origin: http://elsewhere.example\r\n";
    assert_eq!(server.get("/debug/flamegraph?seconds=1", website).0, 403);
}

#[test]
fn a_profile_ends_when_its_client_leaves() {
    let server = Server::start("log.request_paths = ['/debug/']");
    for path in ["/debug/pprof/profile?seconds=60", "/debug/flamegraph?seconds=60"] {
        let client = start_profile(&server, path);
        assert_eq!(server.get("/debug/pprof/profile?seconds=1", "").0, 409);
        let began = Instant::now();
        drop(client);
        eventually("the next one may start", || {
            (server.get("/debug/pprof/profile?seconds=1", "").0 == 200).then_some(())
        });
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
    // Its line has no status.
    let log = server.log.lock().unwrap().clone();
    let without: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| {
            line["target"] == "watchfire::request" && line["fields"].get("status").is_none()
        })
        .collect();
    assert_eq!(without.len(), 2, "{log}");
}

#[test]
fn any_process_takes_the_profile_of_another() {
    let server = Server::start("server.processes = 2\nserver.shards = 2");
    eventually("both serve", || {
        (request(server.program.address, "/readyz", "").0 == 200).then_some(())
    });
    // Every process answers some of these.
    for round in 0..8 {
        let process = round % 2;
        let path = format!("/debug/flamegraph?seconds=1&process={process}");
        let (status, head, body) = server.get(&path, "");
        assert_eq!(status, 200, "{head}");
        assert!(head.contains(&format!("x-watchfire-process: {process}")), "{head}");
        let graph = String::from_utf8(body).expect("text");
        assert!(graph.contains(&format!("Watchfire, process {process}:")), "{graph}");
    }
    let (status, _, body) = server.get("/debug/flamegraph?seconds=1&process=2", "");
    assert_eq!(status, 400);
    assert!(contains(&body, "from 0 to 1, not 2"));

    // One that is taken by another process ends with its client, too.
    for process in [0, 1] {
        let path = format!("/debug/pprof/profile?seconds=60&process={process}");
        let client = start_profile(&server, &path);
        let short = format!("/debug/pprof/profile?seconds=1&process={process}");
        assert_eq!(server.get(&short, "").0, 409);
        let began = Instant::now();
        drop(client);
        eventually("the next one", || (server.get(&short, "").0 == 200).then_some(()));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
