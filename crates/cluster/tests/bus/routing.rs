use std::time::{Duration, Instant};

use watchfire_cluster::bus::{Bus, BusLimits, Loss, Readiness, SendError};
use watchfire_types::NodeId;

use crate::support::{Event, mesh};

#[test]
fn a_message_goes_only_to_the_nodes_with_subscribers_on_its_topic() {
    let nodes = mesh(4, &BusLimits::default());
    for subscriber in [1, 2] {
        if let Readiness::Waits(seq) = nodes[subscriber].bus.subscribe("rooms:a") {
            nodes[subscriber].recorder.wait_for(&Event::Ready(seq));
        }
    }
    for number in 0..100_u8 {
        assert_eq!(nodes[0].bus.publish("rooms:a", vec![number].into(), Loss::Drop), 2);
        assert_eq!(nodes[0].bus.publish("rooms:b", vec![number].into(), Loss::Drop), 0);
    }
    nodes[0].bus.send_all("end".into(), Loss::Drop);
    let expected: Vec<_> = (0..100).map(|number| vec![number]).chain([b"end".to_vec()]).collect();
    for (node, expected) in [(1, &expected[..]), (2, &expected[..]), (3, &expected[100..])] {
        let events = nodes[node].recorder.wait_for(&Event::Message(0, b"end".into()));
        let received = events.into_iter().filter_map(|event| match event {
            Event::Message(0, message) => Some(message),
            _ => None,
        });
        assert_eq!(received.collect::<Vec<_>>(), expected);
    }
    nodes[3].wait_for_totals(|totals| totals.messages_in == 1);
    nodes[0].wait_for_totals(|totals| totals.messages_out == 203 && totals.queued_bytes == 0);
}

#[test]
fn messages_of_all_sizes_arrive_in_order_however_they_are_sent() {
    let nodes = mesh(2, &BusLimits::default());
    if let Readiness::Waits(seq) = nodes[1].bus.subscribe("t") {
        nodes[1].recorder.wait_for(&Event::Ready(seq));
    }
    let sizes = [0, 1, 256, 5_000_000, 3, 70_000, 16, 262_144, 1];
    for (index, size) in sizes.into_iter().enumerate() {
        let message = vec![index as u8; size].into();
        match index % 3 {
            0 => assert_eq!(nodes[0].bus.publish("t", message, Loss::Cut), 1),
            1 => nodes[0].bus.send(NodeId(1), message, Loss::Cut).unwrap(),
            _ => nodes[0].bus.send_all(message, Loss::Cut),
        }
    }
    nodes[0].bus.send_all("end".into(), Loss::Cut);
    let events = nodes[1].recorder.wait_for(&Event::Message(0, b"end".into()));
    let received: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Message(0, message) => Some((message.first().copied(), message.len())),
            _ => None,
        })
        .collect();
    let sent = sizes.iter().enumerate().map(|(at, size)| ((*size > 0).then_some(at as u8), *size));
    assert_eq!(received, sent.chain([(Some(b'e'), 3)]).collect::<Vec<_>>());
}

#[test]
fn messages_from_many_threads_arrive_once_and_in_each_threads_order() {
    let nodes = mesh(3, &BusLimits::default());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let bus = &nodes[0].bus;
            scope.spawn(move || {
                for number in 0..2000_u16 {
                    let [low, high] = number.to_le_bytes();
                    bus.send_all(vec![thread, low, high].into(), Loss::Cut);
                }
            });
        }
    });
    nodes[0].bus.send_all("end".into(), Loss::Cut);
    for node in &nodes[1..] {
        let events = node.recorder.wait_for(&Event::Message(0, b"end".into()));
        for thread in 0..4 {
            let numbers = events.iter().filter_map(|event| match event {
                Event::Message(0, message) if message[0] == thread => {
                    Some(u16::from_le_bytes([message[1], message[2]]))
                }
                _ => None,
            });
            assert!(numbers.eq(0..2000));
        }
    }
}

