//! One direction of a connection.

use std::collections::VecDeque;

use watchfire_types::{Instant, Rng};

use super::window::Window;
use super::{Host, NetworkLimits, Path, chunk_loss};

/// A smaller chunk is not sent while other bytes are in flight and more bytes wait.
const SMALL_BYTES: u64 = 16 << 10;

#[derive(Debug)]
pub(super) struct Flow<M> {
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) path: Path,
    /// Whether it is in the queue of its uplink.
    pub(super) is_queued: bool,
    /// Whether one of its chunks is on the uplink, or is being processed before.
    pub(super) is_being_sent: bool,
    /// Bytes that the receiver has processed.
    pub(super) arrived: u64,
    /// Messages of which the kernel does not have all bytes, each with its missing bytes.
    waiting: VecDeque<(u64, M)>,
    /// Such messages that are sent before those in `waiting`.
    ahead: VecDeque<(u64, M)>,
    /// Pieces that the sender's kernel has not sent yet, each with the message that ends in it.
    kernel_queue: VecDeque<(u64, Option<M>)>,
    kernel_bytes: u64,
    kernel_bytes_max: u64,
    /// Messages that were sent and have not arrived, each with the offset of its last byte.
    messages: VecDeque<(u64, M)>,
    /// Bytes of all messages so far.
    queued: u64,
    sent: u64,
    /// Bytes that were sent and are not acknowledged.
    in_flight: u64,
    window: Window,
    /// The latest arrival of a chunk so far, since chunks arrive in order.
    last_arrival: Instant,
    /// Bytes that have reached the receiver's downlink.
    reached_downlink: u64,
    /// When the receiver has processed all bytes that reached it.
    processed_at: Instant,
    /// The room that the sender knows of.
    reported_room: u64,
    reported_at: Instant,
    /// Most bytes of one chunk.
    chunk_bytes: u64,
}

impl<M> Flow<M> {
    /// `slower_rate` is the rate of the slower link, in bytes per second.
    pub(super) fn new(
        from: Host,
        to: Host,
        path: Path,
        slower_rate: u64,
        limits: &NetworkLimits,
    ) -> Self {
        Flow {
            from,
            to,
            path,
            is_queued: false,
            is_being_sent: false,
            arrived: 0,
            waiting: VecDeque::new(),
            ahead: VecDeque::new(),
            kernel_queue: VecDeque::new(),
            kernel_bytes: 0,
            kernel_bytes_max: limits.kernel_buffer_bytes,
            messages: VecDeque::new(),
            queued: 0,
            sent: 0,
            in_flight: 0,
            window: Window::new(limits.window_bytes_max),
            last_arrival: Instant::ZERO,
            reached_downlink: 0,
            processed_at: Instant::ZERO,
            reported_room: limits.send_buffer_bytes,
            reported_at: Instant::ZERO,
            chunk_bytes: limits.chunk_bytes(slower_rate),
        }
    }

    pub(super) fn push(&mut self, bytes: u64, message: M) {
        self.waiting.push_back((bytes, message));
        self.handle_queued(bytes);
    }

    pub(super) fn push_ahead(&mut self, bytes: u64, message: M) {
        self.ahead.push_back((bytes, message));
        self.handle_queued(bytes);
    }

    fn handle_queued(&mut self, bytes: u64) {
        self.queued += bytes;
        self.reported_room = self.reported_room.saturating_sub(bytes);
        self.fill_kernel_buffer();
    }

    /// Fills the kernel's buffer. No message overtakes bytes that are in it.
    fn fill_kernel_buffer(&mut self) {
        while self.kernel_bytes < self.kernel_bytes_max {
            let room = self.kernel_bytes_max - self.kernel_bytes;
            let first = if self.ahead.is_empty() { &mut self.waiting } else { &mut self.ahead };
            let Some((left, _)) = first.front_mut() else { return };
            let piece = room.min(*left);
            *left -= piece;
            let ended = if *left == 0 { first.pop_front() } else { None };
            self.kernel_queue.push_back((piece, ended.map(|(_, message)| message)));
            self.kernel_bytes += piece;
        }
    }

