//! The network at the level of packets, in simulated time.

use super::*;
use crate::figures::Count;
use crate::plan::PeerPlan;
use etherparse::{PacketBuilder, icmpv4, icmpv6};
use packet::{Flow, Payload};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

/// A network with a clock that the test moves.
struct Lab {
    plan: WirePlan,
    network: Network,
    now: Instant,
}

impl Lab {
    fn new(plan: WirePlan) -> Lab {
        Lab { network: Network::new(&plan).unwrap(), now: Instant::ZERO, plan }
    }

    /// Peers of these kinds, with perfect links.
    fn of(kinds: &[NatKind]) -> Lab {
        Lab::with_link(kinds, Link::default())
    }

    fn with_link(kinds: &[NatKind], link: Link) -> Lab {
        let peer = |(n, nat): (usize, &NatKind)| PeerPlan {
            nat: *nat,
            ..PeerPlan::open(n.to_string(), link)
        };
        let peers = kinds.iter().enumerate().map(peer).collect();
        Lab::new(WirePlan { seed: 7, peers, ..WirePlan::default() })
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// The address that a peer sends from to this destination, with a port.
    fn own(&self, peer: usize, port: u16, to: SocketAddr) -> SocketAddr {
        let own = self.plan.addresses(peer).own;
        let of_version = own.iter().find(|at| at.is_ipv4() == to.is_ipv4());
        SocketAddr::new(*of_version.unwrap_or(&own[0]), port)
    }

    /// The last public address of a peer: IPv6, when it has one.
    fn public(&self, peer: usize, port: u16) -> SocketAddr {
        SocketAddr::new(*self.plan.addresses(peer).public.last().unwrap(), port)
    }

    fn public_v4(&self, peer: usize, port: u16) -> SocketAddr {
        SocketAddr::new(self.plan.addresses(peer).public[0], port)
    }

    /// Sends a packet, and returns what reaches any peer now.
    fn send(&mut self, from: usize, packet: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        self.network.handle_packet(self.now, from, packet);
        let now = self.now;
        let next =
            || self.network.poll_delivery(now).map(|delivery| (delivery.to, delivery.packet));
        std::iter::from_fn(next).collect()
    }

    /// Sends a datagram from a peer's port. The peer that it reaches, and its source and destination there.
    fn datagram(&mut self, from: usize, port: u16, to: SocketAddr) -> Option<(usize, Flow)> {
        let packet = udp(self.own(from, port, to), to);
        self.one_flow(from, packet)
    }

    fn segment(&mut self, from: usize, to: SocketAddr, flags: u8) -> Option<(usize, Flow)> {
        let packet = tcp(self.own(from, 4000, to), to, flags);
        self.one_flow(from, packet)
    }

    fn one_flow(&mut self, from: usize, packet: Vec<u8>) -> Option<(usize, Flow)> {
        let mut delivered = self.send(from, packet);
        assert!(delivered.len() <= 1, "a packet arrives once, and nothing is answered");
        let (to, packet) = delivered.pop()?;
        let Payload::Flow(flow, _) = Headers::parse(&packet).unwrap().payload else {
            panic!("{packet:?} is of no flow")
        };
        Some((to, flow))
    }

    fn dropped(&self, cause: DropCause) -> u64 {
        self.network.figures().dropped(cause)
    }
}

fn builder(from: IpAddr, to: IpAddr) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("{from} and {to} are of two versions"),
    }
}

fn udp(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    udp_with(from, to, b"hello")
}

fn udp_with(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = builder(from.ip(), to.ip()).udp(from.port(), to.port());
    builder.write(&mut packet, payload).unwrap();
    packet
}

fn tcp(from: SocketAddr, to: SocketAddr, flags: u8) -> Vec<u8> {
    let mut header = etherparse::TcpHeader::new(from.port(), to.port(), 1, 1_000);
    header.syn = flags & packet::SYN != 0;
    header.ack = flags & packet::ACK != 0;
    header.fin = flags & packet::FIN != 0;
    header.rst = flags & packet::RST != 0;
    let mut packet = Vec::new();
    builder(from.ip(), to.ip()).tcp_header(header).write(&mut packet, b"").unwrap();
    packet
}

