//! The network of a trial on the wire: one peer for each node, with its link, its kind of NAT and its paths.
//!
//! Nodes have addresses of 11.0.0.0/16: kubo calls those that are reserved for measurements unroutable. No packet leaves the
//! machine, since the namespaces have no other device than the wire's.
//!
//! Users of a load are one more peer, without a limit. So the link of the server limits them, and not their own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use watchfire_wire::{
    Direction, Figures, Link as WireLink, NatKind, Path as WirePath, PeerPlan, StartError, Wire,
    WirePlan,
};

use crate::definition::{Implementation, Link, NodePlan, Path, TrialPlan};
use crate::drivers::driver::{DriverError, PROCESSES, unsupported};
use crate::results::{Transfer, WireFigures};

/// The peer of a load's users. Names of nodes have no space.
pub const USERS: &str = "users of the load";
const PUBLIC_V4: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 0);

/// Whether a plan needs more than the loopback device has.
pub fn is_needed(plan: &TrialPlan) -> bool {
    let of_node = |node: &NodePlan| {
        let changes = !node.link_changes.is_empty() || !node.router_changes.is_empty();
        node.link != Link::default() || changes || node.nat != NatKind::Open
    };
    let of_path = |path: &Path| *path != Path::default();
    plan.nodes.iter().any(of_node) || plan.paths.iter().flatten().any(of_path)
}

/// Checks that a plan has a network, and that this machine can make networks: it makes one with a single peer.
pub fn check(plan: &TrialPlan) -> Result<(), DriverError> {
    for node in &plan.nodes {
        if node.nat == NatKind::Ipv6Only && !can_lack_ipv4(plan, node) {
            let problem = format!(
                "{} has no IPv4: only a `program` can be there, in a trial whose servers are open",
                node.name
            );
            return Err(unsupported(PROCESSES, plan, problem));
        }
        let mut routers = node.router_changes.iter().map(|(_, kind)| *kind);
        if let Some(kind) = routers.find(|to| !(node.nat.has_own_router() && to.has_own_router())) {
            let problem = format!(
                "{} cannot get another router, from {} to {kind}: both need a public address of their own",
                node.name, node.nat
            );
            return Err(unsupported(PROCESSES, plan, problem));
        }
        if must_be_dialled(plan, node) && node.nat != NatKind::Open {
            let problem = format!("{} is behind a NAT, and others must dial it", node.name);
            return Err(unsupported(PROCESSES, plan, problem));
        }
    }
    let full = wire_plan(plan);
    let impossible = |source| DriverError::WirePlan { trial: plan.name.clone(), source };
    full.validate().map_err(impossible)?;
    let changes = plan.nodes.iter().flat_map(|node| &node.link_changes);
    for (_, link) in changes {
        wire_link(*link).validate(&plan.name).map_err(impossible)?;
    }
    let one = vec![PeerPlan::open("one", WireLink::default())];
    start(plan, WirePlan { peers: one, ..WirePlan::default() }).map(drop)
}

/// Whether a node can do without IPv4: a program that gets the addresses of servers which have IPv6 too, and that nobody dials.
fn can_lack_ipv4(plan: &TrialPlan, node: &NodePlan) -> bool {
    let servers = || plan.nodes.iter().filter(|other| other.serves);
    node.peer.implementation == Implementation::Program
        && !node.serves
        && servers().count() > 0
        && servers().all(|server| server.nat == NatKind::Open)
}

/// Whether others must be able to dial a node. A server of the trial introduces programs to each other.
fn must_be_dialled(plan: &TrialPlan, node: &NodePlan) -> bool {
    let only_has = !node.seeds.is_empty() && node.fetches.is_empty();
    let is_introduced = node.peer.implementation == Implementation::Program
        && plan.nodes.iter().any(|other| other.serves);
    node.serves || (only_has && !is_introduced)
}

/// Makes the network of a plan.
pub fn open(plan: &TrialPlan) -> Result<Wire, DriverError> {
    start(plan, wire_plan(plan))
}

