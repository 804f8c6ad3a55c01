//! Exchanges that speak the leaves protocol.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_bitswap::leaves::{LEAVES_MAX, ListMessage, Ranges};
use watchfire_bitswap::{
    Exchange, Limits, Message, Misbehaviour, Output, Presence, Protocol, Want, WantKind,
};
use watchfire_types::Instant;

use super::net::{FakeBlock, Links, Net, cid, fake_blocks};

/// A DAG node and its links.
struct Dag {
    node: FakeBlock,
    leaves: Vec<FakeBlock>,
}

impl Dag {
    fn new(leaves: u64, len: usize) -> Self {
        Dag {
            node: FakeBlock { cid: cid(1 << 40), len: 50 * leaves as usize },
            leaves: fake_blocks(leaves, len),
        }
    }

    fn bytes(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.len as u64).sum()
    }
}

fn net(nodes: usize, dag: &Dag) -> Net {
    let mut net = Net::new();
    for _ in 0..nodes {
        net.add(Links::mib_per_second(100, 100));
    }
    let leaves = dag.leaves.iter().map(|leaf| leaf.cid.clone()).collect();
    net.lists.insert(dag.node.cid.clone(), leaves);
    net
}

fn seed(net: &mut Net, id: usize, dag: &Dag) {
    net.store(id, std::slice::from_ref(&dag.node));
    net.store(id, &dag.leaves);
}

/// A node gets the DAG's node, and fetches its leaves.
fn fetch(net: &mut Net, id: usize, dag: &Dag) {
    net.store(id, std::slice::from_ref(&dag.node));
    let (now, node) = (net.now, &mut net.nodes[id]);
    let session = node.exchange.start_session(now);
    let has = |leaf: &FakeBlock| (leaf.cid.clone(), node.store.contains_key(&leaf.cid));
    let leaves: Vec<_> = dag.leaves.iter().map(has).collect();
    node.exchange.open_node(now, session, &dag.node.cid, leaves.clone());
    let missing = leaves.into_iter().filter(|(_, has_block)| !has_block);
    node.exchange.want(now, session, missing.map(|(cid, _)| Want::new(cid)));
    node.session = Some(session);
    // This carries out the outputs.
    net.store(id, &[]);
}

fn send(net: &mut Net, from: usize, to: usize, list_message: ListMessage<FakeBlock>) {
    net.send(from, to, wrap(list_message));
}

/// Bytes that all nodes sent besides the blocks.
fn overhead(net: &Net) -> u64 {
    let sent = |node: &super::net::Node| node.sent_bytes - node.exchange.totals().bytes_out;
    net.nodes.iter().map(sent).sum()
}

fn duplicates(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.exchange.totals().duplicate_blocks).sum()
}

#[test]
fn a_leaf_takes_a_few_bytes_besides_its_block() {
    let dag = Dag::new(1000, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    fetch(&mut net, 1, &dag);
    assert!(net.run(60, Net::all_done), "{} arrived", net.nodes[1].received);
    assert_eq!((net.nodes[1].received, duplicates(&net)), (1000, 0));
    assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0, "the ledger is empty again");
    let overhead = overhead(&net);
    assert!(overhead < 30 * 1000, "{overhead} bytes for a thousand leaves");
}

#[test]
fn a_mesh_has_a_fraction_of_the_overhead_of_bitswap() {
    let dag = Dag::new(300, 256 << 10);
    let run = |protocol| {
        let mut net = net(9, &dag);
        net.mesh(protocol);
        seed(&mut net, 0, &dag);
        (1..9).for_each(|leecher| fetch(&mut net, leecher, &dag));
        assert!(net.run(60, Net::all_done), "{protocol:?}");
        let took = net.nodes.iter().filter_map(|node| node.done_at).max().unwrap();
        let duplicates = duplicates(&net) as f64 / (8.0 * dag.leaves.len() as f64);
        // A confirmed cancel causes no duplicate.
        let max = if protocol == Protocol::Leaves { 0.001 } else { 0.01 };
        assert!(duplicates <= max, "{protocol:?}: {duplicates}");
        (overhead(&net), took.as_nanos())
    };
    let ((plain, plain_took), (short, took)) = (run(Protocol::V1_2), run(Protocol::Leaves));
    assert!(short * 5 < plain, "{short} bytes of overhead, {plain} with Bitswap");
    assert!(short < dag.bytes() * 8 / 1000, "{short} bytes of overhead");
    assert!(took < plain_took * 5 / 4, "{took} against {plain_took} nanoseconds");
}

