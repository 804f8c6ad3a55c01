//! The log of a server that runs: lines of requests, and the page that describes all lines.

#[path = "support/mod.rs"]
mod program;
#[path = "../../server/tests/all/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use program::Program;
use serde_json::{Value, json};
use watchfire::{Server, StartError};
use watchfire_testkit::{Client, DEADLINE, exchange};

const PAGE: &str = include_str!("../../../docs/reference/logs.md");
const TOKEN: &str = "a token of the operator";

/// The program `test-server`, and the lines of its log.
struct LoggingServer {
    program: Program,
    lines: Receiver<Value>,
    /// All lines so far.
    seen: Vec<Value>,
}

impl LoggingServer {
    fn start(settings: &str) -> LoggingServer {
        let mut command = Program::command(&format!("admin.token = {TOKEN:?}\n{settings}"));
        // The backtrace of a panic is text.
        command.env_remove("RUST_BACKTRACE").stderr(Stdio::piped());
        let mut program = Program::start(command);
        let log = program.child.stderr.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(log).lines().map_while(Result::ok);
            // The error of a program that ends is no line of the log.
            for line in lines.filter(|line| !line.starts_with("Error: ")) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| {
                    panic!("{error} in a line of the log: {line}");
                });
                sender.send(line).ok();
            }
        });
        LoggingServer { program, lines, seen: Vec::new() }
    }

    fn get(&self, path: &str, lines: &str) -> String {
        self.request("GET", path, lines)
    }

    fn request(&self, method: &str, path: &str, lines: &str) -> String {
        request_to(self.program.address, method, path, lines)
    }

    fn admin(&self, method: &str, path: &str, token: &str) -> String {
        request_to(self.program.admin, method, path, &format!("authorization: Bearer {token}\r\n"))
    }

    fn line(&mut self, message: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).unwrap_or_else(|error| {
                panic!("{error}: no line {message:?} after {:#?}", self.seen);
            });
            self.seen.push(line.clone());
            if line["fields"]["message"].as_str().is_some_and(|text| text.starts_with(message)) {
                return line;
            }
        }
    }

    /// The fields of the next line of a request.
    fn request_line(&mut self) -> Value {
        let line = self.line("request");
        assert_eq!(line["target"], "watchfire::request");
        assert_eq!(line["level"], "INFO");
        line["fields"].clone()
    }
}

fn request_to(address: SocketAddr, method: &str, path: &str, lines: &str) -> String {
    let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    exchange(address, format!("{method} {path} {head}{lines}\r\n"))
}

#[test]
fn a_request_below_a_chosen_path_writes_a_line_and_no_other_does() {
    let mut server =
        LoggingServer::start("log.request_paths = ['/healthz', '/limits', '/metrics', '/socket/']");
    server.get("/readyz", "");
    server.get("/healthz?token=secret-in-a-query", "authorization: Bearer secret-in-a-header\r\n");
    let fields = server.request_line();
    assert!(fields["duration_ms"].as_f64().is_some_and(|ms| (0.0..60_000.0).contains(&ms)));
    let mut expected = json!({
        "message": "request", "method": "GET", "path": "/healthz", "status": 200, "bytes": 3,
        "client": "127.0.0.1", "duration_ms": fields["duration_ms"],
    });
    assert_eq!(fields, expected);

    // The client behind a trusted proxy, and an answer without a body.
    server.request("HEAD", "/healthz", "x-forwarded-for: 203.0.113.97\r\n");
    let fields = server.request_line();
    expected["method"] = "HEAD".into();
    expected["bytes"] = 0.into();
    expected["client"] = "203.0.113.97".into();
    expected["duration_ms"] = fields["duration_ms"].clone();
    assert_eq!(fields, expected);

    // A large answer, an answer that is an error, and the operator's listener.
    let answer = server.get("/limits", "");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert_eq!(server.request_line()["bytes"], body.len());
    server.get("/limits/of/nothing", "");
    assert_eq!(server.request_line()["status"], 404);
    server.admin("GET", "/metrics", TOKEN);
    let fields = server.request_line();
    assert_eq!((&fields["path"], &fields["client"]), (&"/metrics".into(), &"127.0.0.1".into()));

    // A WebSocket has no line. A session of long poll has one for its first request.
    Client::connect(server.program.address);
    server.get("/socket/longpoll?vsn=2.0.0", "");
    assert_eq!(server.request_line()["path"], "/socket/longpoll");
    let log = format!("{:?}", server.seen);
    assert!(!log.contains("secret") && !log.contains("readyz"), "{log}");
}

#[test]
fn a_line_of_a_request_is_bounded_and_has_printable_characters_only() {
    let mut server = LoggingServer::start("log.request_paths = ['/']");
    let method = "M".repeat(300);
    server.request(&method, &format!("/{}", "a".repeat(8_000)), "");
    let fields = server.request_line();
    assert_eq!(fields["method"], format!("{}...", "M".repeat(16)));
    assert_eq!(fields["path"], format!("/{}...", "a".repeat(255)));
    // The server refuses some of these requests, as it may. It answers the last.
    for path in ["/\u{202e}x", "/\u{1b}[2J", "/a\u{7f}", "/b\u{85}", "/c%0a", "/last"] {
        server.get(path, "");
    }
    loop {
        let path = server.request_line()["path"].as_str().expect("text").to_owned();
        assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
        if path == "/last" {
            break;
        }
    }
}

