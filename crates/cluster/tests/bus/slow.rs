use watchfire_cluster::bus::frame::Frame;
use watchfire_cluster::bus::{Bus, BusLimits, Loss, SendError};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Received};

fn narrow() -> BusLimits {
    BusLimits { droppable_bytes_max: 1_000_000, queue_bytes_max: 2_000_000, ..BusLimits::default() }
}

#[test]
fn a_slow_reader_loses_droppable_messages_and_then_continues() {
    let node = Node::start(0, narrow());
    let (mut slow, mut quick) = (node.peer(1), node.peer(2));
    for peer in [&mut slow, &mut quick] {
        peer.send(Frame::Subscribe { seq: 1, topic: "t" });
        assert_eq!(peer.receive(), Received::Ack(1));
    }
    // The quick peer reads each message before the next, so only the slow peer's queue grows.
    let (mut queued, mut sent) = (0, 0);
    while node.bus.totals().dropped < 10 {
        queued += node.bus.publish("t", vec![1; 10_000].into(), Loss::Drop);
        sent += 1;
        assert_eq!(quick.receive(), Received::Message(vec![1; 10_000]));
    }
    node.wait_for_totals(|totals| totals.queued_bytes <= 1_000_000);
    assert_eq!(node.bus.totals().dropped, 10);
    assert_eq!(queued, 2 * sent - 10);
    assert_eq!(node.bus.send(NodeId(1), "x".into(), Loss::Cut), Ok(()));
    for _ in 0..sent - 10 {
        assert_eq!(slow.receive(), Received::Message(vec![1; 10_000]));
    }
    assert_eq!(slow.receive(), Received::Message(b"x".into()));
    node.wait_for_totals(|totals| totals.queued_bytes == 0);
    assert_eq!(node.bus.publish("t", "again".into(), Loss::Drop), 2);
    assert_eq!(slow.receive(), Received::Message(b"again".into()));
    assert_eq!(node.bus.totals().cuts, 0);
}

#[test]
fn a_slow_reader_is_cut_when_a_required_message_does_not_fit() {
    let node = Node::start(0, narrow());
    let mut peer = node.peer(1);
    let mut queued = 0;
    let refused = loop {
        match node.bus.send(NodeId(1), vec![1; 10_000].into(), Loss::Cut) {
            Ok(()) => queued += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, SendError::Cut(NodeId(1)));
    assert!(queued >= 190, "{queued}");
    let send = |loss| node.bus.send(NodeId(1), "x".into(), loss);
    assert_eq!(send(Loss::Cut), Err(SendError::Down(NodeId(1))));
    node.recorder.wait_for(&Event::Down(1));
    assert_eq!(node.bus.nodes(), []);
    let totals = node.bus.totals();
    assert_eq!((totals.cuts, totals.queued_bytes), (1, 0));
    let received = peer.receive_all().len();
    assert!(received < queued, "the queue is dropped");

    // A new link starts with an empty queue.
    let mut peer = node.peer(1);
    assert_eq!(send(Loss::Drop), Ok(()));
    assert_eq!(peer.receive(), Received::Message(b"x".into()));
}

#[test]
fn announcements_that_do_not_fit_cut_a_slow_reader() {
    let node = Node::start(0, BusLimits { queue_bytes_max: 100_000, ..narrow() });
    let _peer = node.peer(1);
    for number in 0..20_000 {
        node.bus
            .subscribe(&format!("a topic of some length, so that it takes less long: {number}"));
    }
    node.recorder.wait_for(&Event::Down(1));
    assert_eq!(node.bus.totals().cuts, 1);
}