#[test]
fn peers_with_and_without_the_leaves_protocol_form_one_swarm() {
    let dag = Dag::new(200, 256 << 10);
    let mut net = net(9, &dag);
    for a in 0..9 {
        for b in 0..a {
            let both = a % 2 == 0 && b % 2 == 0;
            net.connect(a, b, if both { Protocol::Leaves } else { Protocol::V1_2 });
        }
    }
    seed(&mut net, 0, &dag);
    (1..9).for_each(|leecher| fetch(&mut net, leecher, &dag));
    assert!(net.run(60, Net::all_done));
    assert!(duplicates(&net) <= 16, "{}", duplicates(&net));
    let served = |node: &super::net::Node| node.exchange.totals().blocks_out > 0;
    assert!(net.nodes.iter().all(served));
}

#[test]
fn a_subscriber_learns_of_the_node_and_of_each_later_leaf() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(3, &dag);
    net.connect(1, 2, Protocol::Leaves);
    fetch(&mut net, 2, &dag);
    net.run(3, |_| false);
    fetch(&mut net, 1, &dag);
    seed(&mut net, 0, &dag);
    net.connect(0, 1, Protocol::Leaves);
    assert!(net.run(60, Net::all_done), "{} arrived", net.nodes[2].received);
    assert_eq!(net.nodes[2].received, 100);
}

#[test]
fn leaves_are_found_at_a_peer_that_lacks_their_node() {
    let dag = Dag::new(50, 100_000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    net.store(0, &dag.leaves);
    fetch(&mut net, 1, &dag);
    assert!(net.run(20, Net::all_done), "{} arrived", net.nodes[1].received);
}

#[test]
fn peers_that_lack_the_same_leaves_send_no_want_haves() {
    let dag = Dag::new(200, 100_000);
    let mut net = net(5, &dag);
    net.mesh(Protocol::Leaves);
    (1..5).for_each(|leecher| fetch(&mut net, leecher, &dag));
    // Long enough for all of them to have searched for providers.
    net.run(10, |_| false);
    assert!(net.nodes[1].searches > 0);
    let wants = |of: usize| net.nodes[1].exchange.peer(of).unwrap().wants;
    assert_eq!([2, 3, 4].map(wants), [0; 3], "announced leaves need no want-haves");
    seed(&mut net, 0, &dag);
    assert!(net.run(60, Net::all_done), "{} arrived", net.nodes[1].received);
}

#[test]
fn leaves_of_a_rejected_list_are_requested_by_their_cids() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    fetch(&mut net, 1, &dag);
    seed(&mut net, 0, &dag);
    send(&mut net, 0, 1, ListMessage::Reject { list: 0 });
    assert!(net.run(60, Net::all_done), "{} arrived", net.nodes[1].received);
    assert_eq!(duplicates(&net), 0);
}

#[test]
fn a_session_that_ends_leaves_no_wants_and_another_can_start() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    fetch(&mut net, 1, &dag);
    net.run(60, |net| net.nodes[1].received >= 10);
    let (now, session) = (net.now, net.nodes[1].session.unwrap());
    net.nodes[1].exchange.stop_session(now, session);
    net.store(1, &[]);
    net.run(5, |_| false);
    let got = net.nodes[1].received;
    assert!(got < 100 && net.nodes[0].exchange.peer(1).unwrap().wants == 0);
    fetch(&mut net, 1, &dag);
    assert!(net.run(60, Net::all_done));
    assert_eq!(net.nodes[1].received, 100);
}

