//! The role of one process in its server.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use watchfire_sockets::Listeners;

use crate::cluster::{Cluster, ClusterPart};
use crate::history::{KeeperLink, Taken};

/// Receives the parts of this process, before clients connect.
type OnParts = Box<dyn FnOnce(&Arc<Cluster>, Vec<Arc<dyn ClusterPart>>)>;

/// The role of a process in its server.
pub(crate) struct ProcessRole {
    pub cluster: Cluster,
    /// Known only to the processes of the server.
    pub secret: [u8; 32],
    pub inherited: Option<Listeners>,
    /// The listeners of features. `None`: the process opens them itself.
    pub listeners: Option<SharedListeners>,
    /// Whether another server runs until this one is ready. It may use the same ports.
    pub is_successor: bool,
    /// Whether new connections wait for [`RunningServer::accept_clients`](super::RunningServer::accept_clients).
    pub is_paused: bool,
    /// The link to the supervisor, if it keeps the histories.
    pub keeper: Option<KeeperLink>,
    /// The histories of the program that this one replaces.
    pub taken: Option<Taken>,
    pub on_parts: OnParts,
}

impl ProcessRole {
    /// The role of the only process.
    pub fn alone() -> Result<Self, getrandom::Error> {
        Ok(ProcessRole {
            cluster: Cluster::alone(),
            secret: random_secret()?,
            inherited: None,
            listeners: None,
            is_successor: false,
            is_paused: false,
            keeper: None,
            taken: None,
            on_parts: Box::new(|_, _| {}),
        })
    }
}

/// Thirty-two random bytes for a key.
pub(crate) fn random_secret() -> Result<[u8; 32], getrandom::Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(secret)
}

/// The listeners of the features, in the order in which the server was given these. All processes of a
/// server share them, so another one answers when one ends.
#[derive(Debug, Default)]
pub(crate) struct SharedListeners(pub Vec<Vec<TcpListener>>);

impl SharedListeners {
    /// The listeners that another process opened: `counts` for each feature.
    pub fn from_descriptors(counts: &[usize], descriptors: Vec<OwnedFd>) -> Self {
        let mut descriptors = descriptors.into_iter().map(TcpListener::from);
        let of_feature = |count: &usize| descriptors.by_ref().take(*count).collect();
        SharedListeners(counts.iter().map(of_feature).collect())
    }

    /// How many listeners each feature has.
    pub fn counts(&self) -> Vec<usize> {
        self.0.iter().map(Vec::len).collect()
    }

    /// Copies of the sockets, for another process.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let all = self.0.iter().flatten();
        all.map(|listener| Ok(listener.try_clone()?.into())).collect()
    }
}
