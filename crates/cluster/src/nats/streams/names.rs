//! The names of streams and subjects.
//!
//! Subjects are texts without spaces, in which `.` separates tokens and `*` and `>` are wildcards. A topic has any
//! bytes, so it is encoded as one token. A process with 100,000 topics would need 100,000 subscriptions, of
//! some kilobytes each. So subjects have a *partition*, a hash of the topic, and processes subscribe to
//! partitions.

use std::fmt;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use watchfire_types::FixedHash;

const PARTITIONS: u64 = 4_096;
/// The characters that a token cannot have, and the one that begins an encoded byte.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'.').add(b'*').add(b'>').add(b'%');

/// The limits of each topic in a stream. Topics with the same limits share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamLimits {
    pub messages: usize,
    pub age: Duration,
}

impl fmt::Display for StreamLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.age.subsec_millis() {
            0 => write!(f, "{}-{}s", self.messages, self.age.as_secs()),
            _ => write!(f, "{}-{}ms", self.messages, self.age.as_millis()),
        }
    }
}

pub(super) fn stream_name(prefix: &str, limits: StreamLimits) -> String {
    format!("{}-history-{limits}", prefix.replace('.', "-"))
}

/// The first tokens of the subjects to which messages of a stream are published.
pub(super) fn published(prefix: &str, limits: StreamLimits) -> String {
    format!("{prefix}.history.{limits}")
}

/// The first tokens of the subjects to which a stream sends what it has stored.
pub(super) fn stored(prefix: &str, limits: StreamLimits) -> String {
    format!("{prefix}.stored.{limits}")
}

/// The place of a topic in a stream: partition and encoded topic.
pub(super) fn place(topic: &str) -> String {
    format!("{:03x}.{}", partition(topic), encode(topic))
}

pub(super) fn partition(topic: &str) -> u16 {
    (FixedHash::new(0).text(topic).finish() % PARTITIONS) as u16
}

fn encode(topic: &str) -> String {
    match topic {
        // A token has at least one byte. A `%` without two digits is no other topic.
        "" => "%".into(),
        topic => utf8_percent_encode(topic, ENCODED).to_string(),
    }
}

/// The topic of a subject. `None`: the subject ends with no encoded topic.
pub(super) fn topic_of(subject: &str) -> Option<String> {
    match subject.rsplit('.').next()? {
        "%" => Some(String::new()),
        token => Some(percent_decode_str(token).decode_utf8().ok()?.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_of_any_bytes_are_tokens() {
        for (topic, place) in [
            ("rooms:lobby", "fd6.rooms:lobby"),
            ("", "567.%"),
            ("%", "492.%25"),
            ("a.b", "0db.a%2Eb"),
            ("*", "0f2.%2A"),
            (">", "2b5.%3E"),
            ("a b", "f74.a%20b"),
            ("\r\n\0\u{7f}", "34f.%0D%0A%00%7F"),
            ("grüße", "d16.gr%C3%BC%C3%9Fe"),
            ("%41", "49d.%2541"),
        ] {
            assert_eq!(super::place(topic), place, "{topic:?}");
            assert_eq!(topic_of(place).as_deref(), Some(topic));
        }
        let long = "\u{1}".repeat(256);
        assert_eq!(topic_of(&super::place(&long)), Some(long));
        assert_eq!(topic_of("a.%FF"), None);
    }

    #[test]
    fn streams_and_subjects_are_named_after_their_limits() {
        let limits = StreamLimits { messages: 100, age: Duration::from_secs(300) };
        assert_eq!(stream_name("a.b", limits), "a-b-history-100-300s");
        assert_eq!(published("a.b", limits), "a.b.history.100-300s");
        assert_eq!(stored("a.b", limits), "a.b.stored.100-300s");
        let limits = StreamLimits { messages: 1, age: Duration::from_millis(1_500) };
        assert_eq!(limits.to_string(), "1-1500ms");
    }
}
