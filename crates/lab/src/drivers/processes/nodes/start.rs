//! How the nodes of a run start: servers first, then nodes with content, then those that fetch.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use watchfire_types::Rng;

use super::trial_node::TrialNode;
use crate::definition::{NatKind, NodePlan, TrialPlan};
use crate::drivers::driver::DriverError;
use crate::drivers::processes::host::{Instruments, Network, NodeError, Site, Workspace, limits};
use crate::drivers::processes::program::{Content, Program, Ticket};

/// The number that divides the choice of neighbours from other random numbers of the same seed.
const NEIGHBOURS_PURPOSE: u64 = 0xd1a1;

/// Makes the places of all nodes, in the order of the plan.
pub fn places<'a>(
    plan: &'a TrialPlan,
    workspace: &Workspace,
    network: &Network,
    instruments: Instruments<'_>,
) -> Result<Vec<TrialNode<'a>>, DriverError> {
    let limits = limits(plan, &workspace.id, &workspace.folder)?;
    let place = |((index, node), limit): ((usize, &'a NodePlan), _)| {
        let folder = workspace.node_folder(&node.name);
        if !matches!(network, Network::Given(_)) {
            fs::create_dir(&folder)
                .map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
        }
        let mut site = network.site(index, &node.name, &workspace.id, folder);
        let spans = instruments.receive_spans(&mut site, index, node);
        let spans =
            spans.map_err(|source| DriverError::Spans { node: node.name.clone(), source })?;
        site.flame = instruments.flame(plan, node);
        site.limit = limit;
        Ok(TrialNode::new(node, site, spans))
    };
    let nodes = plan.nodes.iter().enumerate().zip(limits).map(place);
    let mut nodes = nodes.collect::<Result<Vec<_>, DriverError>>()?;
    // The first node of a group is the last one that is put here, so the group has its address.
    let addresses =
        nodes.iter().rev().map(|node| (node.plan.group.clone(), node.site.own_address()));
    let groups = Arc::new(addresses.collect::<BTreeMap<_, _>>());
    nodes.iter_mut().for_each(|node| node.site.groups = Arc::clone(&groups));
    Ok(nodes)
}

/// Starts the servers, and tells all nodes where they are. Servers without users are first, because those with users
/// may need them.
pub fn start_servers(nodes: &mut [TrialNode<'_>], programs: &[Box<dyn Program>]) {
    let mut addresses = Vec::new();
    for has_users in [false, true] {
        let is_due = |node: &TrialNode<'_>| node.plan.serves && node.plan.has_users == has_users;
        for (node, program) in nodes.iter_mut().zip(programs).filter(|(node, _)| is_due(node)) {
            let began = Instant::now();
            match program.serve(&node.site) {
                Ok(server) => {
                    addresses.extend(server.address().map(|address| (address, node.site.clone())));
                    node.node = Some(server);
                }
                Err(error) => node.fail(&error),
            }
            node.prepared = Some((began, Instant::now()));
        }
    }
    for node in nodes {
        let of_server = |(address, server): &(String, Site)| node.site.url_of(address, server);
        node.site.servers = addresses.iter().map(of_server).collect();
    }
}

/// Starts the nodes with content. Returns how each object is requested, by its index.
pub fn start_seeders(
    nodes: &mut [TrialNode<'_>],
    programs: &[Box<dyn Program>],
    contents: &[Content],
) -> BTreeMap<usize, Ticket> {
    let mut tickets = BTreeMap::new();
    for (node, program) in
        nodes.iter_mut().zip(programs).filter(|(node, _)| !node.plan.seeds.is_empty())
    {
        let began = Instant::now();
        let seeds: Vec<usize> = node.plan.seeds.iter().copied().collect();
        let deliver = |object: &usize| {
            let content = &contents[*object];
            Ok(Content { path: node.site.deliver(&content.path)?, ..content.clone() })
        };
        let own = seeds.iter().map(deliver).collect::<Result<Vec<_>, NodeError>>();
        let started = own.and_then(|own| {
            if node.plan.fetches.is_empty() {
                let seeder = program.seed(&node.site, &own)?;
                node.stored = seeder.tickets().to_vec();
                node.node = Some(seeder);
            } else {
                node.stored = program.store(&node.site, &own)?;
            }
            Ok(())
        });
        if let Err(error) = started {
            node.fail(&error);
        }
        node.prepared = Some((began, Instant::now()));
        for (ticket, object) in node.stored.iter().zip(&seeds) {
            tickets.entry(*object).or_insert(Ticket { object: *object, ..ticket.clone() });
        }
    }
    tickets
}

pub fn prepare_fetchers(
    nodes: &mut [TrialNode<'_>],
    programs: &[Box<dyn Program>],
    tickets: &BTreeMap<usize, Ticket>,
) {
    for (node, program) in nodes.iter_mut().zip(programs) {
        if node.plan.fetches.is_empty() || node.result.failure.is_some() {
            continue;
        }
        let wanted = node.plan.fetches.iter().filter_map(|object| tickets.get(object).cloned());
        node.tickets = wanted.collect();
        if node.tickets.len() < node.plan.fetches.len() {
            node.result.failure = Some("no node has its objects".to_owned());
            continue;
        }
        let began = node.prepared.map_or_else(Instant::now, |(began, _)| began);
        node.prepare(program.as_ref());
        node.prepared = Some((began, Instant::now()));
    }
    nodes
        .iter_mut()
        .filter(|node| !node.plan.fetches.is_empty())
        .for_each(TrialNode::wait_until_ready);
}

/// Chooses which earlier nodes each node dials; nodes that only have content are the first. All dial every earlier
/// node, unless the plan bounds the number of neighbours: then half of a node's neighbours are chosen here, and
/// the others are those that choose it. With 0 neighbours, a node dials only those that have content and fetch none. A
/// node behind a NAT dials others, and nobody dials it; of nodes that arrive together, those behind a NAT are the last.
/// Returns the order in which nodes begin.
pub fn choose_dials(plan: &TrialPlan, nodes: &mut [TrialNode<'_>]) -> Vec<usize> {
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
