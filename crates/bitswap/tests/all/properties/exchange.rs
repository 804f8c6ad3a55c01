use proptest::collection::vec;
use proptest::prelude::*;

use super::fake_network::{BLOCKS, FakeMessage, FakeNetwork, FakeWant, PEERS, Step};

fn want() -> impl Strategy<Value = FakeWant> {
    let flags = (prop::bool::weighted(0.2), any::<bool>(), any::<bool>());
    (0..BLOCKS, any::<i32>(), flags).prop_map(|(block, priority, flags)| {
        let (is_cancel, is_have, send_dont_have) = flags;
        FakeWant { block, priority, is_cancel, is_have, send_dont_have }
    })
}

fn message() -> impl Strategy<Value = FakeMessage> {
    let presences = vec((0..BLOCKS, prop::bool::weighted(0.8)), 0..8);
    let forged = prop_oneof![30 => Just(0u8), 1 => 1..3u8];
    (prop::bool::weighted(0.05), vec(want(), 0..12), vec(0..BLOCKS, 0..3), forged, presences)
        .prop_map(|(is_full, wants, blocks, forged, presences)| FakeMessage {
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
        1 => (session.clone(), blocks())
            .prop_map(|(session, blocks)| Step::CancelWants(session, blocks)),
        8 => (peer.clone(), message()).prop_map(|(peer, message)| Step::Receive(peer, message)),
        1 => peer.clone().prop_map(Step::PartialMessage),
        8 => (peer, 0..6000u16).prop_map(|(peer, room)| Step::Writable(peer, room)),
        3 => (0..BLOCKS).prop_map(Step::Stored),
        6 => any::<u8>().prop_map(Step::LookupResult),
        6 => (any::<u8>(), prop::bool::weighted(0.9))
            .prop_map(|(place, is_readable)| Step::Read(place, is_readable)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(place, peers)| Step::Providers(place, peers)),
        3 => any::<u16>().prop_map(Step::Wait),
    ]
}

fn run(seed: u64, steps: &[Step]) {
    let mut network = FakeNetwork::new(seed);
    network.apply(&Step::Start);
    network.apply(&Step::Connect(0, 0));
    network.apply(&Step::Writable(0, 5000));
    steps.iter().for_each(|step| network.apply(step));
    network.end();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn an_exchange_keeps_its_promises_in_any_order_of_steps(
        seed in any::<u64>(),
        steps in vec(step(), 0..150),
    ) {
        run(seed, &steps);
    }
}
