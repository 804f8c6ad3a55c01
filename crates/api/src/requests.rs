//! Calls over HTTP: whose they are, what they ask for, and how many run.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, oneshot};
use watchfire::feature::CountersBy;
use watchfire::internal::{is_utf8, realtime::BROADCAST};

use super::error::{CallError, Code, respond};
use super::keys::{Key, Keys};
use super::methods::{Run, find};
use super::processes::{Processes, no_answer};
use super::publish::{Prepared, PublishCall, PublishMethod};
use super::realtime::{self, Target, Translated};
use super::repeats::Answer;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest `Idempotency-Key`.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// The description of all calls, for programs.
const OPENAPI: &str = include_str!("openapi.json");

/// Answers calls.
pub struct Calls {
    pub keys: Keys,
    pub processes: Arc<Processes>,
    /// Requests that this process answered, by their method and result. The method is a name of the table
    /// or `unknown`; the result is `ok`, `replayed` or the code of an error.
    pub answered: CountersBy<2>,
    /// Bounds the calls that run at the same time, and with them the bodies in memory.
    pub running: Semaphore,
    /// Bounds the running calls that wait for the readers of a topic.
    pub waiting: Semaphore,
    pub body_bytes_max: usize,
}

/// The query of a call whose payload is binary.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BinaryTarget {
    topic: String,
    event: String,
}

pub fn routes(calls: Arc<Calls>) -> Router {
    Router::new()
        .route("/api/openapi.json", get(async || respond(StatusCode::OK, OPENAPI.to_owned())))
        .route("/api/broadcast/{topic}/events/{event}", any(answer_event))
        .route("/api/{*method}", any(answer_call))
        .with_state(calls)
}

async fn answer_call(State(calls): State<Arc<Calls>>, request: Request) -> Response {
    let path = request.uri().path().strip_prefix("/api/").unwrap_or_default().to_owned();
    answer(&calls, &path, None, request, StatusCode::OK).await
}

/// The call `httpSend` of `@supabase/realtime-js`, which expects 202.
async fn answer_event(
    State(calls): State<Arc<Calls>>,
    Path(target): Path<Target>,
    request: Request,
) -> Response {
    answer(&calls, BROADCAST, Some(target), request, StatusCode::ACCEPTED).await
}

async fn answer(
    calls: &Calls,
    path: &str,
    target: Option<Target>,
    request: Request,
    status: StatusCode,
) -> Response {
    let name = find(path).map(|method| method.name);
    let result = calls.run(path, target.as_ref(), request).await;
    let label = match &result {
        Ok(Answer { is_replayed: false, .. }) => "ok",
        Ok(Answer { is_replayed: true, .. }) => "replayed",
        Err(error) => error.code.as_str(),
    };
    calls.answered.inc([name.unwrap_or("unknown"), label]);
    match result {
        Ok(Answer { body, is_replayed }) => {
            let mut response = respond(status, body);
            if is_replayed {
                let value = HeaderValue::from_static("true");
                response.headers_mut().insert(IDEMPOTENCY_REPLAYED, value);
            }
            response
        }
        Err(error) => error.into_response(),
    }
}

impl Calls {
    async fn run(
        &self,
        path: &str,
        target: Option<&Target>,
        request: Request,
    ) -> Result<Answer, CallError> {
        let (parts, body) = request.into_parts();
        // Before the body is read: a stranger cannot fill the memory.
        let key = self.keys.of_request(&parts.headers)?;
        let Some(method) = find(path) else {
            let message = format!("the API has no method {path:?}");
            return Err(CallError::new(Code::UnknownMethod, message));
        };
        if parts.method != Verb::POST {
            let message = "send the call with POST";
            return Err(CallError::new(Code::MethodNotAllowed, message));
        }
        key.check(method.scope, method.name)?;
        let _running = self.running.try_acquire().map_err(|_| {
            let message = "api.requests_max requests run already; try again";
            CallError::new(Code::TooMany, message)
        })?;
        let body = self.unpacked(&parts.headers, self.read(body).await?)?;
        match method.run {
            Run::Publish(method) => self.publish(key, method, target, &parts, &body).await,
            Run::Ask(ask) => {
                let body = json_of(&parts, &body)?;
                let body = ask(&self.processes, body).await?;
                Ok(Answer { body, is_replayed: false })
            }
        }
    }

