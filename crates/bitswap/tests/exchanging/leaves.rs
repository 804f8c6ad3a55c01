//! Exchanges that speak of leaves.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use watchfire_bitswap::leaves::{LEAVES_MAX, ListMessage, Ranges};
use watchfire_bitswap::{
    Exchange, Limits, Message, Misbehaviour, Output, Presence, Protocol, Want, WantKind,
};
use watchfire_types::Instant;

use crate::net::{FakeBlock, Links, Net, cid, toys};

/// A node's name, and what it links to.
struct Dag {
    node: FakeBlock,
    leaves: Vec<FakeBlock>,
}

impl Dag {
    fn new(leaves: u64, len: usize) -> Self {
        Dag {
            node: FakeBlock { cid: cid(1 << 40), len: 50 * leaves as usize },
            leaves: toys(leaves, len),
        }
    }

    fn bytes(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.len as u64).sum()
    }
}

fn net(nodes: usize, dag: &Dag) -> Net {
    let mut net = Net::new();
    for _ in 0..nodes {
        net.add(Links::mib_a_second(100, 100));
    }
    let leaves = dag.leaves.iter().map(|leaf| leaf.cid.clone()).collect();
    net.lists.insert(dag.node.cid.clone(), leaves);
    net
}

fn seed(net: &mut Net, who: usize, dag: &Dag) {
    net.store(who, std::slice::from_ref(&dag.node));
    net.store(who, &dag.leaves);
}

/// What a node does once it has the DAG's node.
fn fetch(net: &mut Net, who: usize, dag: &Dag) {
    net.store(who, std::slice::from_ref(&dag.node));
    let (now, node) = (net.now, &mut net.nodes[who]);
    let session = node.exchange.start_session(now);
    let has = |leaf: &FakeBlock| (leaf.cid.clone(), node.store.contains_key(&leaf.cid));
    let leaves: Vec<_> = dag.leaves.iter().map(has).collect();
    node.exchange.open_node(now, session, &dag.node.cid, leaves.clone());
    let missing = leaves.into_iter().filter(|(_, is_here)| !is_here);
    node.exchange.want(now, session, missing.map(|(cid, _)| Want::new(cid)));
    node.session = Some(session);
    // Takes its outputs.
    net.store(who, &[]);
}

fn say(net: &mut Net, from: usize, to: usize, word: ListMessage<FakeBlock>) {
    net.say(from, to, saying(word));
}

/// Bytes that all sent, beyond the blocks.
fn overhead(net: &Net) -> u64 {
    let sent = |node: &crate::net::Node| node.sent_bytes - node.exchange.totals().bytes_out;
    net.nodes.iter().map(sent).sum()
}

fn duplicates(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.exchange.totals().duplicate_blocks).sum()
}

#[test]
fn leaves_take_a_few_bytes_each_beyond_their_own() {
    let dag = Dag::new(1000, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    fetch(&mut net, 1, &dag);
    assert!(net.run(60, Net::all_done), "{} came", net.nodes[1].got);
    assert_eq!((net.nodes[1].got, duplicates(&net)), (1000, 0));
    assert_eq!(net.nodes[0].exchange.peer(1).unwrap().wants, 0, "the ledger is empty again");
    let overhead = overhead(&net);
    assert!(overhead < 30 * 1000, "{overhead} bytes for a thousand leaves");
}

#[test]
fn a_mesh_says_a_fraction_of_what_it_says_in_bitswap() {
    let dag = Dag::new(300, 256 << 10);
    let run = |protocol| {
        let mut net = net(9, &dag);
        net.mesh(protocol);
        seed(&mut net, 0, &dag);
        (1..9).for_each(|leecher| fetch(&mut net, leecher, &dag));
        assert!(net.run(60, Net::all_done), "{protocol:?}");
        let took = net.nodes.iter().filter_map(|node| node.done_at).max().unwrap();
        let duplicates = duplicates(&net) as f64 / (8.0 * dag.leaves.len() as f64);
        // What is given back does not come twice.
        let max = if protocol == Protocol::Leaves { 0.001 } else { 0.01 };
        assert!(duplicates <= max, "{protocol:?}: {duplicates}");
        (overhead(&net), took.as_nanos())
    };
    let ((plain, plain_took), (short, took)) = (run(Protocol::V1_2), run(Protocol::Leaves));
    assert!(short * 5 < plain, "{short} bytes of overhead, in Bitswap {plain}");
    assert!(short < dag.bytes() * 8 / 1000, "{short} bytes of overhead");
    assert!(took < plain_took * 5 / 4, "{took} against {plain_took} nanoseconds");
}

#[test]
fn those_who_speak_leaves_and_those_who_do_not_are_one_swarm() {
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
    let served = |node: &crate::net::Node| node.exchange.totals().blocks_out > 0;
    assert!(net.nodes.iter().all(served));
}

#[test]
fn who_follows_a_list_hears_of_the_node_and_of_each_leaf_that_comes_later() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(3, &dag);
    net.connect(1, 2, Protocol::Leaves);
    fetch(&mut net, 2, &dag);
    net.run(3, |_| false);
    fetch(&mut net, 1, &dag);
    seed(&mut net, 0, &dag);
    net.connect(0, 1, Protocol::Leaves);
    assert!(net.run(60, Net::all_done), "{} came", net.nodes[2].got);
    assert_eq!(net.nodes[2].got, 100);
}

