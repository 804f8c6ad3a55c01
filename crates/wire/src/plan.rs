//! The plan of a network: its peers, their links and NATs, and the addresses that follow from them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

/// Peers in one network. Each has a namespace, a device and a few descriptors.
pub const PEERS_MAX: usize = 1_000;
/// Longest delay, or jitter, of one direction of a link.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// The third numbers of the public addresses of routers that replace others. After all of them, the first is used again.
const REPLACEMENTS_FROM: u8 = 128;
const REPLACEMENT_BLOCKS: usize = 100;
/// Smallest MTU: the least that IPv6 permits.
pub const MTU_MIN: u16 = 1_280;

/// A network between peers, and the seed of all its decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct WirePlan {
    /// The same seed and the same packets at the same times give the same decisions.
    pub seed: u64,
    pub peers: Vec<PeerPlan>,
    /// The paths between regions, by the sender's region and then the receiver's. Without any, links alone decide.
    pub paths: Vec<Vec<Path>>,
    /// Largest IP packet. A large value costs less CPU time per byte, and makes loss and queues coarser.
    pub mtu: u16,
    pub nat_limits: NatLimits,
    /// Bytes that may be under way in the whole network. A packet over this is dropped ([`crate::DropCause::MemoryFull`]).
    pub in_flight_bytes_max: usize,
    /// The peers' public IPv4 addresses begin here; a network of 65,536 addresses. The default, 198.18.0.0, is reserved for
    /// measurements. Some programs (kubo is one) call it unroutable and do not announce it; give them another one.
    pub public_v4: Ipv4Addr,
    /// The peers' IPv6 addresses begin here, one network of 64 bits each. The default, 2001:db8::, is reserved for examples.
    pub public_v6: Ipv6Addr,
}

impl Default for WirePlan {
    fn default() -> Self {
        WirePlan {
            seed: 0,
            peers: Vec::new(),
            paths: Vec::new(),
            mtu: 1_500,
            nat_limits: NatLimits::default(),
            in_flight_bytes_max: 1 << 30,
            public_v4: Ipv4Addr::new(198, 18, 0, 0),
            public_v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        }
    }
}

/// A peer: a network namespace with one link.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerPlan {
    /// Names the peer in [`crate::Wire::peer`] and in errors.
    pub name: String,
    pub link: Link,
    pub nat: NatKind,
    /// Its row and column in [`WirePlan::paths`].
    pub region: usize,
}

impl PeerPlan {
    /// A peer with a public address, in the first region.
    pub fn open(name: impl Into<String>, link: Link) -> Self {
        PeerPlan { name: name.into(), link, nat: NatKind::Open, region: 0 }
    }
}

/// The way of a packet between its sender's link and its receiver's, in addition to both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    pub delay: Duration,
    /// Up to this much is added to the delay of each packet. Packets between two peers keep their order.
    pub jitter: Duration,
    /// Probability that a packet is lost, from 0 to 1.
    pub loss: f64,
}

/// The link between a peer and the middle of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// From the peer.
    pub up: Direction,
    /// To the peer.
    pub down: Direction,
}

impl Link {
    /// The same in both directions.
    pub fn symmetric(direction: Direction) -> Self {
        Link { up: direction, down: direction }
    }
}

/// One direction of a link. A packet from A to B passes A's `up`, then B's `down`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// Bits of IP packets per second; `None` for no limit.
    pub bits_per_second: Option<u64>,
    pub delay: Duration,
    /// Up to this much is added to the delay of each packet, uniformly distributed. Packets keep their order.
    pub jitter: Duration,
    /// Probability that a packet is lost, from 0 to 1.
    pub loss: f64,
    /// Bytes that wait for the rate. When a packet would make them more, it is dropped (drop tail).
    pub queue_bytes: usize,
}

impl Default for Direction {
    fn default() -> Self {
        Direction {
            bits_per_second: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue_bytes: 512 << 10,
        }
    }
}

