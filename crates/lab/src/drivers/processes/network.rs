//! Where the processes of a node run: on an address of the loopback device, in a network namespace on the
//! wire, or on another host.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use watchfire_wire::{PrivateNetwork, Wire};

use super::DriverError;
use super::objects::Content;
use super::processors::Limit;
use super::wire::{self, Counts, USERS};
use crate::definition::{ADDRESS_OF, Link, NatKind, TrialPlan};
use crate::hosts::{Connection, HostError};
use crate::results::WireFigures;

/// Most nodes with an address of their own on the loopback device.
pub const SITES_MAX: usize = 10_000;
/// The second numbers of loopback addresses that runs use, a block of addresses for each.
const BLOCKS: RangeInclusive<u8> = 1..=200;
const MARK_PORT: u16 = 4000;
/// The ports of a node on another host.
pub const PORTS: u16 = 16;

/// The place of one node.
#[derive(Clone)]
pub struct Site {
    /// The id of the run, which every process of it has in its environment.
    pub run: String,
    /// The address on which programs listen. Others dial it, unless the node is behind a NAT: then nobody can. It is
    /// unspecified for a node without IPv4.
    pub address: Ipv4Addr,
    /// The IPv6 address, which only nodes of a wire have.
    pub v6: Option<Ipv6Addr>,
    /// The folder of the node on this machine, with its output and its log. It exists.
    pub folder: PathBuf,
    /// Variables for its processes.
    pub environment: Vec<(&'static str, String)>,
    /// The addresses of the servers of the run.
    pub servers: Vec<String>,
    /// Where its program writes a flame graph, if it is asked for one.
    pub flame: Option<PathBuf>,
    /// The network namespace, if it is not that of the lab.
    pub namespace: Option<Namespace>,
    /// The limit of its processors.
    pub limit: Option<Limit>,
    /// The host, if it is another one.
    pub remote: Option<Remote>,
    /// The address of the first node of each group, for settings.
    pub groups: Arc<BTreeMap<String, IpAddr>>,
}

/// The network namespace of a node.
#[derive(Clone)]
pub enum Namespace {
    /// The network of the run, and the name of the peer in it.
    Peer(Arc<Wire>, String),
    /// All nodes of the run have the same one.
    Private(Arc<PrivateNetwork>),
}

impl Namespace {
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        match self {
            Namespace::Peer(wire, name) => {
                wire.peer(name).map_err(io::Error::other)?.spawn(command)
            }
            Namespace::Private(network) => network.spawn(command),
        }
    }

    fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match self {
            Namespace::Peer(wire, name) => wire.peer(name).map_err(io::Error::other)?.enter(work),
            Namespace::Private(network) => network.enter(work),
        }
    }
}

/// A place on another host.
#[derive(Clone, Debug)]
pub struct Remote {
    pub connection: Arc<Connection>,
    /// The folder of the node on that host.
    pub folder: String,
    /// The first of the [`PORTS`] ports of the node: nodes of one host share its address.
    pub ports_from: u16,
}

impl Site {
    /// A place on this machine.
    pub fn new(run: String, address: Ipv4Addr, folder: PathBuf) -> Site {
        Site {
            run,
            address,
            v6: None,
            folder,
            environment: Vec::new(),
            servers: Vec::new(),
            flame: None,
            namespace: None,
            limit: None,
            remote: None,
            groups: Arc::default(),
        }
    }

    /// A setting with the addresses of groups in place of `${address of GROUP}`.
    pub fn with_addresses(&self, setting: &str) -> String {
        let put = |text: String, (group, address): (&String, &IpAddr)| {
            text.replace(&format!("{ADDRESS_OF}{group}}}"), &address.to_string())
        };
        self.groups.iter().fold(setting.to_owned(), put)
    }

    /// The address that the node itself uses: IPv4 if it has one.
    pub fn own_address(&self) -> IpAddr {
        match self.v6 {
            Some(v6) if self.address.is_unspecified() => v6.into(),
            _ => self.address.into(),
        }
    }

    /// The URL at which this node reaches a server. `address` is the server's URL, with its IPv4 address.
    pub fn url_of(&self, address: &str, server: &Site) -> String {
        match server.v6 {
            Some(v6) if self.address.is_unspecified() => {
                address.replacen(&format!("//{}:", server.address), &format!("//[{v6}]:"), 1)
            }
            _ => address.to_owned(),
        }
    }

