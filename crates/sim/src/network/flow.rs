//! One direction of a connection.

use std::collections::VecDeque;

use watchfire_types::{Instant, Rng};

use super::window::Window;
use super::{Host, NetworkLimits, Path, loss_of};

/// Less than this is not sent while more is under way and waits.
const SMALL_BYTES: u64 = 16 << 10;

#[derive(Debug)]
pub(super) struct Flow<M> {
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) path: Path,
    /// Whether it waits for its uplink.
    pub(super) is_in_turn: bool,
    /// Whether a chunk of it is on the uplink, or with a processor before.
    pub(super) is_being_sent: bool,
    /// Bytes that are with the receiver.
    pub(super) arrived: u64,
    /// Messages of which something is with the sender still, and how much.
    waiting: VecDeque<(u64, M)>,
    /// Those that go before them.
    ahead: VecDeque<(u64, M)>,
    /// What the sender's kernel has and has not sent, in pieces, each with the message that ends in it.
    handed: VecDeque<(u64, Option<M>)>,
    handed_bytes: u64,
    handed_bytes_max: u64,
    /// Messages that have left and are not with the receiver yet, and the bytes after which they are.
    messages: VecDeque<(u64, M)>,
    /// Bytes of all messages so far.
    queued: u64,
    /// Bytes that have left.
    sent: u64,
    /// Bytes that have left and are not acknowledged.
    under_way: u64,
    window: Window,
    /// Nothing arrives before what was sent before it.
    not_before: Instant,
    /// Bytes that are at the receiver's downlink, or further.
    reached: u64,
    /// When the receiver has handled all that has reached it.
    handled_at: Instant,
    /// The room that its user counts with.
    reported_room: u64,
    reported_at: Instant,
    /// Most bytes of it that move as one.
    chunk_bytes: u64,
}

impl<M> Flow<M> {
    /// `slower_rate` is that of the slower of the two links, in bytes a second.
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
            is_in_turn: false,
            is_being_sent: false,
            arrived: 0,
            waiting: VecDeque::new(),
            ahead: VecDeque::new(),
            handed: VecDeque::new(),
            handed_bytes: 0,
            handed_bytes_max: limits.kernel_buffer_bytes,
            messages: VecDeque::new(),
            queued: 0,
            sent: 0,
            under_way: 0,
            window: Window::new(limits.window_bytes_max),
            not_before: Instant::ZERO,
            reached: 0,
            handled_at: Instant::ZERO,
            reported_room: limits.send_buffer_bytes,
            reported_at: Instant::ZERO,
            chunk_bytes: limits.chunk_bytes(slower_rate),
        }
    }

    pub(super) fn push(&mut self, bytes: u64, message: M) {
        self.waiting.push_back((bytes, message));
        self.pushed(bytes);
    }

    pub(super) fn push_ahead(&mut self, bytes: u64, message: M) {
        self.ahead.push_back((bytes, message));
        self.pushed(bytes);
    }

    fn pushed(&mut self, bytes: u64) {
        self.queued += bytes;
        self.reported_room = self.reported_room.saturating_sub(bytes);
        self.hand_over();
    }

    /// The kernel takes what it has room for. Nothing overtakes that any more.
    fn hand_over(&mut self) {
        while self.handed_bytes < self.handed_bytes_max {
            let room = self.handed_bytes_max - self.handed_bytes;
            let first = if self.ahead.is_empty() { &mut self.waiting } else { &mut self.ahead };
            let Some((left, _)) = first.front_mut() else { return };
            let piece = room.min(*left);
            *left -= piece;
            let ended = if *left == 0 { first.pop_front() } else { None };
            self.handed.push_back((piece, ended.map(|(_, message)| message)));
            self.handed_bytes += piece;
        }
    }

    pub(super) const fn room(&self, limits: &NetworkLimits) -> u64 {
        limits.send_buffer_bytes.saturating_sub(self.queued - self.sent)
    }

    /// The room, when it is so much more than its user knows that it is worth telling, or all there is.
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

    /// Bytes that it would send now.
    pub(super) fn next_chunk(&self) -> u64 {
        let waiting = self.queued - self.sent;
        let free = self.window.bytes().saturating_sub(self.under_way);
        if self.under_way > 0 && free < waiting.min(SMALL_BYTES).min(self.chunk_bytes) {
            return 0;
        }
        waiting.min(free).min(self.chunk_bytes)
    }

    /// So many bytes leave. How many messages end in them.
    pub(super) fn take(&mut self, bytes: u64) -> u32 {
        self.under_way += bytes;
        let (until, mut messages) = (self.sent + bytes, 0);
        while self.sent < until
            && let Some((piece, _)) = self.handed.front_mut()
        {
            let leaves = (*piece).min(until - self.sent);
            *piece -= leaves;
            self.sent += leaves;
            self.handed_bytes -= leaves;
            if *piece == 0
                && let Some((_, Some(message))) = self.handed.pop_front()
            {
                self.messages.push_back((self.sent, message));
                messages += 1;
            }
            self.hand_over();
        }
        messages
    }

    /// So many bytes are at the receiver's downlink. How many messages end in them.
    pub(super) fn reach(&mut self, bytes: u64) -> u32 {
        let until = |bytes| self.messages.partition_point(|(end, _)| *end <= bytes);
        let before = until(self.reached);
        self.reached += bytes;
        (until(self.reached) - before) as u32
    }

    /// When a chunk is handled that several cores would have handled at this time.
    pub(super) fn in_order(&mut self, at: Instant) -> Instant {
        self.handled_at = self.handled_at.max(at);
        self.handled_at
    }

    /// When a chunk that left at `sent_at` is at the receiver's downlink.
    pub(super) fn arrives_at(&mut self, sent_at: Instant, bytes: u64, rng: &mut Rng) -> Instant {
        let Path { delay, jitter, loss } = self.path;
        let mut at = sent_at + delay;
        if !jitter.is_zero() {
            at += jitter.mul_f64(rng.fraction());
        }
        if loss > 0.0 && rng.chance(loss_of(bytes, loss)) {
            // The receiver's acknowledgements tell the sender, who sends it again.
            at += 2 * delay;
            self.slow_down(sent_at);
        }
        self.not_before = self.not_before.max(at);
        self.not_before
    }

    pub(super) fn slow_down(&mut self, now: Instant) {
        self.window.cut(now, 2 * self.path.delay);
    }

    pub(super) fn acknowledged(&mut self, now: Instant, bytes: u64) {
        // What is not full need not grow.
        let is_full = self.under_way * 2 >= self.window.bytes();
        self.under_way -= bytes;
        if is_full {
            self.window.acknowledged(now, bytes, 2 * self.path.delay);
        }
    }

    /// The next message that has arrived whole.
    pub(super) fn pop_arrived(&mut self) -> Option<M> {
        let (end, _) = self.messages.front()?;
        if *end > self.arrived {
            return None;
        }
        self.messages.pop_front().map(|(_, message)| message)
    }
}