/// The packet "port unreachable" from the receiver of `about`.
fn unreachable(about: &[u8]) -> Vec<u8> {
    let headers = Headers::parse(about).unwrap();
    let mut packet = Vec::new();
    let builder = builder(headers.destination, headers.source);
    if headers.source.is_ipv4() {
        let port = icmpv4::DestUnreachableHeader::Port;
        builder
            .icmpv4(etherparse::Icmpv4Type::DestinationUnreachable(port))
            .write(&mut packet, &about[..28])
            .unwrap();
    } else {
        let port = icmpv6::DestUnreachableCode::Port;
        builder
            .icmpv6(etherparse::Icmpv6Type::DestinationUnreachable(port))
            .write(&mut packet, about)
            .unwrap();
    }
    packet
}

const BEHIND_NAT: [NatKind; 6] = [
    NatKind::FullCone,
    NatKind::AddressRestricted,
    NatKind::PortRestricted,
    NatKind::Symmetric,
    NatKind::Carrier,
    NatKind::Ipv6Only,
];

#[test]
fn a_kind_of_nat_admits_what_its_name_says() {
    // The answer; the same host from another port; another host.
    let expected = |kind| match kind {
        NatKind::Open | NatKind::FullCone => [true, true, true],
        NatKind::AddressRestricted => [true, true, false],
        NatKind::PortRestricted | NatKind::Symmetric | NatKind::Carrier | NatKind::Ipv6Only => {
            [true, false, false]
        }
        NatKind::UdpBlocked => [false, false, false],
    };
    for kind in NatKind::ALL {
        let mut lab = Lab::of(&[kind, NatKind::Open, NatKind::Open]);
        let is_v6 = kind == NatKind::Ipv6Only;
        let server = if is_v6 { lab.public(1, 53) } else { lab.public_v4(1, 53) };
        let Some((1, seen)) = lab.datagram(0, 4000, server) else {
            assert_eq!((kind, lab.dropped(DropCause::UdpBlocked)), (NatKind::UdpBlocked, 1));
            continue;
        };
        let home = lab.own(0, 4000, server);
        let admitted = [(1, 53), (1, 54), (2, 53)].map(|(from, port)| {
            let reached = lab.datagram(from, port, seen.source);
            assert!(reached.is_none_or(|(to, flow)| (to, flow.destination) == (0, home)), "{kind}");
            reached.is_some()
        });
        assert_eq!(admitted, expected(kind), "{kind}");
        let unsolicited = admitted.iter().filter(|is_admitted| !**is_admitted).count() as u64;
        assert_eq!(lab.dropped(DropCause::Unsolicited), unsolicited, "{kind}");
    }
}

#[test]
fn only_a_symmetric_nat_shows_every_destination_another_port() {
    for kind in BEHIND_NAT {
        let mut lab = Lab::of(&[kind, NatKind::Open, NatKind::Open]);
        let is_v6 = kind == NatKind::Ipv6Only;
        let servers = [(1, 53), (2, 53), (2, 54)];
        let at = |(n, port)| if is_v6 { lab.public(n, port) } else { lab.public_v4(n, port) };
        let seen = servers.map(at).map(|at| lab.datagram(0, 4000, at).unwrap().1.source);
        let ports: std::collections::BTreeSet<u16> = seen.iter().map(|at| at.port()).collect();
        assert_eq!(ports.len(), if kind == NatKind::Symmetric { 3 } else { 1 }, "{kind}");
        assert!(seen.iter().all(|at| at.ip() == lab.public(0, 0).ip()), "{kind}: {seen:?}");
    }
}

#[test]
fn two_port_restricted_peers_open_the_way_by_sending_to_each_other() {
    let mut lab = Lab::of(&[NatKind::PortRestricted, NatKind::PortRestricted, NatKind::Open]);
    let server = lab.public_v4(2, 53);
    let [a, b] = [0, 1].map(|peer| lab.datagram(peer, 4000, server).unwrap().1.source);
    assert_eq!(lab.datagram(0, 4000, b), None);
    assert_eq!(lab.datagram(1, 4000, a).unwrap().0, 0);
    assert_eq!(lab.datagram(0, 4000, b).unwrap().0, 1);
}

