use std::sync::Arc;
use std::time::{Duration, Instant};

use watchfire_cluster::bus::frame::Frame;
use watchfire_cluster::bus::{Bus, BusLimits, Loss, Readiness};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Peer, Received, mesh};

/// Limits with a timeout longer than a test.
fn long_timeout() -> BusLimits {
    BusLimits { ack_timeout: Duration::from_secs(600), ..BusLimits::default() }
}

fn waits(readiness: Readiness) -> u64 {
    match readiness {
        Readiness::Waits(seq) => seq,
        Readiness::Ready => panic!("it does not wait"),
    }
}

/// Asserts that `seq` is not ready after all that the peer has sent so far.
fn assert_not_ready(node: &Node, seq: u64, of: u16, peer: &mut Peer) {
    let mark = format!("mark {}", node.recorder.events().len());
    peer.send(Frame::Message(mark.as_bytes()));
    let events = node.recorder.wait_for(&Event::Message(of, mark.into_bytes()));
    let is_ready = |event: &Event| matches!(event, Event::Ready(it) if *it >= seq);
    assert!(!events.iter().any(is_ready), "{events:?}");
}

#[test]
fn a_single_node_is_ready_at_once() {
    let node = Node::start(0, long_timeout());
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
}

#[test]
fn a_subscription_is_ready_when_all_nodes_have_acknowledged_and_not_before() {
    let node = Node::start(0, long_timeout());
    let (mut one, mut two) = (node.peer(1), node.peer(2));
    let seq = waits(node.bus.subscribe("t"));
    for peer in [&mut one, &mut two] {
        assert_eq!(peer.receive(), Received::Subscribe(seq, "t".into()));
    }
    assert_not_ready(&node, seq, 1, &mut one);
    one.send(Frame::Ack { seq });
    assert_not_ready(&node, seq, 1, &mut one);
    assert_eq!(node.bus.subscribe("t"), Readiness::Waits(seq));
    two.send(Frame::Ack { seq });
    node.recorder.wait_for(&Event::Ready(seq));
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
}

#[test]
fn messages_sent_inside_interested_arrive_before_the_subscription_is_ready() {
    let nodes = mesh(3, &long_timeout());
    for other in &nodes[1..] {
        let bus = Arc::downgrade(&other.bus);
        other.recorder.hook(move |event| {
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
        let events = nodes[0].recorder.wait_for(&Event::Ready(seq));
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
fn a_subscription_does_not_wait_for_a_node_that_goes_down() {
    let node = Node::start(0, long_timeout());
    let (mut one, two) = (node.peer(1), node.peer(2));
    let seq = waits(node.bus.subscribe("t"));
    one.send(Frame::Ack { seq });
    assert_not_ready(&node, seq, 1, &mut one);
    drop(two);
    let events = node.recorder.wait_for(&Event::Ready(seq));
    assert_eq!(events[events.len() - 2..], [Event::Down(2), Event::Ready(seq)]);
}

#[test]
fn no_wait_is_longer_than_the_timeout() {
    let limits = BusLimits { ack_timeout: Duration::from_millis(300), ..BusLimits::default() };
    let node = Node::start(0, limits);
    let mut peer = node.peer(1);
    let begun = Instant::now();
    let seq = waits(node.bus.subscribe("t"));
    node.recorder.wait_for(&Event::Ready(seq));
    // There is no upper bound, because that depends on the machine.
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(node.bus.totals().late, 1);
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    // A late acknowledgement does no harm.
    peer.send(Frame::Ack { seq });
    peer.send(Frame::Message(b"still here"));
    node.recorder.wait_for(&Event::Message(1, b"still here".into()));
}

#[test]
fn all_topics_are_announced_to_a_new_node_and_subscriptions_wait_for_it() {
    let node = Node::start(0, long_timeout());
    let topics: Vec<_> = (0..1000).map(|number| format!("topic:{number}")).collect();
    for topic in &topics {
        assert_eq!(node.bus.subscribe(topic), Readiness::Ready);
    }
    let mut peer = node.link(1);
    let seq = waits(node.bus.subscribe("topic:7"));
    let (mut announced, mut requested) = (Vec::new(), Vec::new());
    for _ in 0..topics.len() {
        let Received::Subscribe(seq, topic) = peer.receive() else { panic!("a topic is missing") };
        announced.push(topic);
        requested.push(seq);
    }
    let last = requested.pop().unwrap();
    assert!(last >= seq);
    assert!(requested.iter().all(|seq| *seq == 0), "one acknowledgement covers all");
    announced.sort();
    let mut expected = topics;
    expected.sort();
    assert_eq!(announced, expected);
    assert_not_ready(&node, seq, 1, &mut peer);
    peer.send(Frame::Ack { seq: last });
    node.recorder.wait_for(&Event::Ready(last));
    assert_eq!(node.bus.subscribe("topic:8"), Readiness::Ready);
}

#[test]
fn a_topic_that_returns_soon_is_ready_at_once() {
    let limits = BusLimits { linger: Duration::from_secs(600), ..long_timeout() };
    let node = Node::start(0, limits);
    let mut peer = node.peer(1);
    let seq = waits(node.bus.subscribe("t"));
    peer.send(Frame::Ack { seq });
    node.recorder.wait_for(&Event::Ready(seq));
    node.bus.unsubscribe("t");
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    node.bus.stop();
    assert_eq!(peer.receive_all(), [Received::Subscribe(seq, "t".into())]);
}

#[test]
fn interest_is_reported_once_and_acknowledged_after_it_was_handled() {
    let node = Node::start(0, long_timeout());
    let mut peer = node.peer(1);
    let bus = Arc::downgrade(&node.bus);
    node.recorder.hook(move |event| {
        if let (Event::Interested(..), Some(bus)) = (event, bus.upgrade()) {
            bus.send(NodeId(1), "state".into(), Loss::Cut).unwrap();
        }
    });
    for seq in [0, 5] {
        peer.send(Frame::Subscribe { seq, topic: "t" });
    }
    assert_eq!(peer.receive(), Received::Message(b"state".into()));
    assert_eq!(peer.receive(), Received::Ack(5));
    peer.send(Frame::Unsubscribe { topic: "t" });
    peer.send(Frame::Subscribe { seq: 6, topic: "t" });
    assert_eq!(peer.receive(), Received::Message(b"state".into()));
    assert_eq!(peer.receive(), Received::Ack(6));
    assert_eq!(node.bus.publish("t", "news".into(), Loss::Drop), 1);
    assert_eq!(peer.receive(), Received::Message(b"news".into()));
}

#[test]
fn messages_sent_at_the_end_of_an_interest_arrive_before_the_state_for_the_next_one() {
    let node = Node::start(0, long_timeout());
    let mut peer = node.peer(1);
    let bus = Arc::downgrade(&node.bus);
    node.recorder.hook(move |event| {
        let message = match event {
            Event::Interested(..) => "state",
            Event::Uninterested(..) => "end",
            _ => return,
        };
        bus.upgrade().unwrap().send(NodeId(1), message.into(), Loss::Cut).unwrap();
    });
    peer.send(Frame::Subscribe { seq: 0, topic: "t" });
    peer.send(Frame::Unsubscribe { topic: "t" });
    peer.send(Frame::Subscribe { seq: 1, topic: "t" });
    for message in ["state", "end", "state"] {
        assert_eq!(peer.receive(), Received::Message(message.into()));
    }
    assert_eq!(peer.receive(), Received::Ack(1));
}
