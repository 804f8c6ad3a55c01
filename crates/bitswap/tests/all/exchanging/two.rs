//! A peer that has blocks and a peer that wants them.

use watchfire_bitswap::{Message, Protocol, Want, WantEntry, WantKind};

use super::net::{Links, Net, cid, fake_blocks};

fn pair(protocol: Protocol) -> Net {
    let mut net = Net::new();
    let links = Links::mib_per_second(100, 100);
    net.add(links);
    net.add(links);
    net.connect(0, 1, protocol);
    net
}

#[test]
fn a_peer_gets_its_wanted_blocks_in_every_version() {
    for protocol in [Protocol::V1_0, Protocol::V1_1, Protocol::V1_2] {
        let mut net = pair(protocol);
        let blocks = fake_blocks(100, 100_000);
        net.store(0, &blocks);
        net.want_all(1, &blocks);
        assert!(net.run(10, Net::all_done), "{protocol:?}: {} arrived", net.nodes[1].received);
        assert_eq!(net.nodes[1].exchange.totals().blocks_in, 100);
        assert_eq!(net.nodes[1].exchange.totals().duplicate_blocks, 0);
        assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0, "the ledger is empty again");
    }
}

#[test]
fn a_block_that_is_stored_later_is_sent_to_waiting_peers() {
    let mut net = pair(Protocol::V1_2);
    let blocks = fake_blocks(10, 100_000);
    net.want_all(1, &blocks);
    net.run(5, |_| false);
    assert_eq!(net.nodes[1].received, 0);
    net.store(0, &blocks);
    assert!(net.run(1, Net::all_done));
}

#[test]
fn searches_for_missing_blocks_repeat_at_growing_intervals() {
    let mut net = pair(Protocol::V1_2);
    net.want(1, [Want::new(cid(1))]);
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].searches, 1);
    net.run(299, |_| false);
    let searches = net.nodes[1].searches;
    assert!((6..=16).contains(&searches), "{searches} searches in five minutes");
}

#[test]
fn cancelled_blocks_are_not_sent() {
    let mut net = pair(Protocol::V1_2);
    let blocks = fake_blocks(50, 1_000_000);
    net.store(0, &blocks);
    let session = net.want_all(1, &blocks);
    net.run(10, |net| net.nodes[1].received >= 5);
    let now = net.now;
    net.nodes[1].exchange.stop_session(now, session);
    net.send(1, 0, Message::default());
    net.run(10, |_| false);
    assert!(net.nodes[0].exchange.totals().blocks_out < 20);
    assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0);
}

#[test]
fn the_ledger_holds_a_bounded_number_of_wants() {
    let mut net = pair(Protocol::V1_2);
    for part in 0..1000 {
        let want = |n| WantEntry {
            cid: cid(n),
            priority: 1,
            cancel: false,
            kind: WantKind::Have,
            send_dont_have: true,
        };
        let wants = (part * 1000..(part + 1) * 1000).map(want).collect();
        let now = net.now;
        net.nodes[0].exchange.handle_message(now, 1, Message { wants, ..Message::default() });
        while let Some(output) = net.nodes[0].exchange.poll_output() {
            if let watchfire_bitswap::Output::Lookup { cid } = output {
                net.nodes[0].exchange.handle_lookup(now, &cid, None);
            }
        }
    }
    assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 1024);
    assert_eq!(net.nodes[0].exchange.totals().rejected_wants, 1_000_000 - 1024);
}

#[test]
fn a_peer_receives_no_more_wants_than_it_remembers() {
    for protocol in [Protocol::V1_1, Protocol::V1_2] {
        let mut net = Net::new();
        let links = Links::mib_per_second(4000, 4000);
        net.add(links);
        net.add(links);
        net.connect(0, 1, protocol);
        let blocks = fake_blocks(5000, 4000);
        net.store(0, &blocks);
        net.want_all(1, &blocks);
        assert!(net.run(60, Net::all_done), "{protocol:?}: {} arrived", net.nodes[1].received);
        assert_eq!(net.nodes[0].exchange.totals().rejected_wants, 0);
    }
}

#[test]
fn a_block_whose_message_is_lost_is_requested_again() {
    for protocol in [Protocol::V1_1, Protocol::V1_2] {
        let mut net = pair(protocol);
        let blocks = fake_blocks(50, 100_000);
        net.store(0, &blocks);
        net.nodes[0].messages_to_lose = 3;
        net.want_all(1, &blocks);
        assert!(net.run(60, Net::all_done), "{protocol:?}: {} arrived", net.nodes[1].received);
        assert_eq!(net.nodes[1].dropped, []);
    }
}
