//! How a verb meets its peers, as the command line says it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use p2p::{Dht, HostSettings, Multiaddr};

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

/// The key in a file as private IPFS networks keep it.
fn read_swarm_key(file: &Path) -> anyhow::Result<[u8; 32]> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(name)?;
    parse_swarm_key(&text).with_context(name)
}

fn parse_swarm_key(text: &str) -> anyhow::Result<[u8; 32]> {
    let lines: Vec<&str> = text.split_whitespace().collect();
    let ["/key/swarm/psk/1.0.0/", "/base16/", digits] = lines[..] else {
        anyhow::bail!("not a swarm key: three lines /key/swarm/psk/1.0.0/, /base16/ and the key")
    };
    let mut key = [0; 32];
    let is_hex = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    anyhow::ensure!(is_hex, "the key of a swarm has 64 hexadecimal digits");
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16)?;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swarm_keys_are_read_as_private_networks_write_them() {
        let digits = "00ff".repeat(16);
        let key = parse_swarm_key(&format!("/key/swarm/psk/1.0.0/\n/base16/\n{digits}\n")).unwrap();
        assert_eq!((key[0], key[1], key[31]), (0, 255, 255));
        for text in [
            "",
            "/base16/",
            "/key/swarm/psk/1.0.0/\n/base16/\nabc",
            "/key/swarm/psk/1.0.0/\n/base16/\n+f",
        ] {
            assert!(parse_swarm_key(text).is_err(), "{text}");
        }
        let signed = format!("/key/swarm/psk/1.0.0/\n/base16/\n{}", "+f".repeat(32));
        assert!(parse_swarm_key(&signed).is_err());
    }
}