#[test]
fn a_udp_session_ends_without_packets_and_lives_with_them() {
    let mut lab = Lab::of(&[NatKind::PortRestricted, NatKind::Open]);
    let server = lab.public_v4(1, 53);
    let seen = lab.datagram(0, 4000, server).unwrap().1.source;
    for _ in 0..3 {
        lab.wait(119);
        assert!(lab.datagram(1, 53, seen).is_some(), "packets from either side extend it");
    }
    lab.wait(120);
    assert_eq!(lab.datagram(1, 53, seen), None);
    assert!(lab.datagram(0, 4000, server).is_some(), "a packet from inside begins another");
    assert!(lab.datagram(1, 53, seen).is_some());
}

#[test]
fn a_host_of_the_internet_cannot_keep_a_full_cones_mapping_alive() {
    let mut lab = Lab::of(&[NatKind::FullCone, NatKind::Open, NatKind::Open]);
    let seen = lab.datagram(0, 4000, lab.public_v4(1, 53)).unwrap().1.source;
    lab.wait(100);
    assert!(lab.datagram(2, 53, seen).is_some());
    lab.wait(100);
    assert_eq!(lab.datagram(2, 53, seen), None);
}

#[test]
fn a_tcp_session_begins_with_a_syn_from_inside() {
    for kind in BEHIND_NAT {
        let mut lab = Lab::of(&[kind, NatKind::Open]);
        let is_v6 = kind == NatKind::Ipv6Only;
        let server = if is_v6 { lab.public(1, 80) } else { lab.public_v4(1, 80) };
        for flags in [packet::ACK, packet::SYN | packet::ACK, packet::RST] {
            assert_eq!(lab.segment(0, server, flags), None, "{kind}");
        }
        assert_eq!(lab.dropped(DropCause::Unmapped), 3);
        let seen = lab.segment(0, server, packet::SYN).unwrap().1.source;
        let answer = tcp(server, seen, packet::SYN | packet::ACK);
        assert_eq!(lab.one_flow(1, answer).unwrap().0, 0, "{kind}");
        assert!(lab.segment(0, server, packet::ACK).is_some(), "{kind}");
    }
}

#[test]
fn a_tcp_session_is_kept_for_hours_while_it_is_open_and_for_minutes_when_it_is_not() {
    let open = |lab: &mut Lab, has_answer: bool| {
        let server = lab.public_v4(1, 80);
        let seen = lab.segment(0, server, packet::SYN).unwrap().1.source;
        if has_answer {
            lab.one_flow(1, tcp(server, seen, packet::SYN | packet::ACK)).unwrap();
        }
        (server, seen)
    };
    let is_open_after = |lab: &mut Lab, seconds, (server, seen)| {
        lab.wait(seconds);
        lab.one_flow(1, tcp(server, seen, packet::ACK)).is_some()
    };
    let new = || Lab::of(&[NatKind::PortRestricted, NatKind::Open]);
    let (mut unanswered, mut answered) = (new(), new());
    let (mut closed, mut half_closed, mut reset) = (new(), new(), new());

    let ends = open(&mut unanswered, false);
    assert!(!is_open_after(&mut unanswered, 240, ends));
    let ends = open(&mut answered, true);
    assert!(is_open_after(&mut answered, 7_000, ends));
    assert!(!is_open_after(&mut answered, 7_440, ends));

    let (server, seen) = open(&mut half_closed, true);
    half_closed.segment(0, server, packet::FIN | packet::ACK).unwrap();
    assert!(is_open_after(&mut half_closed, 7_000, (server, seen)));
    let (server, seen) = open(&mut closed, true);
    closed.segment(0, server, packet::FIN | packet::ACK).unwrap();
    closed.one_flow(1, tcp(server, seen, packet::FIN | packet::ACK)).unwrap();
    assert!(!is_open_after(&mut closed, 240, (server, seen)));
    let (server, seen) = open(&mut reset, true);
    reset.segment(0, server, packet::RST).unwrap();
    assert!(!is_open_after(&mut reset, 240, (server, seen)));
}

