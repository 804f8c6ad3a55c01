//! The programs that nodes run, each behind the same contract.

pub mod events;
mod http;
mod images;
mod kubo;
mod other;
pub mod server;
mod serving;
mod sharing;
pub mod watchfire;

use std::path::Path;
use std::time::Duration;

use super::network::Site;
use super::objects::Content;
pub use super::process::Usage;
use super::process::{NodeError, Process};
use crate::definition::{Build, Implementation, Peer};
use crate::drivers::check_settings;
pub use other::shell;

/// How long a program may take to start, beside the time for its content.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);
pub const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one attempt to connect to a program that starts may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// A program that shares and fetches content.
pub trait Program {
    /// Starts a node that has content, and waits until others can fetch it.
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError>;

    /// Starts a server for the users of a load, and waits until it takes clients.
    fn serve(&self, _: &Site) -> Result<Box<dyn Node>, NodeError> {
        Err(NodeError::unfit("serve the users of a load", "the peer of this node is not a server"))
    }

    /// Stores content at a node that will also fetch, before it is prepared.
    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let problem = "a node of this peer does only one of them; give the content to another node";
        Err(NodeError::unfit("share content and fetch", problem))
    }

    /// Prepares a node that will fetch, beside the content that it has stored. All that is not part of
    /// fetching happens here.
    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        stored: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError>;
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
    /// CPU time and peak memory.
    fn usage(&mut self) -> Usage;
    /// The same for each kind of program, for nodes with several.
    fn parts(&mut self) -> Vec<(&'static str, Usage)> {
        Vec::new()
    }
    /// Ends it without a word to others.
    fn kill(&mut self);
    /// Ends it, and returns its totals.
    fn end(&mut self) -> Result<Totals, NodeError>;
}

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
    pub const NONE: Totals = Totals {
        content_sent_bytes: Some(0),
        sent_bytes: Some(0),
        received_bytes: Some(0),
        duplicate_bytes: Some(0),
        messages: Some(0),
        from_hosts_bytes: None,
        identity: None,
        with: Vec::new(),
        figures: Vec::new(),
        peaks: Vec::new(),
    };
}

/// The program of a peer, or why it cannot run. `watchfire` is the program of peers that name no path.
pub fn program(peer: &Peer, watchfire: &Path) -> Result<Box<dyn Program>, String> {
    let path = match &peer.build {
        Build::Path(path) => Some(path.clone()),
        Build::Installed | Build::Git(_) => None,
    };
    match (peer.implementation, &peer.build) {
        (Implementation::Watchfire, _) => {
            let path = path.unwrap_or_else(|| watchfire.to_owned());
            Ok(Box::new(watchfire::Watchfire::new(path, &peer.settings)?))
        }
        (Implementation::Server, _) => {
            let path = path.unwrap_or_else(|| watchfire.to_owned());
            Ok(Box::new(server::Server::new(path, &peer.settings)))
        }
        (Implementation::Mirror, _) => {
            let path = path.unwrap_or_else(|| watchfire.to_owned());
            Ok(Box::new(images::Images::through_mirrors(path, &peer.settings)?))
        }
        (other, Build::Git(_)) => Err(format!("{other:?} is not built from git")),
        (Implementation::Kubo, _) => {
            let path = path.unwrap_or_else(|| "ipfs".into());
            Ok(Box::new(kubo::Kubo::new(path, &peer.settings)?))
        }
        (Implementation::Http, _) => Ok(Box::new(http::Http::new(&peer.settings)?)),
        (Implementation::Registry, _) => {
            Ok(Box::new(images::Images::from_registry(&peer.settings)?))
        }
        (Implementation::Program, _) => {
            let path = path.map(other::found).transpose()?;
            let path = path.unwrap_or_else(|| watchfire.to_owned());
            Ok(Box::new(other::Other::new(path, &peer.settings)?))
        }
        (Implementation::GoBitswap, _) => {
            Ok(Box::new(other::Other::go_bitswap(path, &peer.settings)?))
        }
    }
}

/// The addresses that a node of libp2p can dial. Nodes of other programs in the same trial have addresses of another kind.
fn multiaddrs(addresses: &[String]) -> impl Iterator<Item = &String> {
    addresses.iter().filter(|address| address.starts_with('/'))
}

/// Waits until a program that does not say when it is ready takes connections at a port.
fn wait_until_listening(process: &mut Process, site: &Site, port: u16) -> Result<(), NodeError> {
    process.wait_until(START_TIMEOUT, |_| Ok(site.connect(port, CONNECT_TIMEOUT).ok().map(drop)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_part_in_the_trial_a_peer_does_not_fit() {
        let site = Site::for_test("unfit");
        let content = Content { name: "files".to_owned(), path: site.folder.clone(), bytes: 1 };
        for (error, expected) in [
            (
                http::Http.store(&site, &[]).err(),
                "cannot share content and fetch: a node of this peer does only one of them; \
                 give the content to another node",
            ),
            (
                http::Http.seed(&site, std::slice::from_ref(&content)).err(),
                "cannot share files over HTTP: it is a folder, and curl fetches only files",
            ),
            (
                http::Http.serve(&site).err(),
                "cannot serve the users of a load: the peer of this node is not a server",
            ),
        ] {
            assert_eq!(error.unwrap().to_string(), expected);
        }
        std::fs::remove_dir_all(&site.folder).unwrap();
    }
}
