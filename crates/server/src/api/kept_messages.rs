//! The answer of this process to a `history` call.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use watchfire_history::Positioned;

use crate::history::{Excerpt, History, Wanted};

/// The answer of this process, which writes the log.
pub(super) fn answer(history: &History, topic: &str, after: Option<&str>, limit: u32) -> String {
    let wanted = match after {
        Some(text) => Wanted::After(text.parse().ok()),
        None => Wanted::Last(limit as usize),
    };
    // The process may be about to become the writer. Then the next call finds the log.
    history.open(topic);
    let excerpt = history.read(topic, wanted);
    answer_of(excerpt, wanted, limit as usize).to_string()
}

/// `position` is that of the last message in the answer, so that the next call continues there.
fn answer_of(excerpt: Option<Excerpt>, wanted: Wanted, limit: usize) -> Value {
    let Some(Excerpt { position, messages }) = excerpt else {
        return json!({ "messages": [], "position": null, "recovered": false });
    };
    let recovered = messages.is_some() && matches!(wanted, Wanted::After(_));
    let messages = messages.unwrap_or_default();
    let last = match messages.get(..limit).and_then(<[_]>::last) {
        Some((position, _)) => *position,
        None => position,
    };
    let messages: Vec<Value> = messages.into_iter().take(limit).map(message).collect();
    json!({ "messages": messages, "position": last.to_string(), "recovered": recovered })
}

fn message((position, message): Positioned) -> Value {
    let payload: Box<RawValue> =
        serde_json::from_str(&message.payload).expect("the payload was valid when it was kept");
    json!({ "event": &*message.event, "payload": payload, "position": position.to_string() })
}

#[cfg(test)]
mod tests {
    use watchfire_history::{Message, Position};

    use super::*;

    #[test]
    fn an_answer_with_a_limit_ends_at_the_position_of_its_last_message() {
        let at = |offset| Position { epoch: 1, offset };
        let message = |n: u64| {
            let message =
                Message { event: "note".into(), payload: format!("{{\"n\":{n}}}").into() };
            (at(n), message)
        };
        let excerpt = |messages: Option<Vec<_>>| Some(Excerpt { position: at(9), messages });
        let after = Wanted::After(Some(at(6)));
        let all = excerpt(Some(vec![message(7), message(8), message(9)]));
        let page = answer_of(all, after, 2);
        assert_eq!((&page["position"], &page["recovered"]), (&json!("1:8"), &json!(true)));
        assert_eq!(page["messages"][1]["payload"], json!({ "n": 8 }));
        let lost = answer_of(excerpt(None), after, 2);
        assert_eq!(lost, json!({ "messages": [], "position": "1:9", "recovered": false }));
        let none = answer_of(excerpt(Some(vec![])), after, 2);
        assert_eq!(none, json!({ "messages": [], "position": "1:9", "recovered": true }));
    }
}
