//! The streams of one page: their events, and the queues of frames to send.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::listener::WebTransportListener;
use super::{FRAMES_MAX, Offer, Secret, StreamEvent};

/// Events of all streams of a page that wait. At the limit, the streams are not read further, and
/// flow control stops their senders.
const EVENTS_MAX: usize = 64;

/// An event of the stream that was opened with this secret.
pub(super) struct LinkEvent {
    pub secret: Secret,
    pub event: StreamEvent,
    /// The queue of a stream that has opened.
    pub queue: Option<FrameQueue>,
}

/// The frames to write to a stream. When it is dropped, the connection closes, even if the browser
/// reads nothing, and the frames are dropped.
pub(super) struct FrameQueue {
    frames: mpsc::Sender<Vec<u8>>,
    /// Never used. Its receiver notices when this queue is dropped.
    _open: oneshot::Sender<()>,
}

/// The other end of a [`FrameQueue`].
pub(super) struct QueuedFrames {
    pub frames: mpsc::Receiver<Vec<u8>>,
    /// Ends with an error when the queue is dropped.
    pub closed: oneshot::Receiver<()>,
}

/// A queue of at most [`FRAMES_MAX`] frames.
pub(super) fn frame_queue() -> (FrameQueue, QueuedFrames) {
    let (sender, frames) = mpsc::channel(FRAMES_MAX);
    let (open, closed) = oneshot::channel();
    (FrameQueue { frames: sender, _open: open }, QueuedFrames { frames, closed })
}

pub(crate) struct StreamLinks {
    listener: Option<Arc<WebTransportListener>>,
    sender: mpsc::Sender<LinkEvent>,
    events: mpsc::Receiver<LinkEvent>,
    queues: BTreeMap<Secret, FrameQueue>,
}

impl StreamLinks {
    /// Without a listener, no stream is offered. Must be called within a tokio runtime.
    pub(crate) fn new(listener: Option<Arc<WebTransportListener>>) -> Self {
        if let Some(listener) = &listener {
            listener.prepare();
        }
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

    /// Queues a frame. The caller queues at most [`FRAMES_MAX`] frames of a stream. A stream
    /// without a queue has closed, and an event reports that.
    pub(crate) fn write(&self, secret: Secret, frame: Vec<u8>) {
        if let Some(queue) = self.queues.get(&secret)
            && queue.frames.try_send(frame).is_err()
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
