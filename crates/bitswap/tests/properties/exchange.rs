use proptest::collection::vec;
use proptest::prelude::*;

use crate::fake_network::{BLOCKS, FakeNetwork, PEERS, Saying, Step, Wanting};

fn wanting() -> impl Strategy<Value = Wanting> {
    let flags = (prop::bool::weighted(0.2), any::<bool>(), any::<bool>());
    (0..BLOCKS, any::<i32>(), flags).prop_map(|(block, priority, flags)| {
        let (is_cancel, is_have, send_dont_have) = flags;
        Wanting { block, priority, is_cancel, is_have, send_dont_have }
    })
}

fn saying() -> impl Strategy<Value = Saying> {
    let presences = vec((0..BLOCKS, prop::bool::weighted(0.8)), 0..8);
    let forged = prop_oneof![30 => Just(0u8), 1 => 1..3u8];
    (prop::bool::weighted(0.05), vec(wanting(), 0..12), vec(0..BLOCKS, 0..3), forged, presences)
        .prop_map(|(is_full, wants, blocks, forged, presences)| Saying {
            is_full,
            wants,
            blocks,
            forged,
            presences,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let (peer, session, blocks) = (0..PEERS, 0..3u8, || vec(0..BLOCKS, 1..10));
    prop_oneof![
        3 => (peer.clone(), prop_oneof![4 => Just(0u8), 1 => 1..3u8])
            .prop_map(|(peer, protocol)| Step::Connect(peer, protocol)),
        1 => peer.clone().prop_map(Step::Disconnect),
        1 => Just(Step::Start),
        1 => session.clone().prop_map(Step::Stop),
        3 => (session.clone(), blocks()).prop_map(|(session, blocks)| Step::Want(session, blocks)),
        1 => (session.clone(), blocks()).prop_map(|(session, blocks)| Step::Unwant(session, blocks)),
        8 => (peer.clone(), saying()).prop_map(|(peer, saying)| Step::Say(peer, saying)),
        1 => peer.clone().prop_map(Step::Arriving),
        8 => (peer, 0..6000u16).prop_map(|(peer, room)| Step::Room(peer, room)),
        3 => (0..BLOCKS).prop_map(Step::Have),
        6 => any::<u8>().prop_map(Step::Find),
        6 => (any::<u8>(), prop::bool::weighted(0.9))
            .prop_map(|(place, is_readable)| Step::Read(place, is_readable)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(place, peers)| Step::Providers(place, peers)),
        3 => any::<u16>().prop_map(Step::Wait),
    ]
}

fn live(seed: u64, steps: &[Step]) {
    let mut network = FakeNetwork::new(seed);
    network.take(&Step::Start);
    network.take(&Step::Connect(0, 0));
    network.take(&Step::Room(0, 5000));
    steps.iter().for_each(|step| network.take(step));
    network.end();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn whatever_happens_an_exchange_keeps_its_promises(
        seed in any::<u64>(),
        steps in vec(step(), 0..150),
    ) {
        live(seed, &steps);
    }
}
