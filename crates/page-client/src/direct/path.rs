//! The messages on one direct connection. Each is kept until the other side has read it, because
//! the connection may break.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use watchfire_types::Instant;

use super::send_window::{Millis, SendWindow};
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
/// Receipts that wait for room in the channel. A browser waits for at most this many.
const RECEIPTS_MAX: usize = 1024;
/// A receiver takes no more than 512 parts of a message.
const PARTS_MAX: usize = 256;

const SEGMENT: u8 = 0;
const READ: u8 = 1;
const MARKED_SEGMENT: u8 = 2;
const RECEIPT: u8 = 3;

/// The peer sent a signal or a frame that no honest peer sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misbehaviour(pub(super) &'static str);

/// A frame from the other side.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Segment(Segment),
    /// A segment for which the other side waits for a receipt.
    MarkedSegment(Segment),
    /// The other side has read this message.
    Read(u32),
    /// All bytes of frames that the other side had received, up to a marked segment.
    Receipt(u64),
}

impl Frame {
    /// Returns `None` for a frame that no honest peer sends.
    fn decode(frame: &Bytes) -> Option<Frame> {
        if frame.len() > FRAME_BYTES_MAX {
            return None;
        }
        match *frame.first()? {
            SEGMENT => Segment::decode_body(&frame.slice(1..)).map(Frame::Segment),
            MARKED_SEGMENT => Segment::decode_body(&frame.slice(1..)).map(Frame::MarkedSegment),
            READ => Some(Frame::Read(u32::from_be_bytes(frame[1..].try_into().ok()?))),
            RECEIPT => Some(Frame::Receipt(u64::from_be_bytes(frame[1..].try_into().ok()?))),
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
    /// The bytes of all frames that arrived, and the receipts for marked segments: how many bytes had arrived with each.
    arrived_bytes: u64,
    receipts: VecDeque<u64>,
    /// Bounds what is under way. `None` on a stream, and if the other side sends no receipts.
    window: Option<SendWindow>,
    has_sent: bool,
    /// How long the next frame has to wait for its turn.
    pause: Option<Duration>,
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
            arrived_bytes: 0,
            receipts: VecDeque::new(),
            window: None,
            has_sent: false,
            pause: None,
            taken_back: RecentSet::new(TAKEN_BACK_MAX),
        }
    }

    /// The other side sends receipts for marked segments. Call it before the path is up.
    pub(super) fn use_receipts(&mut self) {
        if !self.has_sent && self.window.is_none() {
            self.window = Some(SendWindow::new());
        }
    }

    /// Bounds what is under way beyond one machine.
    pub(super) fn has_window(&self) -> bool {
        self.window.as_ref().is_some_and(|window| !window.is_local())
    }

