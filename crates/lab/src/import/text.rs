//! An experiment file from p2plab's definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::p2plab::{Cluster, Definitions, Group, Object, Peer, Scenario};

/// An object that the user names in place of an image of a registry: bytes, or the path of a local layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Substitute {
    Bytes(u64),
    Layout(String),
}

/// The text of an experiment file, and what has no counterpart in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub text: String,
    pub notes: Vec<String>,
}

/// The node that has the objects which no query seeds.
const ORIGIN: &str = "origin";
/// The size of the random bytes that stand for an image, unless the user names a substitute.
const STAND_IN: &str = "100MiB";

/// Writes the experiment file.
pub fn write(read: &Definitions, substitutes: &BTreeMap<String, Substitute>) -> Imported {
    let mut out = Writer { text: String::new(), notes: BTreeSet::new(), substitutes };
    let mut peers: Vec<&Peer> = Vec::new();
    let groups = read.clusters.iter().flat_map(|(_, cluster)| &cluster.groups);
    for peer in groups.filter_map(|group| group.peer.as_ref()) {
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }
    for (index, peer) in peers.iter().enumerate() {
        out.peer(index, peer);
    }
    let has_origin = read.scenarios.iter().any(|(_, scenario)| !unseeded(scenario).is_empty());
    for (name, cluster) in &read.clusters {
        out.cluster(name, cluster, &peers, has_origin);
    }
    for (name, scenario) in &read.scenarios {
        out.scenario(name, scenario, has_origin);
    }
    for (cluster, scenario) in &read.trials {
        let (cluster, scenario) = (&read.clusters[*cluster].0, &read.scenarios[*scenario].0);
        out.line(format_args!(
            "\n[[trials]]\ncluster = {}\nscenario = {}",
            text(cluster),
            text(scenario)
        ));
    }
    Imported { text: out.text, notes: out.notes.into_iter().collect() }
}

/// Objects that nodes fetch and no node has from the start. In p2plab its daemon has every object.
fn unseeded(scenario: &Scenario) -> BTreeSet<&str> {
    let is_seeded = |object: &&String| scenario.seed.values().any(|seeded| seeded == *object);
    scenario.benchmark.values().filter(|object| !is_seeded(object)).map(String::as_str).collect()
}

struct Writer<'a> {
    text: String,
    notes: BTreeSet<String>,
    substitutes: &'a BTreeMap<String, Substitute>,
}

/// A string of TOML.
fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
}

/// A key of TOML, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => text(name),
    }
}

fn peer_name(index: usize) -> String {
    format!("peer-{}", index + 1)
}

