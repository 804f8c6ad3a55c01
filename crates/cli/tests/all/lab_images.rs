//! `watchfire lab` with container images: a registry, caches, mirrors, and a fleet of mirrors.

use std::fs;
use std::process::Command;

use serde_json::Value;
use watchfire_testkit::{eventually, write_program};

use super::support::{Scratch, killed_when, programs_in, succeeded};

/// Makes a layout with an image of two layers of random bytes.
const LAYOUT: &str = r#"
set -e
mkdir -p layout/blobs/sha256
put() { d=$(sha256sum < "$1" | cut -d' ' -f1); mv "$1" layout/blobs/sha256/$d; echo $d; }
layers=; diffs=
for n in 1 2; do
  head -c 1000000 /dev/urandom > file-$n; tar -cf layer file-$n
  size=$(stat -c %s layer); d=$(put layer)
  layers="$layers${layers:+,}{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:$d\",\"size\":$size}"
  diffs="$diffs${diffs:+,}\"sha256:$d\""
done
printf '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[%s]}}' "$diffs" > config
size=$(stat -c %s config); c=$(put config)
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[%s]}' $c $size "$layers" > manifest
size=$(stat -c %s manifest); m=$(put manifest)
printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s}]}' $m $size > layout/index.json
printf '{"imageLayoutVersion":"1.0.0"}' > layout/oci-layout
"#;

const EXPERIMENT: &str = r#"
[peers.registry]
implementation = "registry"
[peers.fleet]
implementation = "mirror"
[clusters.c]
groups = [{ name = "registry" }, { name = "hosts", count = 3 }]
[scenarios.pull]
objects.image = { image = "layout" }
seed = { registry = "image" }
fetch = { hosts = "image" }
time_max = "60s"
[[trials]]
name = "registry"
cluster = "c"
scenario = "pull"
peer = "registry"
[[trials]]
name = "fleet"
cluster = "c"
scenario = "pull"
peer = "fleet"
"#;

/// Hosts with containerd. In the last two trials one host has the image, and another one pulls it.
const ENGINES: &str = r#"
[peers.nginx]
implementation = "registry"
settings = { client = "containerd", cache = "nginx" }
[peers.cache]
implementation = "registry"
settings = { client = "containerd", cache = "registry" }
[peers.alone]
implementation = "mirror"
settings = { client = "containerd", fleet = false, unpack = false }
[peers.fleet]
implementation = "mirror"
settings = { client = "containerd" }
[clusters.many]
groups = [{ name = "registry" }, { name = "hosts", count = 2 }]
[clusters.two]
groups = [{ name = "registry" }, { name = "first" }, { name = "hosts" }]
[scenarios.pull]
objects.image = { image = { layers = 4, size = "2MiB" } }
seed = { registry = "image" }
fetch = { hosts = "image" }
time_max = "100s"
[scenarios.neighbour]
objects.image = { image = { layers = 4, size = "2MiB" } }
seed = { registry = "image", first = "image" }
fetch = { hosts = "image" }
time_max = "100s"
[[trials]]
name = "alone"
cluster = "many"
scenario = "pull"
peer = "alone"
[[trials]]
name = "nginx"
cluster = "many"
scenario = "pull"
peer = "nginx"
[[trials]]
name = "cache"
cluster = "two"
scenario = "neighbour"
peer = "cache"
[[trials]]
name = "fleet"
cluster = "two"
scenario = "neighbour"
peer = "fleet"
"#;

/// Runs an experiment, which succeeds. Returns its results.
fn run(folder: &Scratch, experiment: &str) -> Value {
    folder.file("images.toml", experiment);
    succeeded(folder.command(&[&RUN[..], &["--json", "out.json"]].concat()).output().unwrap());
    folder.json("out.json")
}

const RUN: [&str; 5] = ["lab", "run", "images.toml", "--driver", "processes"];

