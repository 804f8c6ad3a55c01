use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use watchfire_cluster::bus::frame::Frame;
use watchfire_cluster::bus::{Bus, BusLimits, LocalBus, Loss, Readiness, SendError};
use watchfire_testkit::{DEADLINE, eventually};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Received};

#[test]
fn a_replaced_link_is_down_and_then_up() {
    let node = Node::start(0, BusLimits::default());
    node.bus.subscribe("ours");
    let mut before = node.peer(1);
    assert!(matches!(before.receive(), Received::Subscribe(_, topic) if topic == "ours"));
    before.send(Frame::Subscribe { seq: 1, topic: "theirs" });
    assert_eq!(before.receive(), Received::Ack(1));
    assert_eq!(node.bus.publish("theirs", "x".into(), Loss::Drop), 1);
    assert_eq!(before.receive(), Received::Message(b"x".into()));

    let mut after = node.peer(1);
    assert_eq!(before.receive(), Received::Closed);
    assert!(matches!(after.receive(), Received::Subscribe(_, topic) if topic == "ours"));
    let links: Vec<_> = node.recorder.events().into_iter().collect();
    let links = links.iter().filter(|event| matches!(event, Event::Up(_) | Event::Down(_)));
    assert!(links.eq(&[Event::Up(1), Event::Down(1), Event::Up(1)]));
    assert_eq!(node.bus.publish("theirs", "x".into(), Loss::Drop), 0, "its interest is dropped");
    after.send(Frame::Subscribe { seq: 1, topic: "theirs" });
    assert_eq!(after.receive(), Received::Ack(1));
    assert_eq!(node.bus.publish("theirs", "x".into(), Loss::Drop), 1);
}

/// A worker that reports the first link as lost would lose the second one too.
#[test]
fn a_node_has_a_link_when_the_end_of_the_one_before_is_handled() {
    let node = Node::start(0, BusLimits::default());
    let (bus, has_link) = (Arc::downgrade(&node.bus), Arc::new(Mutex::new(Vec::new())));
    let seen = has_link.clone();
    node.recorder.hook(move |event| {
        if let (Event::Down(down), Some(bus)) = (event, bus.upgrade()) {
            seen.lock().unwrap().push(bus.has_link(NodeId(*down)));
        }
    });
    assert!(!node.bus.has_link(NodeId(1)));
    let first = node.link(1);
    assert!(node.bus.has_link(NodeId(1)), "from the call that adds it");
    let second = node.peer(1);
    drop(first);
    drop(second);
    eventually("both are down", || has_link.lock().unwrap().len() == 2);
    assert_eq!(*has_link.lock().unwrap(), [true, false]);
}

#[test]
fn waits_continue_when_a_link_is_replaced() {
    let node = Node::start(0, BusLimits { ack_timeout: DEADLINE, ..BusLimits::default() });
    let mut before = node.peer(1);
    let Readiness::Waits(seq) = node.bus.subscribe("t") else { panic!("it does not wait") };
    assert_eq!(before.receive(), Received::Subscribe(seq, "t".into()));
    let mut after = node.link(1);
    let Received::Subscribe(again, _) = after.receive() else { panic!("it was not announced") };
    assert!(again > seq);
    after.send(Frame::Message(b"mark"));
    let events = node.recorder.wait_for(&Event::Message(1, b"mark".into()));
    assert!(!events.iter().any(|event| matches!(event, Event::Ready(it) if *it >= seq)));
    after.send(Frame::Ack { seq: again });
    node.recorder.wait_for(&Event::Ready(again));
}

#[test]
fn a_subscription_waits_for_a_link_from_the_call_that_adds_it() {
    let limits = BusLimits { ack_timeout: DEADLINE, ..BusLimits::default() };
    let node = Node::start(0, limits);
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    // The first link, and one that replaces it while it is up.
    for _ in 0..2 {
        let mut peer = node.link(1);
        let Readiness::Waits(seq) = node.bus.subscribe("t") else { panic!("it does not wait") };
        let Received::Subscribe(requested, _) = peer.receive() else {
            panic!("it was not announced")
        };
        assert!(requested >= seq);
        peer.send(Frame::Ack { seq: requested });
        node.recorder.wait_for(&Event::Ready(requested));
        assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    }
}

