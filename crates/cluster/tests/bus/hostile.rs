use std::io::Write;

use watchfire_cluster::bus::frame::Frame;
use watchfire_cluster::bus::{Bus, BusLimits, Loss};
use watchfire_types::NodeId;

use crate::support::{Event, Node, Received};

#[test]
fn a_malformed_frame_cuts_its_link_and_no_other() {
    let node = Node::start(0, BusLimits { message_bytes_max: 10_000, ..BusLimits::default() });
    let mut good = node.peer(1);
    let oversized = 10_002_u32.to_le_bytes();
    let hostile: [&[u8]; 9] = [
        &[0, 0, 0, 0],
        &[0xff; 100],
        &oversized,
        &[1, 0, 0, 0, 0],
        &[1, 0, 0, 0, 77],
        &[1, 0, 0, 0, 3],
        &[5, 0, 0, 0, 1, 2, 3, 4, 5],
        &[3, 0, 0, 0, 2, 0xc3, 0x28],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for (cuts, bytes) in (1..).zip(hostile) {
        let mut bad = node.peer(2);
        bad.send(Frame::Message(b"so far so good"));
        bad.stream.write_all(bytes).unwrap();
        assert_eq!(bad.receive(), Received::Closed, "{bytes:?}");
        node.wait_for_totals(|totals| totals.cuts == cuts && totals.nodes == 1);
    }
    let events = node.recorder.events();
    assert_eq!(events.iter().filter(|event| **event == Event::Down(2)).count(), hostile.len());
    node.bus.send(NodeId(1), "still here".into(), Loss::Drop).unwrap();
    assert_eq!(good.receive(), Received::Message(b"still here".into()));
}

#[test]
fn an_unrequested_acknowledgement_cuts_the_link() {
    let node = Node::start(0, BusLimits::default());
    let mut peer = node.peer(1);
    peer.send(Frame::Ack { seq: u64::MAX });
    assert_eq!(peer.receive(), Received::Closed);
    node.wait_for_totals(|totals| totals.cuts == 1);
}

#[test]
fn an_unsubscribe_without_a_subscribe_has_no_effect() {
    let node = Node::start(0, BusLimits::default());
    let mut peer = node.peer(1);
    peer.send(Frame::Unsubscribe { topic: "t" });
    peer.send(Frame::Subscribe { seq: 1, topic: "" });
    assert_eq!(peer.receive(), Received::Ack(1));
    assert_eq!(node.bus.totals().topics_remote, 1);
}

#[test]
fn a_handler_that_panics_ends_only_one_link() {
    let node = Node::start(0, BusLimits::default());
    let (mut one, mut two) = (node.peer(1), node.peer(2));
    let (sender, panicked) = std::sync::mpsc::channel();
    node.recorder.hook(move |event| {
        if *event == Event::Message(1, b"bad".into()) {
            sender.send(()).unwrap();
        }
    });
    one.send(Frame::Message(b"good"));
    node.recorder.wait_for(&Event::Message(1, b"good".into()));
    drop(panicked);
    // The hook's `unwrap` panics now. Its lock is poisoned, so every later event panics as well.
    one.send(Frame::Message(b"bad"));
    assert_eq!(one.receive(), Received::Closed);
    node.wait_for_totals(|totals| totals.cuts == 1 && totals.nodes == 1);
    node.bus.send(NodeId(2), "still here".into(), Loss::Drop).unwrap();
    assert_eq!(two.receive(), Received::Message(b"still here".into()));
}
