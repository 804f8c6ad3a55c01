//! The streams of one page: their events, and the queues of frames to send.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::listener::WebTransportListener;
use super::{Offer, Secret, StreamEvent};

/// Events of all streams of a page that wait. At the limit, the streams are not read further, and
/// flow control stops their senders.
const EVENTS_MAX: usize = 64;

/// An event of the stream that was opened with this secret.
pub(super) struct LinkEvent {
    pub secret: Secret,
    pub event: StreamEvent,
    /// The queue of frames of a stream that has opened. The stream closes when it is dropped.
    pub queue: Option<mpsc::Sender<Vec<u8>>>,
}

pub(crate) struct StreamLinks {
    listener: Option<Arc<WebTransportListener>>,
    sender: mpsc::Sender<LinkEvent>,
    events: mpsc::Receiver<LinkEvent>,
    queues: BTreeMap<Secret, mpsc::Sender<Vec<u8>>>,
}

impl StreamLinks {
    /// Without a listener, no stream is offered.
    pub(crate) fn new(listener: Option<Arc<WebTransportListener>>) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        StreamLinks { listener, sender, events, queues: BTreeMap::new() }
    }

    /// Makes the offers of this page. The function must be called within a tokio runtime.
    pub(crate) fn offers(&self) -> impl FnMut() -> Option<Offer> + Send + use<> {
        let (listener, sender) = (self.listener.clone(), self.sender.clone());
        move || listener.as_ref()?.offer(&sender)
    }

    /// Waits for the next event.
    pub(crate) async fn receive(&mut self) -> (Secret, StreamEvent) {
        // The sender of this value is never closed, so there is always a next event.
        let Some(LinkEvent { secret, event, queue }) = self.events.recv().await else {
            return std::future::pending().await;
        };
        if let Some(queue) = queue {
            self.queues.insert(secret, queue);
        }
        if event == StreamEvent::Closed {
            self.queues.remove(&secret);
        }
        (secret, event)
    }

    /// Queues a frame. The caller queues at most [`super::FRAMES_MAX`] frames of a stream. A stream
    /// without a queue has closed, and an event reports that.
    pub(crate) fn write(&self, secret: Secret, frame: Vec<u8>) {
        if let Some(queue) = self.queues.get(&secret)
            && queue.try_send(frame).is_err()
        {
            tracing::debug!("a frame for a closed stream is dropped");
        }
    }

    /// Closes a stream, or withdraws the offer of one.
    pub(crate) fn close(&mut self, secret: Secret) {
        if self.queues.remove(&secret).is_none()
            && let Some(listener) = &self.listener
        {
            listener.withdraw(secret);
        }
    }

    /// Closes all streams, and withdraws all offers.
    pub(crate) fn close_all(&mut self) {
        self.queues.clear();
        if let Some(listener) = &self.listener {
            listener.withdraw_all(&self.sender);
        }
    }
}