#[test]
fn leaves_are_found_where_their_node_is_not() {
    let dag = Dag::new(50, 100_000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    net.store(0, &dag.leaves);
    fetch(&mut net, 1, &dag);
    assert!(net.run(20, Net::all_done), "{} came", net.nodes[1].got);
}

#[test]
fn those_who_lack_the_same_are_not_asked_leaf_by_leaf() {
    let dag = Dag::new(200, 100_000);
    let mut net = net(5, &dag);
    net.mesh(Protocol::Leaves);
    (1..5).for_each(|leecher| fetch(&mut net, leecher, &dag));
    // Long enough for all of them to have looked for others, and wondered who lacks the node alone.
    net.run(10, |_| false);
    assert!(net.nodes[1].searches > 0);
    let wants = |of: usize| net.nodes[1].exchange.peer(of).unwrap().wants;
    assert_eq!([2, 3, 4].map(wants), [0; 3], "they want what they would be told of anyway");
    seed(&mut net, 0, &dag);
    assert!(net.run(60, Net::all_done), "{} came", net.nodes[1].got);
}

#[test]
fn who_is_refused_asks_leaf_by_leaf() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    fetch(&mut net, 1, &dag);
    seed(&mut net, 0, &dag);
    say(&mut net, 0, 1, ListMessage::Reject { list: 0 });
    assert!(net.run(60, Net::all_done), "{} came", net.nodes[1].got);
    assert_eq!(duplicates(&net), 0);
}

#[test]
fn a_session_that_ends_leaves_nothing_behind_and_the_next_one_begins_anew() {
    let dag = Dag::new(100, 256 << 10);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    fetch(&mut net, 1, &dag);
    net.run(60, |net| net.nodes[1].got >= 10);
    let (now, session) = (net.now, net.nodes[1].session.unwrap());
    net.nodes[1].exchange.stop_session(now, session);
    net.store(1, &[]);
    net.run(5, |_| false);
    let got = net.nodes[1].got;
    assert!(got < 100 && net.nodes[0].exchange.peer(1).unwrap().wants == 0);
    fetch(&mut net, 1, &dag);
    assert!(net.run(60, Net::all_done));
    assert_eq!(net.nodes[1].got, 100);
}

/// A leecher that follows the list of a peer, who says what it likes.
fn followed() -> (Net, Dag) {
    let dag = Dag::new(100, 100_000);
    let mut net = net(3, &dag);
    net.connect(1, 2, Protocol::Leaves);
    net.nodes[2].is_mute = true;
    fetch(&mut net, 1, &dag);
    net.run(1, |_| false);
    (net, dag)
}

fn here(leaves: impl IntoIterator<Item = u32>, is_complete: bool) -> ListMessage<FakeBlock> {
    ListMessage::Have { list: 0, is_complete, leaves: leaves.into_iter().collect() }
}

#[test]
fn who_has_more_leaves_than_there_are_is_dropped() {
    let (mut net, _) = followed();
    say(&mut net, 2, 1, here(0..101, true));
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::LeafOutOfRange)]);
}

#[test]
fn who_says_the_same_over_and_over_is_dropped() {
    let (mut net, _) = followed();
    for _ in 0..100 {
        say(&mut net, 2, 1, here(0..100, false));
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::Flooded)]);
}

