//! `publish`, `broadcast` and `batch`: messages to the subscribers of topics.
//!
//! A call whose topics have no room waits before, in `requests.rs`. The messages for topics with a history go
//! first. When all of them are stored, the others go, and the call is answered. So a call that fails has
//! published nothing that its repeat would publish twice, if the histories know the ids of messages.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use watchfire::Body;
use watchfire::Endpoint;
use watchfire::internal::{History, Metrics, NotStored, Stored};

use super::error::{CallError, Code};
use super::names::{ReservedTopics, check_event};
use super::params::parse;
use super::storing::{Ended, Storing, answer};

/// Calls of one batch.
const BATCH_CALLS_MAX: usize = 100;
/// Messages that one request publishes, one for each topic. A shard's queue holds several times as
/// many.
const MESSAGES_MAX: usize = 1_000;
/// Each topic has a message of its own. Together, the messages of one request have at most so many
/// times the bytes of the largest body.
const GROWTH_MAX: usize = 16;

/// A method that publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublishMethod {
    Publish,
    Broadcast,
    Batch,
}

/// A call of a publishing method, as its caller wrote it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishCall<'a> {
    pub method: PublishMethod,
    /// Of a binary payload, which is the whole body: the topic and the event.
    #[serde(borrow)]
    pub binary: Option<(&'a str, &'a str)>,
    pub body: &'a [u8],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishParams<'a> {
    topic: String,
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BroadcastParams<'a> {
    topics: Vec<String>,
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchParams<'a> {
    #[serde(borrow)]
    calls: Vec<&'a RawValue>,
}