/// A leecher that subscribes to a list at peer 2. The tests send the messages of peer 2.
fn subscribed_leecher() -> (Net, Dag) {
    let dag = Dag::new(100, 100_000);
    let mut net = net(3, &dag);
    net.connect(1, 2, Protocol::Leaves);
    net.nodes[2].is_mute = true;
    fetch(&mut net, 1, &dag);
    net.run(1, |_| false);
    (net, dag)
}

fn have(leaves: impl IntoIterator<Item = u32>, is_complete: bool) -> ListMessage<FakeBlock> {
    ListMessage::Have { list: 0, is_complete, leaves: leaves.into_iter().collect() }
}

#[test]
fn a_peer_that_announces_more_leaves_than_the_list_has_is_dropped() {
    let (mut net, _) = subscribed_leecher();
    send(&mut net, 2, 1, have(0..101, true));
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::LeafOutOfRange)]);
}

#[test]
fn a_peer_that_keeps_repeating_an_announcement_is_dropped() {
    let (mut net, _) = subscribed_leecher();
    for _ in 0..100 {
        send(&mut net, 2, 1, have(0..100, false));
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Flooded)]);
}

#[test]
fn a_peer_that_sends_another_block_as_a_leaf_is_dropped() {
    let (mut net, dag) = subscribed_leecher();
    send(&mut net, 2, 1, have(0..100, true));
    net.run(1, |_| false);
    for leaf in [4, 5] {
        let block = dag.leaves[9].clone();
        send(&mut net, 2, 1, ListMessage::Leaf { list: 0, leaf, block });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    assert_eq!(net.nodes[1].received, 0);
}

#[test]
fn unsolicited_leaves_are_counted_and_too_many_drop_the_peer() {
    let (mut net, _) = subscribed_leecher();
    for n in 0..20 {
        let block = FakeBlock { cid: cid(5000 + n), len: 1000 };
        send(&mut net, 2, 1, ListMessage::Leaf { list: 77, leaf: 0, block });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped.len(), 1);
    assert_eq!(net.nodes[1].received, 0);
}

#[test]
fn messages_about_unknown_lists_are_ignored() {
    let (mut net, _) = subscribed_leecher();
    let ranges: Ranges = (0..LEAVES_MAX).collect();
    for list in 5..200 {
        let leaves = ranges.clone();
        send(&mut net, 2, 1, ListMessage::Have { list, is_complete: true, leaves: leaves.clone() });
        send(&mut net, 2, 1, ListMessage::DontHave { list, leaves: leaves.clone() });
        send(&mut net, 2, 1, ListMessage::Request { list, priority: 1, leaves: leaves.clone() });
        send(&mut net, 2, 1, ListMessage::Cancel { list, leaves: leaves.clone() });
        send(&mut net, 2, 1, ListMessage::CancelQueued { list, leaves });
        send(&mut net, 2, 1, ListMessage::Reject { list });
        send(&mut net, 2, 1, ListMessage::Unsubscribe { list });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, []);
    assert_eq!(net.nodes[1].exchange.peer(2).unwrap().wants, 0);
}

#[test]
fn a_peer_that_requests_more_leaves_than_its_list_has_is_dropped() {
    let (mut net, dag) = subscribed_leecher();
    let node = dag.node.cid.clone();
    send(&mut net, 2, 1, ListMessage::Subscribe { list: 0, node, leaves: 100 });
    send(&mut net, 2, 1, ListMessage::Request { list: 0, priority: 1, leaves: (0..101).collect() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::LeafOutOfRange)]);
}

fn wrap(list_message: ListMessage<FakeBlock>) -> Message<FakeBlock> {
    Message { leaves: vec![list_message], ..Message::default() }
}

fn leaves_of(messages: &[Message<FakeBlock>]) -> usize {
    let is_leaf = |message: &&ListMessage<FakeBlock>| matches!(message, ListMessage::Leaf { .. });
    messages.iter().flat_map(|message| &message.leaves).filter(is_leaf).count()
}

