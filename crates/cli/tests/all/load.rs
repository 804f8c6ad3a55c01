//! `watchfire load` from the command line.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use watchfire_testkit::{Request, eventually};

use crate::support::{Listening, Scratch, WATCHFIRE, dashboard_pages, text};

/// The key of the server's HTTP API.
const KEY: &str = "the-key-of-the-tests";
/// A server with the rooms that the scenarios join.
pub const SERVE: [&str; 7] = [
    "serve",
    "--set",
    "channels.open_rooms=true",
    "--set",
    "admin.listen=127.0.0.1:0",
    "--set",
    "api.key=the-key-of-the-tests",
];

fn load(scenario: &str, name: &str, arguments: &[&str]) -> Output {
    let scratch = Scratch::new();
    scratch.file(name, scenario);
    let file = scratch.join(name);
    scratch.run(&[&["load", path_text(&file)], arguments].concat())
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// The results that `--json` has written.
fn results(file: &Path) -> serde_json::Value {
    let text = std::fs::read(file).expect("JSON is written");
    serde_json::from_slice(&text).expect("it is JSON")
}

const LOBBY: &str = r#"
    [[phases]]
    duration = "500ms"
    rate = 400
    # The last user stays for a moment with all others.
    [[phases]]
    duration = "1s"
    rate = 0
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

/// [`LOBBY`] whose users are in one room until [`release`] ends their wait, and then do a last step. A busy machine
/// connects some users only after the phases; they would not stay at all.
fn gathering(last: &str) -> String {
    let one_room = LOBBY.replace("rooms:${user}", "rooms:lobby");
    let wait = r#"{ expect = { text = "all_are_here" } }"#;
    one_room.replace("{ stay = {} },", &format!("{wait}, {last}"))
}

/// Ends the wait of a [`gathering`] once all its users are in the room, unless the load has ended.
fn release(server: &Listening, load: &mut Child) {
    let has_all = || call(server, "topics", "{}").contains(r#""subscribers":200"#);
    let mut has_ended = || load.try_wait().expect("its state is known").is_some();
    eventually("all users are in the room", || has_all() || has_ended());
    call(server, "publish", r#"{"topic":"rooms:lobby","event":"all_are_here","payload":{}}"#);
}

/// Calls the HTTP API of a server, and returns the answer.
fn call(server: &Listening, method: &str, body: &str) -> String {
    let request = Request::post(&format!("/api/{method}"), body)
        .line(format!("authorization: Bearer {KEY}"))
        .line("content-type: application/json");
    let answer = request.to(server.address());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text().to_owned()
}

/// Runs a [`gathering`], so that all its users are connected at the same time.
fn gather(server: &Listening, name: &str, arguments: &[&str]) -> Output {
    let scratch = Scratch::new();
    scratch.file(name, gathering(""));
    let target = server.url();
    let mut command = scratch.command(&["load", name, "--to", &target]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut load = command.spawn().expect("it starts");
    release(server, &mut load);
    load.wait_with_output().expect("it ends")
}

#[test]
fn a_load_above_the_open_file_limit_uses_several_processes() {
    let server = Listening::start(&SERVE);
    let scratch = Scratch::new();
    let json = scratch.join("results.json");
    // 64 of these files are reserved, so each process has 60 users.
    let output =
        gather(&server, "several.toml", &["--files-max", "124", "--json", path_text(&json)]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let results = results(&json);
    assert_eq!(results["workers"], 4, "{out}");
    assert_eq!(
        (&results["connected_max"], &results["counts"]["finished"]),
        (&200.into(), &200.into())
    );
    assert_eq!(results["steps"][1]["name"], "join");
    assert_eq!(results["steps"][1]["since_due"]["count"], 200);
    assert!(out.contains("4 processes") && out.contains("kept    errors ≤ 0"), "{out}");
}

#[test]
fn a_check_tells_the_size_of_a_load_with_other_values() {
    let two_million =
        LOBBY.replace("duration = \"500ms\"", "name = \"join\"\nduration = \"500ms\"");
    let size = ["--check", "--to", "ws://127.0.0.1:1", "--files-max", "20000"];
    let set = ["--set", "phases.join.rate=25000", "--set", "phases.join.duration=80s"];
    let output = load(&two_million, "join.toml", &[&size[..], &set].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(out["users"], 2_000_000);
    // 64 files of each process are no users; the limit of this machine may be lower.
    assert!(out["processes"].as_u64().is_some_and(|processes| processes >= 101), "{out}");
    let output =
        load(&two_million, "join.toml", &[&size[..], &["--set", "phases.rest=1"]].concat());
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot set phases.rest"), "{error}");
}

#[test]
fn events_tell_when_phases_begin_and_end() {
    let server = Listening::start(&SERVE);
    let output = gather(&server, "events.toml", &["--events"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = [
        r#"{"event":"phase_began","phase":"phase 1","at":0.0}"#,
        r#"{"event":"phase_ended","phase":"phase 1","at":0.5}"#,
        r#"{"event":"phase_began","phase":"phase 2","at":0.5}"#,
        r#"{"event":"phase_ended","phase":"phase 2","at":1.5}"#,
    ];
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn agents_with_the_right_token_run_users() {
    let server = Listening::start(&SERVE);
    let scratch = Scratch::new();
    scratch.file(
        "token",
        "a-token-of-some-length
",
    );
    scratch.file("wrong", "another-token-of-some-length");
    let (token, wrong) = (scratch.join("token"), scratch.join("wrong"));
    let token_file = path_text(&token);
    let agents = [(); 2].map(|()| Listening::start(&["load", "agent", "--token-file", token_file]));
    let addresses = agents.each_ref().map(|agent| format!("127.0.0.1:{}", agent.port));
    let arguments = |token_file| {
        let agents = ["--agent", &addresses[0], "--agent", &addresses[1]];
        [&agents[..], &["--files-max", "124", "--token-file", token_file]].concat()
    };
    let output = gather(&server, "agents.toml", &arguments(token_file));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("200 started, 200 finished") && out.contains("4 processes"), "{out}");

    let output = gather(&server, "wrong-token.toml", &arguments(path_text(&wrong)));
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("rejected the token"), "{err}");
}

#[test]
fn an_interrupted_load_reports_its_results() {
    let server = Listening::start(&SERVE);
    let scratch = Scratch::new();
    let (scenario, json) = (scratch.join("stopped.toml"), scratch.join("stopped.json"));
    let text = LOBBY.replace("500ms", "1h").replace("400", "20");
    std::fs::write(&scenario, text).expect("a file can be written");
    let mut command = Command::new(WATCHFIRE);
    command.args(["load", path_text(&scenario), "--to", &server.url()]);
    command.args(["--json", path_text(&json)]);
    let mut child =
        command.args(["--workers", "3"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    let line = lines.next().expect("a line for the first second").expect("in UTF-8");
    assert!(line.starts_with("    1 s  users"), "{line}");

    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let rest: Vec<String> = lines.map(|line| line.expect("in UTF-8")).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("STOPPED")), "{rest:?}");
    let results = results(&json);
    let after = results["stopped_after"].as_f64().expect("the time of the stop");
    assert!((1.0..60.0).contains(&after), "{after}");
    assert_eq!(results["failed_workers"], serde_json::json!([]));
    let counts = &results["counts"];
    assert_eq!(counts["cut_off"], counts["started"], "all sessions are cut off: {counts}");
}

#[test]
fn a_broken_threshold_decides_the_exit_code() {
    let output = load(LOBBY, "refused-connections.toml", &["--to", "ws://127.0.0.1:9"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{out}");
    assert!(out.contains("200 x connect: connection refused"), "{out}");
    assert!(out.contains("BROKEN  errors ≤ 0 (measured 200)"), "{out}");
}

#[test]
fn an_error_in_a_scenario_is_reported_with_its_line_and_key() {
    let output = load(&LOBBY.replace("rate =", "rat ="), "bad.toml", &[]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("bad.toml:4: rat: unknown field `rat`"), "{err}");
    let output = load(LOBBY, "nowhere.toml", &[]);
    assert!(text(&output.stderr).contains("targets: no target with a weight"));
}

#[test]
fn a_tsung_file_names_what_it_ignores_and_may_end_the_load() {
    const ABORTING: &str = r#"<tsung>
  <servers><server host="127.0.0.1" port="9" type="tcp"/></servers>
  <monitoring><monitor host="other"/></monitoring>
  <load><arrivalphase phase="1" duration="1" unit="hour">
    <users maxnumber="1" arrivalrate="1000" unit="second"/></arrivalphase></load>
  <sessions><session name="a" probability="100" type="ts_http"><abort type="all"/></session></sessions>
</tsung>"#;
    let output = load(ABORTING, "aborting.xml", &[]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert!(out.contains("by a session of the scenario"), "{out}");
    assert!(err.contains("aborting.xml:3: <monitoring>: is ignored"), "{err}");
}

/// The file of the run with two million sockets, with shorter times: users connect, join one room, and
/// then think a thousand times in a row. They send no heartbeat.
const TSUNG_LOBBY: &str = r#"<?xml version="1.0"?>
<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="notice" version="1.0">
  <clients><client host="localhost" use_controller_vm="true" maxusers="100"/></clients>
  <servers><server host="127.0.0.1" port="PORT" type="tcp"/></servers>
  <load duration="1" unit="hour">
    <arrivalphase phase="1" duration="1" unit="second">
      <users maxnumber="20" arrivalrate="100" unit="second"/>
    </arrivalphase>
  </load>
  <options><option name="ports_range" min="1025" max="65535"/></options>
  <sessions>
    <session name="lobby" probability="100" type="ts_websocket">
      <request>
        <websocket type="connect" path="/socket/websocket"/>
      </request>
      <request subst="true">
        <websocket type="message" ack="no_ack" frame="text">{"topic":"rooms:lobby","event":"phx_join","payload":{"user":%%ts_user_server:get_unique_id%%},"ref":"1"}</websocket>
      </request>
      <for var="i" from="1" to="1000" incr="1">
        <thinktime value="0.002"/>
      </for>
    </session>
  </sessions>
</tsung>"#;

/// Runs that file against a server with a `socket.idle_timeout`. Returns the results.
fn tsung_lobby(idle_timeout: &str) -> serde_json::Value {
    let setting = format!("socket.idle_timeout={idle_timeout}");
    let server = Listening::start(&[&SERVE[..], &["--set", &setting]].concat());
    let scratch = Scratch::new();
    let json = scratch.join("results.json");
    let scenario = TSUNG_LOBBY.replace("PORT", &server.port);
    let arguments = ["--json", path_text(&json)];
    let output = load(&scenario, &format!("tsung-{idle_timeout}.xml"), &arguments);
    assert!(json.exists(), "{}", text(&output.stderr));
    results(&json)
}

#[test]
fn users_that_send_no_heartbeat_stay_while_the_idle_timeout_is_longer_than_their_silence() {
    let results = tsung_lobby("1h");
    let counts = &results["counts"];
    assert_eq!((&counts["started"], &counts["finished"]), (&20.into(), &20.into()), "{counts}");
}

#[test]
fn users_that_send_no_heartbeat_are_closed_after_the_idle_timeout() {
    let results = tsung_lobby("200ms");
    let counts = &results["counts"];
    assert_eq!((&counts["started"], &counts["finished"]), (&20.into(), &0.into()), "{counts}");
}

#[test]
fn the_dashboard_of_a_load_is_its_report_while_it_grows() {
    let server = Listening::start(&SERVE);
    let scratch = Scratch::new();
    // A chart has only whole seconds, so users stay until one has ended.
    let think = r#"{ think = { fixed = "1s", from = "answer" } }"#;
    scratch.file("lobby.toml", gathering(think));
    let report = scratch.join("out.html");
    let mut command = Command::new(WATCHFIRE);
    command.arg("load").arg(scratch.join("lobby.toml")).args(["--to", &server.url()]);
    command.args(["--dashboard", "127.0.0.1:0", "--report"]).arg(&report).stdin(Stdio::null());
    let mut load = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = load.stderr.take().unwrap();
    let pages = std::thread::scope(|scope| {
        scope.spawn(|| release(&server, &mut load));
        dashboard_pages(&mut errors)
    });
    assert!(load.wait().unwrap().success());
    let (last, growing) = pages.split_last().unwrap();
    assert_eq!(*last, std::fs::read_to_string(report).unwrap());
    let text = "\nusers 200, websockets 200, errors 0\n";
    assert!(growing.iter().any(|page| page.contains(text)), "{growing:?}");
}