#[test]
fn a_full_nat_drops_what_needs_a_new_session_until_old_ones_end() {
    let mut plan = Lab::of(&[NatKind::PortRestricted, NatKind::Open]).plan;
    plan.nat_limits.sessions_max = 3;
    let mut lab = Lab::new(plan);
    let server = lab.public_v4(1, 53);
    let reached = |lab: &mut Lab, port| lab.datagram(0, port, server).is_some();
    for port in 1..=3 {
        assert!(reached(&mut lab, port));
    }
    assert!(!reached(&mut lab, 4));
    assert_eq!(lab.dropped(DropCause::NatFull), 1);
    lab.wait(60);
    assert!(reached(&mut lab, 1), "sessions that exist go on");
    lab.wait(60);
    assert!(reached(&mut lab, 4) && reached(&mut lab, 5) && !reached(&mut lab, 6));
}

#[test]
fn errors_about_a_mapped_flow_pass_in_both_directions() {
    for kind in BEHIND_NAT {
        let mut lab = Lab::of(&[kind, NatKind::Open]);
        let is_v6 = kind == NatKind::Ipv6Only;
        let server = if is_v6 { lab.public(1, 53) } else { lab.public_v4(1, 53) };
        let home = lab.own(0, 4000, server);
        let (_, asked) = lab.send(0, udp(home, server)).pop().unwrap();
        let (to, error) = lab.send(1, unreachable(&asked)).pop().expect("the error passes");
        let headers = Headers::parse(&error).unwrap();
        let Payload::Error { about, .. } = headers.payload else { panic!("{error:?}") };
        assert_eq!((to, headers.destination, about.source), (0, home.ip(), home), "{kind}");

        let Payload::Flow(seen, _) = Headers::parse(&asked).unwrap().payload else { panic!() };
        let (_, answer) = lab.send(1, udp(server, seen.source)).pop().unwrap();
        let (to, error) = lab.send(0, unreachable(&answer)).pop().expect("the error passes");
        let headers = Headers::parse(&error).unwrap();
        let Payload::Error { about, .. } = headers.payload else { panic!("{error:?}") };
        let expected = (1, seen.source.ip(), seen.source);
        assert_eq!((to, headers.source, about.destination), expected, "{kind}");

        // Nobody has sent this one.
        let forged = unreachable(&udp(SocketAddr::new(seen.source.ip(), 9), server));
        assert_eq!(lab.send(1, forged), [], "{kind}");
    }
}

#[test]
fn pings_are_answered_through_a_nat_and_never_by_it() {
    let mut lab = Lab::of(&[NatKind::PortRestricted, NatKind::Open]);
    let (home, server) = (lab.own(0, 0, lab.public_v4(1, 0)), lab.public_v4(1, 0));
    let echo = |from: SocketAddr, to: SocketAddr, is_request, id| {
        let mut packet = Vec::new();
        let builder = builder(from.ip(), to.ip());
        let builder = if is_request {
            builder.icmpv4_echo_request(id, 1)
        } else {
            builder.icmpv4_echo_reply(id, 1)
        };
        builder.write(&mut packet, b"ping").unwrap();
        packet
    };
    let (_, seen) = lab.one_flow(0, echo(home, server, true, 77)).unwrap();
    let reply = echo(server, seen.source, false, seen.source.port());
    let (to, seen) = lab.one_flow(1, reply).unwrap();
    assert_eq!((to, seen.destination.port()), (0, 77));
    assert_eq!(lab.send(1, echo(server, lab.public(0, 0), true, 77)), []);
}

#[test]
fn the_homes_of_a_carrier_share_its_address_and_reach_each_other_over_it() {
    let mut lab = Lab::of(&[NatKind::Carrier, NatKind::Carrier, NatKind::Open]);
    let server = lab.public_v4(2, 53);
    let [a, b] = [0, 1].map(|peer| lab.datagram(peer, 4000, server).unwrap().1.source);
    assert_eq!(a.ip(), b.ip());
    assert_ne!(a.port(), b.port());
    assert_eq!(lab.datagram(0, 4000, b), None, "B's home has not sent to A");
    let (to, flow) = lab.datagram(1, 4000, a).unwrap();
    assert_eq!((to, flow.source), (0, b), "the source is the carrier's address");
    assert_eq!(lab.datagram(0, 4000, b).unwrap().0, 1);
}

