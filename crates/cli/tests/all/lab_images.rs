//! `watchfire lab` with container images: a registry, mirrors, and a fleet of mirrors.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::Scratch;

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

fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

fn run(folder: &Scratch) -> Value {
    folder.file("images.toml", EXPERIMENT);
    let made = Command::new("sh").args(["-c", LAYOUT]).current_dir(&**folder).status().unwrap();
    assert!(made.success());
    let run = ["lab", "run", "images.toml", "--driver", "processes", "--json", "out.json"];
    let output = folder.command(&run).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    folder.json("out.json")
}

/// Debian's docker-registry and skopeo take part where they are installed.
#[test]
fn hosts_pull_an_image_from_a_registry_and_through_a_fleet_of_mirrors() {
    if let Some(missing) = ["docker-registry", "skopeo"].iter().find(|one| !is_installed(one)) {
        eprintln!("warning: {missing} is not installed");
        return;
    }
    let results = run(&Scratch::new());
    let copies = |trial: usize| {
        let run = &results["runs"][trial];
        let sent = run["nodes"][0]["content_sent_bytes"].as_u64().unwrap();
        sent as f64 / run["object_bytes"].as_u64().unwrap() as f64
    };
    let (registry, fleet) = (copies(0), copies(1));
    assert!((2.9..3.2).contains(&registry), "each host pulls from the registry: {registry}");
    // The registry answers again when two mirrors ask at the same time, before they know each other's blobs.
    assert!((0.9..2.5).contains(&fleet), "mirrors share what one of them has: {fleet}");
}