#[test]
#[ignore = "needs docker-registry and skopeo: `make rust-test` runs it where they are"]
fn hosts_pull_an_image_from_a_registry_and_through_a_fleet_of_mirrors() {
    let folder = Scratch::new();
    succeeded(Command::new("sh").args(["-c", LAYOUT]).current_dir(&*folder).output().unwrap());
    let results = run(&folder, EXPERIMENT);
    let copies = |trial: usize| {
        let run = &results["runs"][trial];
        let sent = run["nodes"][0]["content_sent_bytes"].as_u64().unwrap();
        sent as f64 / run["object_bytes"].as_u64().unwrap() as f64
    };
    let (registry, fleet) = (copies(0), copies(1));
    assert!((2.9..3.2).contains(&registry), "each host pulls from the registry: {registry}");
    // The registry answers again when two mirrors ask at the same time, before they know each other's blobs, and on a busy
    // machine when a block comes late.
    let measures = &results["runs"][1]["measures"];
    let from_each_other = measures["hosts: copies from each other"].as_f64().unwrap();
    assert!(from_each_other > 0.2, "mirrors share what one of them has: {from_each_other}");
    assert!(fleet > 0.9 && fleet + from_each_other > 2.9, "{fleet} and {from_each_other} copies");
}

#[test]
#[ignore = "needs root and containerd with its tools: `make rust-test` runs it where they are"]
fn hosts_with_containerd_pull_through_caches_and_mirrors() {
    let results = run(&Scratch::new(), ENGINES);
    // Copies that the registry and hosts sent.
    let copies = |trial: usize, node: usize| {
        let run = &results["runs"][trial];
        let sent = run["nodes"][node]["content_sent_bytes"].as_f64().unwrap();
        sent / run["object_bytes"].as_f64().unwrap()
    };
    let [alone, nginx, cache, fleet] = [0, 1, 2, 3];
    let near = |value: f64, expected: f64| {
        assert!((value - expected).abs() < 0.1, "{value} copies, expected {expected}");
    };
    let from_each_other = |trial: usize| {
        let measures = &results["runs"][trial]["measures"];
        measures["hosts: copies from each other"].as_f64().unwrap()
    };
    // On a busy machine a mirror requests again from the registry what comes late.
    assert!(copies(alone, 0) > 1.9 && from_each_other(alone) == 0.0, "{}", copies(alone, 0));
    near(copies(nginx, 0), 1.0);
    near(copies(nginx, 1), 1.0);
    near(from_each_other(nginx), 1.0);
    // The first host fetched the image before the clock started, and the second one has it from there.
    near(copies(cache, 1), 1.0);
    let (registry, other) = (copies(fleet, 0), from_each_other(fleet));
    assert!(registry > 0.9 && registry + other > 1.9, "{registry} and {other} copies");
    for trial in [nginx, cache, fleet] {
        let host = results["runs"][trial]["nodes"].as_array().unwrap().last().unwrap();
        let [first, fetched, unpacked] = ["first_byte_at", "finished_at", "unpacked_at"]
            .map(|time| host[time].as_f64().unwrap());
        assert!(0.0 < first && first <= fetched && fetched <= unpacked, "{host}");
    }
    let alone = &results["runs"][alone];
    assert!(alone["nodes"][1]["unpacked_at"].is_null(), "it was told to unpack nothing");
    for figure in ["client: CPU-seconds per leecher", "mirror: peak memory, bytes"] {
        assert!(alone["measures"][figure].as_f64().unwrap() > 0.0, "{figure}: {alone}");
    }
}

#[test]
#[ignore = "needs root and containerd with its tools: `make rust-test` runs it where they are"]
fn a_lab_that_is_killed_leaves_no_engine_and_no_mount() {
    let folder = Scratch::new();
    folder.file("images.toml", ENGINES);
    let cache = folder.join("cache");
    let mut lab = folder.command(&[&RUN[..], &["--trial", "fleet"]].concat());
    let has_engine = || programs_in(&cache).iter().any(|program| program == "containerd\n");
    killed_when("containerd runs", &mut lab, has_engine);

    succeeded(folder.command(&["lab", "check", "images.toml"]).output().unwrap());
    eventually("all programs have ended", || programs_in(&cache).is_empty());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&cache.display().to_string()), "{mounts}");
    let runs = fs::read_dir(cache.join("watchfire/lab/runs")).unwrap();
    assert_eq!(runs.count(), 0, "no run is left");
}

#[test]
#[ignore = "needs root and containerd with its tools: `make rust-test` runs it where they are"]
fn an_engine_that_does_not_start_fails_its_host_alone() {
    let folder = Scratch::new();
    folder.file("images.toml", ENGINES);
    write_program(folder.join("bin/containerd"), "#!/bin/sh\necho no room >&2\nexit 7\n");
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let run = [&RUN[..], &["--trial", "nginx"]].concat();
    let output = folder.command(&run).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(problems.contains("containerd ended with exit status: 7: no room"), "{problems}");
}
