//! The network as a state machine: packets in, packets out, and the time at which to ask again. It has no clock and no
//! sockets, and draws all randomness from the plan's seed.
//!
//! ```text
//! A's device ─► A's NAT ─► A's link up ─► carrier's NAT ─► path between A and B ─► B's link down ─► B's NAT ─► B's device
//! ```
//!
//! Each stage takes place at the packet's own time, not at the time of the driver's call. An example: A and B are 20 ms from
//! the middle each. A's packet comes at 100 ms, so it reaches B's link at 120 ms. If the driver calls at 123 ms, the
//! packet enters B's link as of 120 ms and is due at 140 ms, as it would be without the late call. So lateness does not
//! add up over the stages, and the decisions depend on the packets and their times of arrival alone.
//!
//! A packet that fits the plan's bound on bytes under way is held here until it is due. Over the bound it is dropped. At
//! 1 Gbit/s and 50 ms, 6 MB are under way on a link, so the default of 1 GiB is reached only by links without a rate.

mod nat;
mod packet;
mod transmitter;

use crate::figures::{DropCause, Figures};
use crate::plan::{
    Direction, Link, NatKind, Path, PeerAddresses, PlanError, WirePlan, address_at_carrier,
};
use nat::{Behaviour, Nat, Scope};
use packet::Headers;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;
use transmitter::Transmitter;
use watchfire_types::{Instant, Rng};

/// Peers, links and NATs, without namespaces: [`crate::Wire`] is its driver.
pub struct Network {
    sites: Vec<Site>,
    carrier: Nat,
    /// Where packets to a public address go.
    owners: BTreeMap<IpAddr, Owner>,
    /// The peers by their addresses in the carrier's network.
    behind_carrier: BTreeMap<IpAddr, usize>,
    seed: u64,
    /// The regions' paths, by sender and receiver.
    paths: Vec<Vec<Path>>,
    /// Where a path has a delay or loss: one direction between two peers that have exchanged packets.
    distances: BTreeMap<(usize, usize), Transmitter>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    under_way_bytes: usize,
    under_way_bytes_max: usize,
    /// Packets that were ever under way: gives packets of the same time an order.
    order: u64,
    /// Routers that have replaced others.
    replacements: usize,
    figures: Figures,
}

/// A peer's end of the network.
struct Site {
    own: Vec<IpAddr>,
    region: usize,
    nat: Option<Nat>,
    is_behind_carrier: bool,
    up: Transmitter,
    down: Transmitter,
}

#[derive(Clone, Copy)]
enum Owner {
    Site(usize),
    Carrier,
}

/// A packet for the device of the peer at a position of the plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    pub to: usize,
    pub packet: Vec<u8>,
}

/// Ordered by time, then by entry.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due_at: Instant,
    order: u64,
    stage: Stage,
    from: usize,
    packet: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Has left the sender's link.
    Middle,
    /// Is at the beginning of the receiver's link.
    Downlink { to: usize },
    /// Has left the receiver's link.
    Home { to: usize },
}

impl Network {
    pub fn new(plan: &WirePlan) -> Result<Self, PlanError> {
        plan.validate()?;
        let mut owners = BTreeMap::from([(plan.carrier_address(), Owner::Carrier)]);
        let mut behind_carrier = BTreeMap::new();
        for (index, peer) in plan.peers.iter().enumerate() {
            if peer.nat == NatKind::Carrier {
                behind_carrier.insert(address_at_carrier(index), index);
            } else {
                let public = plan.addresses(index).public.into_iter();
                owners.extend(public.map(|at| (at, Owner::Site(index))));
            }
        }
        let rng = Rng::for_purpose(plan.seed, u64::MAX);
        let behaviour = Behaviour::of_carrier();
        Ok(Network {
            sites: (0..plan.peers.len()).map(|index| Site::new(plan, index)).collect(),
            carrier: Nat::new(plan.carrier_address(), behaviour, plan.nat_limits, rng),
            owners,
            behind_carrier,
            seed: plan.seed,
            paths: plan.paths.clone(),
            distances: BTreeMap::new(),
            under_way: BinaryHeap::new(),
            under_way_bytes: 0,
            under_way_bytes_max: plan.in_flight_bytes_max,
            order: 0,
            replacements: 0,
            figures: Figures::default(),
        })
    }

