//! The command-line options of the libp2p host: peers, addresses and content routing.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use watchfire_p2p::{Dht, HostSettings, Multiaddr, read_swarm_key};
use watchfire_page_client::DirectOptions;

use crate::page_clients::direct_options;

/// The longest name of DNS, with room for a port in a signal.
const HOST_NAME_BYTES_MAX: usize = 240;

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
    /// Tell browsers that they reach this machine at this host name or address and UDP port, such as
    /// 192.0.2.1:4433. Forward the same port of your router to this machine.
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_dial_address)]
    dial_address: Option<(String, u16)>,
    /// Hide the address of this machine from other peers: everything goes through the server of the
    /// page and the other servers that have it, within their limits, which is slower. Peers of a link
    /// are not dialled.
    #[arg(long, conflicts_with_all = ["peer", "listen", "dht", "dial_address"])]
    relay_only: bool,
}

fn parse_dial_address(text: &str) -> Result<(String, u16), String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_valid = match ipv6 {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => is_host_name(host),
        };
        is_valid.then(|| (host.to_owned(), port))
    });
    parsed.ok_or_else(|| "give a host name or an address, and a port: 192.0.2.1:4433".to_owned())
}

/// Whether a text is a host name or an IPv4 address.
fn is_host_name(host: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.len() <= HOST_NAME_BYTES_MAX && host.split('.').all(is_part)
}

impl HostOptions {
    /// The settings of a host that knows `peers`. It listens on `listen` unless `--listen` is
    /// given. With `--relay-only`, it connects to no peer and no peer connects to it.
    pub fn settings(&self, listen: &[&str], peers: &[Multiaddr]) -> anyhow::Result<HostSettings> {
        let (listen, peers) = if self.relay_only { Default::default() } else { (listen, peers) };
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
        !self.relay_only && (!self.peer.is_empty() || !peers.is_empty())
    }

    /// Whether all content goes through the servers of pages.
    pub fn is_relay_only(&self) -> bool {
        self.relay_only
    }

    /// The direct connections to browsers; `None` if there are none.
    pub fn direct(&self) -> Option<DirectOptions> {
        (!self.relay_only).then(|| direct_options(self.dial_address.clone()))
    }

    /// Whether roots are announced to content routing.
    pub fn uses_dht(&self) -> bool {
        self.dht
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_uses_only_the_relay_listens_nowhere_and_dials_nobody() {
        let options = |is_relay_only| HostOptions {
            peer: Vec::new(),
            listen: Vec::new(),
            dht: false,
            swarm_key: None,
            identity: None,
            dial_address: None,
            relay_only: is_relay_only,
        };
        let peers = ["/ip4/192.0.2.1/tcp/4001".parse().unwrap()];
        let count = |options: &HostOptions| {
            let settings = options.settings(&["/ip4/0.0.0.0/tcp/0"], &peers).unwrap();
            (settings.listen.len(), settings.bootstrap.len())
        };
        let (relay, usual) = (options(true), options(false));
        assert_eq!((count(&relay), count(&usual)), ((0, 0), (1, 1)));
        assert_eq!((relay.has_peer(&peers), usual.has_peer(&peers)), (false, true));
        assert_eq!((relay.direct().is_some(), usual.direct().is_some()), (false, true));
    }

    #[test]
    fn the_address_for_browsers_is_a_host_and_a_port() {
        for (text, host) in [
            ("192.0.2.1:4433", "192.0.2.1"),
            ("[2001:db8::1]:4433", "[2001:db8::1]"),
            ("a-b.example:4433", "a-b.example"),
        ] {
            assert_eq!(parse_dial_address(text), Ok((host.to_owned(), 4433)), "{text}");
        }
        for text in [
            "",
            "192.0.2.1",
            "192.0.2.1:0",
            "192.0.2.1:70000",
            "::1:4433",
            "a/b:1",
            "a@b:1",
            ":1",
            "a..b:1",
        ] {
            assert!(parse_dial_address(text).is_err(), "{text}");
        }
    }
}
