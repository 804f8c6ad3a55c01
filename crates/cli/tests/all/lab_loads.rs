//! Loads of `watchfire lab`: the users of a server, and the figures of each phase.

use std::fs;

use serde_json::Value;

use crate::support::{Scratch, WATCHFIRE, text};

const USERS: &str = r#"
    wind_down = "1s"
    [[phases]]
    name = "join"
    duration = "1s"
    rate = 1000
    [[phases]]
    name = "talk"
    duration = "2s"
    interval = "1s"
    sessions = ["speaker"]
    [[phases]]
    name = "end"
    duration = "1s"
    rate = 0
    [[sessions]]
    name = "listener"
    steps = [
      { connect = { path = "/socket/websocket?vsn=2.0.0" } },
      { join = { topic = "rooms:lobby" } },
      { stay = {} },
    ]
    [[sessions]]
    name = "speaker"
    probability = 0
    steps = [
      { connect = { path = "/socket/websocket?vsn=2.0.0", name = "connect a speaker" } },
      { join = { topic = "rooms:lobby", name = "join a speaker" } },
      { push = { topic = "rooms:lobby", event = "new_msg", payload = { sent = "${now}" }, broadcast = true, name = "message" } },
      { stay = {} },
    ]
"#;

/// A server of two processes, once as the lab starts it and once as any other program.
const EXPERIMENT: &str = r#"
    [peers.server]
    implementation = "server"
    settings = { "channels.open_rooms" = true, "server.processes" = 2 }
    [peers.program]
    implementation = "program"
    settings.serve = '''
"$LAB_PROGRAM" serve --listen "$LAB_ADDRESS:4000" --processes 2 --set channels.open_rooms=true > server.log & server=$!
trap 'kill $server' TERM
until grep -q running server.log; do kill -0 $server || exit 1; sleep 0.02; done
echo it runs
echo '{"event":"ready","url":"ws://'$LAB_ADDRESS':4000"}'
wait $server
wait $server
'''
    [clusters.machine]
    private_network = true
    groups = [{ name = "one", peer = "server" }]
    [scenarios.room]
    load = { file = "users.toml", on = "one", set = { "phases.join.rate" = 90 }, quick = { "phases.join.rate" = 40 } }
    time_max = "1m"
    [[trials]]
    cluster = "machine"
    scenario = "room"
    name = "server"
    [[trials]]
    cluster = "machine"
    scenario = "room"
    peer = "program"
    name = "program"
    [[targets]]
    trial = "program"
    figure = "load: message, missing receivers"
    at_most = 0
"#;

/// Runs an experiment with a process for each node. Returns its output and its results.
fn run(scratch: &Scratch, experiment: &str, arguments: &[&str]) -> (std::process::Output, Value) {
    scratch.file("users.toml", USERS);
    scratch.file("load.toml", experiment.replace("WATCHFIRE", WATCHFIRE));
    let run = ["lab", "run", "load.toml", "--driver", "processes", "--folder", "cache"];
    let json = ["--json", "out.json"];
    let output = scratch.run(&[&run[..], &json, arguments].concat());
    let results = fs::read(scratch.join("out.json")).unwrap_or_default();
    (output, serde_json::from_slice(&results).unwrap_or_default())
}

fn figure(run: &Value, name: &str) -> f64 {
    run["measures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"))
}

#[test]
fn a_server_and_any_program_have_the_figures_of_each_phase() {
    let scratch = Scratch::new();
    let (output, results) = run(&scratch, EXPERIMENT, &["--quick"]);
    assert!(output.status.success(), "{output:?}");
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let of = |name: &str| figure(run, name);
        // Users of the first phase and two speakers.
        assert_eq!(of("load: talk: users"), 42.0);
        assert_eq!(of("load: message, missing receivers"), 0.0);
        assert_eq!(of("load: errors"), 0.0);
        for name in [
            "load: join: CPU of the server for each started user, us",
            "load: join: memory of the server for each user, bytes",
            "load: talk: CPU of the server for each delivery, us",
            "load: talk: delivery, a second",
            "load: message, last receiver, median, s",
            "one: CPU-seconds",
        ] {
            assert!(of(name) > 0.0, "{name}: {run}");
        }
        // Two processes and those that start them.
        assert!(of("one: peak memory, bytes") > 4e6, "{run}");
    }
}

/// Runs a load with the settings of its server and more of the scenario. Returns the errors of the run, which fails.
fn errors(server: &str, more: &str) -> String {
    let experiment = format!(
        "[peers.p]\n{server}\n[clusters.c]\ngroups = [{{ name = 'one', peer = 'p' }}]\n\
         [scenarios.s]\nload = {{ file = 'users.toml', on = 'one'{more} }}\n"
    );
    let (output, _) = run(&Scratch::new(), &experiment, &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    text(&output.stderr)
}

#[test]
fn a_program_that_serves_nobody_is_named() {
    for (serve, problem) in [
        ("sh -c 'echo no port >&2; exit 3'", "no port"),
        ("/no/such-server", "such-server"),
        ("printf '{\\\"event\\\":\\\"ready\\\"}\\\\n'", "the event has no url"),
    ] {
        let server = format!("implementation = 'program'\nsettings.serve = \"{serve}\"");
        let error = errors(&server, "");
        assert!(error.contains(problem), "{serve}: {error}");
    }
}

#[test]
fn a_load_that_is_wrong_or_too_large_does_not_start() {
    for (set, problem) in [
        ("'phases.jion.rate' = 1", "no entry has the name \"jion\""),
        ("'phases.join.rate' = 'many'", "rate"),
        ("'phases.join.rate' = 1000000, 'phases.join.duration' = '15s'", "GiB of memory"),
    ] {
        let error = errors("implementation = 'server'", &format!(", set = {{ {set} }}"));
        assert!(error.contains("cannot run the users of") && error.contains(problem), "{error}");
    }
}

/// The users connect to the backend: both servers tell its address.
const BACKEND: &str = r#"
    [peers.backend]
    implementation = "server"
    settings = { "channels.open_rooms" = true }
    [peers.server]
    implementation = "program"
    settings.serve = '''
echo '{"event":"ready","url":"ws://${address of backend}:4000"}'
exec sleep 100
'''
    [clusters.machines]
    groups = [{ name = "servers", count = 2, peer = "server" }, { name = "backend", peer = "backend" }]
    [scenarios.room]
    serve = "backend"
    load = { file = "users.toml", on = "servers", set = { "phases.join.rate" = 40 } }
    faults = [{ at = "1s", nodes = "servers-2", kill = true }]
    time_max = "1m"
"#;

#[test]
fn servers_know_the_address_of_a_backend_whose_use_is_measured() {
    let scratch = Scratch::new();
    let (output, results) = run(&scratch, BACKEND, &[]);
    assert!(output.status.success(), "{output:?}");
    let of = |name: &str| figure(&results["runs"][0], name);
    assert_eq!(of("load: join: users"), 40.0);
    assert_eq!(of("load: errors"), 0.0);
    assert!(of("load: join: CPU of the backends for each join, us") > 0.0);
    assert!(of("load: join: growth of the memory of the backends for each join, bytes") > 0.0);
    // Each user sends and receives some hundred bytes.
    assert!(of("load: join: bytes with the backends for each join") > 100.0);
    assert!(of("backend: CPU-seconds") > 0.0);
}
