//! Requests to JetStream. Each is a JSON text on a subject of NATS.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_nats::client::{RequestError, RequestErrorKind};
use async_nats::{Client, HeaderMap, Message, Request};
use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::names::topic_of;

/// The longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Messages of one direct read. Further ones follow with the next.
const BATCH_MESSAGES: usize = 256;
/// Bytes of one direct read.
const BATCH_BYTES: usize = 4 << 20;
/// The most subjects in a comparison, by the server's limit.
pub(super) const COMPARED_MAX: usize = 1_024;
/// The error codes of JetStream that are read here.
mod codes {
    pub const NO_LEADER: u32 = 10_008;
    pub const NOT_FOUND: u32 = 10_059;
    pub const NOT_ENABLED: [u32; 2] = [10_076, 10_039];
    pub const OVERLAP: u32 = 10_065;
    pub const NAME_IN_USE: u32 = 10_058;
    pub const LIMITS: [u32; 5] = [10_023, 10_027, 10_028, 10_047, 10_113];
    pub const REPLICAS: [u32; 2] = [10_005, 10_074];
}

/// Why JetStream did not do something.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(
        "JetStream does not answer; start nats-server with JetStream (nats-server -js), and allow \
         the user to publish to $JS.API.>"
    )]
    NoJetStream,
    #[error(
        "NATS answers {answer:?}; let the user publish to $JS.API.> and the subjects of cluster.prefix, and \
         subscribe to these subjects and to _INBOX.>"
    )]
    NotPermitted { answer: String },
    #[error("JetStream does not answer in time")]
    Timeout,
    #[error("JetStream is off for this account: enable it in the settings of the NATS account")]
    NotEnabled,
    #[error("the stream does not exist")]
    NotFound,
    #[error(
        "cannot use the stream {name}: another program made it, or one of its subjects belongs to \
         another stream; set another cluster.prefix, or delete that stream with `nats stream rm`"
    )]
    Foreign { name: String },
    #[error(
        "cannot create the stream {name}: {description}; raise the limits of JetStream or of the \
         account, or lower cluster.history_bytes_max"
    )]
    Limits { name: String, description: String },
    #[error(
        "cannot create the stream {name} with {replicas} replicas: {description}; lower \
         cluster.history_replicas, or start that number of NATS servers as a cluster"
    )]
    Replicas { name: String, replicas: u8, description: String },
    #[error("the NATS server {version} is too old for histories: use 2.11 or later")]
    TooOld { version: String },
    #[error("JetStream refused a request: {description} (code {code})")]
    Refused { code: u32, description: String },
    #[error("cannot send a request to JetStream: {0}")]
    Request(RequestError),
    #[error("JetStream sent an invalid response: {0}")]
    Response(serde_json::Error),
}

impl StreamError {
    /// Whether the same request may succeed soon.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            StreamError::Timeout => true,
            StreamError::Refused { code, .. } => *code == codes::NO_LEADER,
            _ => false,
        }
    }
}

impl From<RequestError> for StreamError {
    fn from(error: RequestError) -> Self {
        match error.kind() {
            RequestErrorKind::NoResponders => StreamError::NoJetStream,
            RequestErrorKind::TimedOut => StreamError::Timeout,
            _ => StreamError::Request(error),
        }
    }
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

impl ApiError {
    fn into_error(self, name: &str, replicas: u8) -> StreamError {
        let (name, ApiError { err_code: code, description }) = (name.to_owned(), self);
        match code {
            codes::NOT_FOUND => StreamError::NotFound,
            codes::OVERLAP | codes::NAME_IN_USE => StreamError::Foreign { name },
            code if codes::NOT_ENABLED.contains(&code) => StreamError::NotEnabled,
            code if codes::LIMITS.contains(&code) => StreamError::Limits { name, description },
            code if codes::REPLICAS.contains(&code) => {
                StreamError::Replicas { name, replicas, description }
            }
            code => StreamError::Refused { code, description },
        }
    }
}

/// The state of a stream, as its leader has it.
#[derive(Deserialize)]
pub(super) struct StreamInfo {
    pub config: BTreeMap<String, Value>,
    pub created: String,
    pub state: StreamState,
    /// The time of the server.
    ts: String,
}

#[derive(Deserialize)]
pub(super) struct StreamState {
    #[serde(rename = "first_seq")]
    pub first: u64,
    #[serde(rename = "last_seq")]
    pub last: u64,
    /// The messages of the subject that was asked for.
    #[serde(default)]
    subjects: Option<BTreeMap<String, u64>>,
}

impl StreamInfo {
    /// The messages of the subject that was asked for.
    pub fn count(&self) -> u64 {
        self.state.subjects.iter().flatten().map(|(_, count)| count).sum()
    }

