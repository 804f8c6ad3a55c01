//! The table of methods, and the methods that ask about clients and topics. The methods that publish
//! are in `publish`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::error::{CallError, Code};
use super::names::check_id;
use super::params::{parse, whole_number};
use super::processes::Processes;
use super::publish::PublishMethod;
use super::question::{PresenceCounts, ProcessInfo, Question, summed};
use super::settings::ApiScope;

/// The entries in one answer of `history` and `topics`.
const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

/// A method of the API: `POST /api/<name>`.
pub struct Method {
    pub name: &'static str,
    /// The scope that a key needs.
    pub scope: ApiScope,
    pub run: Run,
}

/// The work of a method.
pub enum Run {
    /// It publishes. With an `Idempotency-Key` it is done once.
    Publish(PublishMethod),
    /// It gets the JSON of the call and returns the JSON of the answer. Doing it again does no harm.
    Ask(for<'a> fn(&'a Processes, &'a [u8]) -> Asking<'a>),
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<String, CallError>> + Send + 'a>>;

/// All methods. A new one is a line here, a function, and an entry in `openapi.json`.
#[rustfmt::skip] // A table.
pub const METHODS: &[Method] = &[
    Method { name: "publish", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Publish) },
    Method { name: "broadcast", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Broadcast) },
    Method { name: "batch", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Batch) },
    Method { name: "presence", scope: ApiScope::Presence, run: Run::Ask(|all, call| Box::pin(presence(all, call))) },
    Method { name: "presence_stats", scope: ApiScope::Presence, run: Run::Ask(|all, call| Box::pin(presence_stats(all, call))) },
    Method { name: "history", scope: ApiScope::History, run: Run::Ask(|all, call| Box::pin(history(all, call))) },
    Method { name: "disconnect", scope: ApiScope::Disconnect, run: Run::Ask(|all, call| Box::pin(disconnect(all, call))) },
    Method { name: "unsubscribe", scope: ApiScope::Disconnect, run: Run::Ask(|all, call| Box::pin(unsubscribe(all, call))) },
    Method { name: "topics", scope: ApiScope::Info, run: Run::Ask(|all, call| Box::pin(topics(all, call))) },
    Method { name: "info", scope: ApiScope::Info, run: Run::Ask(|all, call| Box::pin(info(all, call))) },
];

/// The method of a name.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresenceParams {
    topic: String,
}

/// The presences of one key.
#[derive(Deserialize, Serialize)]
struct Metas {
    metas: Vec<Box<RawValue>>,
}

/// `{"presence": …}` with the payload of a `presence_state`.
async fn presence(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let PresenceParams { topic } = parse(body)?;
    processes.check_topic(&topic)?;
    let states = processes.ask_all_as_text(&Question::Presence { topic: &topic }).await?;
    Ok(format!("{{\"presence\":{}}}", merged(states)))
}

/// The state of all processes. Each process has sent the state of its own clients.
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
async fn presence_stats(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let PresenceParams { topic } = parse(body)?;
    processes.check_topic(&topic)?;
    let question = Question::PresenceStats { topic: &topic };
    let counts: Vec<PresenceCounts> = processes.ask_all(&question).await?;
    // Only a process with subscribers of the topic has presences of its own, and such a process knows
    // the keys of all others too.
    let keys = counts.iter().map(|counts| counts.keys).max().unwrap_or(0);
    let metas: usize = counts.iter().map(|counts| counts.own_metas).sum();
    Ok(json!({ "keys": keys, "metas": metas }).to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryParams {
    topic: String,
    /// The messages after this position. Absent: the last ones.
    after: Option<String>,
    #[serde(default = "limit_default", deserialize_with = "whole_number")]
    limit: u32,
}

fn limit_default() -> u32 {
    LIMIT_DEFAULT
}

/// `{"messages":[{"event","payload","position"}],"position","recovered"}`.
async fn history(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let HistoryParams { topic, after, limit } = parse(body)?;
    processes.check_topic(&topic)?;
    check_limit(limit)?;
    if !processes.has_history(&topic) {
        let message =
            format!("topic {topic:?} has no history: no rule in channels.rules keeps one");
        return Err(CallError::new(Code::TopicInvalid, message));
    }
    let question = Question::History { topic: &topic, after: after.as_deref(), limit };
    processes.ask_here(&question).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisconnectParams {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsubscribeParams {
    id: String,
    topic: String,
}

/// Closes all sockets with an id. `{"sockets"}`: their number.
async fn disconnect(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let DisconnectParams { id } = parse(body)?;
    check_id(&id)?;
    let counts: Vec<u64> = processes.ask_all(&Question::Disconnect { id: &id }).await?;
    Ok(json!({ "sockets": counts.iter().sum::<u64>() }).to_string())
}

/// Ends the channels of all sockets with an id on a topic. `{"channels"}`: their number.
async fn unsubscribe(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let UnsubscribeParams { id, topic } = parse(body)?;
    check_id(&id)?;
    processes.check_topic(&topic)?;
    let question = Question::Unsubscribe { id: &id, topic: &topic };
    let counts: Vec<u64> = processes.ask_all(&question).await?;
    Ok(json!({ "channels": counts.iter().sum::<u64>() }).to_string())
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TopicsParams {
    prefix: String,
    /// The last topic of the page before.
    cursor: Option<String>,
    #[serde(deserialize_with = "whole_number")]
    limit: u32,
}

impl Default for TopicsParams {
    fn default() -> Self {
        TopicsParams { prefix: String::new(), cursor: None, limit: LIMIT_DEFAULT }
    }
}

/// `{"topics":[{"topic","subscribers"}],"cursor"}`
async fn topics(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let TopicsParams { prefix, cursor, limit } = parse(body)?;
    check_limit(limit)?;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InfoParams {}

/// `{"version","processes","clients","topics","uptime_seconds"}`
async fn info(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let InfoParams {} = parse(body)?;
    let all: Vec<ProcessInfo> = processes.ask_all(&Question::Info).await?;
    let sum = |count: fn(&ProcessInfo) -> u64| all.iter().map(count).sum::<u64>();
    let info = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processes": all.len(),
        "clients": sum(|process| process.clients),
        "topics": sum(|process| process.topics),
        "uptime_seconds": all.iter().map(|process| process.uptime_seconds).max(),
    });
    Ok(info.to_string())
}

fn check_limit(limit: u32) -> Result<(), CallError> {
    if !(1..=LIMIT_MAX).contains(&limit) {
        let message = format!("limit must be between 1 and {LIMIT_MAX}, not {limit}");
        return Err(CallError::new(Code::BadRequest, message));
    }
    Ok(())
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
