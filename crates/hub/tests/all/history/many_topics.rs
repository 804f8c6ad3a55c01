//! Many topics at once, which each cost little.

use std::collections::VecDeque;
use std::time::Duration;

use watchfire_hub::history::{Bounds, Environment, Message, Output, Packet, Replicas};
use watchfire_types::{Instant, NodeId};

const MEMORY_BYTES_MAX: usize = 64 << 20;
const NOW: Instant = Instant::from_nanos(1_000_000_000);

struct Topics;

impl Environment for Topics {
    fn bounds(&self, _: &str) -> Option<Bounds> {
        Some(Bounds { messages: 100, age: Duration::from_secs(3_600), bytes: 1 << 20 })
    }

    fn is_subscribed(&self, _: &str) -> bool {
        false
    }
}

fn message() -> Message {
    Message { event: "e".into(), payload: "1".into() }
}

fn replicas(me: u16) -> Replicas<Topics> {
    Replicas::new(NodeId(me), Topics, me.into(), MEMORY_BYTES_MAX, Instant::ZERO)
}

/// Processes that are linked. What they send arrives when the test lets it.
struct Processes {
    all: Vec<Replicas<Topics>>,
    sent: VecDeque<(NodeId, NodeId, Packet)>,
    claims: usize,
}

impl Processes {
    fn linked(count: u16) -> Self {
        let all = (0..count).map(replicas).collect();
        let mut processes = Processes { all, sent: VecDeque::new(), claims: 0 };
        for (me, other) in (0..count).flat_map(|me| (0..count).map(move |other| (me, other))) {
            if me != other {
                processes.with(me, |replicas| replicas.node_up(NOW, NodeId(other)));
            }
        }
        processes
    }

    fn with(&mut self, me: u16, act: impl FnOnce(&mut Replicas<Topics>)) {
        let replicas = &mut self.all[usize::from(me)];
        act(replicas);
        while let Some(output) = replicas.poll_output() {
            if let Output::Send { to, packet } = output {
                self.claims += usize::from(matches!(packet, Packet::Claim { .. }));
                self.sent.push_back((NodeId(me), to, packet));
            }
        }
    }

    fn deliver_all(&mut self) {
        while let Some((from, to, packet)) = self.sent.pop_front() {
            self.with(to.0, |replicas| replicas.receive(NOW, from, packet));
        }
    }

    fn messages(&self, topic: &str) -> usize {
        self.all.iter().map(|one| one.log(topic).map_or(0, |log| log.len())).sum()
    }
}

#[test]
fn a_burst_of_new_topics_is_claimed_together() {
    let mut processes = Processes::linked(3);
    for burst in 0..10 {
        for n in 0..2_000 {
            let topic = format!("new:{burst}:{n}");
            processes.with(0, |replicas| {
                replicas.publish(NOW, &topic, message());
            });
        }
        processes.deliver_all();
    }
    for (burst, n) in (0..10).flat_map(|burst| (0..2_000).map(move |n| (burst, n))) {
        assert_eq!(processes.messages(&format!("new:{burst}:{n}")), 1);
    }
    // Alone, each topic would need two claims.
    assert!(processes.claims < 400, "{} claims of 20,000 topics", processes.claims);
}

#[test]
fn a_topic_is_claimed_at_the_next_tick_while_a_process_does_not_answer() {
    let mut processes = Processes::linked(2);
    for n in 0..100 {
        processes.with(0, |replicas| {
            replicas.publish(NOW, &format!("new:{n}"), message());
        });
    }
    // The process does not answer the first claim, and gets a second one.
    let before = processes.claims;
    processes.with(0, |replicas| replicas.handle_tick(NOW));
    assert_eq!((before, processes.claims), (1, 2));
    processes.with(0, |replicas| replicas.handle_tick(NOW + Duration::from_secs(3)));
    let owned = (0..100).filter(|n| processes.messages(&format!("new:{n}")) == 1).count();
    assert!((20..80).contains(&owned), "{owned} topics have their message");
}

/// Joins topics that nobody publishes to, and leaves them again unless they are `held`.
fn assert_joins_cost_no_messages(is_held: bool) {
    let mut replicas = replicas(0);
    let used: Vec<String> = (0..10).map(|n| format!("used:{n}")).collect();
    for topic in &used {
        replicas.add_shard(NOW, topic);
        replicas.publish(NOW, topic, message());
    }
    for n in 1..=126_000_u64 {
        let now = NOW + Duration::from_millis(n);
        let topic = format!("junk:{n}");
        assert!(replicas.open(now, &topic), "a process alone has a log at once");
        replicas.add_shard(now, &topic);
        if !is_held {
            replicas.remove_shard(now, &topic);
        }
        if n % 100 == 0 {
            replicas.handle_tick(now);
        }
        while replicas.poll_output().is_some() {}
    }
    for topic in &used {
        assert_eq!(replicas.log(topic).map(|log| log.len()), Some(1), "{topic}");
    }
    assert_eq!(replicas.totals().dropped_logs, 0);
    assert!(replicas.totals().memory_bytes <= MEMORY_BYTES_MAX);
}

#[test]
fn joins_and_leaves_of_other_topics_cost_a_topic_no_message() {
    assert_joins_cost_no_messages(false);
}

#[test]
fn joined_topics_without_messages_cost_a_topic_no_message() {
    assert_joins_cost_no_messages(true);
}