fn start(plan: &TrialPlan, network: WirePlan) -> Result<Wire, DriverError> {
    let trial = || plan.name.clone();
    Wire::start(network).map_err(|error| match error {
        StartError::Plan(source) => DriverError::WirePlan { trial: trial(), source },
        source => DriverError::Wire { trial: trial(), source },
    })
}

fn wire_plan(plan: &TrialPlan) -> WirePlan {
    let peer = |node: &NodePlan| PeerPlan {
        name: node.name.clone(),
        link: wire_link(node.link),
        nat: node.nat,
        region: node.region,
    };
    let users = plan.load.as_ref().map(|_| PeerPlan::open(USERS, WireLink::default()));
    let path = |path: &Path| WirePath { delay: path.delay, jitter: path.jitter, loss: path.loss };
    WirePlan {
        seed: plan.seed,
        peers: plan.nodes.iter().map(peer).chain(users).collect(),
        paths: plan.paths.iter().map(|row| row.iter().map(path).collect()).collect(),
        public_v4: PUBLIC_V4,
        ..WirePlan::default()
    }
}

pub fn wire_link(link: Link) -> WireLink {
    let direction = |bytes: Option<u64>| Direction {
        bits_per_second: bytes.map(|bytes| bytes.saturating_mul(8)),
        queue_bytes: link.queue.map_or(Direction::default().queue_bytes, |bytes| bytes as usize),
        ..Direction::default()
    };
    WireLink { up: direction(link.up), down: direction(link.down) }
}

/// The counts of a network at one time.
#[derive(Default)]
pub struct Counts {
    figures: Figures,
    overruns: u64,
}

impl Counts {
    pub fn of(wire: &Wire) -> Counts {
        // The kernel's count is missing only when a namespace cannot be entered any more.
        Counts { figures: wire.figures(), overruns: wire.overruns().unwrap_or_default() }
    }

    /// The figures of the time since earlier counts, for the first `nodes` peers.
    pub fn since(&self, earlier: &Counts, nodes: usize) -> WireFigures {
        let (now, before) = (&self.figures, &earlier.figures);
        let is_node = |(from, to): &(usize, usize)| *from < nodes && *to < nodes;
        let transfers = now.pairs.iter().filter(|(pair, _)| is_node(pair)).map(|(pair, count)| {
            let known = before.pairs.get(pair).map_or(0, |count| count.delivered.bytes);
            Transfer { from: pair.0, to: pair.1, bytes: count.delivered.bytes - known }
        });
        let mut drops = BTreeMap::new();
        for ((peer, cause), count) in &now.drops {
            let new = count - before.drops.get(&(*peer, *cause)).copied().unwrap_or(0);
            if new > 0 {
                *drops.entry(format!("{cause:?}")).or_insert(0) += new;
            }
        }
        let packets = now.delivered().packets.max(1) as f64;
        WireFigures {
            transfers: transfers.filter(|one| one.bytes > 0).collect(),
            drops,
            lateness_mean_seconds: now.lateness_sum.as_secs_f64() / packets,
            lateness_max_seconds: now.lateness_max.as_secs_f64(),
            cpu_seconds: now.cpu_time.saturating_sub(before.cpu_time).as_secs_f64(),
            overruns: self.overruns.saturating_sub(earlier.overruns),
        }
    }

