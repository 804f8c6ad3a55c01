//! Standing clusters with the real program: nodes that stay, scenarios on them, and the hot swap.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use watchfire_testkit::{eventually, is_running, write_program};

use super::support::{Scratch, WATCHFIRE, succeeded, text};

const CLUSTER: &str = r#"
[clusters.pair]
groups = [
  { name = "source" },
  { name = "peers", count = 2 },
]
"#;

const SCENARIO: &str = r#"
[scenarios.spread]
objects.file = { random = "1MiB" }
seed = { source = "file" }
fetch = { peers = "file" }
time_max = "60s"
"#;

/// A folder with a cluster, which is ended when this is dropped.
struct Lab(Scratch);

impl Lab {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.file("cluster.toml", CLUSTER);
        scratch.file("spread.toml", SCENARIO);
        Lab(scratch)
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        let mut command = self.0.command(&[&["lab"], arguments].concat());
        command.args(["--folder", "lab"]).output().unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(!output.status.success(), "{output:?}");
        text(&output.stderr)
    }

    /// Runs the scenario on the cluster. Returns the nodes of its result.
    fn spread(&self, seed: &str) -> Vec<Value> {
        let file = format!("{seed}.json");
        let on = ["run", "--on", "pair", "spread.toml", "--seed", seed, "--json", &file];
        succeeded(self.lab(&on));
        self.0.json(&file)["runs"][0]["nodes"].as_array().unwrap().clone()
    }

    /// The number of the process of each node.
    fn processes(&self) -> Vec<u32> {
        let mut folders = fs::read_dir(self.0.join("lab/runs")).unwrap();
        let folder: PathBuf = folders.next().unwrap().unwrap().path();
        let record = fs::read_to_string(folder.join("cluster.json")).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        let nodes = record["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["process"]["pid"].as_u64().unwrap() as u32).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.lab(&["down", "pair"]);
    }
}

#[test]
fn a_node_keeps_its_store_when_its_program_is_replaced_and_the_others_run_on() {
    let lab = Lab::new();
    let up = text(&succeeded(lab.lab(&["up", "cluster.toml", "--name", "pair"])).stdout);
    assert_eq!(up.lines().filter(|line| line.starts_with("pair  ")).count(), 3, "{up}");
    let first = lab.spread("1");
    for node in &first[1..] {
        assert!(node["finished_at"].as_f64().is_some(), "{node}");
        assert!(node["received_bytes"].as_u64().unwrap() >= 1 << 20, "{node}");
        assert!(node["cpu_seconds"].as_f64().is_some(), "{node}");
    }
    let sent = first[0]["content_sent_bytes"].as_u64().unwrap();
    assert!((1 << 20..=2 << 20).contains(&sent), "{sent}");

    let before = lab.processes();
    write_program(lab.0.join("other"), fs::read(WATCHFIRE).unwrap());
    let swapped = text(&succeeded(lab.lab(&["swap", "--on", "pair", "peers-2", "./other"])).stdout);
    assert_eq!(swapped, "1 replaced: peers-2\n");
    let after = lab.processes();
    assert_eq!((before[..2].to_vec(), before[2] != after[2]), (after[..2].to_vec(), true));
    let ps = text(&succeeded(lab.lab(&["ps"])).stdout);
    let row = ps.lines().find(|line| line.contains("peers-2")).unwrap();
    assert!(row.ends_with("/other") && row.contains("MiB"), "{ps}");

    // The same object again: all have it. Another one: it is spread as before.
    for node in &lab.spread("1")[1..] {
        assert!(node["finished_at"].as_f64().is_some(), "{node}");
        assert!(node["received_bytes"].as_u64().unwrap() < 1 << 20, "{node}");
    }
    for node in &lab.spread("2")[1..] {
        assert!(node["received_bytes"].as_u64().unwrap() >= 1 << 20, "{node}");
    }

    succeeded(lab.lab(&["down", "pair"]));
    eventually("all have ended", || after.iter().all(|process| !is_running(*process)));
    assert_eq!(fs::read_dir(lab.0.join("lab/runs")).unwrap().count(), 0);
}

#[test]
fn a_node_that_ended_is_seen_and_starts_again() {
    let lab = Lab::new();
    succeeded(lab.lab(&["up", "cluster.toml", "--name", "pair"]));
    let error = lab.fails(&["up", "cluster.toml", "--name", "pair"]);
    assert!(error.contains("has the name \"pair\" already"), "{error}");
    let killed = lab.processes()[1];
    succeeded(Command::new("kill").args(["-9", &killed.to_string()]).output().unwrap());
    eventually("the node has ended", || !is_running(killed));

    let ps = text(&succeeded(lab.lab(&["ps"])).stdout);
    let row = ps.lines().find(|line| line.contains("peers-1")).unwrap();
    assert!(row.contains("ended"), "{ps}");
    let error = lab.fails(&["run", "--on", "pair", "spread.toml"]);
    assert!(error.contains("peers-1 has ended; start it again with lab swap"), "{error}");

    succeeded(lab.lab(&["swap", "--on", "pair", "peers-1", WATCHFIRE]));
    assert!(lab.spread("1").iter().skip(1).all(|node| !node["finished_at"].is_null()));
}

#[test]
fn mistakes_are_named() {
    let lab = Lab::new();
    let error = lab.fails(&["down", "nowhere"]);
    assert!(error.contains("\"nowhere\"; start one with lab up"), "{error}");
    lab.0.file("limited.toml", CLUSTER.replace("count = 2", "count = 2, link = { up = '1Mbit' }"));
    let error = lab.fails(&["up", "limited.toml"]);
    assert!(error.contains("peers-1 cannot stand: its link"), "{error}");
    lab.0.file(
        "broken.toml",
        "[peers.broken]\nbuild = { path = '/bin/false' }\n".to_owned()
            + &CLUSTER.replace("count = 2", "peer = 'broken'"),
    );
    let error = lab.fails(&["up", "broken.toml"]);
    assert!(error.contains("cannot start peers: false ended with exit status: 1"), "{error}");
    assert_eq!(fs::read_dir(lab.0.join("lab/runs")).unwrap().count(), 0);

    succeeded(lab.lab(&["up", "cluster.toml", "--name", "pair"]));
    let error = lab.fails(&["swap", "--on", "pair", "nobody", "./other"]);
    assert!(error.contains("./other"), "{error}");
    let error = lab.fails(&["swap", "--on", "pair", "nobody", WATCHFIRE]);
    assert!(error.contains("the query 'nobody' selects no node of \"pair\""), "{error}");
    lab.0.file("spread.toml", SCENARIO.replace("peers =", "leechers ="));
    let error = lab.fails(&["run", "--on", "pair", "spread.toml"]);
    assert!(error.contains("selects no node of \"pair\""), "{error}");
}
