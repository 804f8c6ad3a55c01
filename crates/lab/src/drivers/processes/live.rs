//! The nodes of a run: their places, how they start, and the nodes that each dials.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchfire_types::Rng;

use super::network::{Network, Site};
use super::objects::Content;
use super::parts::Parts;
use super::process::NodeError;
use super::programs::{Node, Program, START_TIMEOUT, Status, Ticket, Usage};
use super::records::Records;
use super::workspace::Workspace;
use super::{DriverError, NodeProgress, NodeState, processors};
use crate::definition::{NatKind, NodePlan, TrialPlan};
use crate::drivers::with_causes;
use crate::results::NodeResult;
use crate::results::spans::Listening;

/// The number that divides the choice of neighbours from other random numbers of the same seed.
const NEIGHBOURS_PURPOSE: u64 = 0xd1a1;

/// A node of the run, in the order of the plan.
pub struct Live<'a> {
    pub plan: &'a NodePlan,
    pub site: Site,
    /// Where the lab receives its spans, if it is in a namespace.
    _spans: Option<Listening>,
    pub node: Option<Box<dyn Node>>,
    /// The objects that it fetches.
    pub tickets: Vec<Ticket>,
    /// The objects that it has from the start.
    pub stored: Vec<Ticket>,
    pub dials: Vec<usize>,
    pub has_arrived: bool,
    pub has_left: bool,
    pub has_returned: bool,
    /// It has returned, and cannot fetch yet.
    pub is_starting: bool,
    /// Changes of its link, and of its router, that have happened.
    pub link_changes: usize,
    pub router_changes: usize,
    /// CPU time before the clock started, of all programs and of each kind.
    pub cpu_before: Duration,
    pub parts_before: Parts,
    /// When it was prepared, from and to.
    pub prepared: Option<(Instant, Instant)>,
    pub result: NodeResult,
}

pub fn sites<'a>(
    plan: &'a TrialPlan,
    workspace: &Workspace,
    network: &Network,
    records: Records<'_>,
) -> Result<Vec<Live<'a>>, DriverError> {
    let limits = processors::limits(plan, workspace)?;
    let live = |(index, node): (usize, &'a NodePlan)| {
        let folder = workspace.node_folder(&node.name);
        if !matches!(network, Network::Given(_)) {
            fs::create_dir(&folder)
                .map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
        }
        let mut site = network.site(index, &node.name, &workspace.id, folder);
        let spans = records.receive_spans(&mut site, index, node);
        let spans =
            spans.map_err(|source| DriverError::Spans { node: node.name.clone(), source })?;
        site.flame = records.flame(plan, node);
        site.limit = limits[index].clone();
        Ok(Live {
            plan: node,
            site,
            _spans: spans,
            node: None,
            tickets: Vec::new(),
            stored: Vec::new(),
            dials: Vec::new(),
            has_arrived: false,
            has_left: false,
            has_returned: false,
            is_starting: false,
            link_changes: 0,
            router_changes: 0,
            cpu_before: Duration::ZERO,
            parts_before: Vec::new(),
            prepared: None,
            result: NodeResult {
                name: node.name.clone(),
                group: node.group.clone(),
                is_seeder: !node.seeds.is_empty(),
                is_awaited: node.is_awaited(),
                arrived_at: node.arrives_at.as_secs_f64(),
                ..NodeResult::default()
            },
        })
    };
    let mut nodes = plan.nodes.iter().enumerate().map(live).collect::<Result<Vec<_>, _>>()?;
    // The first node of a group is the last one that is put here, so the group has its address.
    let addresses =
        nodes.iter().rev().map(|live| (live.plan.group.clone(), live.site.own_address()));
    let groups = Arc::new(addresses.collect::<BTreeMap<_, _>>());
    nodes.iter_mut().for_each(|live| live.site.groups = Arc::clone(&groups));
    Ok(nodes)
}

