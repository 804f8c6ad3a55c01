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
const OVERHEAD: usize = mem::size_of::<Queued>();
/// A queue that moves holds at most so many times the limit of frames that no other socket shares.
const OWN_FACTOR: usize = 4;
/// A queue of which the kernel took nothing for this many ticks (tenths of a second) does not move.
/// At 50 KB/s, the third of a send buffer that the kernel reports as free takes 1.7 seconds.
const STILL_TICKS: u32 = 20;

/// Whether other sockets share the memory of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Own,
    /// The frame is counted elsewhere, once for all sockets. `has_room`: more of them may be queued.
    Shared {
        has_room: bool,
    },
}

#[derive(Debug)]
struct Queued {
    bytes: Bytes,
    is_own: bool,
}

/// A queue of complete frames. Their bytes are shared with other receivers of the same frame. A
/// socket has a queue only while it is not empty.
#[derive(Debug)]
pub(crate) struct Outbound {
    frames: VecDeque<Queued>,
    /// Bytes of the first frame that are already sent.
    sent: usize,
    bytes: usize,
    /// The bytes of the frames behind the first one, as they count for the limit.
    waiting: usize,
    /// The part of `waiting` in frames that no other socket shares.
    own: usize,
    /// The bytes that one frame counts at most.
    counted_max: usize,
    /// The tick at which `waiting` exceeded a half of the limit; `None` again from a quarter on.
    crowded: Option<u32>,
    /// The tick at which the queue began.
    began: u32,
    /// The tick at which the kernel last accepted bytes.
    progressed: u32,
}

impl Outbound {
    /// Begins a queue with a frame whose first `sent` bytes are already written.
    /// [`Outbound::has_room`] explains the limit of the queue.
    pub(crate) fn begin(frame: Bytes, sent: usize, tick: u32, bytes_max: usize) -> Self {
        Outbound {
            sent,
            bytes: cost(&frame) - sent,
            waiting: 0,
            own: 0,
            counted_max: (bytes_max / LARGE_FRAMES).max(OVERHEAD),
            crowded: None,
            began: tick,
            progressed: tick,
            frames: VecDeque::from([Queued { bytes: frame, is_own: true }]),
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

    /// Whether the queue takes another frame. A queue that moves may exceed `queued_bytes_max`: with
    /// shared frames while there is room for them, and with its own up to [`OWN_FACTOR`] times.
    pub(crate) fn takes(
        &self,
        frame: &Bytes,
        sharing: Sharing,
        now: Pace,
        bytes_max: usize,
    ) -> bool {
        self.has_room(frame, bytes_max)
            || self.is_moving(now)
                && match sharing {
                    Sharing::Shared { has_room } => has_room,
                    Sharing::Own => {
                        self.own + self.counted(frame) <= bytes_max.saturating_mul(OWN_FACTOR)
                    }
                }
    }

    /// Whether the client reads: the kernel has accepted bytes lately, and the queue was not over a
    /// half of its limit for longer than `crowded_timeout`.
    fn is_moving(&self, now: Pace) -> bool {
        now.tick.wrapping_sub(self.progressed) <= STILL_TICKS
            && now.tick.wrapping_sub(self.crowded.unwrap_or(now.tick)) < now.crowded_ticks
    }

    /// Whether the queue was over a half of its limit, and was not at a quarter since.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.is_some()
    }

    /// Whether those who fill the queue should wait for its client.
    pub(crate) fn is_awaited(&self, now: Pace) -> bool {
        self.is_crowded() && self.is_moving(now)
    }

    /// Whether the queue exceeds its limit, as only one that moves can.
    pub(crate) fn is_over(&self, bytes_max: usize) -> bool {
        self.waiting > bytes_max
    }

    /// The bytes of a frame as they count for the limit.
    fn counted(&self, frame: &Bytes) -> usize {
        cost(frame).min(self.counted_max)
    }

    pub(crate) fn push(&mut self, bytes: Bytes, is_own: bool, tick: u32) {
        self.bytes += cost(&bytes);
        if !self.frames.is_empty() {
            self.waiting += self.counted(&bytes);
            self.own += if is_own { self.counted(&bytes) } else { OVERHEAD };
            if self.crowded.is_none() && self.waiting > 2 * self.counted_max {
                self.crowded = Some(tick);
            }
        }
        self.frames.push_back(Queued { bytes, is_own });
    }

    /// Drops all frames except one that is partly sent: the next frame must begin after its end.
    pub(crate) fn keep_started(&mut self) {
        self.frames.truncate(usize::from(self.sent > 0));
        self.waiting = 0;
        self.own = 0;
        self.crowded = None;
        self.bytes = self.frames.front().map_or(0, |frame| cost(&frame.bytes) - self.sent);
    }

    /// Writes until the queue is empty or the kernel's buffer is full. Returns the bytes written.
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
            *slice = IoSlice::new(&frame.bytes[skip..]);
            skip = 0;
            len += 1;
        }
        wire::write_all_of(socket, &slices[..len])
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(front) = self.frames.front() {
            let left = front.bytes.len() - self.sent;
            if written < left {
                self.sent += written;
                self.bytes -= written;
                return;
            }
            written -= left;
            self.bytes -= cost(&front.bytes) - self.sent;
            self.sent = 0;
            self.frames.pop_front();
            // The next one is being written now.
            if let Some(Queued { bytes, is_own }) = self.frames.front() {
                let counted = self.counted(bytes);
                self.waiting -= counted;
                self.own -= if *is_own { counted } else { OVERHEAD };
            }
            if self.waiting <= self.counted_max {
                self.crowded = None;
            }
        }
    }
}