/// How a peer is connected to the rest of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NatKind {
    /// Public IPv4 and IPv6 addresses, and no filter.
    #[default]
    Open,
    /// IPv4 behind a NAT: every remote host may send to a mapped port.
    FullCone,
    /// IPv4 behind a NAT: remote hosts that the peer has sent to may send to the mapped port, from any port.
    AddressRestricted,
    /// IPv4 behind a NAT: only the remote address and port that the peer has sent to may send. Most homes.
    PortRestricted,
    /// IPv4 behind a NAT: a mapping for each remote address and port, with a random outer port.
    Symmetric,
    /// IPv4 behind two NATs: a port-restricted one at home, and one of the carrier (RFC 6888), which all peers of this kind
    /// share. The carrier's gives random ports and lets every remote host send to a mapped port.
    Carrier,
    /// IPv4 behind a port-restricted NAT that drops all UDP.
    UdpBlocked,
    /// No IPv4. A public IPv6 address behind a firewall that admits answers only, port-restricted.
    Ipv6Only,
}

impl NatKind {
    /// Whether a peer of this kind has a router with a public IPv4 address of its own.
    pub fn has_own_router(self) -> bool {
        match self {
            NatKind::Open | NatKind::Carrier | NatKind::Ipv6Only => false,
            NatKind::FullCone
            | NatKind::AddressRestricted
            | NatKind::PortRestricted
            | NatKind::Symmetric
            | NatKind::UdpBlocked => true,
        }
    }

    pub const ALL: [NatKind; 8] = [
        NatKind::Open,
        NatKind::FullCone,
        NatKind::AddressRestricted,
        NatKind::PortRestricted,
        NatKind::Symmetric,
        NatKind::Carrier,
        NatKind::UdpBlocked,
        NatKind::Ipv6Only,
    ];

    /// The kind's name in files and reports, such as `port-restricted`.
    pub fn name(self) -> &'static str {
        match self {
            NatKind::Open => "open",
            NatKind::FullCone => "full-cone",
            NatKind::AddressRestricted => "address-restricted",
            NatKind::PortRestricted => "port-restricted",
            NatKind::Symmetric => "symmetric",
            NatKind::Carrier => "carrier",
            NatKind::UdpBlocked => "udp-blocked",
            NatKind::Ipv6Only => "ipv6-only",
        }
    }
}

impl fmt::Display for NatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NatKind {
    type Err = PlanError;

    fn from_str(name: &str) -> Result<Self, PlanError> {
        let kind = NatKind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| PlanError::UnknownNat { name: name.into() })
    }
}

/// How long and how many sessions a NAT keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatLimits {
    /// A UDP session ends after this long without a packet. RFC 4787 asks for two minutes or more.
    pub udp_timeout: Duration,
    /// A TCP session in which both sides have sent ends after this long without a packet (RFC 5382).
    pub tcp_open_timeout: Duration,
    /// A TCP session before the first answer, or after both sides have closed, ends after this long (RFC 5382).
    pub tcp_opening_timeout: Duration,
    /// A session of echo requests ends after this long without a packet (RFC 5508).
    pub echo_timeout: Duration,
    /// Sessions of one NAT. When it is full, packets that need a new session are dropped.
    pub sessions_max: usize,
}

impl Default for NatLimits {
    fn default() -> Self {
        NatLimits {
            udp_timeout: Duration::from_secs(120),
            tcp_open_timeout: Duration::from_secs(2 * 3_600 + 4 * 60),
            tcp_opening_timeout: Duration::from_secs(4 * 60),
            echo_timeout: Duration::from_secs(60),
            sessions_max: 16_384,
        }
    }
}

/// A plan that no network can be made of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error("cannot plan {count} peers: a network has 1 to {PEERS_MAX}")]
    PeerCount { count: usize },
    #[error(
        "cannot replace the router of {name:?}, from {from} to {to}: both must be routers with a public address of their own"
    )]
    Router { name: String, from: NatKind, to: NatKind },
    #[error("cannot plan two peers named {name:?}: give each a name of its own")]
    DuplicateName { name: String },
    #[error("no peer is named {name:?}: name one of the plan")]
    UnknownPeer { name: String },
    #[error("a link of {peer:?} has 0 bits per second: give it a rate, or none for no limit")]
    ZeroRate { peer: String },
    #[error("{at} loses {loss} of its packets: give a probability from 0 to 1")]
    Loss { at: String, loss: f64 },
    #[error("a delay of {at} is {delay:?}: give at most {DELAY_MAX:?}")]
    Delay { at: String, delay: Duration },
    #[error(
        "{peer:?} is in region {region}, and the plan has paths between {regions}: count from 0"
    )]
    Region { peer: String, region: usize, regions: usize },
    #[error(
        "region {region} has paths to {paths} regions of {regions}: give one to each, itself included"
    )]
    PathCount { region: usize, paths: usize, regions: usize },
    #[error(
        "cannot take public addresses from {network}: give the first address of 65,536, such as 198.18.0.0, that are not private, loopback or multicast"
    )]
    PublicNetwork { network: Ipv4Addr },
    #[error("the MTU is {mtu}: give {MTU_MIN} or more")]
    Mtu { mtu: u16 },
    #[error(
        "unknown kind of NAT {name:?}: give one of open, full-cone, address-restricted, port-restricted, symmetric, carrier, udp-blocked, ipv6-only"
    )]
    UnknownNat { name: String },
}