/// Sends a list message of peer 1 to a seeder of the DAG. Returns the messages that the seeder
/// sends. Its send buffer takes one block before the next [`Exchange::handle_writable`].
fn answer(
    server: &mut Exchange<usize, FakeBlock>,
    dag: &Dag,
    list_message: ListMessage<FakeBlock>,
) -> Vec<Message<FakeBlock>> {
    server.handle_message(Instant::ZERO, 1, wrap(list_message));
    poll_messages(server, dag, Instant::ZERO)
}

/// Returns the messages that a seeder of the DAG sends.
fn poll_messages(
    server: &mut Exchange<usize, FakeBlock>,
    dag: &Dag,
    now: Instant,
) -> Vec<Message<FakeBlock>> {
    let find = |cid| dag.leaves.iter().find(|leaf| leaf.cid == cid).cloned();
    let mut sent = Vec::new();
    while let Some(output) = server.poll_output() {
        match output {
            Output::ListLinks { node } => {
                let leaves = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), true)).collect();
                server.handle_links(now, &node, Some(leaves));
            }
            Output::Lookup { cid } => {
                let len = find(cid.clone()).map(|leaf| leaf.len);
                server.handle_lookup(now, &cid, len);
            }
            Output::Read { peer, cid } => server.handle_read(now, peer, &cid, find(cid.clone())),
            Output::Send { message, .. } => sent.push(message),
            output => panic!("{output:?}"),
        }
    }
    sent
}

#[test]
fn queued_leaves_can_be_cancelled_and_sent_ones_arrive() {
    let dag = Dag::new(10, 100_000);
    let mut server = Exchange::new(Limits::default(), 1);
    server.handle_connected(Instant::ZERO, 1, Protocol::Leaves);
    server.handle_writable(Instant::ZERO, 1, 50_000);
    let node = dag.node.cid.clone();
    answer(&mut server, &dag, ListMessage::Subscribe { list: 7, node, leaves: 10 });
    server.handle_writable(Instant::ZERO, 1, 50_000);
    let leaves: Ranges = [2, 3].into_iter().collect();
    let request = ListMessage::Request { list: 7, priority: 9, leaves: leaves.clone() };
    assert_eq!(leaves_of(&answer(&mut server, &dag, request)), 1);
    assert_eq!(server.peer(1).unwrap().wants, 1, "the other waits for room");

    // There is room for a message, but not for a block.
    server.handle_writable(Instant::ZERO, 1, 1);
    let cancelled =
        answer(&mut server, &dag, ListMessage::CancelQueued { list: 7, leaves: leaves.clone() });
    let presences: Vec<Presence> = cancelled.into_iter().flat_map(|it| it.presences).collect();
    assert_eq!(presences, [Presence { cid: dag.leaves[3].cid.clone(), has_block: true }]);
    assert_eq!(server.peer(1).unwrap().wants, 0);
    let again = answer(&mut server, &dag, ListMessage::CancelQueued { list: 7, leaves });
    assert_eq!(again, [], "no leaf is queued");
    server.handle_writable(Instant::ZERO, 1, 50_000);
    assert_eq!(server.poll_output(), None, "a cancelled leaf is not sent");
}