    /// The address on which the node listens.
    pub fn listen(&self) -> Ipv4Addr {
        // The address by which others reach a host is not always one of its own.
        self.remote.as_ref().map_or(self.address, |_| Ipv4Addr::UNSPECIFIED)
    }

    /// The port that the node has in place of the usual one of its program.
    pub fn port(&self, usual: u16) -> u16 {
        self.remote.as_ref().map_or(usual, |remote| remote.ports_from + usual % PORTS)
    }

    /// A file in the folder of the node, by the path that its programs use.
    pub fn path(&self, name: &str) -> PathBuf {
        match &self.remote {
            Some(remote) => Path::new(&remote.folder).join(name),
            None => self.folder.join(name),
        }
    }

    /// The same folder on this machine, for a program that always runs here.
    pub fn here(&self) -> Site {
        Site { remote: None, ..self.clone() }
    }

    /// The content by the path that the programs of the node use. It is copied to another host once.
    pub fn content(&self, content: &Content) -> Result<Content, HostError> {
        let Some(remote) = &self.remote else { return Ok(content.clone()) };
        Ok(Content { path: remote.connection.copy(&content.path)?.into(), ..content.clone() })
    }

    /// The command that runs a command here.
    pub fn command(&self, command: Command) -> Command {
        match (&self.remote, &self.limit) {
            (Some(remote), _) => remote.connection.command(&command, &remote.folder),
            (None, Some(limit)) => limit.command(command),
            (None, None) => command,
        }
    }

    /// Starts a command here.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let mut spawn = || match &self.namespace {
            None => command.spawn(),
            Some(namespace) => namespace.spawn(&mut command),
        };
        match &self.limit {
            None => spawn(),
            Some(limit) => limit.spawn(spawn),
        }
    }

    /// Connects to a port of this node, from where it is. So this does not use its link.
    pub fn connect(&self, port: u16, timeout: Duration) -> io::Result<TcpStream> {
        let at = (self.address, port).into();
        let connect = || TcpStream::connect_timeout(&at, timeout);
        match &self.namespace {
            None => connect(),
            Some(namespace) => namespace.enter(connect)?,
        }
    }

    /// A listener that the processes of this node can reach, if the lab's loopback device is not theirs.
    pub fn span_listener(&self) -> io::Result<Option<TcpListener>> {
        let Some(namespace) = &self.namespace else { return Ok(None) };
        let at = (self.address, 0);
        namespace.enter(move || TcpListener::bind(at))?.map(Some)
    }

    #[cfg(test)]
    pub fn for_test(name: &str) -> Site {
        let name = format!("watchfire-lab-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Site::new("test".to_owned(), Ipv4Addr::LOCALHOST, folder)
    }
}

/// The network of a run.
pub enum Network {
    Loopback(Addresses),
    /// Addresses of a loopback device of its own.
    Private(Addresses, Arc<PrivateNetwork>),
    /// With the counts at the start of the clock.
    Wire(Arc<Wire>, Counts),
    /// Places that exist before the run: on other hosts, or in a standing cluster.
    Given(Vec<Site>),
}

impl Network {
    /// A network for the nodes of a plan, in their order.
    pub fn open(plan: &TrialPlan) -> Result<Network, DriverError> {
        if wire::is_needed(plan) {
            return Ok(Network::Wire(Arc::new(wire::open(plan)?), Counts::default()));
        }
        let taken = Addresses::take().map_err(|source| DriverError::Addresses { source })?;
        if !plan.private_network || !rustix::process::geteuid().is_root() {
            return Ok(Network::Loopback(taken));
        }
        let private = PrivateNetwork::open();
        let private =
            private.map_err(|source| DriverError::Private { trial: plan.name.clone(), source })?;
        Ok(Network::Private(taken, Arc::new(private)))
    }

