//! How a verb meets its peers, as the command line says it.

use std::path::PathBuf;

use p2p::{Dht, HostSettings, Multiaddr, read_swarm_key};

/// Whom to meet, and where to be met.
#[derive(clap::Args)]
pub struct HostOptions {
    /// Ask this peer, or let it know us, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3…; may be given
    /// more than once.
    #[arg(long, value_name = "MULTIADDR")]
    peer: Vec<Multiaddr>,
    /// Listen here, such as /ip4/0.0.0.0/tcp/4001; may be given more than once.
    #[arg(long, value_name = "MULTIADDR")]
    listen: Vec<Multiaddr>,
    /// Find who has content, and tell who has it, through the Kademlia network of the peers.
    #[arg(long)]
    dht: bool,
    /// Holds the key of a private network; nobody without it is talked to.
    #[arg(long, value_name = "FILE")]
    swarm_key: Option<PathBuf>,
    /// Holds who we are, and is made when it is missing; otherwise we are somebody new each time.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl HostOptions {
    /// What a host takes, that listens on `listen` when nothing else is said, and knows `peers`.
    pub fn settings(&self, listen: &[&str], peers: &[Multiaddr]) -> anyhow::Result<HostSettings> {
        let swarm_key = self.swarm_key.as_deref().map(read_swarm_key).transpose()?;
        let listen = if self.listen.is_empty() {
            listen.iter().map(|address| address.parse().expect("it is an address")).collect()
        } else {
            self.listen.clone()
        };
        Ok(HostSettings {
            listen,
            bootstrap: self.peer.iter().chain(peers).cloned().collect(),
            swarm_key,
            identity: self.identity.clone(),
            dht: if self.dht { Dht::Client } else { Dht::Off },
            ..HostSettings::default()
        })
    }

    /// Whether there is anybody to ask beside these.
    pub fn knows_whom_to_ask(&self, peers: &[Multiaddr]) -> bool {
        !self.peer.is_empty() || !peers.is_empty()
    }

    /// Whether roots are to be told to content routing.
    pub fn uses_dht(&self) -> bool {
        self.dht
    }
}
