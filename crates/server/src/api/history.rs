//! `history`: the kept messages of a topic.

use serde::Deserialize;

use super::error::{CallError, Code};
use super::params::{parse, whole_number};
use super::processes::Processes;
use super::question::Question;

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    topic: String,
    /// The messages after this position. Absent: the last ones.
    after: Option<String>,
    #[serde(default = "limit_default", deserialize_with = "whole_number")]
    limit: u32,
}

fn limit_default() -> u32 {
    LIMIT_DEFAULT
}

/// `{"messages":[{"event","payload","position"}],"position","recovered"}`, from the process that writes
/// the topic's log.
pub(super) async fn history(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let Params { topic, after, limit } = parse(body)?;
    processes.check_topic(&topic)?;
    if !(1..=LIMIT_MAX).contains(&limit) {
        let message = format!("limit must be between 1 and {LIMIT_MAX}, not {limit}");
        return Err(CallError::new(Code::BadRequest, message));
    }
    let Some(owner) = processes.history_owner(&topic) else {
        let message =
            format!("topic {topic:?} has no history: no rule in channels.rules keeps one");
        return Err(CallError::new(Code::TopicInvalid, message));
    };
    let question = Question::History { topic: &topic, after: after.as_deref(), limit };
    processes.ask(owner, &question).await
}
