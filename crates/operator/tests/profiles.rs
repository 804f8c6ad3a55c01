//! CPU profiles over the operator's listener, with real processes.

#[path = "support/mod.rs"]
mod program;
use std::io::Read as _;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use program::Program;
use serde_json::Value;
use watchfire_testkit::{Answer, DEADLINE, Request, eventually, find};

const TOKEN: &str = "a token of the operator";

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

    /// The answer of the operator's listener.
    fn get(&self, path: &str) -> Answer {
        Request::get(path).to(self.program.admin)
    }

    /// Requests `/limits` until it is told to stop.
    fn load(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(Request::get("/limits").to(self.program.address).status, 200);
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

/// Starts a profile, when no other one runs any more. Returns its connection.
fn start_profile(server: &Server, path: &str) -> TcpStream {
    find("a profile runs", || {
        let mut client = Request::get(path).send(server.program.admin).expect("it is sent");
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
        let second = server.get("/debug/flamegraph?seconds=1");
        assert_eq!((second.status, contains(&second.body, "already running")), (409, true));
        assert_eq!(server.get("/metrics").status, 200);
        let is_pending = profile.read(&mut [0]).is_err();
        assert!(is_pending, "the metrics are read while the profile runs");
        profile.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        let profile = Answer::read(profile);
        assert_eq!((profile.status, profile.header("x-watchfire-process")), (200, "0"));
        let body = &profile.body;
        assert!(contains(body, "watchfire_sockets::") && contains(body, "nanoseconds"));

        let graph = server.get("/debug/flamegraph?seconds=3");
        assert_eq!((graph.status, graph.header("content-type")), (200, "image/svg+xml"));
        let graph = graph.text();
        assert!(graph.starts_with("<svg ") && graph.ends_with("</svg>\n"));
        assert!(graph.contains("watchfire_sockets::"), "{graph}");
    });
}

#[test]
fn a_request_that_is_not_valid_is_refused() {
    let server = Server::start(&format!("admin.token = {TOKEN:?}"));
    let token = format!("authorization: Bearer {TOKEN}");
    for query in ["seconds=0", "seconds=61", "seconds=-1", "seconds=x", "process=1", "second=1"] {
        for path in ["/debug/pprof/profile", "/debug/flamegraph"] {
            let request = Request::get(&format!("{path}?{query}")).line(&token);
            let answer = request.to(server.program.admin);
            let reason = answer.json()["reason"].clone();
            assert_eq!((answer.status, reason), (400, "bad request".into()), "{query}");
        }
    }
    assert_eq!(server.get("/debug/pprof/profile?seconds=1").status, 401);
    assert_eq!(server.get("/debug/flamegraph?seconds=1").status, 401);
    let website =
        Request::get("/debug/flamegraph?seconds=1").line("origin: http://elsewhere.example");
    assert_eq!(website.to(server.program.admin).status, 403);
}

#[test]
fn a_profile_ends_when_its_client_leaves() {
    let server = Server::start("log.request_paths = ['/debug/']");
    for path in ["/debug/pprof/profile?seconds=60", "/debug/flamegraph?seconds=60"] {
        let client = start_profile(&server, path);
        assert_eq!(server.get("/debug/pprof/profile?seconds=1").status, 409);
        let began = Instant::now();
        drop(client);
        eventually("the next one may start", || {
            server.get("/debug/pprof/profile?seconds=1").status == 200
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
fn the_profile_of_a_minute_outlives_kill_9_and_gives_way_to_one_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("profiles");
    let settings = format!("admin.profile_file = {file:?}\nserver.processes = 2");
    let server = Server::start(&settings);
    let stop = AtomicBool::new(false);
    let path = thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        scope.spawn(|| server.load(&stop));
        find("the profile of this minute", || {
            let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
            let path = format!("/admin/profile?at={}", now.as_millis());
            let graph = server.get(&path);
            (graph.status == 200 && graph.text().contains("watchfire_sockets::")).then_some(path)
        })
    });
    // With SIGKILL.
    drop(server);
    let server = Server::start(&settings);
    // Each of the two processes answers some of these.
    for _ in 0..8 {
        let graph = server.get(&path);
        assert_eq!((graph.status, graph.header("content-type")), (200, "image/svg+xml"));
        assert!(graph.text().contains("watchfire_sockets::"));
    }
    let functions = server.get(&format!("{path}&functions=true")).json();
    assert!(functions["functions"].to_string().contains("watchfire_sockets::"), "{functions}");
    assert_eq!(server.get("/debug/flamegraph?seconds=1&process=0").status, 200);
    let statuses = ["at=0", "at=-1"].map(|at| server.get(&format!("/admin/profile?{at}")).status);
    assert_eq!(statuses, [404, 400]);
}

#[test]
fn any_process_takes_the_profile_of_another() {
    let server = Server::start("server.processes = 2\nserver.shards = 2");
    let ready = Request::get("/readyz");
    eventually("both serve", || ready.to(server.program.address).status == 200);
    // Every process answers some of these.
    for round in 0..8 {
        let process = round % 2;
        let path = format!("/debug/flamegraph?seconds=1&process={process}");
        let graph = server.get(&path);
        assert_eq!(graph.status, 200, "{}", graph.head);
        assert_eq!(graph.header("x-watchfire-process"), process.to_string());
        let graph = graph.text();
        assert!(graph.contains(&format!("Watchfire, process {process}:")), "{graph}");
    }
    let refused = server.get("/debug/flamegraph?seconds=1&process=2");
    assert_eq!(refused.status, 400);
    assert!(contains(&refused.body, "from 0 to 1, not 2"));

    // One that is taken by another process ends with its client, too.
    for process in [0, 1] {
        let path = format!("/debug/pprof/profile?seconds=60&process={process}");
        let client = start_profile(&server, &path);
        let short = format!("/debug/pprof/profile?seconds=1&process={process}");
        assert_eq!(server.get(&short).status, 409);
        let began = Instant::now();
        drop(client);
        eventually("the next one", || server.get(&short).status == 200);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}
