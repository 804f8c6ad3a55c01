//! The recipients of a broadcast, while clients join and leave.

use std::collections::{BTreeMap, VecDeque};
use watchfire_types::Rng;

use watchfire_hub::{Hub, HubLimits, QueueFull, SubscriptionId, Subscriptions};

fn hub() -> Hub<u64> {
    Hub::new(7, HubLimits::default())
}

/// Runs all deliveries; returns pairs of client and delivery.
fn deliver_all(hub: &mut Hub<u64>) -> Vec<(u32, u64)> {
    let mut delivered = Vec::new();
    while hub.deliver(1_000, |_, client, &delivery| delivered.push((client, delivery)), |_, _| {}) {
    }
    delivered
}

#[test]
fn a_broadcast_reaches_each_subscriber_of_its_topic_once() {
    let mut hub = hub();
    let mut list = [Subscriptions::default(), Subscriptions::default(), Subscriptions::default()];
    hub.subscribe(0, &mut list[0], "a");
    hub.subscribe(1, &mut list[1], "a");
    hub.subscribe(2, &mut list[2], "b");
    assert_eq!(hub.broadcast("a", 1), Ok(true));
    assert_eq!(hub.broadcast("nobody's", 2), Ok(false));
    assert_eq!(deliver_all(&mut hub), [(0, 1), (1, 1)]);
    assert_eq!((hub.waiting(), hub.deliver(1, |_, _, _| {}, |_, _| {})), (0, false));
}

#[test]
fn the_clients_on_a_topic_are_those_that_joined_and_did_not_leave() {
    let mut hub = hub();
    let mut list = [Subscriptions::default(), Subscriptions::default(), Subscriptions::default()];
    let first = hub.subscribe(0, &mut list[0], "a");
    hub.subscribe(1, &mut list[1], "a");
    hub.subscribe(2, &mut list[2], "b");
    hub.unsubscribe(&mut list[0], first);
    assert!(hub.clients_on("a").eq([1]));
    assert_eq!(hub.clients_on("nobody's").count(), 0);
}

#[test]
fn a_client_that_joins_after_a_broadcast_does_not_receive_it() {
    let mut hub = hub();
    let mut list = [Subscriptions::default(), Subscriptions::default()];
    hub.subscribe(0, &mut list[0], "a");
    hub.broadcast("a", 1).unwrap();
    hub.subscribe(1, &mut list[1], "a");
    assert_eq!(deliver_all(&mut hub), [(0, 1)]);
}

#[test]
fn a_client_that_leaves_and_returns_does_not_receive_earlier_broadcasts() {
    let mut hub = hub();
    let mut list = [Subscriptions::default(), Subscriptions::default()];
    let first = hub.subscribe(0, &mut list[0], "a");
    hub.broadcast("a", 1).unwrap();
    hub.unsubscribe(&mut list[0], first);
    assert_eq!((hub.topics(), hub.waiting()), (0, 0));
    hub.subscribe(0, &mut list[0], "a");
    hub.broadcast("a", 2).unwrap();
    assert_eq!(deliver_all(&mut hub), [(0, 2)]);
}

#[test]
fn a_hub_that_everyone_left_delivers_nothing() {
    let mut hub = hub();
    let mut list = Subscriptions::default();
    let only = hub.subscribe(0, &mut list, "a");
    hub.broadcast("a", 1).unwrap();
    hub.unsubscribe(&mut list, only);
    assert!(hub.is_empty() && list.is_empty());
    assert_eq!(deliver_all(&mut hub), []);
}

#[test]
fn a_delivery_finishes_when_its_last_subscriber_has_it() {
    let mut hub = hub();
    let mut lists: [Subscriptions; 3] = Default::default();
    let ids: Vec<_> =
        lists.iter_mut().zip(0..).map(|(list, client)| hub.subscribe(client, list, "t")).collect();
    hub.broadcast("t", 1).unwrap();
    hub.broadcast("t", 2).unwrap();
    let mut finished = Vec::new();
    let mut deliver = |hub: &mut Hub<u64>, budget| {
        hub.deliver(budget, |_, _, _| {}, |delivery, to| finished.push((delivery, to)))
    };
    assert!(deliver(&mut hub, 2));
    assert!(deliver(&mut hub, 1));
    hub.unsubscribe(&mut lists[0], ids[0]);
    assert!(!deliver(&mut hub, 100));
    assert_eq!(finished, [(1, 3), (2, 2)]);
}