/// Starts the servers, and tells all nodes where they are. Servers without users are first, because those with users
/// may need them.
pub fn start_servers(nodes: &mut [Live<'_>], programs: &[Box<dyn Program>]) {
    let mut addresses = Vec::new();
    for has_users in [false, true] {
        let is_due = |live: &Live<'_>| live.plan.serves && live.plan.has_users == has_users;
        for (live, program) in nodes.iter_mut().zip(programs).filter(|(live, _)| is_due(live)) {
            let began = Instant::now();
            match program.serve(&live.site) {
                Ok(node) => {
                    addresses.extend(node.address().map(|address| (address, live.site.clone())));
                    live.node = Some(node);
                }
                Err(error) => live.fail(&error),
            }
            live.prepared = Some((began, Instant::now()));
        }
    }
    for live in nodes {
        let of_server = |(address, server): &(String, Site)| live.site.url_of(address, server);
        live.site.servers = addresses.iter().map(of_server).collect();
    }
}

/// Starts the nodes with content. Returns how each object is requested, by its index.
pub fn start_seeders(
    nodes: &mut [Live<'_>],
    programs: &[Box<dyn Program>],
    contents: &[Content],
) -> BTreeMap<usize, Ticket> {
    let mut tickets = BTreeMap::new();
    for (live, program) in
        nodes.iter_mut().zip(programs).filter(|(live, _)| !live.plan.seeds.is_empty())
    {
        let began = Instant::now();
        let seeds: Vec<usize> = live.plan.seeds.iter().copied().collect();
        let own = seeds.iter().map(|object| live.site.content(&contents[*object]));
        let own: Vec<Content> = match own.collect() {
            Ok(own) => own,
            Err(error) => {
                live.fail(&error);
                continue;
            }
        };
        let started = if live.plan.fetches.is_empty() {
            program.seed(&live.site, &own).map(|node| {
                live.stored = node.tickets().to_vec();
                live.node = Some(node);
            })
        } else {
            program.store(&live.site, &own).map(|stored| live.stored = stored)
        };
        if let Err(error) = started {
            live.fail(&error);
        }
        live.prepared = Some((began, Instant::now()));
        for (ticket, object) in live.stored.iter().zip(&seeds) {
            tickets.entry(*object).or_insert(Ticket { object: *object, ..ticket.clone() });
        }
    }
    tickets
}

pub fn prepare_fetchers(
    nodes: &mut [Live<'_>],
    programs: &[Box<dyn Program>],
    tickets: &BTreeMap<usize, Ticket>,
) {
    for (live, program) in nodes.iter_mut().zip(programs) {
        if live.plan.fetches.is_empty() || live.result.failure.is_some() {
            continue;
        }
        let wanted = live.plan.fetches.iter().filter_map(|object| tickets.get(object).cloned());
        live.tickets = wanted.collect();
        if live.tickets.len() < live.plan.fetches.len() {
            live.result.failure = Some("no node has its objects".to_owned());
            continue;
        }
        let began = live.prepared.map_or_else(Instant::now, |(began, _)| began);
        live.prepare(program.as_ref());
        live.prepared = Some((began, Instant::now()));
    }
    nodes.iter_mut().filter(|live| !live.plan.fetches.is_empty()).for_each(Live::wait_until_ready);
}

/// Chooses which earlier nodes each node dials; nodes that only have content are the first. All dial every earlier
/// node, unless the plan bounds the number of neighbours: then half of a node's neighbours are chosen here, and
/// the others are those that choose it. With 0 neighbours, a node dials only those that have content and fetch none. A
/// node behind a NAT dials others, and nobody dials it; of nodes that arrive together, those behind a NAT are the last.
/// Returns the order in which nodes begin.
pub fn choose_dials(plan: &TrialPlan, nodes: &mut [Live<'_>]) -> Vec<usize> {
    let mut rng = Rng::for_purpose(plan.seed, NEIGHBOURS_PURPOSE);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| {
        let node = nodes[*index].plan;
        (!node.fetches.is_empty(), node.arrives_at, node.nat != NatKind::Open)
    });
    for (place, own) in order.iter().enumerate() {
        let is_open = |other: &usize| {
            let plan = nodes[*other].plan;
            plan.nat == NatKind::Open && !plan.serves
        };
        let mut earlier: Vec<usize> = order[..place].iter().copied().filter(is_open).collect();
        if plan.neighbours == Some(0) {
            earlier.retain(|other| nodes[*other].plan.fetches.is_empty());
        } else if let Some(neighbours) = plan.neighbours {
            rng.shuffle(&mut earlier);
            earlier.truncate((neighbours as usize / 2).max(1));
        }
        nodes[*own].dials = earlier;
    }
    order
}

impl Live<'_> {
    pub fn fail(&mut self, error: &dyn std::error::Error) {
        self.result.failure.get_or_insert_with(|| with_causes(error));
    }

    pub fn prepare(&mut self, program: &dyn Program) {
        match program.prepare(&self.site, &self.tickets, &self.stored) {
            Ok(node) => self.node = Some(node),
            Err(error) => self.fail(&error),
        }
    }

    pub fn wait_until_ready(&mut self) {
        if let Some(Err(error)) =
            self.node.as_mut().map(|node| node.wait_until_ready(START_TIMEOUT))
        {
            self.fail(&error);
        }
    }

    /// Whether it can fetch, as far as is known now. A node that returns starts while the others run, and the clock must
    /// not wait for it: it would see their progress late, and let them arrive and leave late. Such a node has until the end
    /// of the run to start.
    pub fn is_ready(&mut self) -> bool {
        match self.node.as_mut().map(|node| node.wait_until_ready(Duration::ZERO)) {
            Some(Ok(())) => true,
            None | Some(Err(NodeError::NotReady { .. })) => false,
            Some(Err(error)) => {
                self.fail(&error);
                false
            }
        }
    }

    /// Changes its link and its router as often as it is due.
    pub fn change_link(&mut self, network: &Network, now: Duration) {
        let changes = self.plan.link_changes.iter().skip(self.link_changes);
        for (_, link) in changes.take_while(|(at, _)| *at <= now) {
            network.set_link(&self.plan.name, *link);
            self.link_changes += 1;
        }
        let changes = self.plan.router_changes.iter().skip(self.router_changes);
        for (_, kind) in changes.take_while(|(at, _)| *at <= now) {
            network.replace_router(&self.plan.name, *kind);
            self.router_changes += 1;
        }
    }

    /// Whether it does anything in the trial.
    pub fn has_part(&self) -> bool {
        let NodePlan { seeds, fetches, serves, .. } = self.plan;
        *serves || !seeds.is_empty() || !fetches.is_empty()
    }

    /// Whether the run waits for this node.
    pub fn is_pending(&self) -> bool {
        let is_unpacking =
            || self.node.as_ref().and_then(|node| node.has_unpacked()) == Some(false);
        self.result.is_awaited
            && self.result.failure.is_none()
            && (self.result.finished_at.is_none() || (!self.has_left && is_unpacking()))
    }

    pub fn progress(&self) -> NodeProgress<'_> {
        let result = &self.result;
        let state = if result.failure.is_some() {
            NodeState::Failed
        } else if self.has_left {
            NodeState::Left
        } else if self.tickets.is_empty() {
            NodeState::Shares
        } else if result.finished_at.is_some() {
            NodeState::Done
        } else if self.has_arrived {
            NodeState::Fetches
        } else {
            NodeState::Waits
        };
        let part = match state {
            NodeState::Shares => 1.0,
            _ => result.progress.last().map_or(0.0, |(_, share)| *share),
        };
        NodeProgress { name: &result.name, state, part, failure: result.failure.as_deref() }
    }

    pub fn usage(&mut self) -> Usage {
        self.node.as_mut().map(|node| node.usage()).unwrap_or_default()
    }

    /// CPU time and peak memory of each kind of program.
    pub fn parts(&mut self) -> Parts {
        self.node.as_mut().map(|node| node.parts()).unwrap_or_default()
    }

    pub fn note_progress(&mut self, now: Duration, status: Status, total_bytes: u64) {
        let now = now.as_secs_f64();
        let share = status.bytes as f64 / total_bytes.max(1) as f64;
        let known = self.result.progress.last().map_or(0.0, |(_, share)| *share);
        if status.bytes > 0 {
            self.result.first_byte_at.get_or_insert(now);
        }
        if share > known {
            self.result.progress.push((now, share.min(1.0)));
        }
        if status.has_all {
            self.result.finished_at.get_or_insert(now);
        }
        if self.node.as_ref().and_then(|node| node.has_unpacked()) == Some(true) {
            self.result.unpacked_at.get_or_insert(now);
        }
    }
}
