//! A simulated line between a [`SendWindow`] and its receiver: for the tests here, and for `make gate`, which includes
//! this file. A data channel over SCTP begins with ten packets, doubles in a round trip, and halves when one was dropped.

use std::collections::{BTreeMap, VecDeque};

use super::send_window::{Millis, SendWindow};

const FRAME_BYTES_MAX: usize = 16 << 10;
const PACKET_BYTES: f64 = 1_200.0;
const HEADER_BYTES: f64 = 100.0;
/// Frames that SCTP keeps waiting.
const WAITING_MAX: usize = 64;

pub(super) struct Line {
    /// Bytes per millisecond.
    pub(super) rate: f64,
    pub(super) one_way: Millis,
    /// The queue drops what does not fit.
    pub(super) queue_bytes: f64,
}

#[derive(Clone, Copy)]
struct Frame {
    start: u64,
    end: u64,
    is_marked: bool,
}

impl Frame {
    fn bytes(&self) -> f64 {
        (self.end - self.start) as f64
    }
}

enum Event {
    Resume,
    Transmit(Frame),
    Arrive(Frame),
    /// SCTP learns that a frame has arrived.
    Acknowledge(Frame),
    Receipt(u64),
}

/// A sender with so many bytes of content, and its receiver.
pub(super) struct SimulatedPath {
    pub(super) line: Line,
    pub(super) window: SendWindow,
    pub(super) now: Millis,
    pub(super) delivered_bytes: u64,
    /// Bytes that the sender gave to the line, with headers.
    pub(super) wire_bytes: f64,
    /// Those of them that the queue dropped. They are sent again.
    pub(super) dropped_bytes: f64,
    /// The time that each frame spent in the queue.
    pub(super) waits: Vec<Millis>,
    content_bytes: u64,
    given_bytes: u64,
    /// By time, in the order in which they were added.
    events: BTreeMap<(u64, u64), Event>,
    events_added: u64,
    waiting: VecDeque<Frame>,
    arrived: BTreeMap<u64, Frame>,
    line_free_at: Millis,
    congestion_window: f64,
    threshold: f64,
    in_flight: f64,
    is_timed: bool,
}

impl SimulatedPath {
    pub(super) fn new(line: Line, content_bytes: u64) -> Self {
        let mut path = SimulatedPath {
            line,
            window: SendWindow::new(),
            now: 0.0,
            delivered_bytes: 0,
            wire_bytes: 0.0,
            dropped_bytes: 0.0,
            waits: Vec::new(),
            content_bytes,
            given_bytes: 0,
            events: BTreeMap::new(),
            events_added: 0,
            waiting: VecDeque::new(),
            arrived: BTreeMap::new(),
            line_free_at: 0.0,
            congestion_window: 10.0 * PACKET_BYTES,
            threshold: f64::INFINITY,
            in_flight: 0.0,
            is_timed: false,
        };
        path.after(0.0, Event::Resume);
        path
    }

    /// Lets one thing happen. Returns `false` when nothing is left to happen.
    pub(super) fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now = Millis::from_bits(at);
        match event {
            Event::Resume => {
                self.is_timed = false;
                self.pump();
            }
            Event::Transmit(frame) => self.transmit(frame),
            Event::Arrive(frame) => self.arrive(frame),
            Event::Acknowledge(frame) => self.acknowledge(frame),
            Event::Receipt(bytes) => {
                assert!(
                    self.window.handle_receipt(self.now, bytes),
                    "the oldest mark is confirmed"
                );
                self.pump();
            }
        }
        true
    }

    pub(super) fn run_until(&mut self, end: Millis) {
        // The bits of positive numbers have their order.
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end.to_bits()) {
            self.step();
        }
        self.now = end;
    }

    fn after(&mut self, time: Millis, event: Event) {
        self.events.insert(((self.now + time).to_bits(), self.events_added), event);
        self.events_added += 1;
    }

    fn pump(&mut self) {
        self.window.handle_buffered(self.waiting.iter().map(|frame| frame.bytes() as usize).sum());
        while self.given_bytes < self.content_bytes
            && self.window.room() > 0.0
            && self.waiting.len() < WAITING_MAX
        {
            let pause = self.window.pause(self.now);
            if pause > 0.0 {
                if !self.is_timed {
                    self.after(pause, Event::Resume);
                    self.is_timed = true;
                }
                return;
            }
            let start = self.given_bytes;
            let bytes = self.window.frame_bytes().min(FRAME_BYTES_MAX);
            let is_marked = self.window.asks_for(bytes);
            self.window.handle_sent(self.now, bytes, is_marked);
            self.given_bytes += bytes as u64;
            self.waiting.push_back(Frame { start, end: self.given_bytes, is_marked });
            self.flush();
        }
    }

    fn flush(&mut self) {
        while self.in_flight < self.congestion_window
            && let Some(frame) = self.waiting.pop_front()
        {
            self.in_flight += frame.bytes();
            self.transmit(frame);
        }
    }

    fn transmit(&mut self, frame: Frame) {
        let Line { rate, one_way, queue_bytes } = self.line;
        let bytes = (frame.bytes() / PACKET_BYTES).ceil() * HEADER_BYTES + frame.bytes();
        let wait = (self.line_free_at - self.now).max(0.0);
        self.wire_bytes += bytes;
        if wait * rate + bytes <= queue_bytes {
            self.waits.push(wait);
            self.line_free_at = self.now + wait + bytes / rate;
            self.after(wait + bytes / rate + one_way, Event::Arrive(frame));
        } else {
            self.dropped_bytes += bytes;
            self.congestion_window = (self.congestion_window / 2.0).max(2.0 * PACKET_BYTES);
            self.threshold = self.congestion_window;
            // The next acknowledgement shows the loss.
            self.after(2.0 * one_way + 10.0, Event::Transmit(frame));
        }
    }

    /// Frames are delivered in order: what follows a dropped one waits for it.
    fn arrive(&mut self, frame: Frame) {
        self.after(self.line.one_way, Event::Acknowledge(frame));
        self.arrived.insert(frame.start, frame);
        while let Some(next) = self.arrived.remove(&self.delivered_bytes) {
            self.delivered_bytes = next.end;
            if next.is_marked {
                self.after(self.line.one_way, Event::Receipt(next.end));
            }
        }
    }

    fn acknowledge(&mut self, frame: Frame) {
        self.in_flight -= frame.bytes();
        self.congestion_window += match self.congestion_window < self.threshold {
            true => frame.bytes(),
            false => PACKET_BYTES * frame.bytes() / self.congestion_window,
        };
        self.flush();
    }
}
