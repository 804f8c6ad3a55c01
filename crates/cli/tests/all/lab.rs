//! `watchfire lab` with the real program.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use watchfire_testkit::{eventually, write_program};

use serde_json::Value;

use super::support::{
    Scratch, WATCHFIRE, dashboard_pages, killed_when, programs_in, succeeded, text,
};

/// An experiment in which three nodes fetch a file of a fourth.
pub const TEXT: &str = r#"
name = "a small experiment"
repeat = 2

[clusters.c]
groups = [
  { name = "source" },
  { name = "peers", count = 3 },
]

[scenarios.s]
objects.file = { random = "2MiB" }
seed = { source = "file" }
fetch = { peers = "file" }
time_max = "60s"
"#;

/// A folder with an experiment.
struct Folder(Scratch);

impl Folder {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.file("one.toml", TEXT);
        Folder(scratch)
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        self.command(&[&["lab"], arguments].concat())
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.lab(arguments).output().unwrap()
    }

    /// Runs the experiment once, with a process for each node.
    fn run_once(&self, arguments: &[&str]) -> Output {
        self.output(&[&ONCE[..], arguments].concat())
    }

    /// Runs the experiment once, and returns its result. The run succeeds.
    #[track_caller]
    fn result(&self, arguments: &[&str]) -> Value {
        succeeded(self.run_once(&[&["--json", "out.json"], arguments].concat()));
        self.json("out.json")["runs"][0].clone()
    }

    /// The errors of a command that fails.
    #[track_caller]
    fn errors(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "{output:?}");
        text(&output.stderr)
    }

    /// The folders of runs that exist now.
    fn runs(&self) -> usize {
        fs::read_dir(self.join("cache/watchfire/lab/runs")).map_or(0, Iterator::count)
    }
}

