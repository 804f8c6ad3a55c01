//! Loads that change while they run: agents join, leave and are killed, and the controller pauses, scales and ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;
use watchfire_operator::answers::{Events, State};
use watchfire_testkit::{Answer, Request, eventually, find, signal};

use crate::load::SERVE;
use crate::support::{Listening, Scratch, WATCHFIRE, text};

const TOKEN: &str = "a-token-of-some-length";
/// Users that arrive for an hour, and stay.
const SCENARIO: &str = r#"
    [[phases]]
    name = "arrive"
    duration = "1h"
    rate = 20
    [[sessions]]
    steps = [
      { connect = { path = "/socket/websocket?vsn=2.0.0" } },
      { join = { topic = "rooms:${user}" } },
      { stay = {} },
    ]
"#;

/// A load that runs until it is ended.
struct Load {
    _server: Listening,
    scratch: Scratch,
    child: Child,
    errors: BufReader<ChildStderr>,
    dashboard: String,
}

impl Load {
    fn start(arguments: &[&str]) -> Load {
        let server = Listening::start(&SERVE);
        let scratch = Scratch::new();
        scratch.file("load.toml", SCENARIO);
        scratch.file("token", TOKEN);
        let target = server.url();
        let mut command = scratch.command(&["load", "load.toml", "--to", &target]);
        command.args(["--json", "out.json", "--token-file", "token"]).args(arguments);
        command.args(["--dashboard", "127.0.0.1:0"]).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("it is a pipe"));
        Load { _server: server, scratch, child, errors, dashboard: String::new() }
    }

    /// The address at the end of the next line of errors.
    fn address(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).expect("the process prints its address");
        let address = line.trim().trim_end_matches('/').rsplit([' ', '/']).next();
        address.expect("an address").to_owned()
    }

    /// A load with agents, and the address at which they join.
    fn with_agents(arguments: &[&str]) -> (Load, String) {
        let mut load = Load::start(&[&["--listen", "127.0.0.1:0"], arguments].concat());
        let address = load.address();
        load.dashboard = load.address();
        (load, address)
    }

    fn state(&self) -> State {
        let answer = Request::get("/admin/state").to(&*self.dashboard);
        serde_json::from_slice(answer.text().as_bytes()).expect("top reads it")
    }

    /// The users of each worker that runs.
    fn users(&self) -> Vec<f64> {
        self.state().processes.iter().map(|process| process.clients).collect()
    }

    /// The arrivals of the last seconds.
    fn arrivals(&self) -> Vec<f64> {
        let history =
            Request::get("/admin/history?step=second&after=1").to(&*self.dashboard).json();
        assert_eq!(history["columns"][1], "joins");
        let rows = history["rows"].as_array().expect("rows");
        rows.iter().map(|row| row[2].as_f64().expect("a number")).collect()
    }

    /// The text of the first event of this kind.
    fn event(&self, kind: &str) -> String {
        find(kind, || {
            let events = Request::get("/admin/events").to(&*self.dashboard);
            let events: Events = serde_json::from_slice(events.text().as_bytes()).expect("JSON");
            events.events.into_iter().find(|event| event.kind == kind).map(|event| event.text)
        })
    }

    fn post(&self, control: &str, token: &str) -> Answer {
        let request = Request::post(&format!("/control/{control}"), "");
        request.line(format!("authorization: Bearer {token}")).to(&*self.dashboard)
    }

    /// Ends the load from a terminal. Returns its results.
    fn end(&mut self) -> Value {
        let dashboard = format!("http://{}", self.dashboard);
        let control = ["load", "control", "end", "--dashboard", &dashboard];
        self.scratch.prints(&[&control[..], &["--token-file", "token"]].concat());
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("text");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0), "{rest}");
        self.scratch.json("out.json")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Its agents end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent(address: &str, name: &str, token: &str) -> Child {
    let mut command = Command::new(WATCHFIRE);
    command.args(["load", "agent", "--join", address, "--name", name]).stdin(Stdio::null());
    command.env("WATCHFIRE_LOAD_TOKEN", token).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn of_worker<'a>(results: &'a Value, name: &str) -> &'a Value {
    let workers = results["by_worker"].as_array().expect("workers");
    workers.iter().find(|worker| worker["name"] == name).expect("the worker is in the results")
}