#[test]
fn a_host_reaches_itself_by_its_outer_address() {
    let mut lab = Lab::of(&[NatKind::FullCone, NatKind::Open]);
    let server = lab.public_v4(1, 53);
    let seen = lab.datagram(0, 4000, server).unwrap().1.source;
    let (to, flow) = lab.datagram(0, 5000, seen).unwrap();
    assert_eq!((to, flow.destination), (0, lab.own(0, 4000, server)));
}

#[test]
fn packets_that_cannot_be_carried_are_counted_by_cause() {
    let mut lab = Lab::of(&[NatKind::Open, NatKind::PortRestricted]);
    let (own, other) = (lab.public_v4(0, 1), lab.public_v4(1, 1));
    let nowhere = SocketAddr::new([198, 18, 200, 1].into(), 1);
    let multicast = SocketAddr::new([224, 0, 0, 251].into(), 5353);
    let home = lab.own(1, 1, own);
    let mut fragment = udp(home, own);
    fragment[6] = 0x20;
    let cases = [
        (0, udp(nowhere, other), DropCause::Unroutable),
        (0, udp(own, nowhere), DropCause::Unroutable),
        (0, udp(own, home), DropCause::Unroutable),
        (0, udp(own, multicast), DropCause::Unroutable),
        (0, udp(own, other)[..20].to_vec(), DropCause::Malformed),
        (1, fragment, DropCause::Fragment),
        (0, udp(own, other), DropCause::Unsolicited),
    ];
    for (from, packet, cause) in cases {
        let before = lab.dropped(cause);
        assert_eq!(lab.send(from, packet), [], "{cause:?}");
        assert_eq!(lab.dropped(cause), before + 1, "{cause:?}");
    }
    assert_eq!(lab.network.under_way_bytes, 0);
}

#[test]
fn the_delays_of_both_links_and_of_the_path_add_up_and_late_calls_do_not() {
    let delay = |ms| Direction { delay: Duration::from_millis(ms), ..Direction::default() };
    let mut plan = Lab::with_link(&[NatKind::Open; 3], Link { up: delay(5), down: delay(10) }).plan;
    plan.peers[1].region = 1;
    let path = |ms| Path { delay: Duration::from_millis(ms), ..Path::default() };
    plan.paths = vec![vec![path(0), path(30)], vec![path(20), path(0)]];
    for (from, to, expected) in [(0, 1, 45), (1, 0, 35), (0, 2, 15)] {
        let mut lab = Lab::new(plan.clone());
        let (own, other) = (lab.public_v4(from, 1), lab.public_v4(to, 1));
        assert_eq!(lab.send(from, udp(own, other)), []);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        // The driver calls 4 ms late.
        assert_eq!(lab.network.poll_delivery(at(9)), None);
        assert_eq!(lab.network.poll_delivery(at(expected - 1)), None);
        assert_eq!(lab.network.next_wake(), Some(at(expected)));
        assert_eq!(lab.network.poll_delivery(at(expected)).unwrap().to, to);
    }
}

#[test]
fn a_network_that_carries_all_it_may_drops_further_packets() {
    let delay = Direction { delay: Duration::from_secs(1), ..Direction::default() };
    let mut plan = Lab::with_link(&[NatKind::Open; 2], Link::symmetric(delay)).plan;
    plan.in_flight_bytes_max = 100;
    let mut lab = Lab::new(plan);
    let packet = udp(lab.public_v4(0, 1), lab.public_v4(1, 1));
    for _ in 0..5 {
        lab.send(0, packet.clone());
    }
    assert_eq!(lab.dropped(DropCause::MemoryFull), 2);
    lab.wait(2);
    assert_eq!(lab.send(0, packet).len(), 3);
}

/// An event in a network: a wait in microseconds, a sender, a receiver, ports and a size.
type Step = (u64, usize, usize, u16, u16, usize);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u64..20_000, 0_usize..8, 0_usize..8, 1_u16..6, 1_u16..6, 0_usize..1_400);
    prop::collection::vec(step, 1..120)
}