impl Deref for Folder {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

const ONCE: [&str; 6] = ["run", "one.toml", "--repeat", "1", "--driver", "processes"];

#[test]
fn a_file_is_checked_and_an_error_names_its_line() {
    let folder = Folder::new();
    let output = folder.output(&["check", "one.toml"]);
    assert!(text(&output.stdout).contains("c, s: 4 nodes, 3 of them fetch"), "{output:?}");

    folder.file("bad.toml", TEXT.replace("count = 3", "count = 0"));
    let error = folder.errors(&["check", "bad.toml"]);
    assert!(error.contains("bad.toml:8: count: "), "{error}");
}

#[test]
fn an_unknown_trial_is_refused_with_the_nearest_names_and_the_place_of_the_list() {
    let folder = Folder::new();
    let trials: String = (0..66)
        .map(|number| {
            format!("[[trials]]\nname = \"{number} peers\"\ncluster = \"c\"\nscenario = \"s\"\n")
        })
        .collect();
    folder.file("many.toml", TEXT.to_owned() + &trials);
    let error = folder.errors(&["run", "many.toml", "--trial", "21 pears"]);
    assert!(
        error.contains("no trial has the name \"21 pears\"; did you mean \"21 peers\", "),
        "{error}"
    );
    assert!(error.contains("`watchfire lab check many.toml` lists all 66"), "{error}");
    assert!(!error.contains("44 peers"), "{error}");

    let error = folder.errors(&["run", "one.toml", "--trial", "zzz"]);
    assert!(error.contains("no trial has the name \"zzz\"\n"), "{error}");
}

#[test]
fn the_commands_that_experiments_replaced_name_the_new_one() {
    for old in [&["swarm", "one.toml", "--report", "one.html"][..], &["fleet", "one.toml"]] {
        let output = Folder::new().output(old);
        let error = text(&output.stderr);
        assert!(error.contains("use `watchfire lab run`") && error.lines().count() == 1, "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn every_process_gets_the_object_and_nothing_is_left_behind() {
    let folder = Folder::new();
    let run = folder.result(&["--report", "out.html", "--csv", "out.csv"]);
    let nodes = run["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 4);
    for node in &nodes[1..] {
        assert!(node["finished_at"].as_f64().unwrap() > 0.0, "{node}");
        assert!(node["received_bytes"].as_u64().unwrap() >= 2 << 20, "{node}");
        assert!(node["peak_memory_bytes"].as_u64().unwrap() > 1 << 20, "{node}");
    }
    let sent: u64 =
        run["transfers"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert!(sent >= 3 * (2 << 20), "each peer received the object from someone: {sent}");
    assert!(fs::read_to_string(folder.join("out.html")).unwrap().contains("a small experiment"));
    assert_eq!(fs::read_to_string(folder.join("out.csv")).unwrap().lines().count(), 5);
    assert_eq!(folder.runs(), 0);
}

#[test]
fn the_spans_of_all_nodes_are_in_one_file_with_their_parents() {
    let folder = Folder::new();
    folder.file("one.toml", TEXT.replace("count = 3", "count = 1"));
    succeeded(folder.run_once(&["--spans", "spans.json", "--perfetto", "perfetto.json"]));

    let file = folder.json("spans.json");
    let trace = &file["data"][0];
    assert_eq!(file["data"].as_array().unwrap().len(), 1, "a run is one trace");
    let spans = trace["spans"].as_array().unwrap();
    let find = |name: &str| {
        spans.iter().find(|span| span["operationName"] == name).unwrap_or_else(|| panic!("{name}"))
    };
    let is_below =
        |below: &str, above: &str| find(below)["references"][0]["spanID"] == find(above)["spanID"];
    let node_of = |name: &str| {
        let id = find(name)["processID"].as_str().unwrap();
        trace["processes"][id]["serviceName"].as_str().unwrap().to_owned()
    };
    // The lab's own spans are tested there.
    assert_eq!((node_of("share"), node_of("fetch")), ("source".to_owned(), "peers".to_owned()));
    if cfg!(feature = "otlp") {
        let of_peer = spans.iter().filter(|span| span["operationName"] == "fetch").nth(1).unwrap();
        assert!(is_below("hold", "fetch"), "the program continues the trace of the lab");
        assert_eq!((node_of("hold"), node_of("serve")), ("peers".to_owned(), "source".to_owned()));
        assert!(is_below("serve", "blocks from peer"), "{of_peer}");
    }
    let events = folder.json("perfetto.json")["traceEvents"].clone();
    let names = events.as_array().unwrap().iter().filter(|event| event["name"] == "process_name");
    assert_eq!(names.count(), 3, "the lab and both nodes");
}

#[test]
fn the_same_seed_gives_the_same_result_and_the_same_trace_in_the_simulator() {
    let folder = Folder::new();
    let [first, second] = ["first", "second"].map(|name| {
        let (json, trace) = (format!("{name}.json"), format!("{name}.trace"));
        let seed = ["run", "one.toml", "--seed", "7", "--json", &json, "--trace", &trace];
        succeeded(folder.output(&seed));
        [json, trace].map(|file| fs::read_to_string(folder.join(&file)).unwrap())
    });
    assert!(first == second, "they differ");
    assert_eq!(folder.json("first.json")["runs"].as_array().unwrap().len(), 2);
    let trace = &first[1];
    assert!(trace.starts_with("# c, s, seed 7\n0.000000000 arrive source - 0\n"), "{trace:.200}");
    assert!(trace.contains("\n# c, s, seed 8\n"), "each run has a head");

    let output = folder.run_once(&["--trace", "x"]);
    assert!(text(&output.stderr).contains("cannot trace events of processes"), "{output:?}");
}

#[test]
fn each_node_has_a_flame_graph_if_its_program_can_write_one() {
    let folder = Folder::new();
    let output = folder.run_once(&["--flame", "flames"]);
    if cfg!(feature = "profiles") {
        assert!(output.status.success(), "{output:?}");
        for node in ["source", "peers-1", "peers-3"] {
            let path = folder.join(format!("flames/c--s-0-{node}.svg"));
            assert!(fs::read_to_string(path).unwrap().contains("<svg"), "{node}");
        }
    } else {
        let error = text(&output.stderr);
        assert!(error.contains("built without the feature `profiles`"), "{error}");
    }
    let output = folder.output(&["run", "one.toml", "--flame", "flames"]);
    assert!(text(&output.stderr).contains("cannot draw flame graphs of simulated"), "{output:?}");
}

#[test]
fn the_noise_of_the_machine_is_beside_the_figures() {
    let folder = Folder::new();
    let output = folder.run_once(&["--json", "out.json"]);
    let run = &folder.json("out.json")["runs"][0];
    let (took, noise) = (run["took_seconds"].as_f64().unwrap(), &run["noise"]);
    assert!(took < 0.3 || (0.0..=1.0).contains(&noise.as_f64().unwrap()), "{took}: {noise}");
    let shown = text(&output.stdout).contains("noise: CPU time of other programs");
    assert_eq!(shown, noise.is_number());
    let is_noisy = noise.as_f64().is_some_and(|noise| noise > 0.1);
    assert_eq!(text(&output.stdout).contains("! c, s: 1 of 1 runs were noisy"), is_noisy);
}

#[test]
fn the_dashboard_is_the_report_while_it_grows() {
    let folder = Folder::new();
    let options = ["--dashboard", "127.0.0.1:0", "--report", "out.html"];
    let mut command = folder.lab(&[&ONCE[..], &options].concat());
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pages = dashboard_pages(lab.stderr.as_mut().unwrap());
    assert!(lab.wait().unwrap().success());
    let (last, growing) = pages.split_last().unwrap();
    assert_eq!(*last, std::fs::read_to_string(folder.join("out.html")).unwrap());
    let text = ">1 of 1: c, s, ";
    assert!(growing.iter().any(|page| page.contains(text)), "{growing:?}");
    assert!(growing.iter().any(|page| page.contains("<h2>c, s: the run under way</h2>")));
}

/// 2 MiB over an uplink of 8 Mbit/s take two seconds. After half a second the uplink has four times the rate, so the
/// two take less than one second more.
#[test]
#[ignore = "needs network namespaces and TUN devices: `make rust-test` runs it where they are"]
fn nodes_have_links_regions_and_nats() {
    let folder = Folder::new();
    let groups = r#"
latency = "1ms"
paths = [{ between = ["eu", "us"], latency = "20ms", loss = 0.001 }]
groups = [
  { name = "source", region = "eu", link = { up = "8Mbit", down = "8Mbit" } },
  { name = "homes", labels = ["peers"], region = "us", nat = "port-restricted", link = { up = "20Mbit", down = "20Mbit" } },
  { name = "open", labels = ["peers"], region = "eu", link = { up = "20Mbit", down = "20Mbit" } },
]
"#;
    let (head, rest) = TEXT.split_once("groups = [").unwrap();
    let (_, rest) = rest.split_once("\n]\n").unwrap();
    let faults =
        "faults = [{ at = \"500ms\", nodes = \"source\", link = { up = \"32Mbit\" } }]\ntime_max";
    let file = format!("{head}{groups}{rest}").replacen("time_max", faults, 1);
    folder.file("one.toml", file);
    let run = folder.result(&["--spans", "spans.json"]);
    let spans = folder.json("spans.json")["data"][0]["spans"].clone();
    let of_programs = spans.as_array().unwrap().iter().filter(|one| one["operationName"] == "hold");
    let expected = if cfg!(feature = "otlp") { 2 } else { 0 };
    assert_eq!(of_programs.count(), expected, "spans arrive from namespaces, too");
    let seconds = |node: usize| run["nodes"][node]["finished_at"].as_f64().unwrap();
    let object = f64::from(2 << 20);
    // With the highest rates: 4 MB/s from the source, and 2.5 MB/s to each peer.
    assert_eq!(run["bound_seconds"].as_f64(), Some(object / 2.5e6));
    // The first half second has 0.5 MB.
    let least = 0.5 + (object - 0.5e6) / 4e6;
    for node in [1, 2] {
        assert!((least..10.0).contains(&seconds(node)), "{node}: {}", seconds(node));
    }
    let transfers = run["wire"]["transfers"].as_array().unwrap();
    let received = |node: u64| -> u64 {
        let to = transfers.iter().filter(|one| one["to"] == node);
        to.map(|one| one["bytes"].as_u64().unwrap()).sum()
    };
    for node in [1, 2] {
        assert!(received(node) > 2 << 20, "headers are packets, too: {transfers:?}");
        assert_eq!(run["nodes"][node as usize]["received_bytes"], received(node));
    }
}

#[test]
fn the_simulator_is_compared_with_processes() {
    let folder = Folder::new();
    let notes = TEXT.replace("repeat = 2", "repeat = 1\nnotes = [\"Loopback has no rate.\"]");
    folder.file("one.toml", notes);
    succeeded(folder.output(&["calibrate", "one.toml", "--output", "page.md"]));
    let page = fs::read_to_string(folder.join("page.md")).unwrap();
    assert!(
        page.contains("## a small experiment") && page.contains("Loopback has no rate."),
        "{page}"
    );
    let row = page.lines().find(|line| line.starts_with("| copies from seeders |")).unwrap();
    assert!(row.trim_end_matches('*').contains(" %"), "both drivers have the figure: {row}");
}

#[test]
fn a_node_that_fails_is_in_the_results_and_the_others_go_on() {
    let folder = Folder::new();
    let program = "#!/bin/sh\necho no thanks >&2\nexit 7\n";
    write_program(folder.join("ends-at-once"), program);
    let text_with = TEXT.replace(
        "count = 3 }",
        "count = 2 },\n { name = \"broken\", labels = [\"peers\"], peer = \"broken\" }",
    ) + "[peers.broken]\nbuild = { path = \"ends-at-once\" }\n";
    folder.file("one.toml", text_with);
    let output = folder.run_once(&["--json", "out.json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("broken: ends-at-once ended with exit status: 7: no thanks"), "{error}");
    let run = &folder.json("out.json")["runs"][0];
    let finished =
        run["nodes"].as_array().unwrap().iter().filter(|node| !node["finished_at"].is_null());
    assert_eq!(finished.count(), 2);
}

/// A peer of a few lines: it shares by the path of a file, and fetches by copying it.
#[test]
fn any_program_that_writes_events_can_be_a_peer() {
    let folder = Folder::new();
    let seed = "#!/bin/sh
path=$(echo \"$LAB_PATHS\" | tr -d '[]\"')
echo '{\"event\":\"shared\",\"cid\":\"'$path'\",\"address\":\"here\"}'
trap 'echo {\\\"event\\\":\\\"stopped\\\",\\\"sent_bytes\\\":7}; exit 0' TERM
while :; do sleep 0.05; done
";
    let fetch = "#!/bin/sh
case \"$LAB_PEERS\" in '[\"here\"'*) ;; *) exit 9 ;; esac
cp \"$(echo \"$LAB_NAMES\" | tr -d '[]\"')\" copy
echo '{\"event\":\"progress\",\"bytes\":'$(stat -c %s copy)'}'
echo '{\"event\":\"held\"}'
exec sleep 600
";
    folder.file("seed.sh", seed);
    folder.file("fetch.sh", fetch);
    let at = folder.display();
    let peers = format!(
        "[peers.script]\nimplementation = \"program\"\n\
         settings = {{ seed = \"sh {at}/seed.sh\", fetch = \"sh {at}/fetch.sh\" }}\n\
         [[trials]]\ncluster = \"c\"\nscenario = \"s\"\npeer = \"script\"\n"
    );
    folder.file("one.toml", format!("{TEXT}{peers}"));
    let nodes = folder.result(&[])["nodes"].clone();
    assert_eq!(nodes[0]["content_sent_bytes"], 7);
    assert!(
        nodes[1]["first_byte_at"].is_number() && nodes[3]["finished_at"].is_number(),
        "{nodes}"
    );

    folder.file("fetch.sh", "echo hello\nsleep 600\n");
    let output = folder.run_once(&[]);
    let error = text(&output.stderr);
    assert!(error.contains("peers-1: the answer of sh is unexpected: hello"), "{error}");
}

#[test]
fn programs_have_a_server_wait_for_the_clock_and_tell_figures() {
    let folder = Folder::new();
    let told = r#"tell() { echo '{"event":"stopped","sent_bytes":'$1',"figures":{"polls":2},"peaks":{"most":'$1'}}'; exit; }"#;
    let experiment = format!(
        r#"
        [peers.server]
        implementation = "server"
        [peers.mine]
        implementation = "program"
        [peers.mine.settings]
        waits = true
        seed = """
        {told}
        trap 'tell 7' TERM
        echo '{{"event":"shared","cid":"'$(echo $LAB_SERVERS | tr -d '"[]')'"}}'
        while :; do sleep 0.1; done"""
        fetch = """
        {told}
        trap 'tell 3' TERM
        [ "$LAB_SERVERS" = "$LAB_NAMES" ] || exit 9
        echo '{{"event":"ready"}}'; read peers; [ "$peers" = '[]' ] || exit 8
        echo '{{"event":"progress","bytes":1048576}}'; echo '{{"event":"held"}}'
        while :; do sleep 0.1; done"""
        [clusters.c]
        neighbours = 0
        groups = [
          {{ name = "server", peer = "server" }}, {{ name = "a", peer = "mine" }},
          {{ name = "b", count = 2, peer = "mine" }},
        ]
        [scenarios.s]
        objects.file = {{ random = "1MiB" }}
        serve = "server"
        seed = {{ a = "file" }}
        fetch = {{ b = "file" }}
        time_max = "60s"
        "#
    );
    folder.file("one.toml", &experiment);
    let measures = folder.result(&[])["measures"].clone();
    assert_eq!(measures["program: polls"], 6.0, "{measures}");
    assert_eq!(measures["program: most"], 7.0, "{measures}");
    assert!(measures["server: peak memory, bytes"].as_f64().unwrap() > 1e6, "{measures}");

    folder.file("one.toml", experiment.replace("serve = \"server\"\n", ""));
    let output = folder.run_once(&[]);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("exit status: 9"), "{output:?}");
}

/// The order of steps is tested in the lab itself; here the real program of the node starts again with its folder.
#[test]
fn a_node_that_left_returns_once() {
    let folder = Folder::new();
    let experiment = r#"
        [peers.mine]
        implementation = "program"
        [peers.mine.settings]
        waits = true
        seed = """
        echo '{"event":"shared","cid":"it"}'
        exec sleep 600"""
        fetch = """
        echo start >> starts; cp starts STARTS
        echo '{"event":"ready"}'; read objects
        [ $(wc -l < starts) = 1 ] || echo '{"event":"held"}'
        exec sleep 600"""
        [clusters.c]
        groups = [{ name = "a", peer = "mine" }, { name = "b", peer = "mine" }]
        [scenarios.s]
        objects.file = { random = "1KiB" }
        seed = { a = "file" }
        fetch = { b = "file" }
        churn = [{ nodes = "b", part = 1, within = "1s", returns_after = "100ms" }]
        time_max = "60s"
    "#;
    let starts = folder.join("starts");
    folder.file("one.toml", experiment.replace("STARTS", &starts.display().to_string()));
    succeeded(folder.run_once(&[]));
    assert_eq!(fs::read_to_string(starts).unwrap().lines().count(), 2);
}

#[test]
fn a_program_is_as_good_as_itself() {
    let folder = Folder::new();
    let sides = format!("{WATCHFIRE}..{WATCHFIRE}");
    succeeded(folder.output(&["compare", &sides, "one.toml", "--json", "out.json"]));
    let figures = folder.json("out.json")["comparison"]["figures"].clone();
    let figures = figures.as_array().unwrap();
    assert!(figures.len() > 5 && figures.iter().all(|one| one["verdict"] == "within_noise"));
}

#[test]
fn a_killed_lab_leaves_nothing_after_the_next_command() {
    let folder = Folder::new();
    // The third node never gets the object: nobody has it any more.
    let slow = TEXT.replace(
        "time_max",
        "faults = [{ at = \"0s\", nodes = \"source\", kill = true }]\ntime_max",
    );
    folder.file("one.toml", slow);
    let mut lab = folder.lab(&["run", "one.toml", "--driver", "processes"]);
    killed_when("the nodes run", &mut lab, || marked(&folder) >= 3);
    assert!(folder.runs() == 1 && marked(&folder) > 0, "a killed lab cannot clean up");

    succeeded(folder.output(&["check", "one.toml"]));
    assert_eq!(folder.runs(), 0);
    eventually("the nodes have ended", || marked(&folder) == 0);
}

/// The processes whose working folder is inside this folder, except those that have ended.
fn marked(folder: &Path) -> usize {
    programs_in(&folder.join("cache")).len()
}