/// The time, and how long a queue may be crowded.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) tick: u32,
    pub(crate) crowded_ticks: u32,
}

fn cost(frame: &Bytes) -> usize {
    frame.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = OVERHEAD;

    fn queue(frames: &[&'static str]) -> Outbound {
        let mut queue = Outbound::begin(Bytes::from_static(frames[0].as_bytes()), 0, 0, 1_000);
        frames[1..].iter().for_each(|frame| push(&mut queue, Bytes::from_static(frame.as_bytes())));
        queue
    }

    fn push(queue: &mut Outbound, frame: Bytes) {
        queue.push(frame, true, 0);
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
            push(&mut queue, small.clone());
        }
        for _ in 0..3 {
            assert!(queue.has_room(&large, 1_000_000));
            push(&mut queue, large.clone());
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
                push(&mut queue, frame.clone());
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
            push(&mut queue, frame.clone());
            pushed += 1;
        }
        assert!(pushed <= 1000 / EACH);
    }

    const LARGE: Bytes = Bytes::from_static(&[0; 100]);

    /// A queue of which 100 of 400 bytes count at most, with a frame that is being written.
    fn moving() -> Outbound {
        Outbound::begin(LARGE, 0, 0, 400)
    }

    fn at(tick: u32) -> Pace {
        Pace { tick, crowded_ticks: 50 }
    }

    #[test]
    fn a_queue_that_moves_takes_shared_frames_over_its_limit_while_there_is_room_for_them() {
        let mut queue = moving();
        let shared = |has_room| Sharing::Shared { has_room };
        for _ in 0..100 {
            assert!(queue.takes(&LARGE, shared(true), at(0), 400));
            queue.push(LARGE, false, 0);
        }
        assert!(queue.is_over(400) && queue.is_awaited(at(20)));
        assert!(!queue.takes(&LARGE, shared(false), at(0), 400), "the memory is used up");
        assert!(!queue.takes(&LARGE, shared(true), at(STILL_TICKS + 1), 400), "it stands still");
        assert!(!queue.is_awaited(at(STILL_TICKS + 1)));
    }

    #[test]
    fn own_frames_of_a_queue_that_moves_have_a_bound_too() {
        let mut queue = moving();
        let mut taken = 0;
        while queue.takes(&LARGE, Sharing::Own, at(0), 400) {
            push(&mut queue, LARGE);
            taken += 1;
        }
        assert_eq!(taken, OWN_FACTOR * LARGE_FRAMES);
    }

    #[test]
    fn a_crowded_queue_is_awaited_until_it_is_at_a_quarter_and_no_longer_than_the_timeout() {
        let mut queue = moving();
        (0..3).for_each(|_| queue.push(LARGE, false, 7));
        assert!(queue.is_awaited(at(7)));
        queue.progressed = 56;
        assert!(queue.is_awaited(at(56)) && !queue.is_awaited(at(57)), "it moves too slowly");
        queue.advance(100);
        assert!(queue.is_crowded());
        queue.advance(100);
        assert!(!queue.is_crowded());
        assert!(!queue.is_awaited(Pace { tick: 7, crowded_ticks: 0 }));
    }
}
