//! `presence` and `presence_stats`: who is present on a topic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::error::CallError;
use super::params::parse;
use super::processes::Processes;
use super::question::{PresenceCounts, Question};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    topic: String,
}

/// The presences of one key.
#[derive(Deserialize, Serialize)]
struct Metas {
    metas: Vec<Box<RawValue>>,
}

/// `{"presence": …}` with the payload of a `presence_state`.
pub(super) async fn presence(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let Params { topic } = parse(body)?;
    processes.check_topic(&topic)?;
    let states = processes.ask_all_as_text(&Question::Presence { topic: &topic }).await?;
    Ok(format!("{{\"presence\":{}}}", merged(states)))
}

/// The state of all processes. Each has sent that of its own clients.
fn merged(mut states: Vec<String>) -> String {
    states.retain(|state| state != "{}");
    if states.len() < 2 {
        return states.pop().unwrap_or_else(|| "{}".to_owned());
    }
    let mut all: BTreeMap<String, Metas> = BTreeMap::new();
    for state in &states {
        let state: BTreeMap<String, Metas> =
            serde_json::from_str(state).expect("a presence state has metas for each key");
        for (key, Metas { metas }) in state {
            all.entry(key).or_insert_with(|| Metas { metas: Vec::new() }).metas.extend(metas);
        }
    }
    serde_json::to_string(&all).expect("a presence state has a JSON form")
}

/// `{"keys","metas"}`
pub(super) async fn presence_stats(
    processes: &Processes,
    body: &[u8],
) -> Result<String, CallError> {
    let Params { topic } = parse(body)?;
    processes.check_topic(&topic)?;
    let question = Question::PresenceStats { topic: &topic };
    let counts: Vec<PresenceCounts> = processes.ask_all(&question).await?;
    // Only a process with subscribers of the topic has presences of its own, and such a process knows
    // the keys of all others too.
    let keys = counts.iter().map(|counts| counts.keys).max().unwrap_or(0);
    let metas: usize = counts.iter().map(|counts| counts.own_metas).sum();
    Ok(json!({ "keys": keys, "metas": metas }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metas_of_a_key_in_several_processes_are_in_one_list() {
        let states = [
            r#"{"ada":{"metas":[{"n":1}]},"bob":{"metas":[{"n":2}]}}"#,
            "{}",
            r#"{"ada":{"metas":[{"n": 3},{"n":4}]}}"#,
        ];
        let merged_state = merged(states.map(str::to_owned).to_vec());
        let expected = r#"{"ada":{"metas":[{"n":1},{"n": 3},{"n":4}]},"bob":{"metas":[{"n":2}]}}"#;
        assert_eq!(merged_state, expected);
        assert_eq!(merged(vec!["{}".into(), "{}".into()]), "{}");
        assert_eq!(merged(vec!["{}".into(), states[0].into()]), states[0]);
    }
}
