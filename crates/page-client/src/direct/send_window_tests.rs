//! The send window on simulated lines, with bad peers, and compared with that of the browser.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::line::{Line, SimulatedPath};
use super::send_window::{BYTES_MAX, Millis, START_BYTES, SendWindow};

const MBIT: f64 = 125.0;

fn path(rate: f64, one_way: Millis) -> SimulatedPath {
    SimulatedPath::new(Line { rate, one_way, queue_bytes: 524_288.0 }, u64::MAX)
}

impl SimulatedPath {
    /// The share of the line that the sender has from now on for some time.
    fn share_for(&mut self, time: Millis) -> f64 {
        let before = self.delivered_bytes;
        self.run_until(self.now + time);
        (self.delivered_bytes - before) as f64 / (time * self.line.rate)
    }

    fn middle_wait(&self) -> Millis {
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        waits[waits.len() / 2]
    }
}

#[test]
fn a_window_fills_a_line_and_does_not_overflow_its_queue() {
    for (mbit, one_way) in
        [(100.0, 10.0), (100.0, 25.0), (100.0, 50.0), (100.0, 100.0), (20.0, 25.0), (5.0, 25.0)]
    {
        let mut path = path(mbit * MBIT, one_way);
        path.run_until(30.0 * one_way);
        path.waits.clear();
        let share = path.share_for(2_000.0);
        let what = format!("{mbit} Mbit/s, {one_way} ms: {share}, {} lost", path.dropped_bytes);
        assert!(share > 0.85 && path.dropped_bytes == 0.0, "{what}");
        assert!(path.middle_wait() < 50.0, "{}", path.middle_wait());
    }
}

#[test]
fn a_window_follows_a_line_that_falls_from_100_mbit_to_1_and_rises_again() {
    let mut path = path(100.0 * MBIT, 25.0);
    path.run_until(2_000.0);
    path.line.rate = MBIT;
    path.run_until(10_000.0);
    path.waits.clear();
    let share = path.share_for(5_000.0);
    assert!(share > 0.8 && path.middle_wait() < 400.0, "{share}, {}", path.middle_wait());
    path.line.rate = 100.0 * MBIT;
    path.run_until(path.now + 5_000.0);
    // SCTP has halved its own window, and grows it by a packet in each round trip.
    assert!(path.share_for(1_000.0) > 0.2);
}

#[test]
fn a_window_follows_a_path_that_becomes_longer() {
    let mut path = path(100.0 * MBIT, 10.0);
    path.run_until(2_000.0);
    path.line.one_way = 60.0;
    path.run_until(6_000.0);
    assert!(path.share_for(2_000.0) > 0.6);
}

#[test]
fn a_line_with_a_short_queue_is_left_to_sctp() {
    let mut path = path(100.0 * MBIT, 25.0);
    path.line.queue_bytes = 65_536.0;
    path.run_until(1_000.0);
    assert!(path.share_for(5_000.0) > 0.25 && path.dropped_bytes > 0.0);
}

#[test]
fn a_peer_that_confirms_nothing_gets_the_first_window() {
    let mut sender = Sender::new();
    sender.step(0.0, 0, 0);
    assert_eq!((sender.sent_bytes, sender.window.room()), (START_BYTES as u64, 0.0));
}

#[test]
fn a_frame_may_leave_with_a_mark_after_many_frames_that_nobody_confirms() {
    let mut window = SendWindow::new();
    window.handle_sent(0.0, 1000, true);
    assert!(window.handle_receipt(10.0, 1000));
    for _receipt in 0..20_000 {
        window.handle_sent(20.0, 9, false);
    }
    assert!(window.room() > 0.0 && window.asks_for(100));
    window.handle_sent(30.0, 100, true);
    assert!(window.room() < 0.0);
    assert!(window.handle_receipt(40.0, 181_100));
    assert!(window.room() > 60_000.0);
}

/// Its receipts come before what they confirm can have arrived, or no clock moves.
#[test]
fn a_peer_that_confirms_all_at_once_gets_no_more_than_the_largest_window() {
    let mut sender = Sender::new();
    let mut received_bytes = 0;
    for _ in 0..2_000 {
        let receipts = usize::from(!sender.marks.is_empty());
        received_bytes = sender.marks.front().copied().unwrap_or(received_bytes);
        sender.step(0.0, 0, receipts);
        assert!(sender.sent_bytes - received_bytes <= (BYTES_MAX + 16_384) as u64);
        assert!(sender.marks.len() <= BYTES_MAX / (32 << 10) + 2, "{}", sender.marks.len());
    }
    let under_way = (sender.sent_bytes - received_bytes) as f64;
    assert_eq!(sender.window.room(), BYTES_MAX as f64 - under_way);
    assert!(!sender.window.handle_receipt(0.0, sender.sent_bytes + 1), "it was not sent");
}

/// A scenario of `tests/vectors/send_windows.json`, which the browser's window must pass too.
#[derive(Debug, Serialize, Deserialize)]
struct Scenario {
    name: String,
    /// The time, what waits in SCTP, and the marks that are confirmed now; then, after all was sent that may be sent,
    /// the room, the pause and the longest frame.
    steps: Vec<(Millis, usize, usize, f64, Millis, usize)>,
}

struct Sender {
    window: SendWindow,
    sent_bytes: u64,
    /// All bytes up to each mark without a receipt.
    marks: VecDeque<u64>,
}