#[test]
fn who_sends_another_block_than_the_leaf_lies() {
    let (mut net, dag) = followed();
    say(&mut net, 2, 1, here(0..100, true));
    net.run(1, |_| false);
    for leaf in [4, 5] {
        let block = dag.leaves[9].clone();
        say(&mut net, 2, 1, ListMessage::Leaf { list: 0, leaf, block });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::ForgedBlocks)]);
    assert_eq!(net.nodes[1].got, 0);
}

#[test]
fn leaves_nobody_asked_for_are_counted_and_too_many_of_them_end_it() {
    let (mut net, _) = followed();
    for n in 0..20 {
        let block = FakeBlock { cid: cid(5000 + n), len: 1000 };
        say(&mut net, 2, 1, ListMessage::Leaf { list: 77, leaf: 0, block });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped.len(), 1);
    assert_eq!(net.nodes[1].got, 0);
}

#[test]
fn words_of_lists_that_nobody_follows_mean_nothing() {
    let (mut net, _) = followed();
    let ranges: Ranges = (0..LEAVES_MAX).collect();
    for list in 5..200 {
        let leaves = ranges.clone();
        say(&mut net, 2, 1, ListMessage::Have { list, is_complete: true, leaves: leaves.clone() });
        say(&mut net, 2, 1, ListMessage::DontHave { list, leaves: leaves.clone() });
        say(&mut net, 2, 1, ListMessage::Request { list, priority: 1, leaves: leaves.clone() });
        say(&mut net, 2, 1, ListMessage::Cancel { list, leaves: leaves.clone() });
        say(&mut net, 2, 1, ListMessage::CancelQueued { list, leaves });
        say(&mut net, 2, 1, ListMessage::Reject { list });
        say(&mut net, 2, 1, ListMessage::Unsubscribe { list });
    }
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, []);
    assert_eq!(net.nodes[1].exchange.peer(2).unwrap().wants, 0);
}

