//! Deliveries: a broadcast is encoded once per serializer, and each subscriber gets the shared bytes.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use watchfire_channels::{Broadcast, Payload, Serializer, encode_broadcast};
use watchfire_hub::{Hub, HubLimits, Subscriptions};

const SUBSCRIBERS: u32 = 1_000;
/// Deliveries of one turn of an event loop.
const SLICE: usize = 256;
const TOPIC: &str = "rooms:lobby";

/// A broadcast, encoded when the first subscriber needs a format.
#[derive(Default)]
struct Delivery {
    number: u32,
    v1: OnceCell<Bytes>,
    v2: OnceCell<Bytes>,
}

impl Delivery {
    fn frame(&self, serializer: Serializer) -> &Bytes {
        let cell = match serializer {
            Serializer::V1 => &self.v1,
            Serializer::V2 | Serializer::Events => &self.v2,
        };
        cell.get_or_init(|| {
            let payload =
                format!(r#"{{"number":{},"body":"a message to everyone here"}}"#, self.number);
            let payload = Payload::Json(&payload);
            let broadcast = Broadcast { topic: TOPIC, event: "new_msg", payload };
            let mut frame = Vec::with_capacity(128);
            encode_broadcast(serializer, &broadcast, &mut frame).expect("JSON has both formats");
            frame.into()
        })
    }
}

struct Subscriber {
    serializer: Serializer,
    queue: VecDeque<Bytes>,
}

/// A round is one broadcast to [`SUBSCRIBERS`], of which every tenth has the older serializer.
pub fn deliver(rounds: u32) -> Box<dyn Any> {
    let mut hub = Hub::new(7, HubLimits::default());
    let mut subscribers = Vec::new();
    for client in 0..SUBSCRIBERS {
        let mut list = Subscriptions::default();
        hub.subscribe(client, &mut list, TOPIC);
        let serializer = if client % 10 == 0 { Serializer::V1 } else { Serializer::V2 };
        subscribers.push(Subscriber { serializer, queue: VecDeque::with_capacity(4) });
    }
    for number in 0..rounds {
        let delivery = Rc::new(Delivery { number, ..Delivery::default() });
        hub.broadcast(TOPIC, delivery).expect("nothing waits");
        let mut visit = |_, client: u32, delivery: &Rc<Delivery>| {
            let subscriber = &mut subscribers[client as usize];
            subscriber.queue.push_back(delivery.frame(subscriber.serializer).clone());
        };
        while hub.deliver(SLICE, &mut visit, |_, _| {}) {}
        for subscriber in &mut subscribers {
            black_box(subscriber.queue.pop_front());
        }
    }
    Box::new((hub, subscribers))
}
