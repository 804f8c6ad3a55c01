use watchfire_bus::frame::Frame;
use watchfire_bus::{Bus, BusLimits, Loss, Undelivered};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Said};

fn narrow() -> BusLimits {
    BusLimits { droppable_bytes_max: 1_000_000, queue_bytes_max: 2_000_000, ..BusLimits::default() }
}

#[test]
fn a_reader_that_stalls_loses_droppable_messages_and_then_continues() {
    let node = Node::start(0, narrow());
    let (mut slow, mut quick) = (node.peer(1), node.peer(2));
    for peer in [&mut slow, &mut quick] {
        peer.say(Frame::Subscribe { seq: 1, topic: "t" });
        assert_eq!(peer.hear(), Said::Ack(1));
    }
    // Each is read by the quick one before the next, so only the slow one's queue grows.
    let (mut queued, mut sent) = (0, 0);
    while node.bus.totals().dropped < 10 {
        queued += node.bus.publish("t", vec![1; 10_000].into(), Loss::Drop);
        sent += 1;
        assert_eq!(quick.hear(), Said::Message(vec![1; 10_000]));
    }
    node.wait_for_totals(|totals| totals.queued_bytes <= 1_000_000);
    assert_eq!(node.bus.totals().dropped, 10);
    assert_eq!(queued, 2 * sent - 10);
    assert_eq!(node.bus.send(NodeId(1), "x".into(), Loss::Cut), Ok(()));
    for _ in 0..sent - 10 {
        assert_eq!(slow.hear(), Said::Message(vec![1; 10_000]));
    }
    assert_eq!(slow.hear(), Said::Message(b"x".into()));
    node.wait_for_totals(|totals| totals.queued_bytes == 0);
    assert_eq!(node.bus.publish("t", "again".into(), Loss::Drop), 2);
    assert_eq!(slow.hear(), Said::Message(b"again".into()));
    assert_eq!(node.bus.totals().cuts, 0);
}

#[test]
fn a_reader_that_stalls_is_cut_when_a_required_message_does_not_fit() {
    let node = Node::start(0, narrow());
    let mut peer = node.peer(1);
    let mut queued = 0;
    let refused = loop {
        match node.bus.send(NodeId(1), vec![1; 10_000].into(), Loss::Cut) {
            Ok(()) => queued += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Undelivered::Cut(NodeId(1)));
    assert!(queued >= 190, "{queued}");
    let send = |loss| node.bus.send(NodeId(1), "x".into(), loss);
    assert_eq!(send(Loss::Cut), Err(Undelivered::Down(NodeId(1))));
    node.told.wait_for(&Event::Down(1));
    assert_eq!(node.bus.nodes(), []);
    let totals = node.bus.totals();
    assert_eq!((totals.cuts, totals.queued_bytes), (1, 0));
    let heard = peer.hear_all().len();
    assert!(heard < queued, "what waited is gone");

    // A new link begins anew.
    let mut peer = node.peer(1);
    assert_eq!(send(Loss::Drop), Ok(()));
    assert_eq!(peer.hear(), Said::Message(b"x".into()));
}

#[test]
fn announcements_cut_a_stalled_reader_too_rather_than_grow() {
    let node = Node::start(0, BusLimits { queue_bytes_max: 100_000, ..narrow() });
    let _peer = node.peer(1);
    for number in 0..20_000 {
        node.bus
            .subscribe(&format!("a topic of some length, so that it takes less long: {number}"));
    }
    node.told.wait_for(&Event::Down(1));
    assert_eq!(node.bus.totals().cuts, 1);
}
