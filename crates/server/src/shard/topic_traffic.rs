//! How many messages and bytes a second pass through each topic of a shard, for an operator who looks for the hottest.
//!
//! Counters in the record of each topic would cost a server with a million quiet topics 24 MB, for a question about
//! the few that are busy. So the counts are in a table of [`TOPICS_MAX`] topics. A topic enters it with a message, and
//! leaves it when it is quiet. A broadcast costs one look-up, however many subscribers it has.
//!
//! # When more topics have messages than the table has places
//!
//! A topic that finds no place is not counted. Alone, this would be wrong: 100,000 topics with a message each minute
//! would take all places, and a topic with 1,000 messages a second that begins later would never be seen. So each
//! second the table keeps at most the busier half. In the next second, 2,048 places are free, and the first topics
//! with a message take them. The quiet ones send 1,667 messages in a second, each of another topic. If they sent
//! 100,000, they would fill the places in 20 ms, in which the busy topic sends 20 messages: it gets one of them, and
//! is in the busier half from then on.
//!
//! A rate is the mean of the last second and of the rate before it. So a topic that was busy fades in some seconds.

use std::collections::HashMap;

use watchfire_types::Instant;

/// Topics that are counted at the same time. Each takes about 100 bytes.
const TOPICS_MAX: usize = 4_096;
/// A topic with fewer messages a second leaves the table.
const QUIET_RATE: f64 = 0.05;

/// The traffic of a shard's topics.
#[derive(Default)]
pub(super) struct TopicTraffic {
    topics: HashMap<Box<str>, Traffic>,
    /// When the current second began.
    began: Instant,
}

#[derive(Default)]
struct Traffic {
    /// In the current second.
    messages: u64,
    bytes: u64,
    rates: Rates,
}

/// Messages and bytes that pass through a topic in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub messages: f64,
    pub bytes: f64,
}

impl TopicTraffic {
    /// Counts messages of a topic, with the bytes of all their payloads.
    pub fn note(&mut self, topic: &str, messages: u64, bytes: u64) {
        let is_full = self.topics.len() == TOPICS_MAX;
        let traffic = match self.topics.get_mut(topic) {
            Some(traffic) => traffic,
            None if is_full => return,
            None => self.topics.entry(topic.into()).or_default(),
        };
        traffic.messages += messages;
        traffic.bytes += bytes;
    }

    pub fn rates(&self, topic: &str) -> Rates {
        self.topics.get(topic).map_or_else(Rates::default, |traffic| traffic.rates)
    }

    /// Computes the rates when a second has passed. Called at each tick.
    pub fn handle_tick(&mut self, now: Instant) {
        let seconds = now.since(self.began).as_secs_f64();
        if seconds < 1.0 {
            return;
        }
        self.began = now;
        for Traffic { messages, bytes, rates } in self.topics.values_mut() {
            let mean =
                |rate: f64, count: &mut u64| (rate + std::mem::take(count) as f64 / seconds) / 2.0;
            rates.messages = mean(rates.messages, messages);
            rates.bytes = mean(rates.bytes, bytes);
        }
        self.topics.retain(|_, traffic| traffic.rates.messages >= QUIET_RATE);
        if self.topics.len() > TOPICS_MAX / 2 {
            let mut all: Vec<f64> = self.topics.values().map(|it| it.rates.messages).collect();
            let (busier, median, _) =
                all.select_nth_unstable_by(TOPICS_MAX / 2, |a, b| b.total_cmp(a));
            let floor = *median;
            // Of equally busy topics, some stay: otherwise an even load would have no rates at all.
            let mut equal = busier.iter().filter(|rate| **rate == floor).count();
            self.topics.retain(|_, traffic| {
                let rate = traffic.rates.messages;
                let is_kept = rate == floor && equal > 0;
                equal -= usize::from(is_kept);
                is_kept || rate > floor
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(tenths: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(100 * tenths)
    }

    #[test]
    fn a_rate_rises_to_what_passes_and_fades_when_nothing_does() {
        let mut traffic = TopicTraffic::default();
        for tenth in 1..=100 {
            traffic.note("busy", 2, 300);
            traffic.handle_tick(at(tenth));
        }
        let Rates { messages, bytes } = traffic.rates("busy");
        assert!((19.5..20.5).contains(&messages) && (2_900.0..3_100.0).contains(&bytes));
        (101..=200).for_each(|tenth| traffic.handle_tick(at(tenth)));
        assert_eq!((traffic.rates("busy"), traffic.topics.len()), (Rates::default(), 0));
    }

    #[test]
    fn a_busy_topic_is_found_among_more_quiet_ones_than_there_are_places() {
        let mut traffic = TopicTraffic::default();
        let mut quiet = 0;
        for tenth in 1..=50 {
            for _ in 0..10 {
                for _ in 0..1_000 {
                    quiet += 1;
                    traffic.note(&format!("quiet:{quiet}"), 1, 1);
                }
                // It begins when the table is full.
                if tenth > 15 {
                    traffic.note("busy", 10, 10);
                }
            }
            traffic.handle_tick(at(tenth));
            assert!(traffic.topics.len() <= TOPICS_MAX);
        }
        assert!(traffic.rates("busy").messages > 500.0, "{:?}", traffic.rates("busy"));
    }

    #[test]
    fn some_of_many_equally_busy_topics_keep_their_rates() {
        let mut traffic = TopicTraffic::default();
        for tenth in 1..=20 {
            (0..TOPICS_MAX * 3 / 4).for_each(|topic| traffic.note(&topic.to_string(), 1, 9));
            traffic.handle_tick(at(tenth));
        }
        assert_eq!(traffic.topics.len(), TOPICS_MAX / 2);
    }
}