impl Writer<'_> {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a String cannot fail");
    }

    fn note(&mut self, note: String) {
        self.notes.insert(note);
    }

    fn peer(&mut self, index: usize, peer: &Peer) {
        let name = peer_name(index);
        if !peer.git_reference.is_empty() {
            let reference = &peer.git_reference;
            self.note(format!(
                "gitReference {reference:?} is a commit of p2plab's own program; write build = {{ git = \"...\" }} for a commit of this one"
            ));
        }
        let transport = match peer.transports.first().map(String::as_str) {
            None | Some("tcp") => "tcp",
            Some("quic") => "quic",
            Some(other) => {
                self.note(format!("transport {other:?}: nodes here use tcp or quic, and take tcp"));
                "tcp"
            }
        };
        for muxer in peer.muxers.iter().filter(|muxer| *muxer != "yamux") {
            self.note(format!("muxer {muxer:?}: connections over tcp use yamux here"));
        }
        for security in &peer.security_transports {
            self.note(format!(
                "security transport {security:?}: connections use noise or TLS here"
            ));
        }
        if !matches!(peer.routing.as_str(), "" | "nil") {
            self.note(format!("routing {:?}: nodes dial each other here", peer.routing));
        }
        self.line(format_args!("[peers.{name}]\nsettings = {{ transport = \"{transport}\" }}\n"));
    }

    fn cluster(&mut self, name: &str, cluster: &Cluster, peers: &[&Peer], has_origin: bool) {
        let regions: BTreeSet<&str> =
            cluster.groups.iter().map(|group| group.region.as_str()).collect();
        self.line(format_args!("[clusters.{}]", key(name)));
        if regions.len() > 1 {
            let names: Vec<_> = regions.iter().copied().collect();
            self.note(format!(
                "the network between {} is not in a definition; add latency and paths to the cluster",
                names.join(", ")
            ));
        }
        for (index, group) in cluster.groups.iter().enumerate() {
            self.group(name, index, group, peers);
        }
        if has_origin {
            self.line(format_args!("[[clusters.{}.groups]]\nname = \"{ORIGIN}\"\n", key(name)));
        }
    }

    fn group(&mut self, cluster: &str, index: usize, group: &Group, peers: &[&Peer]) {
        let Group { size, instance_type, region, labels, peer } = group;
        if !instance_type.is_empty() {
            self.note(format!(
                "instanceType {instance_type:?} has no counterpart; add link and processors to its group"
            ));
        }
        // There, the region and the instance type of a node are labels too.
        let known = [region, instance_type].into_iter().filter(|label| !label.is_empty());
        let labels: BTreeSet<String> =
            labels.iter().chain(known).map(|label| text(label)).collect();
        let labels: Vec<String> = labels.into_iter().collect();
        self.line(format_args!("[[clusters.{}.groups]]", key(cluster)));
        self.line(format_args!("name = \"group-{}\"\ncount = {size}", index + 1));
        self.line(format_args!("region = {}\nlabels = [{}]", text(region), labels.join(", ")));
        let known = peer.as_ref().and_then(|peer| peers.iter().position(|one| *one == peer));
        if let Some(index) = known {
            self.line(format_args!("peer = \"{}\"", peer_name(index)));
        }
        self.line(format_args!(""));
    }

    fn scenario(&mut self, name: &str, scenario: &Scenario, has_origin: bool) {
        self.line(format_args!("[scenarios.{}]", key(name)));
        for (object, definition) in &scenario.objects {
            self.object(object, definition);
        }
        for (part, rules) in [("seed", &scenario.seed), ("fetch", &scenario.benchmark)] {
            for (query, object) in rules {
                let query = match has_origin {
                    true => format!("(and (not '{ORIGIN}') {query})"),
                    false => query.clone(),
                };
                self.line(format_args!("{part}.{} = {}", key(&query), text(object)));
            }
        }
        for object in unseeded(scenario) {
            self.note(format!("{object}: no query seeds it, so the node {ORIGIN:?} has it"));
            self.line(format_args!("seed.{ORIGIN} = {}", text(object)));
        }
    }

    fn object(&mut self, name: &str, object: &Object) {
        let source = &object.source;
        if !matches!(object.kind.as_str(), "oci" | "container-image") {
            self.note(format!("the type {:?} of {name:?} is unknown", object.kind));
        }
        let options = [
            ("layout", object.layout.clone()),
            ("chunker", object.chunker.clone()),
            ("rawLeaves", object.raw_leaves.map(|value| value.to_string())),
            ("hashFunc", object.hash_func.clone()),
            ("maxLinks", object.max_links.map(|value| value.to_string())),
        ];
        for (key, value) in options {
            if let Some(value) = value {
                self.note(format!(
                    "{key} = {value} of {name:?}: set the profile of the peer instead"
                ));
            }
        }
        match self.substitutes.get(name) {
            Some(Substitute::Bytes(bytes)) => {
                self.note(format!("{name}: random bytes stand for {source}"));
                self.line(format_args!("objects.{} = {{ random = \"{bytes}B\" }}", key(name)));
            }
            Some(Substitute::Layout(path)) => {
                self.line(format_args!("objects.{} = {{ image = {} }}", key(name), text(path)));
            }
            None => {
                self.note(format!(
                    "{name}: {STAND_IN} of random bytes stand for {source}; name a local layout or a size with --object"
                ));
                self.line(format_args!("objects.{} = {{ random = \"{STAND_IN}\" }}", key(name)));
            }
        }
    }
}
