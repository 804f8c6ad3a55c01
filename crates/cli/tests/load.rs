//! `watchfire load` as a person at a shell meets it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");

/// A server of ours on a port of its own; it ends with its test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Server {
        let mut command = Command::new(WATCHFIRE);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let port = line.trim().rsplit(':').next().expect("a port").to_owned();
        Server { child, url: format!("ws://127.0.0.1:{port}") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("the server can be ended");
        self.child.wait().expect("the server ends");
    }
}

fn load(scenario: &str, name: &str, arguments: &[&str]) -> Output {
    let file = std::env::temp_dir().join(format!("watchfire-{}-{name}", std::process::id()));
    std::fs::write(&file, scenario).expect("a file can be written");
    let output = Command::new(WATCHFIRE).arg("load").arg(&file).args(arguments).output();
    std::fs::remove_file(&file).expect("the file is there");
    output.expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const LOBBY: &str = r#"
    [[phases]]
    duration = "500ms"
    rate = 400
    [[sessions]]
    steps = [
      { connect = { path = "/socket/websocket?vsn=2.0.0" } },
      { join = { topic = "rooms:${user}" } },
      { stay = {} },
    ]
    [thresholds]
    errors_max = 0
    connected_min = 200
    missing_users_max = 0
    steps.join.count_min = 200
"#;

#[test]
fn a_load_that_needs_more_files_than_a_process_may_open_is_run_by_several() {
    let server = Server::start();
    let json = std::env::temp_dir().join(format!("watchfire-{}.json", std::process::id()));
    let file = json.to_str().expect("the path is text");
    // 64 of these are kept for other things: 60 users a process.
    let arguments = ["--target", &server.url, "--files-max", "124", "--json", file];
    let output = load(LOBBY, "several.toml", &arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("JSON is written"))
            .expect("it is JSON");
    std::fs::remove_file(&json).expect("the file is there");
    assert_eq!(told["workers"], 4, "{out}");
    assert_eq!((&told["connected_max"], &told["counts"]["finished"]), (&200.into(), &200.into()));
    assert_eq!(told["steps"][1]["name"], "join");
    assert_eq!(told["steps"][1]["since_due"]["count"], 200);
    assert!(out.contains("4 processes") && out.contains("kept    errors ≤ 0"), "{out}");
}

#[test]
fn a_broken_threshold_decides_the_exit_code() {
    let output = load(LOBBY, "nobody.toml", &["--target", "ws://127.0.0.1:9"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{out}");
    assert!(out.contains("200 x connect: connection refused"), "{out}");
    assert!(out.contains("BROKEN  errors ≤ 0 (measured 200)"), "{out}");
}

#[test]
fn a_scenario_with_an_error_is_refused_with_its_line_and_key() {
    let output = load(&LOBBY.replace("rate =", "rat ="), "bad.toml", &[]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("bad.toml:4: rat: unknown field `rat`"), "{err}");
    let output = load(LOBBY, "nowhere.toml", &[]);
    assert!(text(&output.stderr).contains("targets: none with a weight"));
}
