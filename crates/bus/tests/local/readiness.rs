use std::sync::Arc;
use std::time::{Duration, Instant};

use watchfire_bus::frame::Frame;
use watchfire_bus::{Bus, BusLimits, Loss, Readiness};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Peer, Said, mesh};

/// As long as a test.
fn patient() -> BusLimits {
    BusLimits { ack_timeout: Duration::from_secs(600), ..BusLimits::default() }
}

fn waits(readiness: Readiness) -> u64 {
    match readiness {
        Readiness::Waits(seq) => seq,
        Readiness::Ready => panic!("it waits for nothing"),
    }
}

/// This is not ready by what the peer has said so far.
fn assert_not_ready(node: &Node, seq: u64, of: u16, peer: &mut Peer) {
    let mark = format!("mark {}", node.told.events().len());
    peer.say(Frame::Message(mark.as_bytes()));
    let events = node.told.wait_for(&Event::Message(of, mark.into_bytes()));
    let is_ready = |event: &Event| matches!(event, Event::Ready(it) if *it >= seq);
    assert!(!events.iter().any(is_ready), "{events:?}");
}

#[test]
fn a_node_alone_is_ready_at_once() {
    let node = Node::start(0, patient());
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
}

#[test]
fn a_subscribe_is_ready_when_all_nodes_have_acknowledged_and_not_before() {
    let node = Node::start(0, patient());
    let (mut one, mut two) = (node.peer(1), node.peer(2));
    let seq = waits(node.bus.subscribe("t"));
    for peer in [&mut one, &mut two] {
        assert_eq!(peer.hear(), Said::Subscribe(seq, "t".into()));
    }
    assert_not_ready(&node, seq, 1, &mut one);
    one.say(Frame::Ack { seq });
    assert_not_ready(&node, seq, 1, &mut one);
    assert_eq!(node.bus.subscribe("t"), Readiness::Waits(seq));
    two.say(Frame::Ack { seq });
    node.told.wait_for(&Event::Ready(seq));
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
}

#[test]
fn messages_sent_inside_interested_arrive_before_the_subscribe_is_ready() {
    let nodes = mesh(3, &patient());
    for other in &nodes[1..] {
        let bus = Arc::downgrade(&other.bus);
        other.told.hook(move |event| {
            if let (Event::Interested(node, topic), Some(bus)) = (event, bus.upgrade()) {
                for number in 0..500 {
                    let known = format!("{topic} {number}").into();
                    bus.send(NodeId(*node), known, Loss::Cut).unwrap();
                }
            }
        });
    }
    let mut first = 0;
    for topic in ["a", "b"] {
        let seq = waits(nodes[0].bus.subscribe(topic));
        let events = nodes[0].told.wait_for(&Event::Ready(seq));
        let ready = events.iter().position(|event| *event == Event::Ready(seq)).unwrap();
        for node in [1, 2] {
            let known =
                (0..500).map(|number| Event::Message(node, format!("{topic} {number}").into()));
            let before = events[first..ready].iter();
            assert!(
                before
                    .filter(|event| matches!(event, Event::Message(it, _) if *it == node))
                    .cloned()
                    .eq(known)
            );
        }
        first = ready;
    }
}

#[test]
fn a_node_that_goes_down_is_waited_for_no_more() {
    let node = Node::start(0, patient());
    let (mut one, two) = (node.peer(1), node.peer(2));
    let seq = waits(node.bus.subscribe("t"));
    one.say(Frame::Ack { seq });
    assert_not_ready(&node, seq, 1, &mut one);
    drop(two);
    let events = node.told.wait_for(&Event::Ready(seq));
    assert_eq!(events[events.len() - 2..], [Event::Down(2), Event::Ready(seq)]);
}

#[test]
fn no_wait_is_longer_than_the_timeout() {
    let limits = BusLimits { ack_timeout: Duration::from_millis(300), ..BusLimits::default() };
    let node = Node::start(0, limits);
    let mut peer = node.peer(1);
    let begun = Instant::now();
    let seq = waits(node.bus.subscribe("t"));
    node.told.wait_for(&Event::Ready(seq));
    // An upper bound would be a bound on the machine.
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(node.bus.totals().late, 1);
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    // What comes too late is no harm.
    peer.say(Frame::Ack { seq });
    peer.say(Frame::Message(b"still here"));
    node.told.wait_for(&Event::Message(1, b"still here".into()));
}

#[test]
fn all_topics_are_announced_to_a_new_node_and_subscribes_wait_for_it() {
    let node = Node::start(0, patient());
    let topics: Vec<_> = (0..1000).map(|number| format!("topic:{number}")).collect();
    for topic in &topics {
        assert_eq!(node.bus.subscribe(topic), Readiness::Ready);
    }
    let mut peer = node.link(1);
    let seq = waits(node.bus.subscribe("topic:7"));
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for _ in 0..topics.len() {
        let Said::Subscribe(seq, topic) = peer.hear() else { panic!("a topic is missing") };
        told.push(topic);
        asked.push(seq);
    }
    let last = asked.pop().unwrap();
    assert!(last >= seq);
    assert!(asked.iter().all(|seq| *seq == 0), "one acknowledgement is for all");
    told.sort();
    let mut expected = topics;
    expected.sort();
    assert_eq!(told, expected);
    assert_not_ready(&node, seq, 1, &mut peer);
    peer.say(Frame::Ack { seq: last });
    node.told.wait_for(&Event::Ready(last));
    assert_eq!(node.bus.subscribe("topic:8"), Readiness::Ready);
}

#[test]
fn a_topic_that_comes_back_soon_is_ready_at_once() {
    let limits = BusLimits { linger: Duration::from_secs(600), ..patient() };
    let node = Node::start(0, limits);
    let mut peer = node.peer(1);
    let seq = waits(node.bus.subscribe("t"));
    peer.say(Frame::Ack { seq });
    node.told.wait_for(&Event::Ready(seq));
    node.bus.unsubscribe("t");
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    node.bus.stop();
    assert_eq!(peer.hear_all(), [Said::Subscribe(seq, "t".into())]);
}

#[test]
fn interest_is_announced_once_and_acknowledged_after_it_was_handled() {
    let node = Node::start(0, patient());
    let mut peer = node.peer(1);
    let bus = Arc::downgrade(&node.bus);
    node.told.hook(move |event| {
        if let (Event::Interested(..), Some(bus)) = (event, bus.upgrade()) {
            bus.send(NodeId(1), "state".into(), Loss::Cut).unwrap();
        }
    });
    for seq in [0, 5] {
        peer.say(Frame::Subscribe { seq, topic: "t" });
    }
    assert_eq!(peer.hear(), Said::Message(b"state".into()));
    assert_eq!(peer.hear(), Said::Ack(5));
    peer.say(Frame::Unsubscribe { topic: "t" });
    peer.say(Frame::Subscribe { seq: 6, topic: "t" });
    assert_eq!(peer.hear(), Said::Message(b"state".into()));
    assert_eq!(peer.hear(), Said::Ack(6));
    assert_eq!(node.bus.publish("t", "news".into(), Loss::Drop), 1);
    assert_eq!(peer.hear(), Said::Message(b"news".into()));
}