    /// The time since a message was stored, by the clock of the server.
    pub fn age(&self, stored_at: &str) -> Duration {
        let time = |text| humantime::parse_rfc3339(text).unwrap_or(SystemTime::UNIX_EPOCH);
        time(&self.ts).duration_since(time(stored_at)).unwrap_or_default()
    }

    /// How often the stream began again with the same time of its creation.
    pub fn restarts(&self) -> u64 {
        let metadata = self.config.get("metadata");
        let text = metadata.and_then(|all| all.get(super::RESTARTS)).and_then(Value::as_str);
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// The outcome of a message that was published to a stream.
#[derive(Deserialize)]
struct PublishAck {
    #[serde(default)]
    seq: u64,
    error: Option<ApiError>,
}

/// A message as a stream stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMessage {
    pub sequence: u64,
    /// The time since it was stored.
    pub age: Duration,
    pub event: String,
    /// A JSON text.
    pub payload: String,
}

/// A message before its age is known.
pub(super) struct RawMessage {
    pub sequence: u64,
    pub stored_at: String,
    pub event: String,
    pub payload: String,
}

/// The body of a message: `["event",PAYLOAD]`.
pub(super) fn encode_body(event: &str, payload: &str) -> Bytes {
    format!("[{},{payload}]", json!(event)).into()
}

pub(super) fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

pub(super) fn number(message: &Message, name: &str) -> Option<u64> {
    header(message, name)?.parse().ok()
}

/// Reads a message that a stream has sent. `None`: another program has published it.
pub(super) fn decode(message: &Message) -> Option<RawMessage> {
    let (event, payload) = serde_json::from_slice::<(String, &RawValue)>(&message.payload).ok()?;
    Some(RawMessage {
        sequence: number(message, "Nats-Sequence")?,
        stored_at: header(message, "Nats-Time-Stamp")?.to_owned(),
        event,
        payload: payload.get().to_owned(),
    })
}

async fn request<R: DeserializeOwned>(
    client: &Client,
    name: &str,
    verb: &str,
    body: &Value,
) -> Result<R, StreamError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Response<R> {
        Error { error: ApiError },
        Answer(R),
    }
    let payload = serde_json::to_vec(body).expect("a value has a JSON form");
    let request = Request::new().payload(payload.into()).timeout(Some(TIMEOUT));
    let response = client.send_request(format!("$JS.API.STREAM.{verb}.{name}"), request).await?;
    match serde_json::from_slice(&response.payload).map_err(StreamError::Response)? {
        Response::Error { error } => {
            let replicas = body["num_replicas"].as_u64().unwrap_or(1);
            Err(error.into_error(name, u8::try_from(replicas).unwrap_or(u8::MAX)))
        }
        Response::Answer(answer) => Ok(answer),
    }
}

/// The state of a stream, with the number of messages of one subject.
pub(super) async fn info(
    client: &Client,
    name: &str,
    subject: Option<&str>,
) -> Result<StreamInfo, StreamError> {
    let body = subject.map_or(json!({}), |subject| json!({ "subjects_filter": subject }));
    request(client, name, "INFO", &body).await
}

pub(super) async fn create(
    client: &Client,
    name: &str,
    config: &Value,
) -> Result<StreamInfo, StreamError> {
    request(client, name, "CREATE", config).await
}

pub(super) async fn update(
    client: &Client,
    name: &str,
    config: &Value,
) -> Result<StreamInfo, StreamError> {
    request(client, name, "UPDATE", config).await
}

/// Publishes a message, and returns its sequence once the stream has stored it.
pub(super) async fn publish(
    client: &Client,
    name: &str,
    subject: String,
    body: Bytes,
    id: Option<&str>,
    longest: Duration,
) -> Result<u64, StreamError> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", name);
    if let Some(id) = id {
        headers.insert("Nats-Msg-Id", id);
    }
    let request = Request::new().payload(body).headers(headers).timeout(Some(longest));
    let response = client.send_request(subject, request).await?;
    let ack: PublishAck =
        serde_json::from_slice(&response.payload).map_err(StreamError::Response)?;
    match ack.error {
        Some(error) => Err(error.into_error(name, 0)),
        None => Ok(ack.seq),
    }
}