#[test]
fn who_asks_for_more_than_its_list_has_is_dropped() {
    let (mut net, dag) = followed();
    let node = dag.node.cid.clone();
    say(&mut net, 2, 1, ListMessage::Subscribe { list: 0, node, leaves: 100 });
    say(&mut net, 2, 1, ListMessage::Request { list: 0, priority: 1, leaves: (0..101).collect() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[1].dropped, [(2, Misbehaviour::LeafOutOfRange)]);
}

fn saying(word: ListMessage<FakeBlock>) -> Message<FakeBlock> {
    Message { leaves: vec![word], ..Message::default() }
}

fn leaves_of(messages: &[Message<FakeBlock>]) -> usize {
    let is_leaf = |word: &&ListMessage<FakeBlock>| matches!(word, ListMessage::Leaf { .. });
    messages.iter().flat_map(|message| &message.leaves).filter(is_leaf).count()
}

/// A word of peer 1 to one who has all of a DAG, and what that sends then. It takes one block, and no more before
/// [`Exchange::writable`].
fn answer(
    server: &mut Exchange<usize, FakeBlock>,
    dag: &Dag,
    word: ListMessage<FakeBlock>,
) -> Vec<Message<FakeBlock>> {
    server.handle_message(Instant::ZERO, 1, saying(word));
    sends(server, dag, Instant::ZERO)
}

/// What one who has all of a DAG sends.
fn sends(
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
fn what_waits_is_given_back_and_what_is_on_its_way_comes() {
    let dag = Dag::new(10, 100_000);
    let mut server = Exchange::new(Limits::default(), 1);
    server.handle_connected(Instant::ZERO, 1, Protocol::Leaves);
    server.handle_writable(Instant::ZERO, 1, 50_000);
    let node = dag.node.cid.clone();
    answer(&mut server, &dag, ListMessage::Subscribe { list: 7, node, leaves: 10 });
    server.handle_writable(Instant::ZERO, 1, 50_000);
    let leaves: Ranges = [2, 3].into_iter().collect();
    let ask = ListMessage::Request { list: 7, priority: 9, leaves: leaves.clone() };
    assert_eq!(leaves_of(&answer(&mut server, &dag, ask)), 1);
    assert_eq!(server.peer(1).unwrap().wants, 1, "the other waits for room");

    // There is room for words again, and as little as before for blocks.
    server.handle_writable(Instant::ZERO, 1, 1);
    let returned =
        answer(&mut server, &dag, ListMessage::CancelQueued { list: 7, leaves: leaves.clone() });
    let presences: Vec<Presence> = returned.into_iter().flat_map(|it| it.presences).collect();
    assert_eq!(presences, [Presence { cid: dag.leaves[3].cid.clone(), is_here: true }]);
    assert_eq!(server.peer(1).unwrap().wants, 0);
    let again = answer(&mut server, &dag, ListMessage::CancelQueued { list: 7, leaves });
    assert_eq!(again, [], "there is nothing to give back");
    server.handle_writable(Instant::ZERO, 1, 50_000);
    assert_eq!(server.poll_output(), None, "what was given back is not sent");
}

#[test]
fn what_was_just_sent_is_left_to_those_who_follow_though_they_ask_for_nothing() {
    let dag = Dag::new(11, 100_000);
    // Blocks that another gets at once, and later, of what the first was just sent.
    let blocks_of_another = |followers: usize| {
        let mut server = Exchange::new(Limits::default(), 1);
        for peer in 1..=followers {
            server.handle_connected(Instant::ZERO, peer, Protocol::Leaves);
            let node = dag.node.cid.clone();
            let follow = ListMessage::Subscribe { list: 7, node, leaves: 11 };
            server.handle_message(Instant::ZERO, peer, saying(follow));
            sends(&mut server, &dag, Instant::ZERO);
            server.handle_writable(Instant::ZERO, peer, 10_000_000);
        }
        let ask = |leaf: u32| ListMessage::Request {
            list: 7,
            priority: 9,
            leaves: [leaf].into_iter().collect(),
        };
        for second in 0..11 {
            let now = Instant::ZERO + Duration::from_secs(second);
            server.handle_message(now, 1, saying(ask(second as u32)));
            assert_eq!(leaves_of(&sends(&mut server, &dag, now)), 1);
            server.handle_writable(now, 1, 10_000_000);
        }
        let now = Instant::ZERO + Duration::from_secs(11);
        server.handle_message(now, 2, saying(ask(10)));
        let at_once = leaves_of(&sends(&mut server, &dag, now));
        let later = server.next_wake().map_or(0, |wake| {
            server.handle_tick(wake);
            leaves_of(&sends(&mut server, &dag, wake))
        });
        (at_once, later)
    };
    assert_eq!(blocks_of_another(6), (0, 1), "the others had their time");
    assert_eq!(blocks_of_another(3), (1, 0), "so few may have nothing for one another");
}

#[test]
fn a_source_is_asked_for_what_nobody_else_has_however_much_others_are_asked_for() {
    let dag = Dag::new(40, 100_000);
    let mut leecher: Exchange<usize, FakeBlock> = Exchange::new(Limits::default(), 1);
    let start = Instant::ZERO;
    let session = leecher.start_session(start);
    let leaves: Vec<_> = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), false)).collect();
    leecher.open_node(start, session, &dag.node.cid, leaves);
    leecher.want(start, session, dag.leaves.iter().map(|leaf| Want::new(leaf.cid.clone())));
    let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    // So many who never sent anything are asked for a block each, and no more.
    let source = 9;
    for peer in 1..=source {
        leecher.handle_connected(start, peer, Protocol::Leaves);
        leecher.handle_writable(start, peer, 1_000_000);
        let all_but_some = if peer == source { 0..40 } else { 0..35 };
        leecher.handle_message(start, peer, saying(here(all_but_some, true)));
        hear_asks(&mut leecher, &mut asked);
    }
    assert_eq!(asked.len(), 8, "{asked:?}");
    assert!(!asked.contains_key(&source));
    let later = start + Duration::from_millis(100);
    leecher.handle_message(later, source, saying(here([], false)));
    hear_asks(&mut leecher, &mut asked);
    assert_eq!(asked[&source].len(), 1, "{asked:?}");
    assert!(asked[&source][0] >= 35, "others have {}", asked[&source][0]);
}