    async fn read(&self, body: Body) -> Result<Bytes, CallError> {
        let max = self.body_bytes_max;
        match Limited::new(body, max).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(self.too_large()),
            Err(_) => {
                let message =
                    "cannot read the body: it is not complete, or its chunks are not valid";
                Err(CallError::new(Code::BadRequest, message))
            }
        }
    }

    fn too_large(&self) -> CallError {
        let max = self.body_bytes_max;
        let message = format!("the body has more than {max} bytes (api.body_bytes_max)");
        CallError::new(Code::PayloadTooLarge, message)
    }

    /// The body without its coding (RFC 9110, 8.4). The limit holds for both.
    fn unpacked(&self, headers: &HeaderMap, body: Bytes) -> Result<Bytes, CallError> {
        let codings: Vec<&[u8]> =
            headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
        match codings[..] {
            _ if body.is_empty() => return Ok(body),
            [] => return Ok(body),
            [one] if one.eq_ignore_ascii_case(b"identity") => return Ok(body),
            [one] if one.eq_ignore_ascii_case(b"gzip") => {}
            _ => {
                let message =
                    "cannot read a body of this Content-Encoding: send it as gzip, or as it is";
                return Err(CallError::new(Code::UnsupportedEncoding, message));
            }
        }
        let mut unpacked = Vec::new();
        let mut reader = MultiGzDecoder::new(&*body).take(self.body_bytes_max as u64 + 1);
        if let Err(error) = reader.read_to_end(&mut unpacked) {
            let message = format!("cannot unpack the body, which is not valid gzip: {error}");
            return Err(CallError::new(Code::BadRequest, message));
        }
        match unpacked.len() > self.body_bytes_max {
            true => Err(self.too_large()),
            false => Ok(unpacked.into()),
        }
    }

    async fn publish(
        &self,
        key: &Key,
        method: PublishMethod,
        target: Option<&Target>,
        parts: &Parts,
        body: &[u8],
    ) -> Result<Answer, CallError> {
        let is_binary = content_type(&parts.headers) == "application/octet-stream";
        let translated = match (target, method) {
            (Some(target), _) => Some(realtime::of_event(target, is_binary, body)?),
            (None, PublishMethod::Broadcast) if !is_binary => realtime::of_messages(body),
            (None, _) => None,
        };
        let is_own = translated.is_none();
        let target = (is_own && is_binary).then(|| binary_target(method, parts)).transpose()?;
        let call = match &translated {
            Some(Translated::Batch(body)) => {
                PublishCall { method: PublishMethod::Batch, binary: None, body }
            }
            Some(Translated::Bytes { topic, body }) => {
                let binary = Some((&**topic, BROADCAST));
                PublishCall { method: PublishMethod::Publish, binary, body }
            }
            None => {
                let binary = target.as_ref().map(|target| (&*target.topic, &*target.event));
                let body = if is_binary { body } else { json_of(parts, body)? };
                PublishCall { method, binary, body }
            }
        };
        let key_of_repeats = idempotency_key(&parts.headers)?;
        let publisher = &self.processes.own.publisher;
        let prepared = publisher.prepare(&call);
        // The caller looks at the status only.
        let prepared = if is_own { prepared } else { prepared.and_then(Prepared::whole) };
        if let Ok(prepared) = &prepared {
            self.wait_for_room(&prepared.topics()).await?;
        }
        match key_of_repeats {
            None => {
                let (sender, answer) = oneshot::channel();
                publisher.send(prepared?, None, |result| drop(sender.send(result)));
                // The sender is dropped only when the server stops.
                let body = answer.await.map_err(|_| no_answer())??.to_string();
                Ok(Answer { body, is_replayed: false })
            }
            Some(name) => {
                let fingerprint = fingerprint(&call);
                self.processes.publish_once(&key.name, name, fingerprint, call).await
            }
        }
    }

    /// Waits until the topics of a call have room for its messages. Nothing was published: an error
    /// lets the caller repeat the call.
    async fn wait_for_room(&self, topics: &[&str]) -> Result<(), CallError> {
        let publisher = &self.processes.own.publisher;
        let endpoint = &publisher.endpoint;
        let Some(full) = topics.iter().find(|topic| !endpoint.has_room(topic)) else {
            return Ok(());
        };
        publisher.metrics.publishers_waited.inc();
        // Calls that wait must leave room for calls of other topics.
        if let Ok(_waiting) = self.waiting.try_acquire()
            && endpoint.wait_for_room(topics).await
        {
            return Ok(());
        }
        let message = format!(
            "cannot publish to {full:?}: its subscribers have not read the messages before; \
             nothing was published, try again"
        );
        Err(CallError::new(Code::Unavailable, message))
    }
}

/// The media type of a body, without its parameters.
fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.split(';').next()).unwrap_or("").trim().to_ascii_lowercase()
}

/// The body of a call in JSON. No body is an object without members.
fn json_of<'a>(parts: &Parts, body: &'a [u8]) -> Result<&'a [u8], CallError> {
    let refuse = |message: String| Err(CallError::new(Code::BadRequest, message));
    if parts.uri.query().is_some() {
        return refuse("a query is for binary payloads only; write the call as JSON".into());
    }
    match &*content_type(&parts.headers) {
        _ if body.is_empty() => Ok(b"{}"),
        "application/json" => Ok(body),
        other => refuse(format!(
            "cannot read a body of type {other:?}: set Content-Type to application/json, or to \
             application/octet-stream to publish bytes"
        )),
    }
}

fn binary_target(method: PublishMethod, parts: &Parts) -> Result<BinaryTarget, CallError> {
    if method != PublishMethod::Publish {
        let message = "only publish takes bytes (application/octet-stream); write the call as JSON";
        return Err(CallError::new(Code::BadRequest, message));
    }
    if !is_utf8(&parts.uri) {
        let message = "cannot read the query: it is not UTF-8; escape the bytes of UTF-8 in it";
        return Err(CallError::new(Code::BadRequest, message));
    }
    let target = Query::<BinaryTarget>::try_from_uri(&parts.uri);
    target.map(|Query(target)| target).map_err(|error| {
        let message = format!(
            "cannot read the query: {}; bytes are published with ?topic=…&event=…",
            error.body_text()
        );
        CallError::new(Code::BadRequest, message)
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, CallError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let name = value.to_str().unwrap_or("");
    match (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&name.len()) {
        true => Ok(Some(name)),
        false => {
            let message = format!(
                "an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible characters"
            );
            Err(CallError::new(Code::BadRequest, message))
        }
    }
}

/// The hash of everything that a call says.
fn fingerprint(call: &PublishCall<'_>) -> [u8; 32] {
    let bytes = postcard::to_stdvec(call).expect("a call is plain data");
    Sha256::digest(bytes).into()
}
