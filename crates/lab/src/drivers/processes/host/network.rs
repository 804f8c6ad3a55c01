//! The network of a run, which has a place for each node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use watchfire_wire::{PrivateNetwork, Wire};

use super::addresses::Addresses;
use super::site::{Namespace, Site};
use super::wire::{self, Counts, USERS};
use crate::definition::{Link, NatKind, TrialPlan};
use crate::drivers::driver::DriverError;
use crate::results::WireFigures;

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
                let (mut v4, mut v6) = (None, None);
                for address in peer.addresses().own {
                    match address {
                        IpAddr::V4(address) => v4 = v4.or(Some(address)),
                        IpAddr::V6(address) => v6 = v6.or(Some(address)),
                    }
                }
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
