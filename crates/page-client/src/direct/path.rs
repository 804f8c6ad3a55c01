//! The messages on one direct connection. Each is kept until the other side has read it, because
//! the connection may break.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};

use crate::recent_set::RecentSet;
use crate::segment::{SHORT_BYTES_MAX, Segment, UnsentMessage};

/// The largest frame that every WebRTC implementation accepts.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 10;
const SEGMENT_HEADER_BYTES: usize = 12;
const PART_BYTES_MAX: usize = FRAME_BYTES_MAX - 1 - SEGMENT_HEADER_BYTES;
/// Messages, and their bytes, that the other side may have left unread. Short messages may use a
/// few more places.
const UNREAD_MAX: usize = 8;
const UNREAD_BYTES_MAX: usize = 4 << 20;
const UNREAD_SHORT_MAX: usize = 12;
/// Messages that are remembered as sent and taken back.
const TAKEN_BACK_MAX: usize = 64;
/// Acknowledgements that wait for room in the channel. An honest peer waits for at most 12.
const ACKNOWLEDGEMENTS_MAX: usize = 64;

const SEGMENT: u8 = 0;
const READ: u8 = 1;

/// The peer sent a signal or a frame that no honest peer sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misbehaviour(pub(super) &'static str);

/// A frame from the other side.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Segment(Segment),
    /// The other side has read this message.
    Read(u32),
}

