//! `disconnect` and `unsubscribe`: the end of a client's sockets and channels.

use serde::Deserialize;
use serde_json::json;

use super::error::CallError;
use super::names::check_id;
use super::params::parse;
use super::processes::Processes;
use super::question::Question;

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
pub(super) async fn disconnect(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let DisconnectParams { id } = parse(body)?;
    check_id(&id)?;
    let counts: Vec<u64> = processes.ask_all(&Question::Disconnect { id: &id }).await?;
    Ok(json!({ "sockets": counts.iter().sum::<u64>() }).to_string())
}

/// Ends the channels of all sockets with an id on a topic. `{"channels"}`: their number.
pub(super) async fn unsubscribe(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let UnsubscribeParams { id, topic } = parse(body)?;
    check_id(&id)?;
    processes.check_topic(&topic)?;
    let question = Question::Unsubscribe { id: &id, topic: &topic };
    let counts: Vec<u64> = processes.ask_all(&question).await?;
    Ok(json!({ "channels": counts.iter().sum::<u64>() }).to_string())
}