#[test]
fn new_blocks_are_left_to_subscribers_even_if_these_request_nothing() {
    let dag = Dag::new(11, 100_000);
    // Blocks that peer 2 receives immediately and later, of the blocks that peer 1 was just sent.
    let blocks_for_peer_2 = |subscribers: usize| {
        let mut server = Exchange::new(Limits::default(), 1);
        for peer in 1..=subscribers {
            server.handle_connected(Instant::ZERO, peer, Protocol::Leaves);
            let node = dag.node.cid.clone();
            let subscribe = ListMessage::Subscribe { list: 7, node, leaves: 11 };
            server.handle_message(Instant::ZERO, peer, wrap(subscribe));
            poll_messages(&mut server, &dag, Instant::ZERO);
            server.handle_writable(Instant::ZERO, peer, 10_000_000);
        }
        let request = |leaf: u32| ListMessage::Request {
            list: 7,
            priority: 9,
            leaves: [leaf].into_iter().collect(),
        };
        for second in 0..11 {
            let now = Instant::ZERO + Duration::from_secs(second);
            server.handle_message(now, 1, wrap(request(second as u32)));
            assert_eq!(leaves_of(&poll_messages(&mut server, &dag, now)), 1);
            server.handle_writable(now, 1, 10_000_000);
        }
        let now = Instant::ZERO + Duration::from_secs(11);
        server.handle_message(now, 2, wrap(request(10)));
        let at_once = leaves_of(&poll_messages(&mut server, &dag, now));
        let later = server.next_wake().map_or(0, |wake| {
            server.handle_tick(wake);
            leaves_of(&poll_messages(&mut server, &dag, wake))
        });
        (at_once, later)
    };
    assert_eq!(blocks_for_peer_2(6), (0, 1), "the other peers had their time");
    assert_eq!(blocks_for_peer_2(3), (1, 0), "so few peers are not a swarm");
}

/// A leecher without peers that wants all leaves. `len` is what it knows of their length.
fn leecher_of(dag: &Dag, limits: Limits, len: Option<u32>) -> Exchange<usize, FakeBlock> {
    let mut leecher = Exchange::new(limits, 1);
    let session = leecher.start_session(Instant::ZERO);
    let leaves: Vec<_> = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), false)).collect();
    leecher.open_node(Instant::ZERO, session, &dag.node.cid, leaves);
    let want = |leaf: &FakeBlock| Want { len, ..Want::new(leaf.cid.clone()) };
    leecher.want(Instant::ZERO, session, dag.leaves.iter().map(want));
    leecher
}

#[test]
fn a_seeder_gets_a_request_for_a_block_that_only_it_has_beyond_other_limits() {
    let dag = Dag::new(40, 100_000);
    let mut leecher = leecher_of(&dag, Limits::default(), None);
    let start = Instant::ZERO;
    let mut requested: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    // Eight unproven peers get one request each, and further ones none.
    let seeder = 9;
    for peer in 1..=seeder {
        leecher.handle_connected(start, peer, Protocol::Leaves);
        leecher.handle_writable(start, peer, 1_000_000);
        let all_but_some = if peer == seeder { 0..40 } else { 0..35 };
        leecher.handle_message(start, peer, wrap(have(all_but_some, true)));
        collect_requests(&mut leecher, &mut requested);
    }
    assert_eq!(requested.len(), 8, "{requested:?}");
    assert!(!requested.contains_key(&seeder));
    let later = start + Duration::from_millis(100);
    leecher.handle_message(later, seeder, wrap(have([], false)));
    collect_requests(&mut leecher, &mut requested);
    assert_eq!(requested[&seeder].len(), 1, "{requested:?}");
    assert!(requested[&seeder][0] >= 35, "other peers have {}", requested[&seeder][0]);
}

