//! Histories: the log of one topic, compared with a list of every message, and the replication between
//! processes.

mod many_topics;
mod replication;

use std::time::Duration;

use watchfire_hub::history::{Bounds, Log, Message, Position};
use watchfire_types::{Instant, Rng};

#[test]
fn a_recovered_client_misses_no_message_and_gets_none_twice() {
    for seed in 1..=10_000_u64 {
        let mut rng = Rng::from_seed(seed);
        let mut below = |end: u64| rng.next_u64() % end;
        let bounds = Bounds {
            messages: below(6) as usize,
            age: Duration::from_nanos(below(20)),
            bytes: below(40) as usize,
        };
        let (mut log, mut all, mut now) = (Log::new(1), Vec::new(), 0);
        for _ in 0..30 {
            now += below(4);
            let payload = (all.len() % 10).to_string().repeat(below(9) as usize);
            let message = Message { event: "".into(), payload: payload.into() };
            log.push(Instant::from_nanos(now), &bounds, 1, message.clone());
            all.push(message);
            let offset = below(all.len() as u64 + 3);
            let position = Position { epoch: 1, offset };
            if let Some(messages) = log.since(position) {
                let offsets = messages.iter().map(|(position, _)| position.offset);
                assert!(offsets.eq(offset + 1..=all.len() as u64), "seed {seed}");
                let messages: Vec<_> = messages.into_iter().map(|(_, message)| message).collect();
                assert_eq!(messages, all[offset as usize..], "seed {seed}");
            } else {
                assert_ne!(offset, all.len() as u64, "seed {seed}: no message was missed");
            }
            assert!(log.bytes() <= bounds.bytes, "seed {seed}");
        }
    }
}
