//! One who has and one who wants.

use watchfire_bitswap::{Message, Protocol, Want, WantEntry, WantKind};

use crate::net::{Links, Net, cid, toys};

fn pair(protocol: Protocol) -> Net {
    let mut net = Net::new();
    let links = Links::mib_a_second(100, 100);
    net.add(links);
    net.add(links);
    net.connect(0, 1, protocol);
    net
}

#[test]
fn what_one_has_the_other_gets_in_every_version() {
    for protocol in [Protocol::V1_0, Protocol::V1_1, Protocol::V1_2] {
        let mut net = pair(protocol);
        let blocks = toys(100, 100_000);
        net.store(0, &blocks);
        net.want_all(1, &blocks);
        assert!(net.run(10, Net::all_done), "{protocol:?}: {} came", net.nodes[1].got);
        assert_eq!(net.nodes[1].exchange.totals().blocks_in, 100);
        assert_eq!(net.nodes[1].exchange.totals().duplicate_blocks, 0);
        assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0, "the ledger is empty again");
    }
}

#[test]
fn a_block_that_comes_later_is_sent_to_those_who_wait() {
    let mut net = pair(Protocol::V1_2);
    let blocks = toys(10, 100_000);
    net.want_all(1, &blocks);
    net.run(5, |_| false);
    assert_eq!(net.nodes[1].got, 0);
    net.store(0, &blocks);
    assert!(net.run(1, Net::all_done));
}

#[test]
fn who_lacks_a_block_is_told_so_and_providers_are_looked_for_ever_less_often() {
    let mut net = pair(Protocol::V1_2);
    net.want(1, [Want::new(cid(1))]);
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].searches, 1);
    net.run(299, |_| false);
    let searches = net.nodes[1].searches;
    assert!((6..=16).contains(&searches), "{searches} searches in five minutes");
}

#[test]
fn what_is_taken_back_is_not_sent() {
    let mut net = pair(Protocol::V1_2);
    let blocks = toys(50, 1_000_000);
    net.store(0, &blocks);
    let session = net.want_all(1, &blocks);
    net.run(10, |net| net.nodes[1].got >= 5);
    let now = net.now;
    net.nodes[1].exchange.stop_session(now, session);
    net.say(1, 0, Message::default());
    net.run(10, |_| false);
    assert!(net.nodes[0].exchange.totals().blocks_out < 20);
    assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0);
}

#[test]
fn a_million_wants_are_as_many_as_the_ledger_holds() {
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
fn a_peer_is_told_of_no_more_wants_than_it_remembers() {
    for protocol in [Protocol::V1_1, Protocol::V1_2] {
        let mut net = Net::new();
        let links = Links::mib_a_second(4000, 4000);
        net.add(links);
        net.add(links);
        net.connect(0, 1, protocol);
        let blocks = toys(5000, 4000);
        net.store(0, &blocks);
        net.want_all(1, &blocks);
        assert!(net.run(60, Net::all_done), "{protocol:?}: {} came", net.nodes[1].got);
        assert_eq!(net.nodes[0].exchange.totals().rejected_wants, 0);
    }
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    for protocol in [Protocol::V1_1, Protocol::V1_2] {
        let mut net = pair(protocol);
        let blocks = toys(50, 100_000);
        net.store(0, &blocks);
        net.nodes[0].loses = 3;
        net.want_all(1, &blocks);
        assert!(net.run(60, Net::all_done), "{protocol:?}: {} came", net.nodes[1].got);
        assert_eq!(net.nodes[1].dropped, []);
    }
}