/// Without the confirmation, late cancels would cause thousands of duplicates in a large swarm.
#[test]
fn a_request_moves_to_a_new_holder_after_its_cancel_is_confirmed() {
    let dag = Dag::new(200, 100_000);
    let mut leecher = leecher_of(&dag, Limits::default(), Some(100_000));
    let (seeder, other) = (1, 2);
    let mut requested: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    leecher.handle_connected(Instant::ZERO, seeder, Protocol::Leaves);
    leecher.handle_writable(Instant::ZERO, seeder, 1_000_000);
    leecher.handle_message(Instant::ZERO, seeder, wrap(have(0..200, true)));
    collect_requests(&mut leecher, &mut requested);
    let mut now = Instant::ZERO;
    let mut received = 0;
    for _ in 0..4 {
        now += Duration::from_millis(50);
        for leaf in requested[&seeder].clone().into_iter().skip(received) {
            let block = dag.leaves[leaf as usize].clone();
            leecher.handle_message(now, seeder, wrap(ListMessage::Leaf { list: 0, leaf, block }));
            received += 1;
        }
        collect_requests(&mut leecher, &mut requested);
    }
    let last = *requested[&seeder].last().unwrap();
    assert!(requested[&seeder].len() >= received + 4, "the last request waits: {requested:?}");

    leecher.handle_connected(now, other, Protocol::Leaves);
    leecher.handle_writable(now, other, 1_000_000);
    leecher.handle_message(now, other, wrap(have([last], true)));
    let messages = list_messages_to(&mut leecher, seeder);
    let cancelled: Vec<u32> = messages.iter().flat_map(cancels_if_queued).collect();
    assert_eq!(cancelled, [last]);
    let is_cancel =
        |message: &ListMessage<FakeBlock>| matches!(message, ListMessage::Cancel { .. });
    assert!(!messages.iter().any(is_cancel), "{messages:?}");
    let requests =
        messages.iter().filter(|message| matches!(message, ListMessage::Request { .. })).count();
    assert_eq!(requests, 1, "for a block that only the seeder has: {messages:?}");

    let presence = Presence { cid: dag.leaves[last as usize].cid.clone(), has_block: true };
    leecher.handle_message(
        now,
        seeder,
        Message { presences: vec![presence], ..Message::default() },
    );
    requested.clear();
    collect_requests(&mut leecher, &mut requested);
    assert_eq!(requested[&other], [last]);
}