#[test]
fn a_large_topic_does_not_delay_a_small_one() {
    let mut hub = hub();
    let mut crowd: Vec<Subscriptions> = (0..10_000).map(|_| Subscriptions::default()).collect();
    for (client, list) in crowd.iter_mut().enumerate() {
        hub.subscribe(client as u32, list, "huge");
    }
    let mut one = Subscriptions::default();
    hub.subscribe(99_999, &mut one, "small");
    hub.broadcast("huge", 1).unwrap();
    hub.broadcast("small", 2).unwrap();
    let mut delivered = Vec::new();
    assert!(hub.deliver(100, |_, client, &delivery| delivered.push((client, delivery)), |_, _| {}));
    assert_eq!(delivered.len(), 100);
    assert!(delivered.contains(&(99_999, 2)));
}

#[test]
fn a_topic_with_a_full_queue_refuses_broadcasts_and_others_do_not() {
    let mut hub = Hub::new(7, HubLimits { queued_per_topic_max: 2, queued_max: 3 });
    let mut list = Subscriptions::default();
    hub.subscribe(0, &mut list, "a");
    hub.subscribe(0, &mut list, "b");
    assert_eq!(hub.broadcast("a", 1), Ok(true));
    assert_eq!(hub.broadcast("a", 2), Ok(true));
    assert_eq!(hub.broadcast("a", 3), Err(QueueFull::Topic { max: 2 }));
    assert_eq!(hub.broadcast("b", 4), Ok(true));
    assert_eq!(hub.broadcast("b", 5), Err(QueueFull::Hub { max: 3 }));
    let mut delivered = deliver_all(&mut hub);
    delivered.sort();
    assert_eq!(delivered, [(0, 1), (0, 2), (0, 4)]);
    assert_eq!(hub.broadcast("a", 6), Ok(true));
}

#[test]
fn a_clients_subscriptions_are_found_and_ended_one_by_one() {
    let mut hub = hub();
    let mut list = Subscriptions::default();
    let ids = ["a", "b", "c"].map(|topic| hub.subscribe(5, &mut list, topic));
    assert_eq!(hub.find(&list, "b"), Some(ids[1]));
    assert_eq!(hub.find(&list, "d"), None);
    assert_eq!((hub.topic_of(ids[2]), hub.client_of(ids[2]), list.len()), ("c", 5, 3));
    hub.unsubscribe(&mut list, ids[1]);
    assert!(hub.subscriptions(&list).eq([ids[2], ids[0]]));
    assert_eq!((hub.subscribers("a"), hub.subscribers("b"), hub.topics()), (1, 0, 2));
    let mut sizes: Vec<_> = hub.topic_sizes().collect();
    sizes.sort();
    assert_eq!(sizes, [("a", 1), ("c", 1)]);
}

#[test]
#[should_panic = "its own client's list"]
fn a_subscription_is_not_ended_from_another_clients_list() {
    let mut hub = hub();
    let (mut alices, mut bobs) = (Subscriptions::default(), Subscriptions::default());
    let id = hub.subscribe(0, &mut alices, "a");
    hub.subscribe(1, &mut bobs, "a");
    hub.unsubscribe(&mut bobs, id);
}

/// A slow model of the hub: every subscription has its own queue.
#[derive(Default)]
struct Model {
    clients: BTreeMap<u32, Subscriptions>,
    /// By subscription: client, topic and pending deliveries.
    live: BTreeMap<SubscriptionId, (u32, usize, VecDeque<u64>)>,
    next_client: u32,
    next_delivery: u64,
}