    /// A packet that the peer at a position of the plan sends. Time never goes back from one call to the next.
    pub fn handle_packet(&mut self, now: Instant, from: usize, mut packet: Vec<u8>) {
        if let Err(cause) = self.enter(now, from, &mut packet) {
            return self.note_drop(from, cause);
        }
        match self.sites[from].up.handle_packet(now, packet.len()) {
            Ok(due_at) => self.push(due_at, Stage::Middle, from, packet),
            Err(cause) => self.note_drop(from, cause),
        }
    }

    /// Decides whether the packet may enter the sender's link, and has the sender's NAT translate it.
    fn enter(&mut self, now: Instant, from: usize, packet: &mut [u8]) -> Result<(), DropCause> {
        let headers = Headers::parse(packet).map_err(|_| DropCause::Malformed)?;
        let site = &mut self.sites[from];
        if !site.own.contains(&headers.source) || headers.destination.is_multicast() {
            return Err(DropCause::Unroutable);
        }
        if self.under_way_bytes + packet.len() > self.under_way_bytes_max {
            return Err(DropCause::MemoryFull);
        }
        match &mut site.nat {
            Some(nat) => nat.handle_outbound(now, packet, &headers),
            None => Ok(()),
        }
    }

    /// The next packet that is due at a peer's device.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<Delivery> {
        while self.next_wake()? <= now {
            let Reverse(packet) = self.under_way.pop()?;
            self.under_way_bytes -= packet.packet.len();
            let delivery = match packet.stage {
                Stage::Middle => self.cross(packet),
                Stage::Downlink { to } => self.descend(packet, to),
                Stage::Home { to } => self.arrive(now, packet, to),
            };
            if delivery.is_some() {
                return delivery;
            }
        }
        None
    }

    /// When to call [`Network::poll_delivery`].
    pub fn next_wake(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse(packet)| packet.due_at)
    }

    /// From the next packet on; see [`crate::Wire::set_link`]. The link has been validated.
    pub fn set_link(&mut self, peer: usize, link: Link) {
        self.sites[peer].up.set_direction(link.up);
        self.sites[peer].down.set_direction(link.down);
    }

    /// From the next packet on; see [`crate::Wire::replace_router`]. Packets to the old address have no receiver any more.
    pub fn replace_router(&mut self, plan: &WirePlan, peer: usize, kind: NatKind) {
        let outer = plan.address_of_replacement(self.replacements);
        // Peers draw by their index, far below.
        let rng = Rng::for_purpose(self.seed, u64::MAX - 1 - self.replacements as u64);
        self.replacements += 1;
        self.owners.retain(|_, owner| !matches!(owner, Owner::Site(site) if *site == peer));
        self.owners.insert(outer, Owner::Site(peer));
        let behaviour = Behaviour::at_home(kind);
        self.sites[peer].nat = behaviour.map(|nat| Nat::new(outer, nat, plan.nat_limits, rng));
    }

    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    fn push(&mut self, due_at: Instant, stage: Stage, from: usize, packet: Vec<u8>) {
        self.order += 1;
        self.under_way_bytes += packet.len();
        self.under_way.push(Reverse(UnderWay { due_at, order: self.order, stage, from, packet }));
    }

    fn note_drop(&mut self, at: usize, cause: DropCause) {
        *self.figures.drops.entry((at, cause)).or_default() += 1;
    }

    /// From the end of the sender's link to the beginning of the receiver's.
    fn cross(&mut self, mut arrived: UnderWay) -> Option<Delivery> {
        let from = arrived.from;
        let to = match self.route(&mut arrived) {
            Ok(to) => to,
            Err(cause) => {
                self.note_drop(from, cause);
                return None;
            }
        };
        self.figures.pairs.entry((from, to)).or_default().sent.add(arrived.packet.len());
        let Some(distance) = self.distance(from, to) else { return self.descend(arrived, to) };
        match distance.handle_packet(arrived.due_at, arrived.packet.len()) {
            Ok(due_at) => self.push(due_at, Stage::Downlink { to }, from, arrived.packet),
            Err(cause) => self.note_drop(from, cause),
        }
        None
    }

    /// The path between two peers; `None` when it adds nothing.
    fn distance(&mut self, from: usize, to: usize) -> Option<&mut Transmitter> {
        let path = self.paths.get(self.sites[from].region)?[self.sites[to].region];
        if path == Path::default() {
            return None;
        }
        let Path { delay, jitter, loss } = path;
        let direction = Direction { delay, jitter, loss, ..Direction::default() };
        // Links draw by the peer and a number below 256.
        let purpose = (from as u64) << 32 | (to as u64) << 8 | 0xff;
        let rng = Rng::for_purpose(self.seed, purpose);
        let new = || Transmitter::new(direction, rng);
        Some(self.distances.entry((from, to)).or_insert_with(new))
    }

    /// The peer that a packet goes to. The carrier's NAT translates packets of its homes, and those to its address.
    fn route(&mut self, arrived: &mut UnderWay) -> Result<usize, DropCause> {
        let parse = |packet: &[u8]| Headers::parse(packet).map_err(|_| DropCause::Malformed);
        let (now, packet) = (arrived.due_at, &mut arrived.packet);
        if self.sites[arrived.from].is_behind_carrier {
            let headers = parse(packet)?;
            self.carrier.handle_outbound(now, packet, &headers)?;
        }
        let mut headers = parse(packet)?;
        match self.owners.get(&headers.destination).ok_or(DropCause::Unroutable)? {
            Owner::Site(to) => Ok(*to),
            Owner::Carrier => {
                self.carrier.handle_inbound(now, packet, &headers)?;
                headers = parse(packet)?;
                let to = self.behind_carrier.get(&headers.destination);
                to.copied().ok_or(DropCause::Unroutable)
            }
        }
    }

    fn descend(&mut self, arrived: UnderWay, to: usize) -> Option<Delivery> {
        match self.sites[to].down.handle_packet(arrived.due_at, arrived.packet.len()) {
            Ok(due_at) => self.push(due_at, Stage::Home { to }, arrived.from, arrived.packet),
            Err(cause) => self.note_drop(to, cause),
        }
        None
    }

    fn arrive(&mut self, now: Instant, mut arrived: UnderWay, to: usize) -> Option<Delivery> {
        if let Some(nat) = &mut self.sites[to].nat {
            let headers = Headers::parse(&arrived.packet).map_err(|_| DropCause::Malformed);
            let admitted = headers.and_then(|headers| {
                nat.handle_inbound(arrived.due_at, &mut arrived.packet, &headers)
            });
            if let Err(cause) = admitted {
                self.note_drop(to, cause);
                return None;
            }
        }
        let figures = &mut self.figures;
        let pair = figures.pairs.entry((arrived.from, to)).or_default();
        pair.delivered.add(arrived.packet.len());
        let lateness = now.since(arrived.due_at);
        figures.lateness_max = figures.lateness_max.max(lateness);
        figures.lateness_sum += lateness;
        Some(Delivery { to, packet: arrived.packet })
    }
}

