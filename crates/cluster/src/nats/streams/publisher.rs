//! Publishes messages to streams, in the order of the calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_nats::Client;
use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use bytes::Bytes;
use tokio::time::timeout;

use super::api::{self, StreamError};
use super::{Shared, Stream};

/// The longest wait for a stream's confirmation.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of messages that are not confirmed. Over it, messages are refused.
const UNCONFIRMED_BYTES_MAX: usize = 64 << 20;
/// The memory of a message that is not confirmed, besides its texts.
const OVERHEAD_BYTES: usize = 1_024;
/// Bytes of a message's headers, which count into `max_payload`.
const HEADER_BYTES_MAX: usize = 512;

/// Why a message is not stored, or not known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpublished {
    /// The stream did not confirm it in time. It may have stored it.
    Unconfirmed,
    /// The NATS server takes at most this number of bytes.
    TooLarge { bytes_max: usize },
}

/// Gets the epoch and the sequence of a message, once it is stored.
pub type OnPublished = Box<dyn FnOnce(Result<(u64, u64), Unpublished>) + Send>;

/// A message to publish.
pub(super) struct Publish {
    pub stream: Arc<Stream>,
    pub subject: String,
    pub body: Bytes,
    pub id: Option<String>,
    pub done: OnPublished,
}

impl Publish {
    fn bytes(&self) -> usize {
        self.body.len() + OVERHEAD_BYTES
    }
}

/// The messages that are not confirmed.
#[derive(Default)]
pub(super) struct Publisher {
    unconfirmed_bytes: AtomicUsize,
    pub published: AtomicU64,
    pub unpublished: AtomicU64,
}

impl Publisher {
    /// Refuses a message when too many are not confirmed.
    pub fn admit(&self, publish: Publish) -> Option<Publish> {
        let bytes = publish.bytes();
        let before = self.unconfirmed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= UNCONFIRMED_BYTES_MAX {
            return Some(publish);
        }
        self.end(publish, Err(Unpublished::Unconfirmed));
        None
    }

    fn end(&self, publish: Publish, outcome: Result<(u64, u64), Unpublished>) {
        self.unconfirmed_bytes.fetch_sub(publish.bytes(), Ordering::Relaxed);
        let counter = if outcome.is_ok() { &self.published } else { &self.unpublished };
        counter.fetch_add(1, Ordering::Relaxed);
        (publish.done)(outcome);
    }
}

/// Sends a message to its stream, and waits for the confirmation in a task of its own.
pub(super) async fn send(client: &Client, shared: &Arc<Shared>, publish: Publish) {
    if client.connection_state() != State::Connected {
        // Without a connection the client would keep the message, and send it when nobody expects it.
        return shared.publisher.end(publish, Err(Unpublished::Unconfirmed));
    }
    let (client, shared) = (client.clone(), shared.clone());
    let mut sending = Box::pin(async move {
        let Publish { stream, subject, body, id, .. } = &publish;
        let message = (subject.clone(), body.clone(), id.as_deref());
        let outcome = timeout(TIMEOUT, store(&client, stream, message)).await;
        let outcome = outcome.unwrap_or(Err(Unpublished::Unconfirmed));
        shared.publisher.end(publish, outcome);
    });
    // The first poll queues the message, so messages leave in the order of the calls.
    let polled = std::future::poll_fn(|cx| Poll::Ready(pin!(&mut sending).poll(cx))).await;
    if polled.is_pending() {
        tokio::spawn(sending);
    }
}

async fn store(
    client: &Client,
    stream: &Stream,
    (subject, body, id): (String, Bytes, Option<&str>),
) -> Result<(u64, u64), Unpublished> {
    let stored = api::publish(client, &stream.name, subject, body, id, TIMEOUT);
    match stored.await {
        Ok(sequence) => {
            stream.last.fetch_max(sequence, Ordering::Relaxed);
            Ok((stream.epoch.load(Ordering::Relaxed), sequence))
        }
        Err(StreamError::Request(error))
            if error.kind() == RequestErrorKind::MaxPayloadExceeded =>
        {
            let bytes_max = client.max_payload().saturating_sub(HEADER_BYTES_MAX);
            Err(Unpublished::TooLarge { bytes_max })
        }
        Err(error) => {
            tracing::debug!(stream = stream.name, %error, "a message is not stored");
            Err(Unpublished::Unconfirmed)
        }
    }
}