#[test]
fn the_line_of_a_request_whose_client_left_has_the_answer_that_nobody_received() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut server = LoggingServer::start(&format!(
        "log.request_paths = ['/socket/']\n[hooks]\nurl = 'http://{}/'\nsecret = '{}'\nconnect = true\ntimeout = '1s'",
        backend.local_addr().expect("an address"),
        "s".repeat(32),
    ));
    let mut client = TcpStream::connect(server.program.address).expect("the server listens");
    client
        .write_all(b"GET /socket/longpoll?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .expect("the request is sent");
    // The server asks the backend, which does not answer within the second.
    let _question = backend.accept().expect("a question");
    drop(client);
    let fields = server.request_line();
    assert_eq!((&fields["path"], &fields["status"]), (&json!("/socket/longpoll"), &json!(503)));
    assert!(fields["duration_ms"].as_f64().is_some_and(|ms| ms >= 900.0), "{fields}");
}

#[test]
fn the_level_of_request_lines_changes_while_the_server_runs() {
    let mut server = LoggingServer::start("log.request_paths = ['/healthz', '/limits']");
    server.get("/healthz", "");
    assert_eq!(server.request_line()["path"], "/healthz");
    server.admin("PUT", "/admin/log?level=info,watchfire::request=off", TOKEN);
    server.get("/healthz", "");
    server.admin("PUT", "/admin/log?level=info", TOKEN);
    server.get("/limits", "");
    // The line after the change is that of the second path.
    assert_eq!(server.request_line()["path"], "/limits");
}