    /// How long the next frame has to wait, although there is room for it.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// The channel kept this much waiting when it got the last frames.
    pub(super) fn handle_buffered(&mut self, bytes: usize) {
        if let Some(window) = &mut self.window {
            window.handle_buffered(bytes);
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
    pub(super) fn next_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> Option<usize> {
        let now = millis(now);
        self.pause = None;
        frame.clear();
        let (reported, is_marked) = match self.write_control_frame(frame) {
            true => (0, false),
            false => self.write_segment(now, frame)?,
        };
        self.has_sent = true;
        if let Some(window) = &mut self.window {
            window.handle_sent(now, frame.len(), is_marked);
        }
        Some(reported)
    }

    fn write_control_frame(&mut self, frame: &mut Vec<u8>) -> bool {
        if let Some(message) = self.acknowledgements.pop_front() {
            frame.put_u8(READ);
            frame.put_u32(message);
        } else if let Some(bytes) = self.receipts.pop_front() {
            frame.put_u8(RECEIPT);
            frame.put_u64(bytes);
        }
        !frame.is_empty()
    }

    /// Returns the bytes to report, and whether the segment is marked.
    fn write_segment(&mut self, now: Millis, frame: &mut Vec<u8>) -> Option<(usize, bool)> {
        let next = self.next_sending()?;
        let is_short = self.sending[next].is_short();
        if !self.has_room(now, is_short) {
            return None;
        }
        let Sending { message, sent_bytes } = &mut self.sending[next];
        let total = message.bytes.len();
        let part_max = self.window.as_ref().map_or(PART_BYTES_MAX, |window| {
            PART_BYTES_MAX.min(window.frame_bytes().max(total / PARTS_MAX))
        });
        let end = total.min(*sent_bytes + part_max);
        let bytes = message.bytes.slice(*sent_bytes..end);
        let is_marked = self.window.as_ref().is_some_and(|window| window.asks_for(bytes.len()));
        frame.put_u8(if is_marked { MARKED_SEGMENT } else { SEGMENT });
        Segment { message: message.id, offset: *sent_bytes, total, bytes }.encode_body(frame);
        *sent_bytes = end;
        let is_last = end == total;
        let reported = if is_last && !message.is_reported { total } else { 0 };
        message.is_reported |= is_last;
        Some((reported, is_marked))
    }

    /// Whether the window lets a part of a message be sent now.
    fn has_room(&mut self, now: Millis, is_short: bool) -> bool {
        let Some(window) = &mut self.window else { return true };
        // A short message has a place of its own, so that a want does not wait behind blocks.
        if is_short {
            return window.room() > -(SHORT_BYTES_MAX as f64);
        }
        if window.room() <= 0.0 {
            return false;
        }
        let pause = window.pause(now);
        self.pause = (pause > 0.0).then(|| Duration::from_secs_f64(pause / 1e3));
        self.pause.is_none()
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
    pub(super) fn receive(
        &mut self,
        now: Instant,
        frame: &Bytes,
    ) -> Result<Option<Segment>, Misbehaviour> {
        let decoded = Frame::decode(frame).ok_or(Misbehaviour("an invalid frame"))?;
        self.arrived_bytes += frame.len() as u64;
        match decoded {
            Frame::Segment(segment) => Ok(Some(segment)),
            Frame::MarkedSegment(segment) => {
                if self.receipts.len() == RECEIPTS_MAX {
                    return Err(Misbehaviour("too many segments that ask for a receipt"));
                }
                self.receipts.push_back(self.arrived_bytes);
                Ok(Some(segment))
            }
            Frame::Read(id) => match self.handle_read(id) {
                Ok(()) => Ok(None),
                Err(InvalidAcknowledgement) => {
                    Err(Misbehaviour("an acknowledgement of an unsent message"))
                }
            },
            Frame::Receipt(bytes) => {
                let window = self.window.as_mut();
                match window.is_some_and(|window| window.handle_receipt(millis(now), bytes)) {
                    true => Ok(None),
                    false => Err(Misbehaviour("a receipt for anything but the oldest mark")),
                }
            }
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

fn millis(now: Instant) -> Millis {
    now.as_nanos() as f64 / 1e6
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
            let reported = path.next_frame(Instant::ZERO, &mut frame)?;
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
            frame => panic!("only plain segments are sent without receipts: {frame:?}"),
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
        path.next_frame(Instant::ZERO, &mut Vec::new());
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
    fn marked_segments_get_receipts_of_all_that_arrived() {
        let mut path = path(&[]);
        let segment = |kind| Bytes::from([&[kind][..], &[0; 11], &[5], b"light"].concat());
        assert_eq!(path.receive(Instant::ZERO, &segment(SEGMENT)).unwrap().unwrap().bytes.len(), 5);
        for _ in 0..2 {
            path.receive(Instant::ZERO, &segment(MARKED_SEGMENT)).unwrap();
        }
        let mut frame = Vec::new();
        for bytes in [36, 54] {
            assert_eq!(path.next_frame(Instant::ZERO, &mut frame), Some(0));
            assert_eq!(frame, [RECEIPT, 0, 0, 0, 0, 0, 0, 0, bytes]);
        }
        assert_eq!(path.next_frame(Instant::ZERO, &mut frame), None);
        for _ in 0..RECEIPTS_MAX {
            path.receive(Instant::ZERO, &segment(MARKED_SEGMENT)).unwrap();
        }
        path.receive(Instant::ZERO, &segment(MARKED_SEGMENT))
            .expect_err("a peer that reads no receipts");
    }

    fn receipt(bytes: u64) -> Bytes {
        [&[RECEIPT][..], &bytes.to_be_bytes()].concat().into()
    }

    /// Sends all that may be sent, and returns the numbers of the messages, and all bytes up to each mark.
    fn marks(path: &mut Path, now: Instant, sent_bytes: &mut u64) -> (Vec<u32>, Vec<u64>) {
        let (mut messages, mut marks) = (Vec::new(), Vec::new());
        let mut frame = Vec::new();
        while path.next_frame(now, &mut frame).is_some() {
            *sent_bytes += frame.len() as u64;
            match Frame::decode(&frame.clone().into()) {
                Some(Frame::Segment(segment)) => messages.push(segment.message),
                Some(Frame::MarkedSegment(segment)) => {
                    messages.push(segment.message);
                    marks.push(*sent_bytes);
                }
                other => panic!("only segments are sent: {other:?}"),
            }
        }
        messages.dedup();
        (messages, marks)
    }

    #[test]
    fn no_more_than_a_window_is_under_way_without_a_receipt_except_short_messages() {
        let mut path = path(&[3 << 20]);
        path.use_receipts();
        let mut sent_bytes = 0;
        let (_, first) = marks(&mut path, Instant::ZERO, &mut sent_bytes);
        assert!((64 << 10..96 << 10).contains(&sent_bytes), "{sent_bytes}");
        assert_eq!(first.last(), Some(&sent_bytes));
        for id in 1..400 {
            let bytes = vec![7; 100].into();
            path.push(UnsentMessage { id, bytes, is_reported: false, is_relayed: false });
            // The other side reads short messages without an end, and sends no receipt.
            let (messages, _) = marks(&mut path, Instant::ZERO, &mut sent_bytes);
            assert!(messages.iter().all(|message| *message == id));
            path.sending.retain(|sending| !sending.is_short());
        }
        assert!(sent_bytes < 96 << 10, "{sent_bytes}");
        let later = Instant::ZERO + Duration::from_millis(50);
        for mark in first {
            assert_eq!(path.receive(later, &receipt(mark)), Ok(None));
        }
        let before = sent_bytes;
        assert_eq!(marks(&mut path, later, &mut sent_bytes).0, [0; 0]);
        assert!(path.pause().is_some(), "the next frame waits for its turn");
        let later = later + Duration::from_millis(50);
        let (messages, _) = marks(&mut path, later, &mut sent_bytes);
        assert_eq!(messages, [0]);
        assert!(sent_bytes > before + (32 << 10), "{}", sent_bytes - before);
    }

    #[test]
    fn receipts_of_what_was_not_marked_are_misbehaviour() {
        let mut without = path(&[10]);
        frames(&mut without);
        without.use_receipts();
        let now = Instant::ZERO;
        without.receive(now, &receipt(23)).expect_err("the peer did not say that it sends any");
        let mut with = path(&[3 << 20]);
        with.use_receipts();
        let (_, marks) = marks(&mut with, now, &mut 0);
        with.receive(now, &receipt(marks[0])).unwrap();
        for bytes in [marks[0], marks[1] + 1, u64::MAX] {
            with.receive(now, &receipt(bytes)).expect_err("no mark");
        }
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let long = [&[SEGMENT][..], &[0; FRAME_BYTES_MAX]].concat();
        for frame in [&[][..], &[READ, 0, 0, 0], &[READ, 0, 0, 0, 0, 0], &[RECEIPT; 8], &long] {
            assert_eq!(Frame::decode(&Bytes::copy_from_slice(frame)), None);
        }
        assert_eq!(Frame::decode(&Bytes::from_static(&[SEGMENT; 12])), None, "a short header");
    }
}
