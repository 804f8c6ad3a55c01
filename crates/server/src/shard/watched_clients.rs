//! The messages of the few connections that an operator watches.
//!
//! An operator wants to see what one client sends and gets. To keep the last messages of every client would cost each
//! of a million clients memory and each message a copy, and the payloads of people who have nothing to do with the
//! question would be in memory. To log them would put payloads on a disk. So nothing is kept of any connection until
//! an operator asks for the messages of that one.
//!
//! # A watch
//!
//! The first call about a connection begins its watch, and each call returns the messages after a number that the
//! operator has seen. The operator's view asks once a second. There is no call that ends a watch: a browser tab
//! that is closed would not send it. A watch ends when no call came for [`SILENCE_MAX`], or with its client.
//!
//! Numbers count the messages since the watch began. With 250 messages since then, the last 200 are kept, from 51 to
//! 250. A call after number 0 gets these 200 and `missed: 50`, so the operator knows that the list has a gap; a call
//! after number 248 gets two, and misses none. A number above the last one is of an earlier watch of the same
//! connection, and counts as 0.
//!
//! Names and sizes are kept, not payloads. An operator with the token turns the payloads of one connection on, which
//! the log notes as a warning. From then on each message keeps the first [`PAYLOAD_BYTES_MAX`] bytes of its text.
//!
//! # Bounds
//!
//! A shard watches [`WATCHES_MAX`] connections. Each keeps [`MESSAGES_MAX`] messages with a topic and an event of at
//! most [`NAME_BYTES_MAX`] bytes: 4 × 200 × (256 + 256 + 1,000) bytes are 1.2 MB, if all payloads are turned on and all
//! are long. A further watch is refused. While nothing is watched, a message costs the test of one empty list.

use std::collections::VecDeque;
use std::time::Duration;

use watchfire_channels::Payload;
use watchfire_types::Instant;

use crate::channel_api::{Direction, WatchAnswer, WatchedMessage, WatchedMessages};
use crate::unix_time::now_ms;

/// Connections of a shard that are watched at the same time. A further one is refused.
const WATCHES_MAX: usize = 4;
/// Messages of a connection that are kept. A further one replaces the oldest.
const MESSAGES_MAX: usize = 200;
/// How long a connection is watched after the last call.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Bytes of a topic or event, and of a payload, that are kept.
const NAME_BYTES_MAX: usize = 256;
const PAYLOAD_BYTES_MAX: usize = 1_000;

/// The connections of a shard that an operator watches.
#[derive(Default)]
pub(super) struct WatchedClients(Vec<Watch>);

/// A call for the messages of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchCall {
    /// The number of the last message that the operator has.
    pub after: u64,
    /// Whether to keep payloads from now on. `None`: as before.
    pub payloads: Option<bool>,
}

struct Watch {
    /// The client's key.
    key: u32,
    since_ms: u64,
    called: Instant,
    has_payloads: bool,
    /// The number of the last message.
    last: u64,
    messages: VecDeque<WatchedMessage>,
}

impl WatchedClients {
    /// Whether any connection is watched. It is asked for each message of each client.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client is watched.
    pub fn has(&self, key: u32) -> bool {
        self.0.iter().any(|watch| watch.key == key)
    }

    /// Answers a call about an existing client, and watches the client from now on.
    pub fn call(&mut self, now: Instant, key: u32, call: WatchCall) -> WatchAnswer {
        if !self.has(key) {
            if self.0.len() >= WATCHES_MAX {
                return WatchAnswer::TooMany;
            }
            self.0.push(Watch {
                key,
                since_ms: now_ms(),
                called: now,
                has_payloads: false,
                last: 0,
                messages: VecDeque::new(),
            });
        }
        let watch = self.0.iter_mut().find(|watch| watch.key == key);
        let watch = watch.expect("the client is watched");
        watch.called = now;
        watch.has_payloads = call.payloads.unwrap_or(watch.has_payloads);
        WatchAnswer::Messages(watch.messages_after(call.after))
    }

    /// Keeps a message of a client that is watched.
    pub fn note(
        &mut self,
        key: u32,
        direction: Direction,
        topic: &str,
        event: &str,
        payload: Payload<'_>,
    ) {
        let Some(watch) = self.0.iter_mut().find(|watch| watch.key == key) else { return };
        let (payload_bytes, text) = match payload {
            Payload::Json(text) => (text.len(), Some(text)),
            Payload::Binary(bytes) => (bytes.len(), None),
        };
        watch.last += 1;
        if watch.messages.len() == MESSAGES_MAX {
            watch.messages.pop_front();
        }
        watch.messages.push_back(WatchedMessage {
            number: watch.last,
            time_ms: now_ms(),
            direction,
            topic: start_of(topic, NAME_BYTES_MAX),
            event: start_of(event, NAME_BYTES_MAX),
            payload_bytes,
            payload: text.filter(|_| watch.has_payloads).map(|t| start_of(t, PAYLOAD_BYTES_MAX)),
        });
    }