#[test]
fn a_router_that_replaces_another_has_another_address_and_no_sessions() {
    let mut lab = Lab::of(&[NatKind::PortRestricted, NatKind::Open]);
    let (own, server) = (lab.own(0, 4_000, lab.public_v4(1, 53)), lab.public_v4(1, 53));
    let seen = |received: Vec<(usize, Vec<u8>)>| {
        let [(1, packet)] = &received[..] else { panic!("{received:?}") };
        let Payload::Flow(flow, _) = Headers::parse(packet).unwrap().payload else { panic!() };
        flow.source
    };
    let before = seen(lab.send(0, udp(own, server)));
    assert_eq!(lab.send(1, udp(server, before)).len(), 1);

    let plan = lab.plan.clone();
    lab.network.replace_router(&plan, 0, NatKind::Symmetric);
    assert!(lab.send(1, udp(server, before)).is_empty(), "the old address has no receiver");
    let after = seen(lab.send(0, udp(own, server)));
    assert_ne!(after.ip(), before.ip());
    assert_eq!(lab.send(1, udp(server, after)).len(), 1);
}

proptest! {
    #[test]
    fn the_same_seed_and_packets_give_the_same_decisions_and_every_packet_is_accounted_for(
        seed: u64, steps in steps(),
    ) {
        let direction = Direction {
            bits_per_second: Some(10_000_000), delay: Duration::from_millis(3),
            jitter: Duration::from_millis(2), loss: 0.1, queue_bytes: 6_000,
        };
        let run = || {
            let mut lab = Lab::with_link(&NatKind::ALL, Link::symmetric(direction));
            lab.plan.seed = seed;
            let path = Path { delay: Duration::from_millis(20), jitter: Duration::from_millis(5), loss: 0.05 };
            lab.plan.paths = vec![vec![Path::default(), path], vec![path, Path::default()]];
            for peer in &mut lab.plan.peers[4..] {
                peer.region = 1;
            }
            lab.network = Network::new(&lab.plan).unwrap();
            let mut trace = Vec::new();
            for (wait, from, to, port, to_port, bytes) in &steps {
                lab.now += Duration::from_micros(*wait);
                let to = if lab.plan.peers[*from].nat == NatKind::Ipv6Only {
                    lab.public(*to, *to_port)
                } else {
                    lab.public_v4(*to, *to_port)
                };
                let own = lab.own(*from, *port, to);
                if own.is_ipv4() == to.is_ipv4() {
                    trace.extend(lab.send(*from, udp_with(own, to, &vec![0; *bytes])));
                } else {
                    lab.network.note_drop(*from, DropCause::Unroutable);
                }
            }
            lab.wait(60);
            trace.extend(std::iter::from_fn(|| lab.network.poll_delivery(lab.now)).map(|d| (d.to, d.packet)));
            (trace, lab.network.figures().clone(), lab.network.under_way_bytes)
        };
        let (trace, figures, under_way) = run();
        prop_assert_eq!(&run().0, &trace);
        let dropped: u64 = figures.drops.values().sum();
        let bytes = trace.iter().map(|(_, packet)| packet.len() as u64).sum();
        prop_assert_eq!(figures.delivered(), Count { packets: trace.len() as u64, bytes });
        prop_assert_eq!(trace.len() as u64 + dropped, steps.len() as u64);
        prop_assert_eq!(under_way, 0);
    }

    #[test]
    fn any_bytes_from_any_peer_are_carried_or_dropped(
        packets in prop::collection::vec((0_usize..8, prop::collection::vec(any::<u8>(), 0..100), 0_usize..8), 1..40),
    ) {
        let mut lab = Lab::of(&NatKind::ALL);
        for (from, mut bytes, to) in packets {
            // Half of the packets have valid addresses and protocols, so that they reach the NATs.
            let to_address = lab.public_v4(to, 0);
            let own = lab.own(from, 0, to_address);
            if let (IpAddr::V4(own), IpAddr::V4(to), [b, ..]) = (own.ip(), to_address.ip(), &bytes[..]) && b % 2 == 0 && bytes.len() > 20 {
                let len = (bytes.len() as u16).to_be_bytes();
                bytes[0] = 0x45;
                bytes[2..4].copy_from_slice(&len);
                bytes[6..8].fill(0);
                bytes[9] = [1, 6, 17][usize::from(bytes[9] % 3)];
                bytes[12..16].copy_from_slice(&own.octets());
                bytes[16..20].copy_from_slice(&to.octets());
            }
            lab.send(from, bytes);
        }
    }
}
