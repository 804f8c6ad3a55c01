//! The recent messages of a topic.

use std::any::Any;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use watchfire_hub::history::{Bounds, Logs, Message, Position};
use watchfire_types::Instant;

/// The log keeps every message of a run.
const BOUNDS: Bounds =
    Bounds { messages: 1 << 20, age: Duration::from_secs(3_600), bytes: 1 << 30 };
const EPOCH: u64 = 7;
/// The messages that a client has missed when it connects again.
const MISSED: u64 = 10;

/// A round is one message. Every tenth round, a client asks for what it missed.
pub fn push(rounds: u32) -> Box<dyn Any> {
    let mut logs = Logs::new(EPOCH, usize::MAX);
    let event: Arc<str> = "new_msg".into();
    for number in 0..u64::from(rounds) {
        let payload =
            format!(r#"{{"number":{number},"body":"a message to everyone here"}}"#).into();
        let now = Instant::from_nanos(number * 1_000_000);
        logs.publish(now, "room:1", BOUNDS, Message { event: event.clone(), payload });
        if number % MISSED == MISSED - 1 {
            let position = Position { epoch: EPOCH, offset: number + 1 - MISSED };
            black_box(logs.since(now, "room:1", position)).expect("all messages are kept");
        }
    }
    Box::new(logs)
}