#[test]
fn an_event_loop_that_panics_is_logged_and_ends_the_process_with_an_error() {
    let mut server = LoggingServer::start("server.shards = 2");
    drop(Client::connect_with(server.program.address, "vsn=2.0.0&panics=yes").expect("a client"));
    let panic = server.line("a thread panicked");
    assert_eq!(
        (&panic["level"], &panic["fields"]["reason"]),
        (&json!("ERROR"), &json!("a requested panic"))
    );
    assert!(
        panic["fields"]["location"].as_str().expect("text").contains("test_server.rs"),
        "{panic}"
    );
    let ended = server.line("an event loop panicked");
    let number = ended["fields"]["shard"].as_u64().expect("a number");
    assert_eq!(panic["fields"]["thread"], format!("shard-{number}"));
    assert_eq!(server.program.child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn the_fault_of_a_token_is_logged_at_the_level_debug_and_not_told_to_the_client() {
    let mut server = LoggingServer::start(&format!(
        "log.level = 'info,watchfire::rules=debug'\n\
         auth.hs256_secret = '{}'\n[[channels.rules]]\npattern = 'orders:*'",
        "s".repeat(32),
    ));
    let address = server.program.address;
    let mut client = Client::connect(address);
    let head = |head: &str| format!("{}.e30.", URL_SAFE_NO_PAD.encode(head));
    for (payload, fault, reason) in [
        (json!({}), "missing", "unauthorized"),
        (json!({ "token": 7 }), "not_a_text", "token_invalid"),
        (json!({ "token": "text" }), "malformed", "token_invalid"),
        (json!({ "token": head(r#"{"alg":"none"}"#) }), "algorithm", "token_invalid"),
        (json!({ "token": head(r#"{"alg":"ES256"}"#) }), "unknown_key", "token_invalid"),
        (json!({ "token": head(r#"{"alg":"HS256"}"#) }), "signature", "token_invalid"),
    ] {
        let reply = client.join("orders:7", payload);
        assert_eq!(reply["response"], json!({ "reason": reason }));
        let line = server.line("token refused");
        let fields = &line["fields"];
        assert_eq!((&line["level"], &fields["topic"]), (&json!("DEBUG"), &json!("orders:7")));
        assert_eq!((&fields["fault"], &fields["reason"]), (&json!(fault), &json!(reason)));
    }
    for number in 0..2 {
        let refused = Client::connect_with(address, "vsn=2.0.0&token=text").err().expect("403");
        assert!(refused.contains("403"), "{refused}");
        if number == 0 {
            let line = server.line("cannot accept a client: its token is refused");
            assert_eq!(
                (&line["level"], &line["fields"]["fault"]),
                (&json!("WARN"), &json!("malformed"))
            );
        }
        // Only the first one of a minute is a warning, so that a client cannot fill the log.
        let line = server.line("token refused");
        assert_eq!(line["fields"]["fault"], "malformed");
    }
}

#[test]
fn a_path_that_cannot_match_is_refused_at_the_start() {
    let mut settings = support::settings();
    settings.log.request_paths = vec!["/api/".into(), "api/".into()];
    let error = Server::new(settings).start().err().expect("no path begins so");
    assert!(matches!(&error, StartError::RequestPath { path } if path == "api/"), "{error}");
}

/// The rows of the table below a heading of the page, without its first two lines.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, part) = PAGE.split_once(heading).expect("the page has the heading");
    let part = part.split("\n## ").next().unwrap_or_default();
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row[1..row.len() - 1].split('|').map(str::trim).collect()).collect()
}

/// The names in a cell, such as "`kind`, `seconds`".
fn names(cell: &str) -> BTreeSet<&str> {
    let names = cell.split(", ").map(|name| name.trim_matches('`'));
    names.filter(|name| !name.is_empty()).collect()
}

/// The rows of the events, by the beginning of their message: the level, and the fields.
fn events() -> BTreeMap<&'static str, (&'static str, BTreeSet<&'static str>)> {
    let rows = table("## Events").into_iter().map(|row| {
        assert_eq!(row.len(), 4, "{row:?}");
        (row[0].trim_matches('`'), (row[1], names(row[2])))
    });
    rows.collect()
}

#[test]
fn the_page_describes_every_line_of_a_server_with_its_level_and_fields() {
    let mut server = LoggingServer::start(
        "log.request_paths = ['/healthz']\nlimits.sockets_max = 40\nserver.shards = 1",
    );
    let mut client = Client::connect(server.program.address);
    client.join("crash", json!({}));
    client.send("crash", "any", json!({}));
    client.receive_event("phx_error");
    let origin = "origin: http://elsewhere.example\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                  sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    server.get("/socket/websocket?vsn=2.0.0", origin);
    server.get("/healthz", "");
    for _ in 0..12 {
        server.admin("GET", "/admin/state", "not the token of the operator");
    }
    server.admin("PUT", "/admin/log?level=info", TOKEN);
    let connections = server.admin("GET", "/admin/connections", TOKEN);
    let (_, id) = connections.split_once(r#""id":""#).expect("a connection");
    let (id, _) = id.split_once('"').expect("an id");
    server.admin("POST", "/admin/topics/end?topic=block", TOKEN);
    server.admin("POST", &format!("/admin/connections/{id}/disconnect"), TOKEN);
    let many: Vec<_> = (0..38)
        .map(|_| TcpStream::connect(server.program.address).expect("a connection"))
        .collect();
    server.line("trouble began");
    drop(many);

    let events = events();
    let members: BTreeSet<_> = table("## Members").iter().map(|row| row[0]).collect();
    let targets: BTreeSet<_> = table("## Targets").iter().map(|row| row[0]).collect();
    let mut seen = BTreeSet::new();
    for line in &server.seen {
        let own: BTreeSet<_> =
            line.as_object().expect("an object").keys().map(|key| format!("`{key}`")).collect();
        assert_eq!(own, members.iter().map(ToString::to_string).collect(), "{line}");
        let target = line["target"].as_str().expect("text");
        let target = match target {
            "watchfire::request" => target,
            target => target.split("::").next().unwrap_or_default(),
        };
        assert!(targets.contains(&*format!("`{target}`")), "{target}");
        let mut fields: BTreeSet<_> =
            line["fields"].as_object().expect("fields").keys().map(String::as_str).collect();
        assert!(fields.remove("message"), "{line}");
        let message = line["fields"]["message"].as_str().expect("text");
        let event = events.iter().find(|(start, _)| message.starts_with(*start));
        let (start, (level, described)) = event.unwrap_or_else(|| panic!("{line} is not there"));
        assert_eq!(line["level"].as_str(), Some(&*level.to_uppercase()), "{line}");
        assert_eq!(&fields, described, "{line}");
        seen.insert(*start);
    }
    for start in [
        "request",
        "channel crashed",
        "cannot accept a client",
        "many requests to the admin listener",
        "the operator changed the level",
        "the operator closed a connection",
        "the operator ended a topic",
        "trouble began",
    ] {
        assert!(seen.iter().any(|message| message.starts_with(start)), "{start}: {seen:#?}");
    }
}

/// All source files of a folder, with each text on one line.
fn sources(folder: &std::path::Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.is_dir() {
        true => sources(&path),
        false => {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let mut parts = text.split("\\\n");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| text + part.trim_start())
        }
    });
    texts.collect()
}

#[test]
fn every_event_of_the_page_is_in_the_code_with_its_level_and_fields() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let of_server = [
        "server",
        "pages",
        "operator",
        "api",
        "sockets",
        "cluster",
        "auth",
        "hooks",
        "certificates",
        "traces",
    ];
    let code: String =
        of_server.iter().map(|name| sources(&crates.join(name).join("src"))).collect();
    for (message, (level, fields)) in events() {
        let start = format!("\"{message}");
        let macros = code.match_indices(&start).filter_map(|(at, _)| code[..at].rsplit_once("!("));
        let mut of_level = macros.filter(|(before, _)| before.ends_with(level));
        let (_, arguments) = of_level
            .next()
            .unwrap_or_else(|| panic!("no code writes {message:?} with the level {level}"));
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let words: BTreeSet<_> = arguments.split(|c| !is_name(c)).collect();
        assert!(fields.is_subset(&words), "{message:?} has no {fields:?}, but {arguments}");
    }
}
