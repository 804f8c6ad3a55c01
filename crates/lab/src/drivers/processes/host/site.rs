//! The place of one node: on an address of the loopback device, in a network namespace on the wire, or on another host.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use watchfire_wire::{PrivateNetwork, Wire};

use super::processors::Limit;
use crate::definition::ADDRESS_OF;
use crate::hosts::{Connection, HostError};

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

    /// The path of a file that the programs of the node use. It is copied to another host once.
    pub fn deliver(&self, file: &Path) -> Result<PathBuf, HostError> {
        match &self.remote {
            Some(remote) => Ok(remote.connection.copy(file)?.into()),
            None => Ok(file.to_owned()),
        }
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
    pub fn for_test() -> (Site, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        (Site::new("test".to_owned(), Ipv4Addr::LOCALHOST, path), folder)
    }
}