/// One call of a batch.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum BatchCall<'a> {
    #[serde(borrow)]
    Publish(PublishParams<'a>),
    #[serde(borrow)]
    Broadcast(BroadcastParams<'a>),
}

/// One payload for some topics, checked.
pub struct Publication {
    pub topics: Vec<String>,
    pub event: String,
    pub body: Body,
}

/// A call that was read and checked. Nothing of it is published.
pub struct Prepared {
    /// A call of a batch may be wrong, and those after it right.
    pub publications: Vec<Result<Publication, CallError>>,
    pub is_batch: bool,
}

impl Prepared {
    /// The call, if all of it is right.
    pub fn whole(self) -> Result<Self, CallError> {
        let publications = self.publications.into_iter().map(|publication| publication.map(Ok));
        Ok(Prepared { publications: publications.collect::<Result<_, _>>()?, ..self })
    }

    pub fn topics(&self) -> Vec<&str> {
        let right = self.publications.iter().flatten();
        right.flat_map(|publication| &publication.topics).map(|topic| &**topic).collect()
    }
}

/// The part of a call that is for topics with a history.
struct Kept {
    /// The index of the call in its request.
    call: usize,
    /// Whether the call has one topic. Then its answer has the position.
    is_only: bool,
    publication: Publication,
}

/// How much more one request may publish.
struct Allowance {
    messages: usize,
    bytes: usize,
}

/// Publishes messages.
pub struct Publisher {
    pub endpoint: Endpoint,
    pub metrics: Arc<Metrics>,
    /// `None`: no topic has a history.
    pub history: Option<Arc<History>>,
    pub reserved: ReservedTopics,
    pub body_bytes_max: usize,
}

impl Publisher {
    /// Does a call: see [`Publisher::send`].
    pub fn run(
        &self,
        call: &PublishCall<'_>,
        id: Option<&str>,
        done: impl FnOnce(Result<Value, CallError>) + Send + 'static,
    ) {
        match self.prepare(call) {
            Ok(prepared) => self.send(prepared, id, done),
            Err(error) => done(Err(error)),
        }
    }

    /// Reads and checks a call.
    pub fn prepare(&self, call: &PublishCall<'_>) -> Result<Prepared, CallError> {
        let mut allowance =
            Allowance { messages: MESSAGES_MAX, bytes: GROWTH_MAX * self.body_bytes_max };
        let publication = match (call.binary, call.method) {
            (Some((topic, event)), _) => {
                let body = Body::Binary(Bytes::copy_from_slice(call.body));
                self.checked(vec![topic.into()], event.into(), body)?
            }
            (None, PublishMethod::Publish) => self.published(parse(call.body)?)?,
            (None, PublishMethod::Broadcast) => self.broadcasted(parse(call.body)?)?,
            (None, PublishMethod::Batch) => {
                return self.prepare_batch(parse(call.body)?, &mut allowance);
            }
        };
        Ok(Prepared { publications: vec![Ok(allowance.spend(publication)?)], is_batch: false })
    }

    /// Prepares the calls of a batch in their order. A call that fails does not stop those after it.
    fn prepare_batch(
        &self,
        batch: BatchParams<'_>,
        allowance: &mut Allowance,
    ) -> Result<Prepared, CallError> {
        let calls = batch.calls.len();
        if calls > BATCH_CALLS_MAX {
            let message = format!("a batch has at most {BATCH_CALLS_MAX} calls, not {calls}");
            return Err(CallError::new(Code::BadRequest, message));
        }
        let prepare = |call: &RawValue| {
            let publication = match parse(call.get().as_bytes())? {
                BatchCall::Publish(params) => self.published(params)?,
                BatchCall::Broadcast(params) => self.broadcasted(params)?,
            };
            allowance.spend(publication)
        };
        let publications = batch.calls.into_iter().map(prepare).collect();
        Ok(Prepared { publications, is_batch: true })
    }

    /// Publishes what was prepared. `done` gets the answer, in this call or later. A history that knows ids
    /// stores the messages of requests with the same `id` once.
    pub fn send(
        &self,
        mut prepared: Prepared,
        id: Option<&str>,
        done: impl FnOnce(Result<Value, CallError>) + Send + 'static,
    ) {
        let kept = self.take_kept(&mut prepared);
        let left = kept.iter().map(|kept| kept.publication.topics.len()).sum();
        if left == 0 {
            let outcomes = vec![Ok(None); prepared.publications.len()];
            return done(answer(prepared, outcomes, &self.endpoint));
        }
        let storing = Arc::new(Mutex::new(Storing::new(left, prepared, Box::new(done))));
        let mut numbers = 0..;
        for Kept { call, is_only, publication: Publication { topics, event, body } } in kept {
            for topic in topics {
                let id = id.zip(numbers.next()).map(|(id, number)| format!("{id}-{number}"));
                let (storing, endpoint) = (storing.clone(), self.endpoint.clone());
                let note = move |outcome: Result<Stored, NotStored>| {
                    let position = outcome.map(|stored| stored.position.filter(|_| is_only));
                    let position = position.map(|at| at.map(|at| at.to_string()));
                    let ended = storing.lock().note(call, position);
                    if let Some(Ended { prepared, outcomes, done }) = ended {
                        done(answer(prepared, outcomes, &endpoint));
                    }
                };
                self.endpoint
                    .publish_with(&topic, &event, body.clone(), id.as_deref(), note)
                    .expect("the payload was checked");
            }
        }
    }

    /// Takes the topics with a history out of the calls. Counts these and the other messages.
    fn take_kept(&self, prepared: &mut Prepared) -> Vec<Kept> {
        let mut kept = Vec::new();
        for (call, publication) in prepared.publications.iter_mut().enumerate() {
            let Ok(Publication { topics, event, body }) = publication else { continue };
            topics.iter().for_each(|_| self.metrics.broadcasts.inc());
            // Only another machine may have a history of a topic with bytes.
            let history = self.history.as_ref().filter(|_| matches!(body, Body::Json(_)));
            let Some(history) = history else { continue };
            let is_only = topics.len() == 1;
            let topics: Vec<String> = topics.extract_if(.., |topic| history.has(topic)).collect();
            if !topics.is_empty() {
                let publication = Publication { topics, event: event.clone(), body: body.clone() };
                kept.push(Kept { call, is_only, publication });
            }
        }
        kept
    }

    fn published(&self, params: PublishParams<'_>) -> Result<Publication, CallError> {
        let PublishParams { topic, event, payload } = params;
        self.checked(vec![topic], event, json_body(payload))
    }

    fn broadcasted(&self, params: BroadcastParams<'_>) -> Result<Publication, CallError> {
        let BroadcastParams { topics, event, payload } = params;
        self.checked(topics, event, json_body(payload))
    }

    fn checked(
        &self,
        topics: Vec<String>,
        event: String,
        body: Body,
    ) -> Result<Publication, CallError> {
        if topics.is_empty() || topics.len() > MESSAGES_MAX {
            let message =
                format!("a broadcast has 1 to {MESSAGES_MAX} topics, not {}", topics.len());
            return Err(CallError::new(Code::BadRequest, message));
        }
        topics.iter().try_for_each(|topic| self.reserved.check(topic))?;
        check_event(&event)?;
        let body = body.checked_object().map_err(|_| {
            let message = "the payload is not a JSON object; clients receive objects or bytes only";
            CallError::new(Code::PayloadInvalid, message)
        })?;
        let history = self.history.as_ref();
        let keeps = |topic: &str| history.is_some_and(|history| history.has_by_own_rules(topic));
        if let (Body::Binary(_), Some(topic)) = (&body, topics.iter().find(|topic| keeps(topic))) {
            let message =
                format!("the topic {topic:?} has a history, which keeps JSON objects only");
            return Err(CallError::new(Code::PayloadInvalid, message));
        }
        Ok(Publication { topics, event, body })
    }
}

impl Allowance {
    /// Returns a publication to all its topics, or to none if the request would publish too much.
    fn spend(&mut self, publication: Publication) -> Result<Publication, CallError> {
        let (messages, payload_bytes) = (publication.topics.len(), publication.body.len());
        let too_large = |message: String| Err(CallError::new(Code::PayloadTooLarge, message));
        let Some(messages_left) = self.messages.checked_sub(messages) else {
            return too_large(format!("a request publishes to at most {MESSAGES_MAX} topics"));
        };
        let Some(bytes_left) = self.bytes.checked_sub(messages * payload_bytes) else {
            return too_large(format!(
                "the payloads of all topics of a request have at most {GROWTH_MAX} times \
                 api.body_bytes_max together; publish to fewer topics at a time"
            ));
        };
        *self = Allowance { messages: messages_left, bytes: bytes_left };
        Ok(publication)
    }
}

/// The payload of a message. PHP writes an empty object as `[]`.
fn json_body(payload: &RawValue) -> Body {
    let text = if payload.get() == "[]" { "{}" } else { payload.get() };
    Body::Json(text.to_owned().into())
}

/// Samples of the messages.
#[cfg(test)]
pub fn samples() -> Vec<watchfire::internal::Samples> {
    use PublishMethod::{Batch, Broadcast, Publish};
    vec![watchfire::message_samples!(enum PublishMethod: Publish, Broadcast, Batch)]
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc;

    use serde_json::json;
    use watchfire::feature::Part;
    use watchfire::{RunningServer, Server, Settings};

    use super::*;

    /// A part with topics of its own.
    struct OwnPages;

    impl Part for OwnPages {
        fn reserves(&self, topic: &str) -> bool {
            topic == "site" || topic.starts_with("page:")
        }
    }

    /// A server without clients, and a part with topics of its own.
    struct Published {
        server: RunningServer,
        part: Arc<dyn Part>,
    }

    fn start() -> Published {
        let mut settings = Settings::default();
        settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        settings.server.shards = 1;
        let server = Server::new(settings).start().expect("the server starts");
        Published { server, part: Arc::new(OwnPages) }
    }

    impl Published {
        fn run_call(&self, call: &PublishCall<'_>) -> Result<Value, CallError> {
            let reserved = ReservedTopics::default();
            reserved.set_parts(std::slice::from_ref(&self.part));
            let publisher = Publisher {
                endpoint: self.server.endpoint().clone(),
                metrics: Arc::default(),
                history: None,
                reserved,
                body_bytes_max: 1_000,
            };
            let (sender, answer) = mpsc::channel();
            publisher.run(call, None, move |result| sender.send(result).unwrap());
            answer.recv().unwrap()
        }

        fn run(&self, method: PublishMethod, body: &str) -> Result<Value, CallError> {
            self.run_call(&PublishCall { method, binary: None, body: body.as_bytes() })
        }

        fn code(&self, method: PublishMethod, body: &str) -> Code {
            self.run(method, body).unwrap_err().code
        }
    }

    #[test]
    fn a_call_is_checked_before_anything_is_published() {
        let to = start();
        use PublishMethod::{Broadcast, Publish};
        let good = r#"{"topic":"rooms:1","event":"new_msg","payload":{"n":1}}"#;
        assert_eq!(to.run(Publish, good), Ok(json!({})));
        let of_php = r#"{"topic":"rooms:1","event":"new_msg","payload":[]}"#;
        assert_eq!(to.run(Publish, of_php), Ok(json!({})));
        for (body, expected) in [
            ("", Code::BadRequest),
            ("[]", Code::BadRequest),
            (r#"{"topic":"t","event":"e"}"#, Code::BadRequest),
            (r#"{"topic":1,"event":"e","payload":{}}"#, Code::BadRequest),
            (r#"{"topic":"t","event":"e","payload":{},"more":1}"#, Code::BadRequest),
            (r#"{"topic":"t","event":"e","payload":{}} x"#, Code::BadRequest),
            (r#"{"topic":"page:1","event":"e","payload":{}}"#, Code::TopicInvalid),
            (r#"{"topic":"t","event":"phx_close","payload":{}}"#, Code::EventInvalid),
            (r#"{"topic":"t","event":"e","payload":"text"}"#, Code::PayloadInvalid),
            (r#"{"topic":"t","event":"e","payload":null}"#, Code::PayloadInvalid),
        ] {
            assert_eq!(to.code(Publish, body), expected, "{body}");
        }
        let one_bad = r#"{"topics":["a","site"],"event":"e","payload":{}}"#;
        assert_eq!(to.code(Broadcast, one_bad), Code::TopicInvalid);
        let none = r#"{"topics":[],"event":"e","payload":{}}"#;
        assert_eq!(to.code(Broadcast, none), Code::BadRequest);
    }

    #[test]
    fn each_call_of_a_batch_has_its_own_result() {
        let body = r#"{"calls":[
            {"publish":{"topic":"a","event":"e","payload":{}}},
            {"publish":{"topic":"site","event":"e","payload":{}}},
            {"info":{}},
            {"broadcast":{"topics":["a","b"],"event":"e","payload":{}}}
        ]}"#;
        let response = start().run(PublishMethod::Batch, body).unwrap();
        let results = response["results"].as_array().unwrap();
        let codes = results.iter().map(|result| result["error"]["code"].as_str());
        let expected = [None, Some("topic_invalid"), Some("bad_request"), None];
        assert!(codes.eq(expected), "{results:?}");
    }

    #[test]
    fn a_request_publishes_a_bounded_number_of_messages_and_bytes() {
        let to = start();
        let topics = |count: usize| vec!["t"; count];
        let broadcast = |count, payload: &str| json!({ "topics": topics(count), "event": "e", "payload": { "p": payload } });
        let run_broadcast = |count, payload| {
            to.run(PublishMethod::Broadcast, &broadcast(count, payload).to_string())
        };
        assert!(run_broadcast(1_000, "").is_ok());
        assert_eq!(run_broadcast(1_001, "").unwrap_err().code, Code::BadRequest);
        let long = "p".repeat(100);
        assert_eq!(run_broadcast(1_000, &long).unwrap_err().code, Code::PayloadTooLarge);

        let calls = vec![json!({ "broadcast": broadcast(600, "") }); 2];
        let response =
            to.run(PublishMethod::Batch, &json!({ "calls": calls }).to_string()).unwrap();
        assert_eq!(response["results"][0], json!({}));
        assert_eq!(response["results"][1]["error"]["code"], "payload_too_large");
        let many = vec![json!({ "publish": {} }); 101];
        let many = json!({ "calls": many }).to_string();
        assert_eq!(to.code(PublishMethod::Batch, &many), Code::BadRequest);
    }

    #[test]
    fn a_binary_payload_is_the_body() {
        let to = start();
        let call = |topic| PublishCall {
            method: PublishMethod::Publish,
            binary: Some((topic, "e")),
            body: &[0, 255],
        };
        assert_eq!(to.run_call(&call("t")), Ok(json!({})));
        assert_eq!(to.run_call(&call("")).unwrap_err().code, Code::TopicInvalid);
    }
}
