//! Clusters: groups of nodes, and the network between them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::{ByteRateText, BytesText, DurationText, Share};

use super::paths::{PathFile, check_paths};
use super::values::{NAME_PROBLEM, OURS, is_name, one, unknown};
use crate::definition::{Cluster, DefinitionError, Group, Link, NODES_MAX, NatKind, Path, Peer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClusterFile {
    groups: Vec<Spanned<GroupFile>>,
    #[serde(default)]
    latency: DurationText,
    #[serde(default)]
    jitter: DurationText,
    #[serde(default)]
    loss: Share,
    #[serde(default)]
    paths: Vec<Spanned<PathFile>>,
    neighbours: Option<u32>,
    #[serde(default)]
    private_network: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    name: String,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    labels: BTreeSet<String>,
    #[serde(default)]
    region: String,
    #[serde(default)]
    link: LinkFile,
    nat: Option<String>,
    peer: Option<String>,
    processors: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFile {
    up: Option<ByteRateText>,
    down: Option<ByteRateText>,
    queue: Option<BytesText>,
}

impl LinkFile {
    pub(super) fn link(self) -> Link {
        let bytes_per_second = |rate: Option<ByteRateText>| rate.map(|rate| rate.0);
        Link {
            up: bytes_per_second(self.up),
            down: bytes_per_second(self.down),
            queue: self.queue.map(|bytes| bytes.0),
        }
    }
}

pub(super) fn check_cluster(
    cluster: Spanned<ClusterFile>,
    peers: &BTreeMap<String, Peer>,
    source: &SourceText<'_>,
) -> Result<Cluster, DefinitionError> {
    let (at, file) = (cluster.span().start, cluster.into_inner());
    let mut cluster = Cluster {
        groups: Vec::new(),
        regions: Vec::new(),
        paths: Vec::new(),
        neighbours: file.neighbours,
        private_network: file.private_network,
    };
    if file.groups.is_empty() {
        return Err(source.error(at, "groups", "must contain a group"));
    }
    let (mut count, mut names): (u32, _) = (0, BTreeSet::new());
    for group in &file.groups {
        let (at, group) = (group.span().start, group.get_ref());
        let group = check_group(at, group, &mut cluster, peers, source)?;
        count = count.saturating_add(group.count);
        if count > NODES_MAX {
            let problem = format!("must be at most {NODES_MAX} in all groups together");
            return Err(source.error(at, "count", problem));
        }
        if let Some(name) = group.node_names().find(|name| !names.insert(name.clone())) {
            return Err(source.error(at, "name", format!("another node has the name {name:?}")));
        }
        cluster.groups.push(group);
    }
    let usual = Path { delay: file.latency.0, jitter: file.jitter.0, loss: file.loss.0 };
    cluster.paths = check_paths(usual, &file.paths, &cluster.regions, source)?;
    Ok(cluster)
}

fn check_group(
    at: usize,
    group: &GroupFile,
    cluster: &mut Cluster,
    peers: &BTreeMap<String, Peer>,
    source: &SourceText<'_>,
) -> Result<Group, DefinitionError> {
    let error = |key, problem: String| Err(source.error(at, key, problem));
    if group.count == 0 {
        return error("count", "must be at least 1".to_owned());
    }
    if !is_name(&group.name) {
        return error("name", NAME_PROBLEM.to_owned());
    }
    if cluster.groups.iter().any(|known| known.name == group.name) {
        return error("name", format!("another group has the name {:?}", group.name));
    }
    let peer = group.peer.clone().unwrap_or_else(|| OURS.to_owned());
    if !peers.contains_key(&peer) {
        return error("peer", unknown("peer", &peer, peers));
    }
    if group.processors.is_some_and(|share| !(0.01..=1024.0).contains(&share)) {
        return error("processors", "must be between 0.01 and 1024".to_owned());
    }
    let nat = group.nat.as_deref().map_or(Ok(NatKind::Open), str::parse);
    let nat = nat.map_err(|problem| source.error(at, "nat", problem))?;
    let region = cluster.regions.iter().position(|known| *known == group.region);
    let region = region.unwrap_or_else(|| {
        cluster.regions.push(group.region.clone());
        cluster.regions.len() - 1
    });
    Ok(Group {
        name: group.name.clone(),
        count: group.count,
        labels: group.labels.clone(),
        region,
        link: group.link.link(),
        nat,
        peer,
        processors: group.processors,
    })
}