/// A cancel may come too late; then a block comes twice. In a crowd that happens thousands of times.
#[test]
fn what_another_has_by_now_is_given_back_before_it_is_asked_of_that_one() {
    let dag = Dag::new(200, 100_000);
    let mut leecher: Exchange<usize, FakeBlock> = Exchange::new(Limits::default(), 1);
    let session = leecher.start_session(Instant::ZERO);
    let leaves: Vec<_> = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), false)).collect();
    leecher.open_node(Instant::ZERO, session, &dag.node.cid, leaves);
    let want = |leaf: &FakeBlock| Want { len: Some(100_000), ..Want::new(leaf.cid.clone()) };
    leecher.want(Instant::ZERO, session, dag.leaves.iter().map(want));
    let (source, other) = (1, 2);
    let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    leecher.handle_connected(Instant::ZERO, source, Protocol::Leaves);
    leecher.handle_writable(Instant::ZERO, source, 1_000_000);
    leecher.handle_message(Instant::ZERO, source, saying(here(0..200, true)));
    hear_asks(&mut leecher, &mut asked);
    let mut now = Instant::ZERO;
    let mut came = 0;
    for _ in 0..4 {
        now += Duration::from_millis(50);
        for leaf in asked[&source].clone().into_iter().skip(came) {
            let block = dag.leaves[leaf as usize].clone();
            leecher.handle_message(now, source, saying(ListMessage::Leaf { list: 0, leaf, block }));
            came += 1;
        }
        hear_asks(&mut leecher, &mut asked);
    }
    let last = *asked[&source].last().unwrap();
    assert!(asked[&source].len() >= came + 4, "the last has to wait: {asked:?}");

    leecher.handle_connected(now, other, Protocol::Leaves);
    leecher.handle_writable(now, other, 1_000_000);
    leecher.handle_message(now, other, saying(here([last], true)));
    let words = leaves_said(&mut leecher, source);
    let returned: Vec<u32> = words.iter().flat_map(returned_by).collect();
    assert_eq!(returned, [last]);
    let is_cancel = |word: &ListMessage<FakeBlock>| matches!(word, ListMessage::Cancel { .. });
    assert!(!words.iter().any(is_cancel), "{words:?}");
    let asks = words.iter().filter(|word| matches!(word, ListMessage::Request { .. })).count();
    assert_eq!(asks, 1, "for what nobody else has: {words:?}");

    let presence = Presence { cid: dag.leaves[last as usize].cid.clone(), is_here: true };
    leecher.handle_message(
        now,
        source,
        Message { presences: vec![presence], ..Message::default() },
    );
    asked.clear();
    hear_asks(&mut leecher, &mut asked);
    assert_eq!(asked[&other], [last]);
}

/// Otherwise those who fall behind stay behind, and are waited for when all others have everything.
#[test]
fn who_is_behind_the_others_asks_for_more_at_a_time() {
    let dag = Dag::new(200, 1 << 20);
    // Blocks that are asked for at a time, when each of twelve others has so many.
    let asked_at_a_time = |theirs: u32| {
        let limits = Limits { requested_bytes_max: 16 << 20, ..Limits::default() };
        let mut leecher: Exchange<usize, FakeBlock> = Exchange::new(limits, 1);
        let session = leecher.start_session(Instant::ZERO);
        let leaves: Vec<_> = dag.leaves.iter().map(|leaf| (leaf.cid.clone(), false)).collect();
        leecher.open_node(Instant::ZERO, session, &dag.node.cid, leaves);
        let want = |leaf: &FakeBlock| Want { len: Some(1 << 20), ..Want::new(leaf.cid.clone()) };
        leecher.want(Instant::ZERO, session, dag.leaves.iter().map(want));
        let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for peer in 0..12 {
            leecher.handle_connected(Instant::ZERO, peer, Protocol::Leaves);
            leecher.handle_writable(Instant::ZERO, peer, 1_000_000);
            let node = dag.node.cid.clone();
            let follow = ListMessage::Subscribe { list: 7, node, leaves: 200 };
            leecher.handle_message(Instant::ZERO, peer, saying(follow));
            let first = peer as u32 * 8;
            leecher.handle_message(Instant::ZERO, peer, saying(here(first..first + theirs, true)));
        }
        hear_asks(&mut leecher, &mut asked);
        // One block of each: before, nobody is asked for more.
        let mut came = vec![0; 12];
        for turn in 1..=2 {
            let now = Instant::ZERO + Duration::from_millis(100 * turn);
            for (peer, leaves) in std::mem::take(&mut asked) {
                if came[peer] == 0 {
                    came[peer] = 1;
                    let block = dag.leaves[leaves[0] as usize].clone();
                    let leaf = ListMessage::Leaf { list: 0, leaf: leaves[0], block };
                    leecher.handle_message(now, peer, saying(leaf));
                }
            }
            hear_asks(&mut leecher, &mut asked);
        }
        assert_eq!(came, vec![1; 12]);
        (0..12)
            .filter_map(|peer| leecher.peer(peer))
            .map(|peer| peer.requested_blocks)
            .sum::<usize>()
    };
    assert_eq!(asked_at_a_time(8), 12, "we have as many as they");
    assert_eq!(asked_at_a_time(40), 16, "we have far less");
}

