//! Random pushes and positions, compared with a list of every message.

use std::time::Duration;

use watchfire_history::{Bounds, Log, Position, Since};
use watchfire_types::Instant;

#[test]
fn a_recovered_client_misses_no_message_and_gets_none_twice() {
    for seed in 1..=10_000_u64 {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (state >> 33) % end
        };
        let bounds = Bounds {
            messages: below(6) as usize,
            age: Duration::from_nanos(below(20)),
            bytes: below(40) as usize,
        };
        let (mut log, mut all, mut now) = (Log::new(1), Vec::new(), 0);
        for _ in 0..30 {
            now += below(4);
            let message = vec![all.len() as u8; below(9) as usize];
            log.push(Instant::from_nanos(now), &bounds, &message);
            all.push(message);
            let offset = below(all.len() as u64 + 3);
            let position = Position { epoch: 1, offset };
            if let Since::Recovered(messages) = log.since(position) {
                assert_eq!(messages, all[offset as usize..], "seed {seed}");
            } else {
                assert_ne!(offset, all.len() as u64, "seed {seed}: no message was missed");
            }
            assert!(log.bytes() <= bounds.bytes, "seed {seed}");
        }
    }
}