impl Site {
    fn new(plan: &WirePlan, index: usize) -> Self {
        let peer = &plan.peers[index];
        // Each purpose at each peer has numbers of its own, so that no decision changes another one.
        let rng = |purpose| Rng::for_purpose(plan.seed, (index as u64) << 8 | purpose);
        let PeerAddresses { own, public } = plan.addresses(index);
        let is_behind_carrier = peer.nat == NatKind::Carrier;
        let outer = if is_behind_carrier { address_at_carrier(index) } else { public[0] };
        let nat = Behaviour::at_home(peer.nat);
        Site {
            own,
            region: peer.region,
            nat: nat.map(|nat| Nat::new(outer, nat, plan.nat_limits, rng(0))),
            is_behind_carrier,
            up: Transmitter::new(peer.link.up, rng(1)),
            down: Transmitter::new(peer.link.down, rng(2)),
        }
    }
}

impl Behaviour {
    /// The NAT at a peer's home.
    fn at_home(kind: NatKind) -> Option<Behaviour> {
        let port_restricted = Behaviour {
            mapping: Scope::Any,
            filtering: Scope::AddressAndPort,
            keeps_ports: true,
            passes_udp: true,
        };
        Some(match kind {
            NatKind::Open => return None,
            NatKind::FullCone => Behaviour { filtering: Scope::Any, ..port_restricted },
            NatKind::AddressRestricted => {
                Behaviour { filtering: Scope::Address, ..port_restricted }
            }
            NatKind::PortRestricted | NatKind::Carrier | NatKind::Ipv6Only => port_restricted,
            NatKind::Symmetric => {
                Behaviour { mapping: Scope::AddressAndPort, keeps_ports: false, ..port_restricted }
            }
            NatKind::UdpBlocked => Behaviour { passes_udp: false, ..port_restricted },
        })
    }

    fn of_carrier() -> Behaviour {
        Behaviour {
            mapping: Scope::Any,
            filtering: Scope::Any,
            keeps_ports: false,
            passes_udp: true,
        }
    }
}

#[cfg(test)]
mod tests;
