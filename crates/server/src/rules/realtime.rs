//! The parts of a channel beyond Phoenix that `@supabase/realtime-js` and clients like it expect. Their topics begin with `realtime:`.

use serde::Deserialize;
use watchfire_channels::realtime::TOPIC_PREFIX;

use crate::channel_api::Payload;

/// The event with which such a client replaces its token.
const ACCESS_TOKEN: &str = "access_token";

/// Whether a topic is one of such clients.
pub(super) fn is_topic(topic: &str) -> bool {
    topic.starts_with(TOPIC_PREFIX)
}

/// Whether a message replaces the token of such a client.
pub(super) fn is_refresh(topic: &str, event: &str) -> bool {
    event == ACCESS_TOKEN && is_topic(topic)
}

/// Whether a client gets its own messages too, by the payload of its join. These clients send a configuration, in which
/// `broadcast.self` is false unless the application sets it.
pub(super) fn hears_itself(topic: &str, payload: Payload<'_>) -> bool {
    #[derive(Deserialize)]
    struct Join {
        config: Option<Config>,
    }
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        broadcast: Broadcast,
    }
    #[derive(Default, Deserialize)]
    struct Broadcast {
        #[serde(default, rename = "self")]
        to_self: bool,
    }
    let config = is_topic(topic).then(|| payload.json::<Join>().ok()?.config).flatten();
    config.is_none_or(|config| config.broadcast.to_self)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_itself_if_it_asks_for_it_or_is_of_another_kind() {
        let hears = |topic, payload| hears_itself(topic, Payload::Json(payload));
        let silent = r#"{"config":{"broadcast":{"ack":true,"self":false}}}"#;
        assert!(!hears("realtime:a", silent) && hears("rooms:a", silent));
        assert!(!hears("realtime:a", r#"{"config":{"broadcast":{"ack":true}}}"#));
        assert!(hears("realtime:a", r#"{"config":{"broadcast":{"self":true}}}"#));
        assert!(hears("realtime:a", "{}"), "a client of Phoenix");
    }
}
