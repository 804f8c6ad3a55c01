//! Which topics, events and ids a caller may name.

use std::sync::{Arc, OnceLock, Weak};

use watchfire::feature::Part;
use watchfire_types::{TOPIC_BYTES_MAX, Topic};

use super::error::{CallError, Code};

/// The longest event: its length is one byte in a binary frame.
const EVENT_BYTES_MAX: usize = 255;
/// The longest id of a socket.
const ID_BYTES_MAX: usize = 1_024;

/// Topics that only the server itself uses: of the protocol, and of parts that reserve some.
///
/// The parts are weak references, because the operator's part may hold the routes of the API.
#[derive(Default)]
pub struct ReservedTopics(OnceLock<Vec<Weak<dyn Part>>>);

impl ReservedTopics {
    /// Sets the parts of the server, once.
    pub fn set_parts(&self, parts: &[Arc<dyn Part>]) {
        self.0.set(parts.iter().map(Arc::downgrade).collect()).ok();
    }

    fn is_of_a_part(&self, topic: &str) -> bool {
        let parts = self.0.get().into_iter().flatten();
        parts.filter_map(Weak::upgrade).any(|part| part.reserves(topic))
    }

    /// Checks a topic that a caller names.
    pub fn check(&self, topic: &str) -> Result<(), CallError> {
        let invalid = |message: String| Err(CallError::new(Code::TopicInvalid, message));
        if let Err(error) = Topic::parse(topic) {
            return invalid(error.to_string());
        }
        if topic.chars().any(char::is_control) {
            return invalid(format!("the topic {topic:?} has control characters"));
        }
        match topic == "phoenix" || self.is_of_a_part(topic) {
            true => invalid(format!("the server reserves the topic {topic:?} for itself")),
            false => Ok(()),
        }
    }
}

/// Checks an event that a caller publishes.
pub fn check_event(event: &str) -> Result<(), CallError> {
    let invalid = |message: String| Err(CallError::new(Code::EventInvalid, message));
    match event.len() {
        0 => return invalid("an event cannot be empty".into()),
        len if len > EVENT_BYTES_MAX => {
            return invalid(format!("an event has at most {EVENT_BYTES_MAX} bytes, not {len}"));
        }
        _ => {}
    }
    if event.chars().any(char::is_control) {
        return invalid(format!("the event {event:?} has control characters"));
    }
    match event.starts_with("phx_") {
        true => invalid(format!("the protocol reserves events that begin with phx_: {event:?}")),
        false => Ok(()),
    }
}

/// Checks the id of a socket.
pub fn check_id(id: &str) -> Result<(), CallError> {
    match (1..=ID_BYTES_MAX).contains(&id.len()) {
        true => Ok(()),
        false => {
            let message = format!("an id has 1 to {ID_BYTES_MAX} bytes, not {}", id.len());
            Err(CallError::new(Code::BadRequest, message))
        }
    }
}

const _: () = assert!(TOPIC_BYTES_MAX == EVENT_BYTES_MAX, "both have a length of one byte");

#[cfg(test)]
mod tests {
    use super::*;

    /// A part with topics of its own.
    struct Grids;

    impl Part for Grids {
        fn reserves(&self, topic: &str) -> bool {
            topic.starts_with("grid:")
        }
    }

    fn code(checked: Result<(), CallError>) -> Option<Code> {
        checked.err().map(|error| error.code)
    }

    #[test]
    fn topics_of_the_server_and_bad_topics_are_refused() {
        let part: Arc<dyn Part> = Arc::new(Grids);
        let (grids, none) = (ReservedTopics::default(), ReservedTopics::default());
        grids.set_parts(std::slice::from_ref(&part));
        assert_eq!(code(grids.check("grid:x")), Some(Code::TopicInvalid));
        assert_eq!(code(none.check("grid:x")), None, "a topic of an application");
        for topic in ["phoenix", "", "a\0b", "a\nb", "\u{85}", &"t".repeat(256)] {
            assert_eq!(code(none.check(topic)), Some(Code::TopicInvalid), "{topic:?}");
        }
        for topic in ["rooms:1", "pages:x", "site:1", "phoenix:1", "ü", &"t".repeat(255)] {
            assert_eq!(code(grids.check(topic)), None, "{topic:?}");
        }
    }

    #[test]
    fn events_of_the_protocol_and_bad_events_are_refused() {
        for event in ["", "phx_reply", "phx_", "a\u{7f}", &"e".repeat(256)] {
            assert_eq!(code(check_event(event)), Some(Code::EventInvalid), "{event:?}");
        }
        for event in ["new_msg", "phx", "presence_diff", &"e".repeat(255)] {
            assert_eq!(code(check_event(event)), None, "{event:?}");
        }
    }

    #[test]
    fn ids_have_a_bounded_length() {
        assert_eq!(code(check_id("")), Some(Code::BadRequest));
        assert_eq!(code(check_id(&"i".repeat(1_025))), Some(Code::BadRequest));
        assert_eq!(code(check_id("users:1")), None);
    }
}