/// Asks any replica for messages, and returns the message at their end, which has none.
async fn direct(
    client: &Client,
    name: &str,
    body: &Value,
    mut each: impl FnMut(Message),
) -> Result<Option<Message>, StreamError> {
    let inbox = client.new_inbox();
    let other = |error: async_nats::Error| {
        StreamError::Request(RequestError::with_source(RequestErrorKind::Other, error))
    };
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| other(error.into()))?;
    let payload = serde_json::to_vec(body).expect("a value has a JSON form");
    let subject = format!("$JS.API.DIRECT.GET.{name}");
    let sent = client.publish_with_reply(subject, inbox, payload.into()).await;
    sent.map_err(|error| other(error.into()))?;
    loop {
        let next = timeout(TIMEOUT, answers.next()).await;
        let message = next.ok().flatten().ok_or(StreamError::Timeout)?;
        match message.status.map(|status| status.as_u16()) {
            None => each(message),
            Some(204) => return Ok(Some(message)),
            Some(404) => return Ok(None),
            Some(503) => return Err(StreamError::NoJetStream),
            Some(code) => {
                let description = message.description.unwrap_or_default();
                return Err(StreamError::Refused { code: code.into(), description });
            }
        }
    }
}

/// Reads the messages of a subject after a sequence. The last sequence among them counts also messages of
/// other programs, which are left out.
pub(super) async fn read(
    client: &Client,
    name: &str,
    subject: &str,
    after: u64,
) -> Result<(Vec<RawMessage>, Read), StreamError> {
    let mut messages = Vec::new();
    let mut read = Read { count: 0, first: 0, last: after };
    loop {
        let body = json!({
            "seq": read.last + 1,
            "next_by_subj": subject,
            "batch": BATCH_MESSAGES,
            "max_bytes": BATCH_BYTES,
        });
        let end = direct(client, name, &body, |message| {
            let Some(sequence) = number(&message, "Nats-Sequence") else { return };
            read.count += 1;
            if read.first == 0 {
                read.first = sequence;
            }
            read.last = sequence;
            messages.extend(decode(&message));
        });
        let end = end.await?;
        if end.is_none_or(|end| number(&end, "Nats-Num-Pending").unwrap_or(0) == 0) {
            return Ok((messages, read));
        }
    }
}

/// The extent of a read.
pub(super) struct Read {
    pub count: u64,
    /// The first sequence; 0 for none.
    pub first: u64,
    /// The last sequence, or the one after which was read.
    pub last: u64,
}

/// The last sequences of subjects, of those with a message after `after`, by their topics, and the sequence
/// up to which a replica has looked. `None`: no message after it.
pub(super) async fn last(
    client: &Client,
    name: &str,
    subjects: &[String],
    after: u64,
) -> Result<Option<(BTreeMap<String, u64>, u64)>, StreamError> {
    let mut found = BTreeMap::new();
    let body = json!({ "multi_last": subjects, "seq": after + 1 });
    let end = direct(client, name, &body, |message| {
        let topic = header(&message, "Nats-Subject").and_then(topic_of);
        found.extend(topic.zip(number(&message, "Nats-Sequence")));
    });
    let end = end.await?;
    Ok(end.map(|end| (found, number(&end, "Nats-UpTo-Sequence").unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_message_does_not_depend_on_the_clock_of_this_machine() {
        for ts in ["1999-01-01T12:00:05.5Z", "2199-01-01T12:00:05.5Z"] {
            let info: StreamInfo = serde_json::from_value(serde_json::json!({
                "config": {}, "created": ts, "ts": ts, "state": { "first_seq": 1, "last_seq": 2 },
            }))
            .unwrap();
            let stored_at = ts.replace("05.5", "03.25");
            assert_eq!(info.age(&stored_at), Duration::from_millis(2250));
            assert_eq!(
                info.age(&ts.replace("05.5", "06")),
                Duration::ZERO,
                "another server's clock"
            );
        }
    }
}