/// The rate of a busy link says little about the turn of one block: most urgent blocks that moved at once came twice.
#[test]
fn an_urgent_block_moves_to_another_peer_after_its_cancel_is_confirmed() {
    let dag = Dag::new(40, 100_000);
    let mut leecher = leecher_of(&dag, Limits::default(), Some(100_000));
    let mut requested: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for peer in [1, 2] {
        leecher.handle_connected(Instant::ZERO, peer, Protocol::Leaves);
        leecher.handle_writable(Instant::ZERO, peer, 1_000_000);
        leecher.handle_message(Instant::ZERO, peer, wrap(have(0..40, true)));
    }
    collect_requests(&mut leecher, &mut requested);
    let mut now = Instant::ZERO;
    for (peer, at) in [(1, 50), (2, 51)] {
        now = Instant::ZERO + Duration::from_millis(at);
        let leaf = requested[&peer][0];
        let block = dag.leaves[leaf as usize].clone();
        leecher.handle_message(now, peer, wrap(ListMessage::Leaf { list: 0, leaf, block }));
    }
    collect_requests(&mut leecher, &mut requested);
    let urgent = *requested[&1].last().unwrap();
    now += Duration::from_secs(1);
    // The other peer has room for it.
    for leaf in requested[&2][1..].iter().copied() {
        let block = dag.leaves[leaf as usize].clone();
        leecher.handle_message(now, 2, wrap(ListMessage::Leaf { list: 0, leaf, block }));
    }
    leecher.set_urgent(now, &[dag.leaves[urgent as usize].cid.clone()]);
    let mut sent = BTreeMap::new();
    while let Some(output) = leecher.poll_output() {
        let Output::Send { peer, message } = output else { continue };
        sent.entry(peer).or_insert_with(Vec::new).extend(message.leaves);
    }
    let cancelled: Vec<u32> = sent[&1].iter().flat_map(cancels_if_queued).collect();
    assert_eq!(cancelled, [urgent], "{sent:?}");
    let requests = |list_message: &ListMessage<FakeBlock>| match list_message {
        ListMessage::Request { leaves, .. } => leaves.iter().collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let repeated = sent.get(&2).into_iter().flatten().flat_map(requests).any(|leaf| leaf == urgent);
    assert!(!repeated, "{sent:?}");
    let presence = Presence { cid: dag.leaves[urgent as usize].cid.clone(), has_block: true };
    let confirmed = Message { presences: vec![presence], ..Message::default() };
    leecher.handle_message(now, 1, confirmed);
    let leaf = sent[&2].iter().flat_map(requests).next().expect("a request for another block");
    let block = dag.leaves[leaf as usize].clone();
    leecher.handle_message(now, 2, wrap(ListMessage::Leaf { list: 0, leaf, block }));
    requested.clear();
    collect_requests(&mut leecher, &mut requested);
    let again = requested.values().flatten().filter(|leaf| **leaf == urgent).count();
    assert_eq!(again, 1, "{requested:?}");
}

/// Otherwise peers that fall behind would finish long after the others.
#[test]
fn a_peer_behind_the_others_requests_more_at_a_time() {
    let dag = Dag::new(200, 1 << 20);
    // Blocks that are requested at a time, when each of twelve other peers has `theirs`.
    let requested_at_a_time = |theirs: u32| {
        let limits = Limits { requested_bytes_max: 16 << 20, ..Limits::default() };
        let mut leecher = leecher_of(&dag, limits, Some(1 << 20));
        let mut requested: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for peer in 0..12 {
            leecher.handle_connected(Instant::ZERO, peer, Protocol::Leaves);
            leecher.handle_writable(Instant::ZERO, peer, 1_000_000);
            let node = dag.node.cid.clone();
            let subscribe = ListMessage::Subscribe { list: 7, node, leaves: 200 };
            leecher.handle_message(Instant::ZERO, peer, wrap(subscribe));
            let first = peer as u32 * 8;
            leecher.handle_message(Instant::ZERO, peer, wrap(have(first..first + theirs, true)));
        }
        collect_requests(&mut leecher, &mut requested);
        // One block from each: an unproven peer gets one request.
        let mut received = vec![0; 12];
        for turn in 1..=2 {
            let now = Instant::ZERO + Duration::from_millis(100 * turn);
            for (peer, leaves) in std::mem::take(&mut requested) {
                if received[peer] == 0 {
                    received[peer] = 1;
                    let block = dag.leaves[leaves[0] as usize].clone();
                    let leaf = ListMessage::Leaf { list: 0, leaf: leaves[0], block };
                    leecher.handle_message(now, peer, wrap(leaf));
                }
            }
            collect_requests(&mut leecher, &mut requested);
        }
        assert_eq!(received, vec![1; 12]);
        (0..12)
            .filter_map(|peer| leecher.peer(peer))
            .map(|peer| peer.requested_blocks)
            .sum::<usize>()
    };
    assert_eq!(requested_at_a_time(8), 12, "this node has as many as the others");
    assert_eq!(requested_at_a_time(40), 16, "this node has far fewer");
}

/// The list messages that an exchange sends to one peer now.
fn list_messages_to(
    exchange: &mut Exchange<usize, FakeBlock>,
    to: usize,
) -> Vec<ListMessage<FakeBlock>> {
    let mut list_messages = Vec::new();
    while let Some(output) = exchange.poll_output() {
        if let Output::Send { peer, message } = output
            && peer == to
        {
            list_messages.extend(message.leaves);
        }
    }
    list_messages
}

fn cancels_if_queued(list_message: &ListMessage<FakeBlock>) -> Vec<u32> {
    match list_message {
        ListMessage::CancelQueued { leaves, .. } => leaves.iter().collect(),
        _ => Vec::new(),
    }
}

/// Collects the leaves that an exchange requests now, by peer.
fn collect_requests(
    leecher: &mut Exchange<usize, FakeBlock>,
    requested: &mut BTreeMap<usize, Vec<u32>>,
) {
    while let Some(output) = leecher.poll_output() {
        let Output::Send { peer, message } = output else { continue };
        for list_message in message.leaves {
            if let ListMessage::Request { leaves, .. } = list_message {
                requested.entry(peer).or_default().extend(leaves.iter());
            }
        }
    }
}

#[test]
fn a_subscription_with_a_wrong_length_is_rejected() {
    let dag = Dag::new(100, 100_000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    let node = dag.node.cid.clone();
    send(&mut net, 1, 0, ListMessage::Subscribe { list: 0, node, leaves: 99 });
    send(&mut net, 1, 0, ListMessage::Request { list: 0, priority: 9, leaves: (0..10).collect() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[0].exchange.totals().blocks_out, 0);
    assert_eq!(net.nodes[0].dropped, []);
}

#[test]
fn a_peer_may_subscribe_to_a_thousand_lists() {
    let dag = Dag::new(10, 1000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    let mut listed = 0;
    for list in 0..1_000_000_u32 {
        let node = cid(1 << 41 | u64::from(list));
        let now = net.now;
        let exchange = &mut net.nodes[0].exchange;
        let leaves = vec![ListMessage::Subscribe { list, node, leaves: 50 }];
        exchange.handle_message(now, 1, Message { leaves, ..Message::default() });
        while let Some(output) = exchange.poll_output() {
            listed += u32::from(matches!(output, watchfire_bitswap::Output::ListLinks { .. }));
        }
    }
    assert_eq!(listed, 1024);
}

/// Want-blocks that are moved away from a peer that has been silent for two seconds, while another
/// peer sends a block every quarter of a second.
fn requests_moved_from_silent_peer(protocol: Protocol) -> u64 {
    let dag = Dag::new(60, 256 << 10);
    let leaf = |cid: &_| dag.leaves.iter().position(|leaf| leaf.cid == *cid);
    let mut exchange: Exchange<usize, FakeBlock> = Exchange::new(Limits::default(), 3);
    let mut now = Instant::ZERO;
    let session = exchange.start_session(now);
    let all: Vec<_> = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), false)).collect();
    exchange.open_node(now, session, &dag.node.cid, all);
    exchange.want(now, session, dag.leaves.iter().map(|leaf| Want::new(leaf.cid.clone())));
    for peer in [1, 2] {
        exchange.handle_connected(now, peer, protocol);
        exchange.handle_writable(now, peer, 1 << 20);
        exchange.handle_message(
            now,
            peer,
            match protocol {
                Protocol::Leaves => {
                    Message { leaves: vec![have(0..60, true)], ..Message::default() }
                }
                _ => {
                    let have =
                        |leaf: &FakeBlock| Presence { cid: leaf.cid.clone(), has_block: true };
                    let presences = dag.leaves.iter().map(have).collect();
                    Message { presences, ..Message::default() }
                }
            },
        );
    }
    let mut requested: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    for step in 0..9 {
        for peer in [1, 2] {
            // Both send one block, so that both are proven. Then only the first goes on.
            let block = requested.get_mut(&peer).filter(|_| step < 2 || peer == 1);
            if let Some(nth) = block.and_then(VecDeque::pop_front) {
                let block = dag.leaves[nth].clone();
                let message = match protocol {
                    Protocol::Leaves => {
                        let leaves = vec![ListMessage::Leaf { list: 0, leaf: nth as u32, block }];
                        Message { leaves, ..Message::default() }
                    }
                    _ => Message { blocks: vec![block], ..Message::default() },
                };
                exchange.handle_message(now, peer, message);
            }
        }
        exchange.handle_tick(now);
        while let Some(output) = exchange.poll_output() {
            let Output::Send { peer, message } = output else { continue };
            let requests = requested.entry(peer).or_default();
            for list_message in message.leaves {
                if let ListMessage::Request { leaves, .. } = list_message {
                    requests.extend(leaves.iter().map(|leaf| leaf as usize));
                }
            }
            let blocks = message.wants.iter().filter(|it| it.kind == WantKind::Block);
            requests.extend(blocks.filter(|it| !it.cancel).filter_map(|it| leaf(&it.cid)));
        }
        now += Duration::from_millis(250);
    }
    let [busy, silent] = [1, 2].map(|peer| exchange.peer(peer).expect("it is connected"));
    assert!(busy.blocks_in >= 7 && silent.blocks_in == 1, "{busy:?}, {silent:?}");
    exchange.totals().silent_requests
}

#[test]
fn a_peer_that_waits_for_its_turn_on_our_link_is_not_silent() {
    assert_eq!(requests_moved_from_silent_peer(Protocol::V1_2), 0);
    assert_eq!(requests_moved_from_silent_peer(Protocol::Leaves), 0);
}
