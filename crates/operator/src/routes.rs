//! The operator's calls over HTTP: JSON under `/admin`, beside `/metrics`.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use watchfire::internal::{
    ConnectionId, ConnectionOrder, ConnectionQuery, ConnectionTransport, FoundConnections,
    FoundTopics, NotAConnection, TopicOrder, TopicQuery, WatchAnswer,
};
use watchfire_tracker::network_of;

use super::client_call::ClientCall;
use super::denied_addresses::TooManyDenied;
use super::figures::Step;
use super::machines::Machine;
use super::process_calls::{Call, ProcessCalls};
use super::refusal::{Params, Refusal};

/// Connections or topics in an answer when the request names no number, and at most.
const ROWS: usize = 20;
const ROWS_MAX: usize = 200;
/// The longest text of an event of the operator's own.
const NOTE_BYTES_MAX: usize = 160;

impl ProcessCalls {
    /// The routes, without the check of the token.
    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/admin/state", get(state))
            .route("/admin/history", get(history))
            .route("/admin/events", get(events).post(add_event))
            .route("/admin/connections", get(connections))
            .route("/admin/connections/{id}", get(connection))
            .route("/admin/connections/{id}/disconnect", post(disconnect))
            .route("/admin/connections/{id}/messages", get(messages))
            .route("/admin/connections/{id}/payloads", put(set_payloads))
            .route("/admin/addresses/denied", get(denied_addresses))
            .route("/admin/addresses/denied/{address}", put(deny_address).delete(allow_address))
            .route("/admin/topics", get(topics))
            .route("/admin/topics/end", post(end_topic))
            .route("/admin/processes/{process}/end", post(end_process))
            .route("/admin/log", put(set_log_level))
            .with_state(self)
    }
}

const NO_ANSWER: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "no answer",
    message: Cow::Borrowed("The process that knows this did not answer in time. Try again."),
};
const GONE: Refusal = Refusal {
    status: StatusCode::NOT_FOUND,
    reason: "not found",
    message: Cow::Borrowed("There is no such connection (any more)."),
};
const NO_TOPIC: Refusal = Refusal {
    status: StatusCode::NOT_FOUND,
    reason: "not found",
    message: Cow::Borrowed("No client has joined this topic (any more)."),
};
const NO_PROCESS: Refusal = Refusal {
    status: StatusCode::NOT_FOUND,
    reason: "not found",
    message: Cow::Borrowed("There is no such process. /admin/state names all of a machine."),
};
const ONLY_PROCESS: Refusal = Refusal {
    status: StatusCode::CONFLICT,
    reason: "only process",
    message: Cow::Borrowed(
        "The server has one process, which nothing would start again. Stop it with SIGTERM.",
    ),
};
const TOO_MANY_WATCHED: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "too many watched",
    message: Cow::Borrowed(
        "Operators watch four other connections of this event loop. Stop watching one of them and wait 30 s.",
    ),
};

impl From<NotAConnection> for Refusal {
    fn from(_: NotAConnection) -> Self {
        GONE
    }
}

impl From<TooManyDenied> for Refusal {
    fn from(error: TooManyDenied) -> Self {
        let message = error.to_string().into();
        Refusal { status: StatusCode::CONFLICT, reason: "too many denied", message }
    }
}

type Answer = Result<Response, Refusal>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OfMachine {
    machine: String,
    after: u64,
    until: Option<u64>,
    step: Step,
}

async fn state(
    State(calls): State<Arc<ProcessCalls>>,
    Params(OfMachine { machine, .. }): Params<OfMachine>,
) -> Answer {
    of_recorder(&calls, &machine, Call::State).await
}

async fn history(
    State(calls): State<Arc<ProcessCalls>>,
    Params(OfMachine { machine, step, after, until }): Params<OfMachine>,
) -> Answer {
    let until = until.unwrap_or(u64::MAX);
    of_recorder(&calls, &machine, Call::History { step, after, until }).await
}