    /// The client is gone.
    pub fn remove(&mut self, key: u32) {
        self.0.retain(|watch| watch.key != key);
    }

    /// Ends the watches that no operator has called for a while.
    pub fn end_silent(&mut self, now: Instant) {
        self.0.retain(|watch| now.since(watch.called) < SILENCE_MAX);
    }
}

impl Watch {
    fn messages_after(&self, after: u64) -> WatchedMessages {
        // A larger number comes from an earlier watch of the connection.
        let after = if after > self.last { 0 } else { after };
        let messages: Vec<_> =
            self.messages.iter().filter(|message| message.number > after).cloned().collect();
        WatchedMessages {
            since_ms: self.since_ms,
            has_payloads: self.has_payloads,
            missed: self.last - after - messages.len() as u64,
            messages,
        }
    }
}

/// A text, or its start with an ellipsis.
fn start_of(text: &str, bytes_max: usize) -> String {
    match text.len() <= bytes_max {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(bytes_max)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: WatchCall = WatchCall { after: 0, payloads: None };

    fn messages(answer: WatchAnswer) -> WatchedMessages {
        let WatchAnswer::Messages(messages) = answer else { panic!("{answer:?}") };
        messages
    }

    #[test]
    fn the_last_messages_remain_and_the_others_are_counted() {
        let mut watches = WatchedClients::default();
        watches.call(Instant::ZERO, 1, READ);
        for n in 0..250 {
            let text = n.to_string();
            watches.note(1, Direction::Received, "rooms:a", &text, Payload::Json("{}"));
            watches.note(2, Direction::Received, "rooms:a", &text, Payload::Json("{}"));
        }
        assert!(watches.has(1) && !watches.has(2));
        let all = messages(watches.call(Instant::ZERO, 1, READ));
        assert_eq!((all.messages.len(), all.missed), (200, 50));
        assert_eq!((all.messages[0].number, &*all.messages[0].event), (51, "50"));
        let later = messages(watches.call(Instant::ZERO, 1, WatchCall { after: 248, ..READ }));
        assert_eq!((later.messages.len(), later.missed), (2, 0));
        let other = messages(watches.call(Instant::ZERO, 1, WatchCall { after: 900, ..READ }));
        assert_eq!(other.messages.len(), 200, "a number of an earlier watch");
    }

    #[test]
    fn payloads_are_kept_only_while_they_are_asked_for() {
        let mut watches = WatchedClients::default();
        watches.call(Instant::ZERO, 1, READ);
        let long = "ü".repeat(3_000);
        let note = |watches: &mut WatchedClients| {
            watches.note(1, Direction::Sent, &long, "e", Payload::Json(&long));
            watches.note(1, Direction::Sent, "t", "e", Payload::Binary(&[255; 9]));
        };
        note(&mut watches);
        watches.call(Instant::ZERO, 1, WatchCall { after: 0, payloads: Some(true) });
        note(&mut watches);
        watches.call(Instant::ZERO, 1, WatchCall { after: 0, payloads: Some(false) });
        note(&mut watches);
        let kept = messages(watches.call(Instant::ZERO, 1, READ)).messages;
        let lengths: Vec<_> = kept.iter().map(|m| m.payload.as_ref().map(String::len)).collect();
        let cut = Some(PAYLOAD_BYTES_MAX + "…".len());
        assert_eq!(lengths, [None, None, cut, None, None, None]);
        assert_eq!(kept[0].topic.len(), NAME_BYTES_MAX + "…".len());
        assert_eq!((kept[0].payload_bytes, kept[1].payload_bytes), (6_000, 9));
    }

    #[test]
    fn a_watch_ends_with_its_client_or_after_silence() {
        let mut watches = WatchedClients::default();
        for key in 0..4 {
            watches.call(Instant::ZERO, key, READ);
        }
        assert_eq!(watches.call(Instant::ZERO, 4, READ), WatchAnswer::TooMany);
        watches.remove(3);
        assert!(matches!(watches.call(Instant::ZERO, 4, READ), WatchAnswer::Messages(_)));
        watches.call(Instant::ZERO + Duration::from_secs(20), 0, READ);
        watches.end_silent(Instant::ZERO + SILENCE_MAX);
        assert_eq!(
            (0..5).map(|key| watches.has(key)).collect::<Vec<_>>(),
            [true, false, false, false, false]
        );
    }
}
