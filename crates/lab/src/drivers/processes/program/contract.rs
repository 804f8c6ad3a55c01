//! The contract between a run and the programs of its nodes.

use std::time::Duration;

use super::content::Content;
use crate::drivers::processes::host::{NodeError, Process, Site, Usage};

/// How long a program may take to start, beside the time for its content.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);
pub const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one attempt to connect to a program that starts may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// A node that has started, or why it did not.
pub type Started = Result<Box<dyn Node>, NodeError>;

/// A program that shares and fetches content.
pub trait Program {
    /// Starts a node that has content, and waits until others can fetch it.
    fn seed(&self, site: &Site, contents: &[Content]) -> Started;

    /// Starts a server for the users of a load, and waits until it takes clients.
    fn serve(&self, _: &Site) -> Started {
        Err(NodeError::unfit("serve the users of a load", "the peer of this node is not a server"))
    }

    /// Stores content at a node that will also fetch, before it is prepared.
    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let problem = "a node of this peer does only one of them; give the content to another node";
        Err(NodeError::unfit("share content and fetch", problem))
    }

    /// Prepares a node that will fetch, beside the content that it has stored. All that is not part of
    /// fetching happens here.
    fn prepare(&self, site: &Site, tickets: &[Ticket], stored: &[Ticket]) -> Started;
}

/// An object as others request it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The index of the object in its trial.
    pub object: usize,
    /// A CID, or a URL.
    pub name: String,
    pub bytes: u64,
}

/// A node of one program.
pub trait Node {
    /// The content that others can fetch here.
    fn tickets(&self) -> &[Ticket] {
        &[]
    }
    /// The address to dial, for programs whose nodes dial each other.
    fn address(&self) -> Option<String> {
        None
    }
    /// The first of its processes, if it is a server on this machine.
    fn process(&self) -> Option<u32> {
        None
    }
    /// Waits until a node that was prepared can fetch. Nodes are prepared one after another, and start together. Without
    /// a timeout, the error [`NodeError::NotReady`] only means that it cannot fetch yet.
    fn wait_until_ready(&mut self, _timeout: Duration) -> Result<(), NodeError> {
        Ok(())
    }
    /// Begins to fetch the tickets, and dials these addresses.
    fn fetch(&mut self, _dials: &[String]) -> Result<(), NodeError> {
        Ok(())
    }
    /// How far it is.
    fn poll(&mut self) -> Result<Status, NodeError>;
    /// Whether it has unpacked all that it fetched. `None`: it unpacks nothing. A run goes on until this is so.
    fn has_unpacked(&self) -> Option<bool> {
        None
    }
    /// Its process, if it consists of one.
    fn main_process(&mut self) -> Option<&mut Process> {
        None
    }
    /// CPU time and peak memory.
    fn usage(&mut self) -> Usage {
        self.main_process().map(Process::usage).unwrap_or_default()
    }
    /// The same for each kind of program, for nodes with several.
    fn usage_by_kind(&mut self) -> UsageByKind {
        Vec::new()
    }
    /// Ends it without a word to others.
    fn kill(&mut self) {
        if let Some(process) = self.main_process() {
            process.kill();
        }
    }
    /// Ends it, and returns its totals.
    fn end(&mut self) -> Result<Totals, NodeError>;
}

/// The usage of each kind of program of a node, such as a container engine and a mirror.
pub type UsageByKind = Vec<(&'static str, Usage)>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of content that it has.
    pub bytes: u64,
    pub has_all: bool,
}

/// The totals of a node; `None` for what its program does not report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub content_sent_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub duplicate_bytes: Option<u64>,
    pub messages: Option<u64>,
    /// Content of images that it received from other hosts than the registry.
    pub from_hosts_bytes: Option<u64>,
    /// The identity by which the totals of other nodes name this one.
    pub identity: Option<String>,
    /// Content exchanged with other nodes: identity, sent, received.
    pub with: Vec<(String, u64, u64)>,
    /// Other figures that the program names. Those of all nodes are added up.
    pub figures: Vec<(String, f64)>,
    /// The same, of which the largest of any node counts.
    pub peaks: Vec<(String, f64)>,
}

impl Totals {
    /// The totals of a node that does nothing.
    pub fn none() -> Totals {
        Totals {
            content_sent_bytes: Some(0),
            sent_bytes: Some(0),
            received_bytes: Some(0),
            duplicate_bytes: Some(0),
            messages: Some(0),
            ..Totals::default()
        }
    }
}

/// The addresses that a node of libp2p can dial. Nodes of other programs in the same trial have addresses of another kind.
pub fn multiaddrs(addresses: &[String]) -> impl Iterator<Item = &String> {
    addresses.iter().filter(|address| address.starts_with('/'))
}

/// Waits until a program that does not say when it is ready takes connections at a port.
pub fn wait_until_listening(
    process: &mut Process,
    site: &Site,
    port: u16,
) -> Result<(), NodeError> {
    process.wait_until(START_TIMEOUT, |_| Ok(site.connect(port, CONNECT_TIMEOUT).ok().map(drop)))
}