async fn events(
    State(calls): State<Arc<ProcessCalls>>,
    Params(OfMachine { machine, after, until, .. }): Params<OfMachine>,
) -> Answer {
    let until = until.unwrap_or(u64::MAX);
    of_recorder(&calls, &machine, Call::Events { after, until }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoteParams {
    #[serde(default)]
    machine: String,
    text: String,
}

/// Adds an event of the operator's own, such as a deployment.
async fn add_event(
    State(calls): State<Arc<ProcessCalls>>,
    Params(NoteParams { machine, text }): Params<NoteParams>,
) -> Answer {
    if text.trim().is_empty() || text.len() > NOTE_BYTES_MAX {
        let message = format!("text must have 1 to {NOTE_BYTES_MAX} bytes, not {}", text.len());
        return Err(Refusal::bad_request(message));
    }
    tracing::info!(text, "the operator noted an event");
    of_recorder(&calls, &machine, Call::Note { kind: "note".to_owned(), text }).await
}

/// The answer of a machine's recorder.
async fn of_recorder(calls: &ProcessCalls, machine: &str, call: Call) -> Answer {
    let machine = find(calls, machine)?;
    calls.call(machine.recorder(), &call).await.map(json_text).ok_or(NO_ANSWER)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConnectionParams {
    machine: String,
    sort: ConnectionOrder,
    limit: Option<usize>,
    transport: Option<ConnectionTransport>,
    address: String,
    topic: String,
}

async fn connections(
    State(calls): State<Arc<ProcessCalls>>,
    Params(ConnectionParams { machine, sort, limit, transport, address, topic }): Params<
        ConnectionParams,
    >,
) -> Answer {
    let limit = check_limit(limit)?;
    let machine = find(&calls, &machine)?;
    let query = ConnectionQuery { sort, limit, transport, address, topic };
    let texts = calls.call_all(&machine, &Call::Clients(ClientCall::Connections(query))).await;
    if texts.is_empty() {
        return Err(NO_ANSWER);
    }
    let parts = texts.iter().filter_map(|text| serde_json::from_str(text).ok());
    Ok(Json(FoundConnections::merged(parts, limit)).into_response())
}

async fn connection(State(calls): State<Arc<ProcessCalls>>, Path(id): Path<String>) -> Answer {
    let id = id.parse::<ConnectionId>()?;
    let details = Call::Clients(ClientCall::details_of(id));
    let text = calls.call(id.node, &details).await.ok_or(GONE)?;
    let found: FoundConnections = serde_json::from_str(&text).map_err(|_| GONE)?;
    let connection = found.connections.into_iter().next().ok_or(GONE)?;
    Ok(Json(connection).into_response())
}

async fn disconnect(
    State(calls): State<Arc<ProcessCalls>>,
    ConnectInfo(by): ConnectInfo<SocketAddr>,
    Path(id): Path<String>,
) -> Answer {
    let parsed = id.parse::<ConnectionId>()?;
    let end = Call::Clients(ClientCall::end_of(parsed));
    let ended = calls.call(parsed.node, &end).await.ok_or(GONE)?;
    if ended != "1" {
        return Err(GONE);
    }
    tracing::info!(connection = id, %by, "the operator closed a connection");
    Ok(Json(json!({ "disconnected": true })).into_response())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MessageParams {
    after: u64,
}

async fn messages(
    State(calls): State<Arc<ProcessCalls>>,
    Path(id): Path<String>,
    Params(MessageParams { after }): Params<MessageParams>,
) -> Answer {
    watch(&calls, &id, after, None).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayloadParams {
    shown: bool,
}

/// Keeps the payloads of one connection's messages from now on, or no longer.
async fn set_payloads(
    State(calls): State<Arc<ProcessCalls>>,
    Path(id): Path<String>,
    Params(PayloadParams { shown }): Params<PayloadParams>,
) -> Answer {
    let answer = watch(&calls, &id, 0, Some(shown)).await?;
    match shown {
        true => tracing::warn!(connection = id, "the operator reads the payloads of a connection"),
        false => tracing::info!(connection = id, "the operator no longer reads payloads"),
    }
    Ok(answer)
}

/// The messages of a connection after a number. It is watched from its first call on.
async fn watch(calls: &ProcessCalls, id: &str, after: u64, payloads: Option<bool>) -> Answer {
    let ConnectionId { node, shard, client } = id.parse()?;
    let call = ClientCall::WatchConnection { shard: shard.0, client, after, payloads };
    let text = calls.call(node, &Call::Clients(call)).await.ok_or(GONE)?;
    match serde_json::from_str(&text).map_err(|_| GONE)? {
        WatchAnswer::Messages(messages) => Ok(Json(messages).into_response()),
        WatchAnswer::TooMany => Err(TOO_MANY_WATCHED),
        WatchAnswer::Gone => Err(GONE),
    }
}

async fn denied_addresses(State(calls): State<Arc<ProcessCalls>>) -> Answer {
    let entries = calls.server.denied_addresses.entries().into_iter();
    let entries =
        entries.map(|(address, until_ms)| json!({ "address": address, "until_ms": until_ms }));
    let entries: Vec<Value> = entries.collect();
    Ok(Json(json!({ "denied": entries })).into_response())
}

/// How long an address is denied when the operator names no time, and at most.
const DENIED_SECONDS: u64 = 3_600;
const DENIED_SECONDS_MAX: u64 = 30 * 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyParams {
    seconds: Option<u64>,
}

/// Denies an address in all processes of all machines, and ends its connections.
async fn deny_address(
    State(calls): State<Arc<ProcessCalls>>,
    Path(address): Path<String>,
    Params(DenyParams { seconds }): Params<DenyParams>,
) -> Answer {
    let seconds = seconds.unwrap_or(DENIED_SECONDS);
    if !(1..=DENIED_SECONDS_MAX).contains(&seconds) {
        let text = format!("seconds must be from 1 to {DENIED_SECONDS_MAX}, not {seconds}");
        return Err(Refusal::bad_request(text));
    }
    let address = network_of(parse_address(&address)?);
    let denied = &calls.server.denied_addresses;
    let until_ms = denied.deny(address, Duration::from_secs(seconds))?;
    let text = format!("The operator denied {address} for {seconds} s");
    calls.note_for_machine("address_denied", text).await;
    let disconnected = calls.end_address(address).await;
    tracing::warn!(%address, seconds, disconnected, "the operator denied an address");
    let answer = json!({ "address": address, "until_ms": until_ms, "disconnected": disconnected });
    Ok(Json(answer).into_response())
}

async fn allow_address(
    State(calls): State<Arc<ProcessCalls>>,
    Path(address): Path<String>,
) -> Answer {
    let address = network_of(parse_address(&address)?);
    let was_denied = calls.server.denied_addresses.allow(address);
    if was_denied {
        let text = format!("The operator allowed {address} again");
        calls.note_for_machine("address_allowed", text).await;
        tracing::info!(%address, "the operator allowed an address again");
    }
    Ok(Json(json!({ "address": address, "was_denied": was_denied })).into_response())
}

/// An address, or that of a connection with its port.
fn parse_address(text: &str) -> Result<IpAddr, Refusal> {
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    text.parse()
        .or_else(|_| with_port())
        .map_err(|_| Refusal::bad_request(format!("{text:?} is not an IP address")))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TopicParams {
    machine: String,
    sort: TopicOrder,
    prefix: String,
    limit: Option<usize>,
}

async fn topics(
    State(calls): State<Arc<ProcessCalls>>,
    Params(TopicParams { machine, sort, prefix, limit }): Params<TopicParams>,
) -> Answer {
    let limit = check_limit(limit)?;
    let machine = find(&calls, &machine)?;
    // A topic may be large only in the sum of several parts, so each names more than are shown.
    let query = TopicQuery { sort, limit: limit * 4, prefix };
    let texts = calls.call_all(&machine, &Call::Clients(ClientCall::Topics(query))).await;
    if texts.is_empty() {
        return Err(NO_ANSWER);
    }
    let parts = texts.iter().filter_map(|text| serde_json::from_str(text).ok());
    Ok(Json(FoundTopics::merged(parts, sort, limit)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndTopicParams {
    topic: String,
}

/// Ends the channels of a topic that are joined now, on all machines. Their clients are told that they are closed.
async fn end_topic(
    State(calls): State<Arc<ProcessCalls>>,
    ConnectInfo(by): ConnectInfo<SocketAddr>,
    Params(EndTopicParams { topic }): Params<EndTopicParams>,
) -> Answer {
    let channels = calls.end_topic(&topic).await;
    tracing::warn!(topic, channels, %by, "the operator ended a topic");
    if channels == Some(0) {
        return Err(NO_TOPIC);
    }
    calls.note_for_machine("topic_ended", format!("The operator ended the topic {topic}")).await;
    let channels = channels.ok_or(NO_ANSWER)?;
    Ok(Json(json!({ "channels": channels })).into_response())
}

/// Ends a process of several, which is started again. Its clients lose their connections.
async fn end_process(
    State(calls): State<Arc<ProcessCalls>>,
    ConnectInfo(by): ConnectInfo<SocketAddr>,
    Path(process): Path<String>,
    Params(OfMachine { machine, .. }): Params<OfMachine>,
) -> Answer {
    let machine = find(&calls, &machine)?;
    let slot: Option<usize> = process.parse().ok();
    let node = slot.and_then(|slot| machine.nodes().nth(slot)).ok_or(NO_PROCESS)?;
    if machine.processes == 1 {
        return Err(ONLY_PROCESS);
    }
    let name = &machine.name;
    tracing::warn!(process, machine = name, %by, "the operator ends a process");
    let answer = calls.call(node, &Call::EndProcess).await.ok_or(NO_ANSWER)?;
    // The process runs on for a moment, also if it is the one that records.
    let text = format!("The operator ended process {process} of {name}");
    let note = Call::Note { kind: "process_ended".to_owned(), text };
    calls.call(machine.recorder(), &note).await;
    Ok(json_text(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogParams {
    #[serde(default)]
    machine: String,
    level: String,
}

/// Changes the level of the log in all processes of a machine.
async fn set_log_level(
    State(calls): State<Arc<ProcessCalls>>,
    Params(LogParams { machine, level }): Params<LogParams>,
) -> Answer {
    let machine = find(&calls, &machine)?;
    let texts = calls.call_all(&machine, &Call::SetLogLevel { level: level.clone() }).await;
    let answers = texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut changed = 0;
    for answer in answers {
        match answer["error"].as_str() {
            Some(error) => return Err(Refusal::bad_request(error.to_owned())),
            None => changed += 1,
        }
    }
    Ok(Json(json!({ "level": level, "processes": changed })).into_response())
}

fn find(calls: &ProcessCalls, machine: &str) -> Result<Machine, Refusal> {
    calls.machine(machine).ok_or_else(|| Refusal {
        status: StatusCode::NOT_FOUND,
        reason: "unknown machine",
        message: format!("There is no machine {machine:?}. /admin/state names all machines.")
            .into(),
    })
}

fn check_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    let limit = limit.unwrap_or(ROWS);
    match (1..=ROWS_MAX).contains(&limit) {
        true => Ok(limit),
        false => {
            Err(Refusal::bad_request(format!("limit must be from 1 to {ROWS_MAX}, not {limit}")))
        }
    }
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