impl WirePlan {
    /// Whether a network can be made of this plan.
    pub fn validate(&self) -> Result<(), PlanError> {
        let count = self.peers.len();
        if count == 0 || count > PEERS_MAX {
            return Err(PlanError::PeerCount { count });
        }
        if self.mtu < MTU_MIN {
            return Err(PlanError::Mtu { mtu: self.mtu });
        }
        let network = self.public_v4;
        let [first, second, rest @ ..] = network.octets();
        // Homes have addresses of 10.0.0.0/8, and carriers of 100.64.0.0/10.
        let is_of_carriers = first == 100 && (64..128).contains(&second);
        let is_public = (1..224).contains(&first) && ![10, 127].contains(&first) && !is_of_carriers;
        if !is_public || rest != [0, 0] {
            return Err(PlanError::PublicNetwork { network });
        }
        let mut names = BTreeSet::new();
        for peer in &self.peers {
            if !names.insert(&peer.name) {
                return Err(PlanError::DuplicateName { name: peer.name.clone() });
            }
            peer.link.validate(&peer.name)?;
            let (region, regions) = (peer.region, self.paths.len());
            if region >= regions.max(1) {
                return Err(PlanError::Region { peer: peer.name.clone(), region, regions });
            }
        }
        self.validate_paths()
    }

    fn validate_paths(&self) -> Result<(), PlanError> {
        let regions = self.paths.len();
        for (region, paths) in self.paths.iter().enumerate() {
            if paths.len() != regions {
                return Err(PlanError::PathCount { region, paths: paths.len(), regions });
            }
            for path in paths {
                let at = || format!("a path from region {region}");
                validate_distance(at, path.delay, path.jitter, path.loss)?;
            }
        }
        Ok(())
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<usize, PlanError> {
        let found = self.peers.iter().position(|peer| peer.name == name);
        found.ok_or_else(|| PlanError::UnknownPeer { name: name.into() })
    }

    /// The addresses of the peer at this position.
    pub(crate) fn addresses(&self, index: usize) -> PeerAddresses {
        let (high, low) = ((index / 250) as u8, (index % 250) as u8 + 1);
        let [a, b, ..] = self.public_v4.octets();
        let public_v4 = Ipv4Addr::new(a, b, high, low);
        let mut public_v6 = self.public_v6.segments();
        (public_v6[3], public_v6[7]) = (index as u16, 1);
        let public_v6 = Ipv6Addr::from(public_v6);
        let home = Ipv4Addr::new(10, high, low, 2).into();
        match self.peers[index].nat {
            NatKind::Open => {
                let both = vec![public_v4.into(), public_v6.into()];
                PeerAddresses { own: both.clone(), public: both }
            }
            NatKind::Ipv6Only => {
                PeerAddresses { own: vec![public_v6.into()], public: vec![public_v6.into()] }
            }
            NatKind::Carrier => {
                PeerAddresses { own: vec![home], public: vec![self.carrier_address()] }
            }
            NatKind::FullCone
            | NatKind::AddressRestricted
            | NatKind::PortRestricted
            | NatKind::Symmetric
            | NatKind::UdpBlocked => {
                PeerAddresses { own: vec![home], public: vec![public_v4.into()] }
            }
        }
    }

    /// The public address of a router that replaces another one: the n-th of its network.
    pub(crate) fn address_of_replacement(&self, n: usize) -> IpAddr {
        let [a, b, ..] = self.public_v4.octets();
        let high = REPLACEMENTS_FROM + (n / 250 % REPLACEMENT_BLOCKS) as u8;
        Ipv4Addr::new(a, b, high, (n % 250) as u8 + 1).into()
    }

    /// The public address of the carrier's NAT.
    pub(crate) fn carrier_address(&self) -> IpAddr {
        let [a, b, ..] = self.public_v4.octets();
        Ipv4Addr::new(a, b, 255, 1).into()
    }
}

/// The address of a home, in the network of its carrier.
pub(crate) fn address_at_carrier(index: usize) -> IpAddr {
    Ipv4Addr::new(100, 64, (index / 250) as u8, (index % 250) as u8 + 1).into()
}

/// A peer's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddresses {
    /// Of its device.
    pub own: Vec<IpAddr>,
    /// As others see them.
    pub public: Vec<IpAddr>,
}