impl Frame {
    /// Returns `None` for a frame that no honest peer sends.
    fn decode(frame: &Bytes) -> Option<Frame> {
        if frame.len() > FRAME_BYTES_MAX {
            return None;
        }
        match *frame.first()? {
            SEGMENT => Segment::decode_body(&frame.slice(1..)).map(Frame::Segment),
            READ => Some(Frame::Read(u32::from_be_bytes(frame[1..].try_into().ok()?))),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Sending {
    message: UnsentMessage,
    sent_bytes: usize,
}

impl Sending {
    fn is_short(&self) -> bool {
        self.message.bytes.len() <= SHORT_BYTES_MAX
    }

    fn is_begun(&self) -> bool {
        self.sent_bytes > 0
    }

    fn is_whole(&self) -> bool {
        self.sent_bytes == self.message.bytes.len()
    }
}

/// The send queue of one direct connection. The host bounds it.
#[derive(Debug)]
pub(super) struct Path {
    /// In the order of [`Path::push`].
    sending: VecDeque<Sending>,
    acknowledgements: VecDeque<u32>,
    /// The other side may acknowledge these, although they were taken back when the path broke.
    taken_back: RecentSet<u32>,
}

/// The other side acknowledged a message that it cannot have read.
#[derive(Debug, PartialEq, Eq)]
struct InvalidAcknowledgement;

impl Path {
    pub(super) fn new() -> Self {
        Path {
            sending: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            taken_back: RecentSet::new(TAKEN_BACK_MAX),
        }
    }

    pub(super) fn push(&mut self, message: UnsentMessage) {
        self.sending.push_back(Sending { message, sent_bytes: 0 });
    }

    /// Queues the acknowledgement of a message that was read here. At the limit the oldest is
    /// dropped: its sender sends that message again over the relay.
    pub(super) fn acknowledge(&mut self, message: u32) {
        if self.acknowledgements.len() == ACKNOWLEDGEMENTS_MAX {
            self.acknowledgements.pop_front();
        }
        self.acknowledgements.push_back(message);
    }

    /// Messages that wait to be sent or to be read.
    pub(super) fn messages(&self) -> usize {
        self.sending.len()
    }

    /// Whether the other side may not have read a message.
    pub(super) fn has(&self, message: u32) -> bool {
        self.sending.iter().any(|sending| sending.message.id == message)
    }

    /// Whether a message waits to be sent or to be read.
    pub(super) fn is_busy(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Writes the next frame to `frame`. Returns the bytes of a message whose last frame it is, if
    /// its end was not reported before; `Some(0)` for any other frame; `None` without a frame.
    pub(super) fn next_frame(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        frame.clear();
        if let Some(message) = self.acknowledgements.pop_front() {
            frame.put_u8(READ);
            frame.put_u32(message);
            return Some(0);
        }
        let next = self.next_sending()?;
        let Sending { message, sent_bytes } = &mut self.sending[next];
        let total = message.bytes.len();
        let end = total.min(*sent_bytes + PART_BYTES_MAX);
        let bytes = message.bytes.slice(*sent_bytes..end);
        frame.put_u8(SEGMENT);
        Segment { message: message.id, offset: *sent_bytes, total, bytes }.encode_body(frame);
        *sent_bytes = end;
        let is_last = end == total;
        let reported = if is_last && !message.is_reported { total } else { 0 };
        message.is_reported |= is_last;
        Some(reported)
    }

    /// Short messages first, then in order.
    fn next_sending(&self) -> Option<usize> {
        let begun = self.sending.iter().filter(|sending| sending.is_begun());
        let (count, bytes) = begun.fold((0, 0), |(count, bytes), sending| {
            (count + 1, bytes + sending.message.bytes.len())
        });
        let has_room = |sending: &Sending| match sending.is_short() {
            true => count < UNREAD_SHORT_MAX,
            false => count < UNREAD_MAX && bytes < UNREAD_BYTES_MAX,
        };
        let sendable = self.sending.iter().enumerate().filter(|(_, sending)| {
            !sending.is_whole() && (sending.is_begun() || has_room(sending))
        });
        sendable.min_by_key(|(_, sending)| !sending.is_short()).map(|(at, _)| at)
    }

    /// Handles a frame from the other side. Returns the part of a message that it carries.
    pub(super) fn receive(&mut self, frame: &Bytes) -> Result<Option<Segment>, Misbehaviour> {
        match Frame::decode(frame).ok_or(Misbehaviour("an invalid frame"))? {
            Frame::Segment(segment) => Ok(Some(segment)),
            Frame::Read(id) => match self.handle_read(id) {
                Ok(()) => Ok(None),
                Err(InvalidAcknowledgement) => {
                    Err(Misbehaviour("an acknowledgement of an unsent message"))
                }
            },
        }
    }

    /// The other side has read this message.
    fn handle_read(&mut self, id: u32) -> Result<(), InvalidAcknowledgement> {
        let at = self.sending.iter().position(|sending| sending.message.id == id);
        let Some(at) = at else { return Ok(()) };
        // A message that was taken back may have been read before it was sent again.
        if !self.sending[at].is_whole() && !self.taken_back.contains(id) {
            return Err(InvalidAcknowledgement);
        }
        self.sending.remove(at);
        Ok(())
    }

    /// Takes all messages that the other side may not have read.
    pub(super) fn take_unread(&mut self) -> Vec<UnsentMessage> {
        self.acknowledgements.clear();
        let unread = std::mem::take(&mut self.sending).into_iter();
        unread
            .map(|sending| {
                if sending.is_whole() {
                    self.taken_back.insert(sending.message.id);
                }
                sending.message
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(lengths: &[usize]) -> Path {
        let mut path = Path::new();
        for (id, length) in (0..).zip(lengths) {
            let bytes = vec![7; *length].into();
            path.push(UnsentMessage { id, bytes, is_reported: false, is_relayed: false });
        }
        path
    }

    /// Sends all that may be sent, and returns the frames with the bytes reported after each.
    fn frames(path: &mut Path) -> Vec<(Frame, usize)> {
        let mut frame = Vec::new();
        let next = || {
            let reported = path.next_frame(&mut frame)?;
            Some((Frame::decode(&frame.clone().into()).expect("a valid frame"), reported))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_message_is_sent_in_frames_and_kept_until_it_is_read() {
        let mut path = path(&[40_000]);
        let sent = frames(&mut path);
        let parts = sent.iter().map(|(frame, reported)| match frame {
            Frame::Segment(segment) => (segment.offset, segment.bytes.len(), *reported),
            Frame::Read(_) => panic!("nothing was read"),
        });
        let expected = [(0, PART_BYTES_MAX, 0), (PART_BYTES_MAX, PART_BYTES_MAX, 0)];
        let last = (2 * PART_BYTES_MAX, 40_000 - 2 * PART_BYTES_MAX, 40_000);
        assert_eq!(parts.collect::<Vec<_>>(), [&expected[..], &[last]].concat());
        assert!(path.is_busy());
        assert_eq!(path.handle_read(0), Ok(()));
        assert!(!path.is_busy());
        assert_eq!(path.handle_read(0), Ok(()), "a second acknowledgement has no effect");
    }

    #[test]
    fn only_some_messages_may_be_unread() {
        let mut path = path(&[vec![20_000; 10], vec![10; 6]].concat());
        let count = |sent: Vec<(Frame, usize)>| sent.iter().filter(|(_, bytes)| *bytes > 0).count();
        assert_eq!(count(frames(&mut path)), 8);
        assert_eq!(path.sending.iter().filter(|sending| sending.is_whole()).count(), 8);
        for id in 10..16 {
            assert_eq!(path.handle_read(id), Ok(()), "short messages were sent first");
        }
        assert_eq!(count(frames(&mut path)), 6);
    }

    #[test]
    fn a_message_that_was_not_sent_cannot_be_acknowledged() {
        let mut path = path(&[4 << 20, 20_000]);
        path.next_frame(&mut Vec::new());
        assert_eq!(path.handle_read(0), Err(InvalidAcknowledgement));
        assert_eq!(path.handle_read(1), Err(InvalidAcknowledgement));
    }

    #[test]
    fn unread_messages_are_taken_back_and_reported_once() {
        let mut path = path(&[20_000]);
        frames(&mut path);
        let unread = path.take_unread();
        assert!(unread[0].is_reported && !path.is_busy());
        path.push(unread[0].clone());
        assert_eq!(path.handle_read(0), Ok(()), "it was read before the path broke");
        path.push(unread[0].clone());
        assert!(frames(&mut path).iter().all(|(_, reported)| *reported == 0));
    }

    #[test]
    fn acknowledgements_are_sent_first() {
        let mut path = path(&[3]);
        path.acknowledge(9);
        assert_eq!(frames(&mut path)[0], (Frame::Read(9), 0));
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let long = [&[SEGMENT][..], &[0; FRAME_BYTES_MAX]].concat();
        for frame in [&[][..], &[READ, 0, 0, 0], &[READ, 0, 0, 0, 0, 0], &[2, 0, 0, 0, 0], &long] {
            assert_eq!(Frame::decode(&Bytes::copy_from_slice(frame)), None);
        }
        assert_eq!(Frame::decode(&Bytes::from_static(&[SEGMENT; 12])), None, "a short header");
    }
}
