use std::time::Duration;

use watchfire_types::Instant;
use watchfire_wire::{Direction, Link, NatKind, Network, PeerPlan, WirePlan};

/// Packets of peers behind every kind of NAT: each is a sender, a length in two bytes, and its bytes. Every packet is
/// delivered as long as it was, or counted as dropped.
pub fn wire_packets(mut bytes: &[u8]) {
    let direction = Direction { bits_per_second: Some(1_000_000), ..Direction::default() };
    let peer =
        |nat: NatKind| PeerPlan { nat, ..PeerPlan::open(nat.name(), Link::symmetric(direction)) };
    let peers = NatKind::ALL.map(peer).into();
    let plan = WirePlan { peers, ..WirePlan::default() };
    let mut network = Network::new(&plan).expect("the plan is valid");
    let (mut now, mut sent, mut delivered) = (Instant::ZERO, 0, 0);
    while let Some(([from, low, high], rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let (packet, rest) = rest.split_at(len.min(rest.len()));
        network.handle_packet(now, usize::from(*from) % NatKind::ALL.len(), packet.to_vec());
        (sent, bytes) = (sent + 1, rest);
        now += Duration::from_secs(1);
        while let Some(delivery) = network.poll_delivery(now) {
            assert!(delivery.packet.len() <= len, "a packet has grown");
            delivered += 1;
        }
    }
    now += Duration::from_secs(60);
    delivered += std::iter::from_fn(|| network.poll_delivery(now)).count() as u64;
    let dropped: u64 = network.figures().drops.values().sum();
    assert_eq!(sent, delivered + dropped, "a packet is missing");
    assert_eq!(network.next_wake(), None);
}