impl Model {
    fn join(&mut self, hub: &mut Hub<u64>, rng: &mut Rng, topics: &[String]) {
        let is_new = self.clients.is_empty() || rng.index(2) == 0;
        let client = if is_new {
            self.next_client += 1;
            self.next_client
        } else {
            *self.clients.keys().nth(rng.index(self.clients.len())).unwrap()
        };
        // Half of the joins go to the first topic, which makes it large.
        let topic = if rng.index(2) == 0 { 0 } else { rng.index(topics.len()) };
        let list = self.clients.entry(client).or_default();
        let id = hub.subscribe(client, list, &topics[topic]);
        assert_eq!(hub.find(list, &topics[topic]), Some(id));
        assert!(self.live.insert(id, (client, topic, VecDeque::new())).is_none());
    }

    fn leave(&mut self, hub: &mut Hub<u64>, rng: &mut Rng) {
        if self.live.is_empty() {
            return;
        }
        let id = *self.live.keys().nth(rng.index(self.live.len())).unwrap();
        let (client, ..) = self.live.remove(&id).unwrap();
        let list = self.clients.get_mut(&client).unwrap();
        hub.unsubscribe(list, id);
        if list.is_empty() {
            self.clients.remove(&client);
        }
    }

    fn broadcast(&mut self, hub: &mut Hub<u64>, topic: usize, topics: &[String]) {
        self.next_delivery += 1;
        let to: Vec<_> = self.live.values_mut().filter(|(_, joined, _)| *joined == topic).collect();
        assert_eq!(hub.broadcast(&topics[topic], self.next_delivery), Ok(!to.is_empty()));
        to.into_iter().for_each(|(_, _, queue)| queue.push_back(self.next_delivery));
    }

    fn deliver(&mut self, hub: &mut Hub<u64>, budget: usize) -> bool {
        let mut visits = 0;
        let more = hub.deliver(
            budget,
            |id, client, &delivery| {
                visits += 1;
                let (owner, _, queue) = self.live.get_mut(&id).expect("it is subscribed");
                assert_eq!((*owner, queue.pop_front()), (client, Some(delivery)));
            },
            |_, _| {},
        );
        assert!(visits <= budget);
        assert!(more || hub.waiting() == 0);
        more
    }

    fn check(&self, hub: &Hub<u64>, topics: &[String]) {
        assert_eq!(hub.len(), self.live.len());
        for (number, topic) in topics.iter().enumerate() {
            let subscribers = self.live.values().filter(|(_, joined, _)| *joined == number);
            assert_eq!(hub.subscribers(topic), subscribers.count());
        }
        for list in self.clients.values() {
            assert_eq!(hub.subscriptions(list).count(), list.len());
        }
    }
}

#[test]
fn every_subscriber_gets_each_delivery_once_and_in_order_through_any_churn() {
    for seed in 1..=200 {
        let mut rng = Rng::from_seed(seed);
        let mut hub = Hub::new(seed, HubLimits::default());
        let topics: Vec<String> = (0..1 + rng.index(6)).map(|n| format!("topic:{n}")).collect();
        let mut model = Model::default();
        // Runs differ: many members, few members, or slow deliveries.
        let (joins, leaves, slow) = (1 + rng.index(20), 1 + rng.index(20), 1 + rng.index(40));
        for step in 0..600 {
            match rng.index(joins + leaves + 4 + 8) {
                roll if roll < joins => model.join(&mut hub, &mut rng, &topics),
                roll if roll < joins + leaves => model.leave(&mut hub, &mut rng),
                roll if roll < joins + leaves + 4 => {
                    let topic = rng.index(topics.len());
                    model.broadcast(&mut hub, topic, &topics);
                }
                _ => {
                    model.deliver(&mut hub, 1 + rng.index(slow));
                }
            }
            if step % 50 == 0 {
                model.check(&hub, &topics);
            }
        }
        while model.deliver(&mut hub, 1_000) {}
        let undelivered = model.live.values().find(|(_, _, queue)| !queue.is_empty());
        assert_eq!(undelivered, None, "seed {seed}");
        while !model.live.is_empty() {
            model.leave(&mut hub, &mut rng);
        }
        model.check(&hub, &topics);
        assert_eq!((hub.topics(), hub.waiting()), (0, 0), "seed {seed}");
    }
}
