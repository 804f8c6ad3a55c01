//! A simulation of links over a network that loses, repeats and delays packets.

use std::collections::VecDeque;

use bytes::Bytes;
use watchfire_types::Rng;

use super::{Arrival, Incoming, Outgoing};
use crate::nats::packet::Ack;

#[derive(Clone)]
enum Message {
    Data(u64, Bytes),
    Probe(u64),
    Ack(Ack),
}

#[derive(Default)]
struct Link {
    outgoing: Outgoing,
    incoming: Incoming,
    queue: VecDeque<Bytes>,
    there: VecDeque<Message>,
    back: VecDeque<Message>,
}

impl Link {
    fn deliver(&mut self, message: Message) {
        match message {
            Message::Data(number, bytes) => match self.incoming.receive(number) {
                Arrival::Next => self.queue.push_back(bytes),
                Arrival::Early(Some(ack)) => self.back.push_back(Message::Ack(ack)),
                Arrival::Early(None) | Arrival::Repeated => {}
            },
            Message::Probe(sent) => self.back.push_back(Message::Ack(self.incoming.probed(sent))),
            Message::Ack(ack) => {
                let again = self.outgoing.acknowledge(ack).expect("a valid acknowledgement");
                self.there.extend(again.map(|(number, bytes)| Message::Data(number, bytes)));
            }
        }
    }
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    for seed in 0..10_000 {
        let mut random = Rng::from_seed(seed);
        let (mut link, mut received, total) = (Link::default(), 0_u64, 20 + seed % 40);
        for step in 0.. {
            assert!(step < 20_000, "seed {seed}: the link makes no progress");
            if received == total {
                break;
            }
            let is_lossy = step < 2_000;
            if link.outgoing.sent() < total && random.below(3) == 0 {
                let bytes = Bytes::copy_from_slice(&link.outgoing.sent().to_be_bytes());
                let number = link.outgoing.push(bytes.clone());
                link.there.push_back(Message::Data(number, bytes));
            }
            if link.outgoing.is_unacknowledged() && random.below(20) == 0 {
                link.there.push_back(Message::Probe(link.outgoing.sent()));
            }
            for is_there in [true, false] {
                let messages = if is_there { &mut link.there } else { &mut link.back };
                let Some(message) = messages.pop_front() else { continue };
                match random.below(10) {
                    0 if is_lossy => continue,
                    // Repeated later, as after a reconnect.
                    1 if is_lossy => messages.push_back(message.clone()),
                    _ => {}
                }
                link.deliver(message);
            }
            if let Some(bytes) = link.queue.pop_front() {
                assert_eq!(*bytes, received.to_be_bytes(), "seed {seed}");
                received += 1;
                if let Some(ack) = link.incoming.consume() {
                    link.back.push_back(Message::Ack(ack));
                }
            }
        }
    }
}
