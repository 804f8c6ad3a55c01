//! A stream to a browser: offered, and then used in place of a WebRTC connection.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use watchfire_types::{Instant, PeerId};

use super::Output;
use super::path::{Misbehaviour, Path};
use super::web_transport::{FRAMES_MAX, Offer, Secret, StreamEvent};
use crate::segment::UnsentMessage;

/// A browser has this long to dial before it is also called over WebRTC. A stream opens in three
/// round trips, and a data channel in six.
const HEAD_START: Duration = Duration::from_millis(250);
/// How long a browser may dial.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// A stream without messages is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A stream is closed after this time in which its browser has read no message, although messages
/// wait for that, and in which the network took nearly nothing. Until then [`Path`] bounds what the
/// browser may leave unread; when that is full, nothing more is sent. The relay gets the messages.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct StreamCall {
    pub(super) number: u32,
    pub(super) secret: Secret,
    peer: PeerId,
    path: Path,
    is_open: bool,
    /// When to call the browser over WebRTC. `None`: it was called, or need not be.
    call_at: Option<Instant>,
    begun_at: Instant,
    /// When a message was last sent or received.
    moved_at: Instant,
    /// When the browser last read a message, the network last took bytes, or a message began to wait.
    progress_at: Instant,
    /// Frames in the queue of the stream.
    queued_frames: usize,
    _permit: OwnedSemaphorePermit,
}

/// The next step of a stream call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Call the browser over WebRTC too.
    Call,
    /// The browser did not dial.
    GiveUp,
    /// Nothing moves on the stream.
    CloseIdle,
    /// The browser reads no messages.
    CloseUnread,
}

impl StreamCall {
    pub(super) fn new(
        number: u32,
        peer: PeerId,
        now: Instant,
        offer: &Offer,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        StreamCall {
            number,
            secret: offer.secret,
            peer,
            path: Path::new(),
            is_open: false,
            call_at: Some(now + HEAD_START),
            begun_at: now,
            moved_at: now,
            progress_at: now,
            queued_frames: 0,
            _permit: permit,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the browser has still to be called over WebRTC.
    pub(super) fn is_before_call(&self) -> bool {
        self.call_at.is_some()
    }

    pub(super) fn next_wake(&self) -> Instant {
        match (self.is_open, self.call_at) {
            (true, _) if self.path.is_busy() => self.progress_at + UNREAD_TIMEOUT,
            (true, _) => self.moved_at + IDLE_TIMEOUT,
            (false, Some(at)) => at,
            (false, None) => self.begun_at + DIAL_TIMEOUT,
        }
    }

    /// Returns what is due now.
    pub(super) fn handle_tick(&mut self, now: Instant) -> Option<Due> {
        if now < self.next_wake() {
            return None;
        }
        Some(match self.is_open {
            true if self.path.is_busy() => Due::CloseUnread,
            true => Due::CloseIdle,
            false if self.call_at.take().is_some() => Due::Call,
            false => Due::GiveUp,
        })
    }

    pub(super) fn open(&mut self, now: Instant) {
        (self.is_open, self.call_at, self.moved_at) = (true, None, now);
    }

    pub(super) fn handle_event(
        &mut self,
        now: Instant,
        event: StreamEvent,
        outputs: &mut VecDeque<Output>,
    ) -> Result<(), Misbehaviour> {
        self.moved_at = now;
        match event {
            StreamEvent::Frame(frame) => {
                let unread = self.path.messages();
                if let Some(segment) = self.path.receive(now, &frame)? {
                    outputs.push_back(Output::Segment { peer: self.peer, segment });
                }
                if self.path.messages() < unread {
                    self.progress_at = now;
                }
            }
            StreamEvent::Sending => self.progress_at = now,
            StreamEvent::Malformed => return Err(Misbehaviour("an invalid frame")),
            StreamEvent::Written(frames) => {
                self.queued_frames = self.queued_frames.saturating_sub(frames);
            }
            StreamEvent::Opened | StreamEvent::Closed => {}
        }
        self.write_frames(now, outputs);
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        message: UnsentMessage,
        outputs: &mut VecDeque<Output>,
    ) {
        self.moved_at = now;
        if !self.path.is_busy() {
            self.progress_at = now;
        }
        self.path.push(message);
        self.write_frames(now, outputs);
    }

    /// Whether the browser may not have read a message.
    pub(super) fn has_unread(&self, message: u32) -> bool {
        self.path.has(message)
    }

    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        message: u32,
        outputs: &mut VecDeque<Output>,
    ) {
        self.path.acknowledge(message);
        self.write_frames(now, outputs);
    }

    /// Closes the stream, or withdraws its offer. An open stream returns its messages.
    pub(super) fn close(mut self, outputs: &mut VecDeque<Output>) {
        outputs.push_back(Output::CloseStream { secret: self.secret });
        if self.is_open {
            outputs.push_back(Output::Down { peer: self.peer, unread: self.path.take_unread() });
        }
        outputs.push_back(Output::Ended { peer: self.peer });
    }

    fn write_frames(&mut self, now: Instant, outputs: &mut VecDeque<Output>) {
        while self.queued_frames < FRAMES_MAX {
            let mut frame = Vec::new();
            let Some(reported) = self.path.next_frame(now, &mut frame) else { return };
            self.queued_frames += 1;
            outputs.push_back(Output::StreamFrame { secret: self.secret, frame });
            if reported > 0 {
                outputs.push_back(Output::Sent { peer: self.peer, bytes: reported });
            }
        }
    }
}
