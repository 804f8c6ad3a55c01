//! The answer of this process to a `history` call.

use serde_json::{Value, json};
use watchfire::internal::{Excerpt, History, Wanted};
use watchfire_hub::history::Positioned;

/// Answers for this process, which writes the log or reads it itself.
pub fn answer(
    history: &History,
    topic: &str,
    after: Option<&str>,
    limit: u32,
    reply: impl FnOnce(String) + Send + 'static,
) {
    let wanted = match after {
        Some(text) => Wanted::After(text.parse().ok()),
        None => Wanted::Last(limit as usize),
    };
    let answer = move |excerpt| reply(answer_of(excerpt, wanted, limit as usize));
    history.read_soon(topic, wanted, answer);
}

/// `position` is the position of the last message in the answer, so that the next call continues there.
fn answer_of(excerpt: Option<Excerpt>, wanted: Wanted, limit: usize) -> String {
    let Some(Excerpt { position, messages }) = excerpt else {
        return text_of(&[], &Value::Null, false);
    };
    let recovered = messages.is_some() && matches!(wanted, Wanted::After(_));
    let messages = messages.unwrap_or_default();
    let last = match messages.get(..limit).and_then(<[_]>::last) {
        Some((position, _)) => *position,
        None => position,
    };
    let kept = &messages[..limit.min(messages.len())];
    text_of(kept, &json!(last.to_string()), recovered)
}

/// A payload stays the text of its publisher. Texts exist that are JSON and that no parser reads into
/// values: `1e999`, a lone surrogate, and lists in lists deeper than its limit.
fn text_of(messages: &[Positioned], position: &Value, recovered: bool) -> String {
    let mut text = r#"{"messages":["#.to_owned();
    for (at, message) in messages {
        if !text.ends_with('[') {
            text.push(',');
        }
        let (event, at) = (json!(&*message.event), json!(at.to_string()));
        let payload = &message.payload;
        text += &format!(r#"{{"event":{event},"payload":{payload},"position":{at}}}"#);
    }
    text + &format!(r#"],"position":{position},"recovered":{recovered}}}"#)
}

#[cfg(test)]
mod tests {
    use watchfire_hub::history::{Message, Position};

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
        let answer_of = |excerpt, wanted, limit| -> Value {
            serde_json::from_str(&super::answer_of(excerpt, wanted, limit)).expect("it is JSON")
        };
        let page = answer_of(all, after, 2);
        assert_eq!((&page["position"], &page["recovered"]), (&json!("1:8"), &json!(true)));
        assert_eq!(page["messages"][1]["payload"], json!({ "n": 8 }));
        let lost = answer_of(excerpt(None), after, 2);
        assert_eq!(lost, json!({ "messages": [], "position": "1:9", "recovered": false }));
        let none = answer_of(excerpt(Some(vec![])), after, 2);
        assert_eq!(none, json!({ "messages": [], "position": "1:9", "recovered": true }));
    }

    #[test]
    fn a_payload_is_in_the_answer_as_its_publisher_wrote_it() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
        for payload in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#, r#"{ "a" : [] }"#, &deep] {
            let message = Message { event: "a\"b".into(), payload: payload.into() };
            let position = Position { epoch: 1, offset: 7 };
            let excerpt = Excerpt { position, messages: Some(vec![(position, message)]) };
            let answer = answer_of(Some(excerpt), Wanted::Last(1), 1);
            let expected = format!(
                r#"{{"messages":[{{"event":"a\"b","payload":{payload},"position":"1:7"}}],"#
            ) + r#""position":"1:7","recovered":false}"#;
            assert_eq!(answer, expected);
        }
    }
}
