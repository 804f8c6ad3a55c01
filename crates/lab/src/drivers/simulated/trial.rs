//! The parts of a trial that every simulation reads, and how a run is watched.

use std::collections::BTreeSet;
use std::time::Duration;

use watchfire_sim::{Access, Event, Observer, PeerProgress};

use super::settings::Settings;
use crate::definition::{NatKind, NodePlan, TrialPlan};
use crate::drivers::driver::{self, DriverError, NodeProgress, NodeState, Progress, SIMULATED};

/// Bytes per second of a link without a limit: 10 Gbit/s.
const UNLIMITED: u64 = 1_250_000_000;

/// Passes on what it sees of a simulation.
pub struct Onlooker<'a> {
    pub plan: &'a TrialPlan,
    pub watch: &'a mut dyn FnMut(Progress<'_>),
    pub trace: Option<&'a mut dyn FnMut(&Event)>,
}

impl Observer for Onlooker<'_> {
    fn progress(
        &mut self,
        progress: watchfire_sim::Progress,
        peers: &mut dyn Iterator<Item = PeerProgress>,
    ) {
        let watchfire_sim::Progress { now, part, finished, awaited } = progress;
        let nodes: Vec<NodeProgress<'_>> = self
            .plan
            .nodes
            .iter()
            .zip(peers)
            .map(|(node, peer)| node_progress(node, peer, now))
            .collect();
        (self.watch)(Progress { phase: "simulates", now, part, finished, awaited, nodes: &nodes });
    }

    fn sees_events(&self) -> bool {
        self.trace.is_some()
    }

    fn event(&mut self, event: &Event) {
        if let Some(trace) = &mut self.trace {
            trace(event);
        }
    }
}

fn node_progress(node: &NodePlan, peer: PeerProgress, now: Duration) -> NodeProgress<'_> {
    let state = if !peer.is_online && node.leaves_at.is_some_and(|at| at <= now) {
        NodeState::Left
    } else if !peer.is_online {
        NodeState::Waits
    } else if node.fetches.is_empty() {
        NodeState::Shares
    } else if peer.part >= 1.0 {
        NodeState::Done
    } else {
        NodeState::Fetches
    };
    NodeProgress { name: &node.name, state, part: peer.part, failure: None }
}

pub fn unsupported(plan: &TrialPlan, problem: impl Into<String>) -> DriverError {
    driver::unsupported(SIMULATED, plan, problem)
}

/// Checks what every simulation lacks.
pub fn check_nodes(plan: &TrialPlan) -> Result<(), DriverError> {
    if plan.nodes.iter().any(|node| node.serves) {
        return Err(unsupported(plan, "it has no servers"));
    }
    if plan.neighbours == Some(0) {
        return Err(unsupported(plan, "its nodes learn of each other"));
    }
    for node in &plan.nodes {
        let name = &node.name;
        let problem = if !node.link_changes.is_empty() {
            format!("the link of {name} changes during the run")
        } else if node.nat != NatKind::Open {
            format!("{name} is behind a NAT")
        } else if node.link.queue.is_some() {
            format!("the link of {name} has a queue")
        } else if node.processors.is_some() {
            format!("the processors of {name} are limited; the setting cores has a model of them")
        } else {
            continue;
        };
        return Err(unsupported(plan, problem));
    }
    Ok(())
}

pub fn settings_of(plan: &TrialPlan, node: &NodePlan) -> Result<Settings, DriverError> {
    Settings::of(&node.peer)
        .map_err(|problem| unsupported(plan, format!("{}: {problem}", node.name)))
}

/// The index of the one object that nodes fetch.
pub fn the_fetched(plan: &TrialPlan) -> Result<usize, DriverError> {
    let fetched: BTreeSet<usize> =
        plan.nodes.iter().flat_map(|node| &node.fetches).copied().collect();
    match (fetched.first(), fetched.len()) {
        (Some(index), 1) => Ok(*index),
        _ => Err(unsupported(plan, "it simulates one object, and nodes fetch several")),
    }
}

pub fn access(node: &NodePlan) -> Access {
    Access { up: node.link.up.unwrap_or(UNLIMITED), down: node.link.down.unwrap_or(UNLIMITED) }
}