#[test]
fn agents_join_a_load_that_runs_and_leave_it() {
    let (mut load, address) = Load::with_agents(&["--agents-min", "2"]);
    let mut first = agent(&address, "first", TOKEN);
    let stranger = agent(&address, "stranger", "another-token-of-some-length");
    let refused = stranger.wait_with_output().expect("it ends");
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains(&format!("the controller at {address} rejected the token")), "{error}");
    assert!(load.event("agent_refused").ends_with("rejected the token"));
    assert!(load.users().is_empty(), "it waits for a second agent");

    let second = agent(&address, "second", TOKEN);
    eventually("both have users", || matches!(load.users()[..], [a, b] if a > 0.0 && b > 0.0));
    let third = agent(&address, "third", TOKEN);
    eventually("the third one has a share", || matches!(load.users()[..], [_, _, c] if c > 0.0));
    let shown = ["phase 1 of 1: arrive", "third ", "running", "CPU", "controller p99"];
    eventually("the page shows them", || {
        let page = Request::get("/").to(&*load.dashboard);
        shown.iter().all(|part| page.text().contains(part))
    });

    signal(second.id(), "-INT");
    let left = second.wait_with_output().expect("it ends");
    let out = text(&left.stdout);
    assert!(left.status.success() && out.ends_with("Left the load\n"), "{out}");
    assert!(load.event("agent_left").starts_with("second left; "));
    let before: f64 = load.users().iter().sum();
    eventually("the others take its arrivals", || {
        load.users().len() == 2 && load.users().iter().sum::<f64>() > before + 20.0
    });

    let results = load.end();
    let out = text(&third.wait_with_output().expect("it ends").stdout);
    assert!(out.ends_with("The load has ended\n"), "{out}");
    assert!(first.wait().expect("it ends").success());
    let counts = &results["counts"];
    assert_eq!(counts["due"], counts["started"], "nobody is left out: {counts}");
    assert_eq!(counts["cut_off"], counts["started"], "each is counted once: {counts}");
    for (name, state) in [("first", "ended"), ("second", "left"), ("third", "ended")] {
        let worker = of_worker(&results, name);
        assert_eq!(worker["state"], state, "{worker}");
        assert!(worker["started"].as_u64() > Some(0), "{worker}");
    }
}

#[test]
fn the_users_of_an_agent_that_is_killed_are_counted_and_the_others_go_on() {
    let (mut load, address) = Load::with_agents(&[]);
    let mut first = agent(&address, "first", TOKEN);
    eventually("it has users", || matches!(load.users()[..], [a] if a > 0.0));
    let mut killed = agent(&address, "killed", TOKEN);
    eventually("both have users", || matches!(load.users()[..], [_, b] if b > 0.0));
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");

    let lost = load.event("agent_lost");
    assert!(lost.starts_with("killed is lost (") && lost.ends_with(" not started"), "{lost}");
    let [before] = load.users()[..] else { panic!("one agent is left") };
    eventually("the other one goes on", || load.users()[0] > before + 40.0);
    let trouble = &load.state().troubles[0];
    assert_eq!((&*trouble.kind, &trouble.summary), ("agent_lost", &lost));

    let results = load.end();
    assert!(first.wait().expect("it ends").success());
    let number = |before: &str| {
        let words: Vec<&str> = lost.split([' ', ',']).collect();
        let at = words.iter().position(|word| *word == before).expect(&lost);
        words[at - 1].parse::<u64>().expect(&lost)
    };
    let count = |name: &str| results["counts"][name].as_u64().expect("a number");
    assert_eq!(count("due") - count("started"), number("not"), "{lost}");
    assert_eq!(of_worker(&results, "killed")["state"], "lost");
    assert!(number("users") > 0 && count("cut_off") <= count("started"), "{lost}");
}

#[test]
fn a_load_pauses_scales_and_ends_over_http_and_is_shown_like_a_server() {
    let mut load = Load::start(&[]);
    load.dashboard = load.address();
    eventually("users arrive", || load.arrivals().len() >= 2);
    assert!(load.state().machine.starts_with("load load.toml"));
    let topics = Request::get("/admin/topics").to(&*load.dashboard);
    assert_eq!(topics.json()["topics"], serde_json::json!([]));

    let refused = load.post("pause", "another-token-of-some-length");
    assert_eq!((refused.status, load.post("faster", TOKEN).status), (401, 400));
    assert_eq!(load.post("pause", TOKEN).status, 200);
    let shows = |text: &str| Request::get("/").to(&*load.dashboard).text().contains(text);
    eventually("it is paused", || shows("phase 1 of 1: arrive, paused"));
    eventually("nobody arrives", || load.arrivals().ends_with(&[0.0, 0.0]));
    assert_eq!(load.post("scale/3", TOKEN).status, 200);
    assert_eq!(load.post("resume", TOKEN).status, 200);
    eventually("sixty arrive in a second", || {
        load.arrivals().last().is_some_and(|arrivals| (55.0..=65.0).contains(arrivals))
    });
    assert_eq!(load.event("controlled"), "pause");

    let results = load.end();
    assert!(results["paused"].as_f64() > Some(1.0), "{}", results["paused"]);
    let counts = &results["counts"];
    assert_eq!(counts["due"], counts["started"], "{counts}");
}