/// A caller writes a message that follows no other one closely. The bus's thread writes most others.
#[test]
fn messages_for_one_node_arrive_once_and_in_each_threads_order() {
    const APART: Duration = Duration::from_micros(60);
    let nodes = mesh(2, &BusLimits::default());
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let bus = &nodes[0].bus;
            scope.spawn(move || {
                for number in 0..1500_u16 {
                    let mut message = vec![thread];
                    message.extend(number.to_le_bytes());
                    // The socket's buffer has no room for these.
                    message.resize(if number % 500 == 7 { 1_000_000 } else { 3 }, 0);
                    match number % 16 {
                        0 => bus.send_in_turn(NodeId(1), message.into(), Loss::Cut).unwrap(),
                        1 => bus.send_all(message.into(), Loss::Cut),
                        _ => bus.send(NodeId(1), message.into(), Loss::Cut).unwrap(),
                    }
                    let sent_at = Instant::now();
                    while number % 4 == 0 && sent_at.elapsed() < APART {}
                }
            });
        }
    });
    nodes[0].bus.send(NodeId(1), "end".into(), Loss::Cut).unwrap();
    let events = nodes[1].recorder.wait_for(&Event::Message(0, b"end".into()));
    for thread in 0..3 {
        let numbers = events.iter().filter_map(|event| match event {
            Event::Message(0, message) if message[0] == thread => {
                Some(u16::from_le_bytes([message[1], message[2]]))
            }
            _ => None,
        });
        assert!(numbers.eq(0..1500), "thread {thread}");
    }
    nodes[0].wait_for_totals(|totals| totals.messages_out == 4501 && totals.queued_bytes == 0);
}

#[test]
fn only_the_last_unsubscribe_withdraws_a_topic() {
    let limits = BusLimits { linger: Default::default(), ..BusLimits::default() };
    let nodes = mesh(2, &limits);
    for topic in ["stays", "goes", "stays"] {
        nodes[1].bus.subscribe(topic);
    }
    nodes[0].wait_for_totals(|totals| totals.topics_remote == 2);
    nodes[1].bus.unsubscribe("stays");
    nodes[1].bus.unsubscribe("goes");
    nodes[0].wait_for_totals(|totals| totals.topics_remote == 1);
    assert_eq!(nodes[0].bus.publish("stays", "x".into(), Loss::Drop), 1);
    assert_eq!(nodes[0].bus.publish("goes", "x".into(), Loss::Drop), 0);
    assert_eq!(nodes[1].bus.totals().topics_local, 1);
    assert!(nodes[1].bus.is_subscribed("stays") && !nodes[1].bus.is_subscribed("goes"));
    nodes[1].recorder.wait_for(&Event::Forgotten("goes".into()));
    assert!(!nodes[1].recorder.events().contains(&Event::Forgotten("stays".into())));
}

#[test]
fn a_message_over_the_limit_is_refused_to_its_sender() {
    let limits = BusLimits { message_bytes_max: 1000, ..BusLimits::default() };
    let nodes = mesh(2, &limits);
    let send = |len: usize| nodes[0].bus.send(NodeId(1), vec![7; len].into(), Loss::Cut);
    assert_eq!(send(1001), Err(SendError::Oversized { len: 1001, max: 1000 }));
    nodes[0].bus.send_all(vec![7; 1001].into(), Loss::Cut);
    assert_eq!(nodes[0].bus.totals().dropped, 2);
    assert_eq!(send(1000), Ok(()));
    nodes[1].recorder.wait_for(&Event::Message(0, vec![7; 1000]));
}

#[test]
fn a_message_to_a_node_that_is_down_is_refused() {
    let nodes = mesh(2, &BusLimits::default());
    let send = |to| nodes[0].bus.send(NodeId(to), "x".into(), Loss::Cut);
    for absent in [0, 2, 127, 128, u16::MAX] {
        assert_eq!(send(absent), Err(SendError::Down(NodeId(absent))));
    }
    assert_eq!(nodes[0].bus.nodes(), [NodeId(1)]);
}