    pub(super) const fn room(&self, limits: &NetworkLimits) -> u64 {
        limits.send_buffer_bytes.saturating_sub(self.queued - self.sent)
    }

    /// The room to report to the sender, if it has grown enough, or if the buffer is empty.
    pub(super) fn take_room_report(
        &mut self,
        now: Instant,
        has_ended: bool,
        limits: &NetworkLimits,
    ) -> Option<u64> {
        let room = self.room(limits);
        let is_empty = self.queued == self.sent && room > self.reported_room;
        let is_much =
            room >= self.reported_room + limits.room_report_bytes.min(limits.send_buffer_bytes / 4);
        let is_due =
            is_much && (has_ended || now.since(self.reported_at) >= limits.room_report_interval);
        if !is_empty && !is_due {
            return None;
        }
        self.reported_room = room;
        self.reported_at = now;
        Some(room)
    }

    /// Bytes of the next chunk; 0 while the window is full or no bytes wait.
    pub(super) fn next_chunk(&self) -> u64 {
        let waiting = self.queued - self.sent;
        let free = self.window.bytes().saturating_sub(self.in_flight);
        if self.in_flight > 0 && free < waiting.min(SMALL_BYTES).min(self.chunk_bytes) {
            return 0;
        }
        waiting.min(free).min(self.chunk_bytes)
    }

    /// Sends `bytes`. Returns the number of messages that end in them.
    pub(super) fn send(&mut self, bytes: u64) -> u32 {
        self.in_flight += bytes;
        let (until, mut messages) = (self.sent + bytes, 0);
        while self.sent < until
            && let Some((piece, _)) = self.kernel_queue.front_mut()
        {
            let leaves = (*piece).min(until - self.sent);
            *piece -= leaves;
            self.sent += leaves;
            self.kernel_bytes -= leaves;
            if *piece == 0
                && let Some((_, Some(message))) = self.kernel_queue.pop_front()
            {
                self.messages.push_back((self.sent, message));
                messages += 1;
            }
            self.fill_kernel_buffer();
        }
        messages
    }

    /// Records that `bytes` reached the downlink. Returns the number of messages that end in them.
    pub(super) fn handle_at_downlink(&mut self, bytes: u64) -> u32 {
        let until = |bytes| self.messages.partition_point(|(end, _)| *end <= bytes);
        let before = until(self.reached_downlink);
        self.reached_downlink += bytes;
        (until(self.reached_downlink) - before) as u32
    }

    /// When a chunk that is ready at `at` is processed: not before the chunks in front of it.
    pub(super) fn processed_in_order(&mut self, at: Instant) -> Instant {
        self.processed_at = self.processed_at.max(at);
        self.processed_at
    }

    /// When a chunk that was sent at `sent_at` reaches the receiver's downlink.
    pub(super) fn arrives_at(&mut self, sent_at: Instant, bytes: u64, rng: &mut Rng) -> Instant {
        let Path { delay, jitter, loss } = self.path;
        let mut at = sent_at + delay;
        if !jitter.is_zero() {
            at += jitter.mul_f64(rng.fraction());
        }
        if loss > 0.0 && rng.chance(chunk_loss(bytes, loss)) {
            // The missing acknowledgement takes one delay, and the retransmission another.
            at += 2 * delay;
            self.slow_down(sent_at);
        }
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }

    pub(super) fn slow_down(&mut self, now: Instant) {
        self.window.cut(now, 2 * self.path.delay);
    }

    pub(super) fn handle_acknowledged(&mut self, now: Instant, bytes: u64) {
        // A window that is not used does not grow.
        let is_full = self.in_flight * 2 >= self.window.bytes();
        self.in_flight -= bytes;
        if is_full {
            self.window.handle_acknowledged(now, bytes, 2 * self.path.delay);
        }
    }

    /// The next message that has arrived completely.
    pub(super) fn pop_arrived(&mut self) -> Option<M> {
        let (end, _) = self.messages.front()?;
        if *end > self.arrived {
            return None;
        }
        self.messages.pop_front().map(|(_, message)| message)
    }
}
