//! The driver on other hosts: the nodes of a trial take turns on a list of hosts.
//!
//! Each host is connected once, for all trials and repeats, and has each program and object once. A host
//! that vanishes ends its nodes with an error in the results; the others go on. The next run connects to it again.

use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use super::host::{Instruments, MARK, Network, PORTS, Remote, Site, Workspace, wire};
use super::local::Processes;
use super::program::{self, Program};
use super::run::{self, World};
use crate::definition::{Build, Implementation, NodePlan, Peer, TrialPlan};
use crate::drivers::driver::{self, Driver, DriverError, Progress};
use crate::hosts::{Connection, HostError, Hosts};
use crate::results::RunResult;

const NAME: &str = "ssh";
/// The ports of nodes, below those that kernels give to outgoing connections.
const PORTS_FROM: u16 = 20_000;
/// The peers whose programs write no files of their own on this machine.
const RUNS_REMOTELY: &[Implementation] =
    &[Implementation::Watchfire, Implementation::Server, Implementation::Program];
/// Nodes with ports of their own on one host.
const NODES_PER_HOST_MAX: usize = 750;

/// Runs trials with processes of other hosts.
pub struct Ssh {
    processes: Processes,
    hosts: Hosts,
    connected: Option<Connected>,
}

/// Fields are dropped in this order: the folder has the sockets of the connections.
struct Connected {
    /// One for each host that is needed, in the order of the list.
    connections: Vec<Option<Arc<Connection>>>,
    workspace: Workspace,
}

impl Ssh {
    /// A driver on these hosts, with the programs of another driver.
    pub fn new(processes: Processes, hosts: Hosts) -> Self {
        Ssh { processes, hosts, connected: None }
    }

    /// Connects to each host that is not connected, at most to one for each node.
    fn connect(&mut self, nodes: usize) -> Result<(), DriverError> {
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => Connected {
                connections: Vec::new(),
                workspace: Workspace::create(&self.processes.runs)?,
            },
        };
        let Connected { connections, workspace } = &mut connected;
        let (hosts, mark) = (&self.hosts, (MARK, workspace.id.as_str()));
        let folder = &workspace.folder;
        let open = |index| Connection::open(hosts, index, folder, mark).map(Arc::new);
        connections.resize_with(hosts.names.len().min(nodes), || None);
        let opened: Result<Vec<()>, HostError> = thread::scope(|scope| {
            let opening = connections.iter_mut().enumerate().filter_map(|(index, connection)| {
                let is_open = connection.as_ref().is_some_and(|one| one.is_open());
                (!is_open).then(|| {
                    scope.spawn(move || open(index).map(|opened| *connection = Some(opened)))
                })
            });
            let opening: Vec<_> = opening.collect();
            let join = |one: ScopedJoinHandle<'_, _>| {
                one.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            opening.into_iter().map(join).collect()
        });
        opened.map_err(host_error)?;
        self.connected = Some(connected);
        Ok(())
    }

    /// The program of a node on its host.
    fn program(
        &self,
        plan: &TrialPlan,
        node: &NodePlan,
        connection: &Connection,
    ) -> Result<Box<dyn Program>, DriverError> {
        // Commands without a build name programs that the host has.
        let path = match (&node.peer.implementation, &node.peer.build) {
            (Implementation::Program, Build::Installed) => PathBuf::new(),
            _ => connection.program(&self.processes.path(node)?).map_err(host_error)?.into(),
        };
        // The path is that of the host, so nothing looks for it here.
        let peer = Peer { build: Build::Installed, ..node.peer.clone() };
        program::program(&peer, &path)
            .map_err(|problem| unsupported(plan, format!("{}: {problem}", node.name)))
    }
}

fn host_error(source: HostError) -> DriverError {
    DriverError::Host { source }
}

fn unsupported(plan: &TrialPlan, problem: impl Into<String>) -> DriverError {
    driver::unsupported(NAME, plan, problem)
}

/// Places for the nodes, which take turns on the hosts.
fn sites(
    plan: &TrialPlan,
    workspace: &Workspace,
    connections: &[Arc<Connection>],
) -> Result<Vec<Site>, DriverError> {
    // Two labs that use one host begin at different ports most of the time.
    let start = workspace.id.bytes().fold(0_usize, |sum, byte| sum * 31 % 1009 + usize::from(byte));
    // Two names can be one machine, so all nodes have other ports where there are enough.
    let is_few = plan.nodes.len() <= NODES_PER_HOST_MAX;
    let number = |index| if is_few { index } else { index / connections.len() };
    let site = |(index, node): (usize, &NodePlan)| {
        let folder = workspace.node_folder(&node.name);
        fs::create_dir(&folder)
            .map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
        let connection = &connections[index % connections.len()];
        let place = (start + number(index)) % NODES_PER_HOST_MAX;
        let remote = Remote {
            connection: Arc::clone(connection),
            folder: format!("{}/{}/{}", connection.folder(), workspace.id, node.name),
            ports_from: PORTS_FROM + PORTS * place as u16,
        };
        let run = workspace.id.clone();
        Ok(Site { remote: Some(remote), ..Site::new(run, connection.address, folder) })
    };
    plan.nodes.iter().enumerate().map(site).collect()
}

impl Driver for Ssh {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        let most = NODES_PER_HOST_MAX * self.hosts.names.len();
        if plan.nodes.len() > most {
            let nodes = plan.nodes.len();
            return Err(unsupported(plan, format!("{nodes} nodes are more than {most}")));
        }
        if plan.fill_memory {
            return Err(unsupported(plan, "the memory of hosts is not filled"));
        }
        let is_local = |node: &&NodePlan| !RUNS_REMOTELY.contains(&node.peer.implementation);
        if let Some(NodePlan { name, peer, .. }) = plan.nodes.iter().find(is_local) {
            let problem = format!("{name}: {:?} runs only on this machine", peer.implementation);
            return Err(unsupported(plan, problem));
        }
        for node in &plan.nodes {
            self.processes.check_program(plan, node)?;
            if node.processors.is_some() {
                let problem = format!("the processors of {} cannot be limited", node.name);
                return Err(unsupported(plan, problem));
            }
        }
        if wire::is_needed(plan) {
            let problem = "the links and paths of hosts are their own, without limits or NAT";
            return Err(unsupported(plan, problem));
        }
        Ok(())
    }

    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError> {
        self.check(plan)?;
        watch(Progress::before("copies programs", plan));
        self.connect(plan.nodes.len())?;
        let connections = self.connected.iter().flat_map(|one| one.connections.iter().flatten());
        let connections: Vec<Arc<Connection>> = connections.cloned().collect();
        let workspace = Workspace::create(&self.processes.runs)?;
        let sites = sites(plan, &workspace, &connections)?;
        let programs =
            plan.nodes.iter().enumerate().map(|(index, node)| {
                self.program(plan, node, &connections[index % connections.len()])
            });
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let world = World {
            driver: NAME,
            programs: &programs,
            network: Network::Given(sites),
            watchfire: &self.processes.watchfire,
            workspace: &workspace,
            instruments: Instruments::default(),
        };
        let result = run::run(plan, world, watch);
        for connection in connections.iter().filter(|connection| connection.is_open()) {
            // The folders of the run; programs stay until the end.
            let _ = connection.remove(&workspace.id);
        }
        // The noise of this machine says nothing about the hosts.
        result.map(|result| RunResult { noise: None, ..result })
    }
}
