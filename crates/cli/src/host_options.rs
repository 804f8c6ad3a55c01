//! The command-line options of the libp2p host: peers, addresses and content routing.

use std::path::PathBuf;

use watchfire_p2p::{Dht, HostSettings, Multiaddr, read_swarm_key};

/// The peers to connect to, and the addresses to listen on.
#[derive(clap::Args)]
pub struct HostOptions {
    /// Connect to this peer, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3…; can be repeated.
    #[arg(long, value_name = "MULTIADDR")]
    peer: Vec<Multiaddr>,
    /// Listen on this address, such as /ip4/0.0.0.0/tcp/4001; can be repeated.
    #[arg(long, value_name = "MULTIADDR")]
    listen: Vec<Multiaddr>,
    /// Find providers of content, and announce this host as one, through the Kademlia DHT.
    #[arg(long)]
    dht: bool,
    /// A file with the key of a private network; only peers with the same key can connect.
    #[arg(long, value_name = "FILE")]
    swarm_key: Option<PathBuf>,
    /// A file with the identity key; it is created if missing. Without it every run has a new peer
    /// ID.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl HostOptions {
    /// The settings of a host that knows `peers`. It listens on `listen` unless `--listen` is
    /// given.
    pub fn settings(&self, listen: &[&str], peers: &[Multiaddr]) -> anyhow::Result<HostSettings> {
        let swarm_key = self.swarm_key.as_deref().map(read_swarm_key).transpose()?;
        let listen = if self.listen.is_empty() {
            listen
                .iter()
                .map(|address| address.parse().expect("the default addresses are valid"))
                .collect()
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

    /// Whether the host has a peer to connect to: one of these, or one of `--peer`.
    pub fn has_peer(&self, peers: &[Multiaddr]) -> bool {
        !self.peer.is_empty() || !peers.is_empty()
    }

    /// Whether roots are announced to content routing.
    pub fn uses_dht(&self) -> bool {
        self.dht
    }
}