    /// The place of a node.
    pub fn site(&self, index: usize, name: &str, run: &str, folder: PathBuf) -> Site {
        let run = run.to_owned();
        match self {
            Network::Loopback(addresses) => Site::new(run, addresses.of(index), folder),
            Network::Private(addresses, private) => {
                let namespace = Some(Namespace::Private(Arc::clone(private)));
                Site { namespace, ..Site::new(run, addresses.of(index), folder) }
            }
            Network::Given(sites) => sites[index].clone(),
            Network::Wire(wire, _) => {
                let peer = wire.peer(name).expect("each node of the plan is a peer of its network");
                let own = peer.addresses().own;
                let v4 = own.iter().find_map(|address| match address {
                    IpAddr::V4(address) => Some(*address),
                    IpAddr::V6(_) => None,
                });
                let v6 = own.iter().find_map(|address| match address {
                    IpAddr::V4(_) => None,
                    IpAddr::V6(address) => Some(*address),
                });
                let namespace = Some(Namespace::Peer(Arc::clone(wire), name.to_owned()));
                Site {
                    namespace,
                    v6,
                    ..Site::new(run, v4.unwrap_or(Ipv4Addr::UNSPECIFIED), folder)
                }
            }
        }
    }

    /// The condition of a plan that this network does not meet.
    pub fn note(&self, plan: &TrialPlan) -> Option<String> {
        let is_missing = plan.private_network && !matches!(self, Network::Private(..));
        let note = "all programs are in the network namespace of the machine, with its table of TCP connections, which makes \
                    very many connections slower; run it as root, with the driver `processes`, for a private one";
        is_missing.then(|| note.to_owned())
    }

    /// The place of a load's users, who share the folder of their server.
    pub fn users_site(&self, server: &Site) -> Site {
        match self {
            Network::Loopback(_) | Network::Private(..) => server.clone(),
            Network::Given(_) => server.here(),
            Network::Wire(..) => self.site(0, USERS, &server.run, server.folder.clone()),
        }
    }

    /// Counts from now on.
    pub fn start_clock(&mut self) {
        if let Network::Wire(wire, before) = self {
            *before = Counts::of(wire);
        }
    }

    /// Gives a node another link.
    pub fn set_link(&self, name: &str, link: Link) {
        if let Network::Wire(wire, _) = self {
            let set = wire.set_link(name, wire::wire_link(link));
            set.expect("the links of a plan are checked before the run");
        }
    }

    /// Gives a node another router.
    pub fn replace_router(&self, name: &str, kind: NatKind) {
        if let Network::Wire(wire, _) = self {
            let replaced = wire.replace_router(name, kind);
            replaced.expect("the routers of a plan are checked before the run");
        }
    }

    /// The figures since the clock started, and the bytes that each node has sent and received.
    pub fn figures(&self, nodes: usize) -> Option<(WireFigures, Vec<(u64, u64)>)> {
        let Network::Wire(wire, before) = self else { return None };
        let now = Counts::of(wire);
        let bytes = (0..nodes).map(|node| now.bytes_since(before, node)).collect();
        Some((now.since(before, nodes), bytes))
    }
}

/// The addresses of a run. Other runs on this machine use others while this exists.
pub struct Addresses {
    block: u8,
    /// A port that only one run can have: it says that the block is taken.
    taken: TcpListener,
}

impl Addresses {
    /// Takes the first block of addresses that no other run has.
    pub fn take() -> io::Result<Addresses> {
        let mut last = None;
        for block in BLOCKS {
            match TcpListener::bind((Ipv4Addr::new(127, block, 255, 254), MARK_PORT)) {
                Ok(taken) => return Ok(Addresses { block, taken }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
    }

    /// Takes a block again that a standing cluster has. `None` if one of its nodes still holds it.
    pub fn take_again(block: u8) -> io::Result<Option<Addresses>> {
        match TcpListener::bind((Ipv4Addr::new(127, block, 255, 254), MARK_PORT)) {
            Ok(taken) => Ok(Some(Addresses { block, taken })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn block(&self) -> u8 {
        self.block
    }

    /// Processes that are started from now on inherit the port. So the block is taken as long as one of
    /// them runs, also when this process has ended.
    pub fn hand_on(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.taken, rustix::io::FdFlags::empty())?)
    }

    /// The address of a node.
    pub fn of(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, self.block, (index / 250) as u8, 1 + (index % 250) as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nodes_of_all_runs_have_addresses_of_their_own() {
        let runs: Vec<Addresses> = (0..3).map(|_| Addresses::take().unwrap()).collect();
        let all: BTreeSet<_> =
            runs.iter().flat_map(|run| (0..SITES_MAX).map(|index| run.of(index))).collect();
        assert_eq!(all.len(), 3 * SITES_MAX);
        assert!(all.iter().all(|address| address.is_loopback()));
    }
}