    /// The bytes that a node has sent to all others, and received from all, since earlier counts.
    pub fn bytes_since(&self, earlier: &Counts, node: usize) -> (u64, u64) {
        let sum = |of: &Counts| {
            of.figures.pairs.iter().fold((0, 0), |(sent, received), ((from, to), count)| {
                let is_sender = u64::from(*from == node);
                let is_receiver = u64::from(*to == node);
                (
                    sent + is_sender * count.sent.bytes,
                    received + is_receiver * count.delivered.bytes,
                )
            })
        };
        let (now, before) = (sum(self), sum(earlier));
        (now.0 - before.0, now.1 - before.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::assert_refused;

    const TEXT: &str = "
        [clusters.c]
        paths = [{ between = ['eu', 'us'], latency = '40ms', loss = 0.01 }]
        groups = [
          { name = 'source', region = 'eu', link = { up = '10Mbit', queue = '64KiB' } },
          { name = 'peers', region = 'us', count = 2, nat = 'port-restricted' },
        ]
        [scenarios.s]
        objects.file = { random = '1MiB' }
        seed = { source = 'file' }
        fetch = { peers = 'file' }
        faults = [{ at = '1s', nodes = 'source', link = { up = '1Mbit' } }]
    ";

    fn plan(text: &str) -> TrialPlan {
        TrialPlan::first_of(text)
    }

    #[test]
    fn a_plan_becomes_a_network() {
        let plan = plan(TEXT);
        assert!(is_needed(&plan));
        let network = wire_plan(&plan);
        network.validate().unwrap();
        assert_eq!(network.peers.len(), 3);
        assert_eq!(network.peers[0].link.up.bits_per_second, Some(10_000_000));
        assert_eq!(network.peers[0].link.down.bits_per_second, None);
        assert_eq!(network.peers[0].link.down.queue_bytes, 64 << 10);
        assert_eq!(network.peers[1].link.down.queue_bytes, 512 << 10);
        assert_eq!(network.peers[2].nat, NatKind::PortRestricted);
        assert_eq!(network.paths[0][1].delay.as_millis(), 40);
        assert_eq!(network.paths[1][1], WirePath::default());
    }

    #[test]
    fn a_plan_without_a_network_runs_on_loopback() {
        let text = "
            [clusters.c]
            groups = [{ name = 'source' }, { name = 'peers', count = 2 }]
            [scenarios.s]
            objects.file = { random = '1MiB' }
            seed = { source = 'file' }
            fetch = { peers = 'file' }
        ";
        assert!(!is_needed(&plan(text)));
        for more in ["nat = 'symmetric'", "link = { down = '1Mbit' }"] {
            assert!(is_needed(&plan(&text.replace("count = 2", &format!("count = 2, {more}")))));
        }
    }

    #[test]
    fn programs_behind_routers_are_introduced_by_their_server() {
        let text = "
            [peers.page]
            implementation = 'program'
            settings = { seed = 'true', fetch = 'true' }
            [peers.server]
            implementation = 'server'
            [clusters.c]
            groups = [
              { name = 'server', peer = 'server' },
              { name = 'source', peer = 'page', nat = 'symmetric' },
              { name = 'peers', peer = 'page', nat = 'carrier' },
            ]
            [scenarios.s]
            objects.file = { random = '1MiB' }
            serve = 'server'
            seed = { source = 'file' }
            fetch = { peers = 'file' }
        ";
        let dialled = |text: &str| {
            let plan = plan(text);
            let nodes = plan.nodes.iter().filter(|node| must_be_dialled(&plan, node));
            nodes.map(|node| node.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(dialled(text), ["server"]);
        let without_ipv4 = plan(&text.replace("'carrier'", "'ipv6-only'"));
        assert!(can_lack_ipv4(&without_ipv4, without_ipv4.nodes.last().unwrap()));
        let server_behind =
            plan(&text.replace("peer = 'server' }", "peer = 'server', nat = 'full-cone' }"));
        assert!(!can_lack_ipv4(&server_behind, server_behind.nodes.last().unwrap()));
        let alone = text
            .replace("serve = 'server'", "")
            .replace("{ name = 'server', peer = 'server' },", "");
        assert_eq!(dialled(&alone), ["source"]);
    }

    #[test]
    fn a_network_that_nothing_can_use_is_refused() {
        let changes = [
            ("region = 'eu',", "region = 'eu', nat = 'symmetric',", "others must dial it"),
            ("'port-restricted'", "'ipv6-only'", "has no IPv4"),
            ("link = { up = '1Mbit' } }]", "nat = 'symmetric' }]", "cannot get another router"),
            ("'40ms'", "'61s'", "is not possible"),
        ];
        let checked = |text: &str| check(&plan(text)).map_err(|error| error.to_string());
        assert_refused(TEXT, &changes, checked);
    }
}