/// What an exchange says of leaves to one peer now.
fn leaves_said(
    exchange: &mut Exchange<usize, FakeBlock>,
    to: usize,
) -> Vec<ListMessage<FakeBlock>> {
    let mut words = Vec::new();
    while let Some(output) = exchange.poll_output() {
        if let Output::Send { peer, message } = output
            && peer == to
        {
            words.extend(message.leaves);
        }
    }
    words
}

fn returned_by(word: &ListMessage<FakeBlock>) -> Vec<u32> {
    match word {
        ListMessage::CancelQueued { leaves, .. } => leaves.iter().collect(),
        _ => Vec::new(),
    }
}

/// What an exchange asks for now, and whom.
fn hear_asks(leecher: &mut Exchange<usize, FakeBlock>, asked: &mut BTreeMap<usize, Vec<u32>>) {
    while let Some(output) = leecher.poll_output() {
        let Output::Send { peer, message } = output else { continue };
        for word in message.leaves {
            if let ListMessage::Request { leaves, .. } = word {
                asked.entry(peer).or_default().extend(leaves.iter());
            }
        }
    }
}

#[test]
fn who_follows_with_another_length_than_the_list_has_gets_nothing_that_way() {
    let dag = Dag::new(100, 100_000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    seed(&mut net, 0, &dag);
    let node = dag.node.cid.clone();
    say(&mut net, 1, 0, ListMessage::Subscribe { list: 0, node, leaves: 99 });
    say(&mut net, 1, 0, ListMessage::Request { list: 0, priority: 9, leaves: (0..10).collect() });
    net.run(1, |_| false);
    assert_eq!(net.nodes[0].exchange.totals().blocks_out, 0);
    assert_eq!(net.nodes[0].dropped, []);
}

#[test]
fn of_a_million_lists_a_peer_may_follow_a_thousand() {
    let dag = Dag::new(10, 1000);
    let mut net = net(2, &dag);
    net.connect(0, 1, Protocol::Leaves);
    let mut looked = 0;
    for list in 0..1_000_000_u32 {
        let node = cid(1 << 41 | u64::from(list));
        let now = net.now;
        let exchange = &mut net.nodes[0].exchange;
        let leaves = vec![ListMessage::Subscribe { list, node, leaves: 50 }];
        exchange.handle_message(now, 1, Message { leaves, ..Message::default() });
        while let Some(output) = exchange.poll_output() {
            looked += u32::from(matches!(output, watchfire_bitswap::Output::ListLinks { .. }));
        }
    }
    assert_eq!(looked, 1024);
}

/// Want-blocks that are taken from a peer that has been silent for two seconds, while another sends a block every
/// quarter of a second.
fn taken_from_the_silent(protocol: Protocol) -> u64 {
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
                    Message { leaves: vec![here(0..60, true)], ..Message::default() }
                }
                _ => {
                    let have = |leaf: &FakeBlock| Presence { cid: leaf.cid.clone(), is_here: true };
                    let presences = dag.leaves.iter().map(have).collect();
                    Message { presences, ..Message::default() }
                }
            },
        );
    }
    let mut asked: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    for step in 0..9 {
        for peer in [1, 2] {
            // Both send one, lest they be strangers; then only the first goes on.
            let block = asked.get_mut(&peer).filter(|_| step < 2 || peer == 1);
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
            let asks = asked.entry(peer).or_default();
            for word in message.leaves {
                if let ListMessage::Request { leaves, .. } = word {
                    asks.extend(leaves.iter().map(|leaf| leaf as usize));
                }
            }
            let blocks = message.wants.iter().filter(|it| it.kind == WantKind::Block);
            asks.extend(blocks.filter(|it| !it.cancel).filter_map(|it| leaf(&it.cid)));
        }
        now += Duration::from_millis(250);
    }
    let [busy, silent] = [1, 2].map(|peer| exchange.peer(peer).expect("it is here"));
    assert!(busy.blocks_in >= 7 && silent.blocks_in == 1, "{busy:?}, {silent:?}");
    exchange.totals().silent_requests
}

#[test]
fn who_waits_for_its_turn_on_our_link_is_not_silent_whatever_others_send() {
    assert_eq!(taken_from_the_silent(Protocol::V1_2), 0);
    assert_eq!(taken_from_the_silent(Protocol::Leaves), 0);
}
