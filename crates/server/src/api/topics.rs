//! `topics`: the topics that have subscribers, a page at a time.

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{CallError, Code};
use super::params::{parse, whole_number};
use super::processes::Processes;
use super::question::{Question, summed};

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    prefix: String,
    /// The last topic of the page before.
    cursor: Option<String>,
    #[serde(deserialize_with = "whole_number")]
    limit: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { prefix: String::new(), cursor: None, limit: LIMIT_DEFAULT }
    }
}

/// `{"topics":[{"topic","subscribers"}],"cursor"}`
pub(super) async fn topics(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let Params { prefix, cursor, limit } = parse(body)?;
    if !(1..=LIMIT_MAX).contains(&limit) {
        let message = format!("limit must be between 1 and {LIMIT_MAX}, not {limit}");
        return Err(CallError::new(Code::BadRequest, message));
    }
    let limit = limit as usize;
    // One more shows whether there is a further page.
    let question = Question::Topics {
        prefix: &prefix,
        after: cursor.as_deref().unwrap_or(""),
        count: limit + 1,
    };
    Ok(page(processes.ask_all(&question).await?, limit).to_string())
}

/// The first topics of all processes. Each has sent its own first ones, so none is missing.
fn page(answers: Vec<Vec<(String, u64)>>, limit: usize) -> Value {
    let all = summed(answers.into_iter().flatten());
    let has_more = all.len() > limit;
    let entry = |(topic, subscribers)| json!({ "topic": topic, "subscribers": subscribers });
    let topics: Vec<Value> = all.into_iter().take(limit).map(entry).collect();
    let last = topics.last().map(|last| last["topic"].clone());
    json!({ "topics": topics, "cursor": last.filter(|_| has_more) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_first_topics_of_all_processes_and_names_its_last() {
        let list = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let answers = || vec![list(&["a", "c", "d"]), list(&["b", "c", "e"])];
        let first = page(answers(), 3);
        let topic =
            |topic: &str, subscribers| json!({ "topic": topic, "subscribers": subscribers });
        let expected = json!([topic("a", 1), topic("b", 1), topic("c", 2)]);
        assert_eq!(first, json!({ "topics": expected, "cursor": "c" }));
        let all = page(answers(), 5);
        assert_eq!((all["topics"].as_array().unwrap().len(), &all["cursor"]), (5, &Value::Null));
        assert_eq!(page(vec![], 5), json!({ "topics": [], "cursor": null }));
    }
}