#[test]
fn messages_that_a_node_sent_before_it_ended_are_received() {
    let node = Node::start(0, BusLimits::default());
    let mut peer = node.peer(1);
    // The peer ends with unread data, and while more is being sent to it.
    let mut bytes = Vec::new();
    (0..1000_u32).for_each(|number| Frame::Message(&number.to_le_bytes()).encode(&mut bytes));
    node.bus.send(NodeId(1), "unread".into(), Loss::Drop).unwrap();
    peer.stream.write_all(&bytes).unwrap();
    drop(peer);
    eventually("the peer is down", || {
        node.bus.send(NodeId(1), "more".into(), Loss::Drop) == Err(SendError::Down(NodeId(1)))
    });
    let events = node.recorder.wait_for(&Event::Down(1));
    let received = (0..1000_u32).map(|number| Event::Message(1, number.to_le_bytes().into()));
    let after_hello = events.len() - 1 - 1000;
    assert!(events[after_hello..events.len() - 1].iter().cloned().eq(received));
    assert_eq!(node.bus.totals().cuts, 0);
}

#[test]
fn up_is_called_first_and_may_send() {
    let node = Node::start(0, BusLimits::default());
    node.bus.subscribe("t");
    let bus = Arc::downgrade(&node.bus);
    node.recorder.hook(move |event| {
        if let (Event::Up(up), Some(bus)) = (event, bus.upgrade()) {
            bus.send(NodeId(*up), "welcome".into(), Loss::Cut).unwrap();
        }
    });
    let mut peer = node.peer(5);
    assert_eq!(peer.receive(), Received::Message(b"welcome".into()));
    assert!(matches!(peer.receive(), Received::Subscribe(..)));
}

#[test]
fn a_stopped_bus_has_written_its_queues_and_releases_everything() {
    let node = Node::start(0, BusLimits::default());
    let mut peer = node.peer(1);
    node.bus.send(NodeId(1), "last".into(), Loss::Drop).unwrap();
    let events = node.recorder.events();
    node.bus.stop();
    assert_eq!(peer.receive_all(), [Received::Message(b"last".into())]);
    assert_eq!(Arc::strong_count(&node.recorder), 1);
    assert_eq!(node.recorder.events(), events);
    assert_eq!(node.bus.subscribe("t"), Readiness::Ready);
    assert_eq!(node.bus.nodes(), []);
    let (stream, _) = UnixStream::pair().unwrap();
    assert!(node.bus.link(NodeId(1), stream).is_err());
}

#[test]
fn a_handler_may_stop_its_bus() {
    let node = Node::start(0, BusLimits::default());
    let bus = Arc::downgrade(&node.bus);
    node.recorder.hook(move |event| {
        if let (Event::Message(..), Some(bus)) = (event, bus.upgrade()) {
            bus.stop();
        }
    });
    let mut peer = node.link(1);
    peer.send(Frame::Message(b"stop"));
    assert_eq!(peer.receive(), Received::Closed);
}

#[test]
fn invalid_node_ids_are_refused() {
    assert!(LocalBus::start(NodeId(128), BusLimits::default()).is_err());
    let node = Node::start(127, BusLimits::default());
    for impossible in [127, 128, u16::MAX] {
        let (stream, _) = UnixStream::pair().unwrap();
        assert!(node.bus.link(NodeId(impossible), stream).is_err());
    }
    let bus = LocalBus::start(NodeId(0), BusLimits::default()).unwrap();
    let (stream, _) = UnixStream::pair().unwrap();
    assert!(bus.link(NodeId(1), stream).is_err(), "it has no handler");
}