impl Sender {
    fn new() -> Self {
        Sender { window: SendWindow::new(), sent_bytes: 0, marks: VecDeque::new() }
    }

    /// Passes the inputs of a step to the window, and sends all that may be sent. Returns the frames: their bytes and marks.
    fn step(&mut self, now: Millis, buffered: usize, receipts: usize) -> Vec<(usize, bool)> {
        let window = &mut self.window;
        window.handle_buffered(buffered);
        for mark in self.marks.drain(..receipts) {
            assert!(window.handle_receipt(now, mark), "at {now} ms");
        }
        let mut sent = Vec::new();
        while window.room() > 0.0 && window.pause(now) == 0.0 {
            let bytes = window.frame_bytes().min(16_384);
            let is_marked = window.asks_for(bytes);
            window.handle_sent(now, bytes, is_marked);
            self.sent_bytes += bytes as u64;
            if is_marked {
                self.marks.push_back(self.sent_bytes);
            }
            sent.push((bytes, is_marked));
        }
        sent
    }
}

#[test]
fn the_browser_has_the_same_window() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/send_windows.json");
    if std::env::var_os("WATCHFIRE_WRITE_SCENARIOS").is_some() {
        std::fs::write(file, written(&scenarios())).expect("the file is written");
    }
    let text = std::fs::read_to_string(file).expect("the vectors are there");
    let scenarios: Vec<Scenario> = serde_json::from_str(&text).expect("they are valid");
    assert_eq!(scenarios.len(), 6);
    for Scenario { name, steps } in scenarios {
        let mut sender = Sender::new();
        for (now, buffered, receipts, room, pause, frame_bytes) in steps {
            sender.step(now, buffered, receipts);
            let window = &mut sender.window;
            let what = format!("{name}, at {now} ms");
            assert_eq!(window.frame_bytes(), frame_bytes, "{what}");
            assert!((window.room() - room).abs() < 0.001, "{what}: {} for {room}", window.room());
            let now_pause = window.pause(now);
            assert!((now_pause - pause).abs() < 0.001, "{what}: {now_pause} for {pause}");
        }
    }
}

/// A line without a limit to its queue, the time between two steps, and the time for which the receiver is busy at once.
fn scenario(
    name: &str,
    every: Millis,
    busy: Millis,
    line_at: impl Fn(Millis) -> (f64, Millis),
    buffered_at: impl Fn(Millis) -> usize,
) -> Scenario {
    let mut sender = Sender::new();
    let (mut free_at, mut receipts_at) = (0.0_f64, VecDeque::new());
    let mut steps = Vec::new();
    for at in 0..160 {
        let now = f64::from(at) * every;
        let (rate, one_way) = line_at(now);
        let receipts = receipts_at.iter().take_while(|at| **at <= now).count();
        receipts_at.drain(..receipts);
        let buffered = buffered_at(now);
        for (bytes, is_marked) in sender.step(now, buffered, receipts) {
            free_at = free_at.max(now) + bytes as f64 / rate;
            if is_marked {
                let read_at = free_at + one_way;
                let read_at = if busy > 0.0 { (read_at / busy).ceil() * busy } else { read_at };
                receipts_at.push_back(read_at + one_way);
            }
        }
        let window = &mut sender.window;
        let thousandths = |value: f64| (value * 1e3).round() / 1e3;
        let (room, pause) = (thousandths(window.room()), thousandths(window.pause(now)));
        steps.push((now, buffered, receipts, room, pause, window.frame_bytes()));
    }
    Scenario { name: name.to_owned(), steps }
}

fn scenarios() -> Vec<Scenario> {
    let line = |mbit: f64, one_way: Millis| move |_: Millis| (mbit * MBIT, one_way);
    let free = |_: Millis| 0;
    let falls = |now: Millis| (if now < 800.0 { 100.0 * MBIT } else { MBIT }, 25.0);
    let longer = |now: Millis| (100.0 * MBIT, if now < 600.0 { 10.0 } else { 60.0 });
    let held = |now: Millis| if now > 400.0 && now < 900.0 { 50_000 } else { 0 };
    vec![
        scenario("a line of 100 Mbit/s and 25 ms", 7.5, 0.0, line(100.0, 25.0), free),
        scenario("a line that falls from 100 Mbit/s to 1", 20.0, 0.0, falls, free),
        scenario("a path that becomes longer", 12.5, 0.0, longer, free),
        scenario("one machine", 0.5, 0.0, line(1_000.0, 0.25), free),
        scenario("a tab that is busy", 10.0, 80.0, line(20.0, 25.0), free),
        scenario("SCTP keeps bytes waiting", 10.0, 0.0, line(20.0, 25.0), held),
    ]
}

/// Five steps in a line.
fn written(scenarios: &[Scenario]) -> String {
    let scenario = |Scenario { name, steps }: &Scenario| {
        let lines = steps.chunks(5).map(|steps| {
            let steps = steps
                .iter()
                .map(|step| serde_json::to_string(step).expect("numbers"))
                .collect::<Vec<_>>();
            format!("      {}", steps.join(", "))
        });
        let lines = lines.collect::<Vec<_>>().join(",\n");
        format!("  {{\n    \"name\": \"{name}\",\n    \"steps\": [\n{lines}\n    ]\n  }}")
    };
    format!("[\n{}\n]\n", scenarios.iter().map(scenario).collect::<Vec<_>>().join(",\n"))
}