impl Link {
    /// Whether this link is possible; `peer` is named in the error.
    pub fn validate(&self, peer: &str) -> Result<(), PlanError> {
        for direction in [&self.up, &self.down] {
            if direction.bits_per_second == Some(0) {
                return Err(PlanError::ZeroRate { peer: peer.into() });
            }
            let at = || format!("a link of {peer:?}");
            validate_distance(at, direction.delay, direction.jitter, direction.loss)?;
        }
        Ok(())
    }
}

fn validate_distance(
    at: impl Fn() -> String,
    delay: Duration,
    jitter: Duration,
    loss: f64,
) -> Result<(), PlanError> {
    if !(0.0..=1.0).contains(&loss) {
        return Err(PlanError::Loss { at: at(), loss });
    }
    let delay = delay.max(jitter);
    if delay > DELAY_MAX { Err(PlanError::Delay { at: at(), delay }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> WirePlan {
        let peers = ["a", "b"].map(|name| PeerPlan::open(name, Link::default()));
        WirePlan { peers: peers.into(), ..WirePlan::default() }
    }

    #[test]
    fn an_impossible_plan_is_refused_with_the_value_at_fault() {
        assert_eq!(plan().validate(), Ok(()));
        type Change = fn(&mut WirePlan);
        let cases: [(Change, &str); 12] = [
            (|plan| plan.peers.clear(), "0 peers"),
            (|plan| plan.peers[1].name = "a".into(), "two peers named \"a\""),
            (|plan| plan.peers[0].link.up.bits_per_second = Some(0), "0 bits per second"),
            (|plan| plan.peers[0].link.down.loss = 1.5, "a link of \"a\" loses 1.5"),
            (|plan| plan.peers[0].link.down.loss = f64::NAN, "loses NaN"),
            (|plan| plan.peers[1].link.down.delay = Duration::from_secs(61), "is 61s"),
            (|plan| plan.mtu = 1_000, "MTU is 1000"),
            (|plan| plan.public_v4 = [100, 64, 0, 0].into(), "from 100.64.0.0"),
            (|plan| plan.public_v4 = [198, 18, 0, 1].into(), "from 198.18.0.1"),
            (|plan| plan.peers[1].region = 1, "in region 1"),
            (|plan| plan.paths = vec![vec![]], "to 0 regions of 1"),
            (
                |plan| plan.paths = vec![vec![Path { loss: -0.1, ..Path::default() }]],
                "from region 0 loses -0.1",
            ),
        ];
        for (change, expected) in cases {
            let mut plan = plan();
            change(&mut plan);
            let message = plan.validate().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn every_peer_of_the_largest_plan_has_addresses_of_its_own() {
        let mut plan = plan();
        for kind in [NatKind::Open, NatKind::PortRestricted] {
            let peer =
                |n| PeerPlan { nat: kind, ..PeerPlan::open(format!("{n}"), Link::default()) };
            plan.peers = (0..PEERS_MAX).map(peer).collect();
            let addresses = |n| plan.addresses(n);
            let own: BTreeSet<_> = (0..PEERS_MAX).flat_map(|n| addresses(n).own).collect();
            let public: BTreeSet<_> = (0..PEERS_MAX).flat_map(|n| addresses(n).public).collect();
            let each = if kind == NatKind::Open { 2 } else { 1 };
            assert_eq!((own.len(), public.len()), (each * PEERS_MAX, each * PEERS_MAX));
        }
    }

    #[test]
    fn a_kind_is_read_by_its_name() {
        for kind in NatKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "tunnel".parse::<NatKind>().unwrap_err().to_string();
        assert!(NatKind::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }
}
