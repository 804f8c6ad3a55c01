//! The queue of a socket whose send buffer in the kernel is full.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem;
use std::os::fd::OwnedFd;

use bytes::Bytes;

use crate::wire::{self, Broken};

/// Frames handed to the kernel in one call.
const SLICES_MAX: usize = 32;
/// Frames of any size that a queue holds behind the one that is being written.
const LARGE_FRAMES: usize = 4;
/// The memory of a queued frame besides its bytes.
const OVERHEAD: usize = mem::size_of::<Bytes>();

/// A queue of complete frames. Their bytes are shared with other receivers of the same frame. A
/// socket has a queue only while it is not empty.
#[derive(Debug)]
pub(crate) struct Outbound {
    frames: VecDeque<Bytes>,
    /// Bytes of the first frame that are already sent.
    sent: usize,
    bytes: usize,
    /// The bytes of the frames behind the first one, as they count for the limit.
    waiting: usize,
    /// The bytes that one frame counts at most.
    counted_max: usize,
    /// The tick at which the queue began.
    began: u32,
    /// The tick at which the kernel last accepted bytes.
    progressed: u32,
}

impl Outbound {
    /// Begin a queue with a frame whose first `sent` bytes are already written. [`Outbound::has_room`]
    /// explains the limit of the queue.
    pub(crate) fn begin(frame: Bytes, sent: usize, tick: u32, bytes_max: usize) -> Self {
        Outbound {
            sent,
            bytes: cost(&frame) - sent,
            waiting: 0,
            counted_max: (bytes_max / LARGE_FRAMES).max(OVERHEAD),
            began: tick,
            progressed: tick,
            frames: VecDeque::from([frame]),
        }
    }

    /// Unsent bytes, including the overhead of each frame, so that many tiny frames count fully.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tick at which the queue began.
    pub(crate) fn began(&self) -> u32 {
        self.began
    }

    /// The tick at which the kernel last accepted bytes.
    pub(crate) fn progressed(&self) -> u32 {
        self.progressed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the queue takes another frame under `queued_bytes_max`.
    ///
    /// A socket that reads must not be closed because of the size of a message. A message of 2 MB
    /// takes a while on any network, and the small message after it would find a queue over 1 MiB.
    /// So the frame that is being written does not count, and each frame behind it counts at most
    /// a quarter of the limit: the queue holds at least four frames of any size. Its bytes are at most
    /// the limit and the five largest frames.
    pub(crate) fn has_room(&self, frame: &Bytes, bytes_max: usize) -> bool {
        self.waiting + self.counted(frame) <= bytes_max
    }

    /// The bytes of a frame as they count for the limit.
    fn counted(&self, frame: &Bytes) -> usize {
        cost(frame).min(self.counted_max)
    }

    pub(crate) fn push(&mut self, frame: Bytes) {
        self.bytes += cost(&frame);
        if !self.frames.is_empty() {
            self.waiting += self.counted(&frame);
        }
        self.frames.push_back(frame);
    }

    /// Drop all frames except one that is partly sent: the next frame must begin after its end.
    pub(crate) fn keep_started(&mut self) {
        self.frames.truncate(usize::from(self.sent > 0));
        self.waiting = 0;
        self.bytes = self.frames.front().map_or(0, |frame| cost(frame) - self.sent);
    }

    /// Write until the queue is empty or the kernel's buffer is full. Returns the bytes written.
    pub(crate) fn flush(&mut self, socket: &OwnedFd, tick: u32) -> Result<usize, Broken> {
        let mut total = 0;
        while !self.frames.is_empty() {
            let written = self.write(socket)?;
            if written == 0 {
                break;
            }
            self.progressed = tick;
            self.advance(written);
            total += written;
        }
        Ok(total)
    }

    fn write(&self, socket: &OwnedFd) -> Result<usize, Broken> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut skip = self.sent;
        let mut len = 0;
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(&frame[skip..]);
            skip = 0;
            len += 1;
        }
        wire::write_all_of(socket, &slices[..len])
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(front) = self.frames.front() {
            let left = front.len() - self.sent;
            if written < left {
                self.sent += written;
                self.bytes -= written;
                return;
            }
            written -= left;
            self.bytes -= cost(front) - self.sent;
            self.sent = 0;
            self.frames.pop_front();
            // The next one is being written now.
            self.waiting -= self.frames.front().map_or(0, |frame| self.counted(frame));
        }
    }
}

fn cost(frame: &Bytes) -> usize {
    frame.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = mem::size_of::<Bytes>();

    fn queue(frames: &[&'static str]) -> Outbound {
        let mut queue = Outbound::begin(Bytes::from_static(frames[0].as_bytes()), 0, 0, 1_000);
        frames[1..].iter().for_each(|frame| queue.push(Bytes::from_static(frame.as_bytes())));
        queue
    }

    #[test]
    fn written_bytes_leave_the_queue() {
        let mut queue = queue(&["abc", "defg", "h"]);
        assert_eq!(queue.bytes(), 8 + 3 * EACH);
        queue.advance(4);
        assert_eq!(queue.bytes(), 4 + 2 * EACH);
        assert_eq!(queue.sent, 1);
        queue.advance(4);
        assert_eq!((queue.bytes(), queue.is_empty()), (0, true));
    }

    #[test]
    fn a_dropped_queue_keeps_only_the_frame_that_is_partly_written() {
        let mut started = queue(&["abc", "defg"]);
        started.advance(1);
        started.keep_started();
        assert_eq!((started.bytes(), started.frames.len()), (2 + EACH, 1));

        let mut whole = queue(&["abc", "defg"]);
        whole.keep_started();
        assert_eq!((whole.bytes(), whole.frames.len()), (0, 0));
    }

    #[test]
    fn a_frame_that_is_being_written_takes_no_room_of_others() {
        let large = Bytes::from(vec![0; 2_000_000]);
        let small = Bytes::from_static(b"{}");
        let mut queue = Outbound::begin(large.clone(), 70_000, 0, 1_000_000);
        assert!(queue.has_room(&small, 1_000_000));
        for _ in 0..10 {
            queue.push(small.clone());
        }
        for _ in 0..3 {
            assert!(queue.has_room(&large, 1_000_000));
            queue.push(large.clone());
        }
        assert!(!queue.has_room(&large, 1_000_000), "a fourth with the small ones is too much");
        assert!(queue.has_room(&small, 1_000_000));
        queue.advance(2_000_000);
        assert!(queue.has_room(&large, 1_000_000), "the next is being written");
    }

    #[test]
    fn under_any_limit_a_queue_is_bounded() {
        for bytes_max in [0, 1, OVERHEAD, 100, 1_000] {
            let frame = Bytes::from_static(b"a");
            let mut queue = Outbound::begin(frame.clone(), 0, 0, bytes_max);
            let mut pushed = 0;
            while queue.has_room(&frame, bytes_max) {
                queue.push(frame.clone());
                pushed += 1;
            }
            assert!(pushed <= bytes_max / OVERHEAD, "{bytes_max}");
        }
    }

    #[test]
    fn the_overhead_of_tiny_frames_fills_a_queue() {
        let mut queue = queue(&["a"]);
        let frame = Bytes::from_static(b"a");
        let mut pushed = 0;
        while queue.has_room(&frame, 1000) {
            queue.push(frame.clone());
            pushed += 1;
        }
        assert!(pushed <= 1000 / EACH);
    }
}
