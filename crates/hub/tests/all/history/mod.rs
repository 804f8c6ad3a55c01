//! Histories: the logs of topics, compared with a list of every message, and processes that follow them.

use std::collections::VecDeque;
use std::time::Duration;

use watchfire_hub::history::{
    Bounds, FollowerOutput, Followers, Logs, Message, Placed, Position, ReadTopic, Stored,
};
use watchfire_types::{Instant, Rng};

const EPOCH: u64 = 7;
const BOUNDS: Bounds = Bounds { messages: 100, age: Duration::from_secs(60), bytes: 1 << 20 };
const MEMORY_BYTES_MAX: usize = 64 << 20;

fn at(secs: u64) -> Instant {
    Instant::from_nanos(secs * 1_000_000_000)
}

fn of(offset: u64) -> Position {
    Position { epoch: EPOCH, offset }
}

fn message(payload: &str) -> Message {
    Message { event: "e".into(), payload: payload.into() }
}

fn since(logs: &mut Logs, topic: &str, offset: u64) -> Option<Vec<u64>> {
    let messages = logs.since(at(0), topic, of(offset))?;
    Some(messages.into_iter().map(|(position, _)| position.offset).collect())
}

#[test]
fn a_recovered_client_misses_no_message_and_gets_none_twice() {
    for seed in 1..=10_000_u64 {
        let mut rng = Rng::from_seed(seed);
        let mut below = |end: u64| rng.next_u64() % end;
        let bounds = Bounds {
            messages: below(6) as usize,
            age: Duration::from_nanos(below(20)),
            bytes: below(40) as usize,
        };
        let mut logs = Logs::new(EPOCH, MEMORY_BYTES_MAX);
        let (mut all, mut now) = (Vec::new(), 0);
        for _ in 0..30 {
            now += below(4);
            let payload = (all.len() % 10).to_string().repeat(below(9) as usize);
            logs.publish(Instant::from_nanos(now), "t", bounds, message(&payload));
            all.push(message(&payload));
            let offset = below(all.len() as u64 + 3);
            if let Some(messages) = logs.since(Instant::from_nanos(now), "t", of(offset)) {
                let offsets = messages.iter().map(|(position, _)| position.offset);
                assert!(offsets.eq(offset + 1..=all.len() as u64), "seed {seed}");
                let messages: Vec<_> = messages.into_iter().map(|(_, message)| message).collect();
                assert_eq!(messages, all[offset as usize..], "seed {seed}");
            } else {
                assert_ne!(offset, all.len() as u64, "seed {seed}: no message was missed");
            }
            assert!(logs.totals().messages <= bounds.messages, "seed {seed}");
        }
    }
}

#[test]
fn a_position_of_a_forgotten_log_is_not_taken_for_one_of_the_next() {
    let mut logs = Logs::new(EPOCH, MEMORY_BYTES_MAX);
    logs.add_shard(at(0), "quiet");
    for _ in 0..3 {
        logs.publish(at(0), "a", BOUNDS, message("1"));
    }
    assert_eq!((since(&mut logs, "a", 1), logs.position("b")), (Some(vec![2, 3]), of(0)));
    let other = Position { epoch: EPOCH + 1, offset: 3 };
    assert_eq!(logs.since(at(0), "a", other), None);
    // Its messages expire, and then it is forgotten.
    logs.handle_tick(at(100));
    assert_eq!((logs.totals().messages, logs.position("a")), (0, of(3)));
    (0..100).for_each(|_| logs.handle_tick(at(10_000)));
    assert_eq!(logs.totals().logs, 1, "the topic with a subscriber stays");
    assert_eq!((since(&mut logs, "a", 3), since(&mut logs, "a", 2)), (Some(vec![]), None));
    let placed = logs.publish(at(10_000), "a", BOUNDS, message("2"));
    assert_eq!(placed, Placed { after: of(3), position: of(4), is_first: true });
    let placed = logs.publish(at(10_000), "quiet", BOUNDS, message("1"));
    assert_eq!((placed.after, placed.position), (of(0), of(1)));
}

#[test]
fn joins_of_other_topics_cost_a_topic_no_message() {
    let mut logs = Logs::new(EPOCH, MEMORY_BYTES_MAX);
    for n in 0..10 {
        logs.add_shard(at(0), &format!("used:{n}"));
        logs.publish(at(0), &format!("used:{n}"), BOUNDS, message("1"));
    }
    for n in 0..126_000 {
        let topic = format!("junk:{n}");
        logs.add_shard(at(1), &topic);
        if n % 3 > 0 {
            logs.remove_shard(at(1), &topic);
        }
        if n % 1_000 == 0 {
            logs.handle_tick(at(1));
        }
    }
    let totals = logs.totals();
    assert_eq!((totals.messages, totals.dropped_logs, totals.logs), (10, 0, 10 + 42_000));
}

#[test]
fn over_the_bound_of_memory_the_least_recently_used_go() {
    let mut logs = Logs::new(EPOCH, 100_000);
    let payload = "x".repeat(1_000);
    for n in 0..100 {
        logs.publish(at(n), &format!("t:{n}"), BOUNDS, message(&payload));
    }
    logs.add_shard(at(0), "t:0");
    logs.handle_tick(at(100));
    let totals = logs.totals();
    assert!(totals.memory_bytes <= 87_500 && totals.dropped_logs < 50, "{totals:?}");
    assert_eq!(since(&mut logs, "t:99", 0), Some(vec![1]));
    assert_eq!((since(&mut logs, "t:0", 0), logs.position("t:0")), (None, of(1)));
}

/// A process that follows the topic `t`, the messages on their way to it, and its client.
struct Process {
    followers: Followers,
    arriving: VecDeque<Arriving>,
    /// The messages that its client has got, by offset.
    got: Vec<u64>,
    /// The position of the client; it joins again after each reset.
    position: Option<u64>,
    is_joined: bool,
    is_told: bool,
}

enum Arriving {
    Stored(u64, u64),
    Read(u64, ReadTopic),
}

impl Process {
    fn new() -> Self {
        let followers = Followers::new(1 << 20);
        let (arriving, got) = (VecDeque::new(), Vec::new());
        Process { followers, arriving, got, position: None, is_joined: false, is_told: false }
    }

    fn run(&mut self, logs: &mut Logs) {
        while let Some(output) = self.followers.poll_output() {
            match output {
                FollowerOutput::Read { request, .. } => {
                    let read = logs.read(at(0), "t", request.after);
                    self.arriving.push_back(Arriving::Read(request.number, read));
                }
                FollowerOutput::Deliver { position, .. } if self.is_joined => {
                    self.position = Some(position.offset);
                    self.got.push(position.offset);
                }
                FollowerOutput::Reset { .. } => {
                    self.is_joined = false;
                    self.followers.remove_shard(at(0), "t");
                }
                _ => {}
            }
        }
        if !self.is_joined {
            self.join(logs);
        }
    }

    fn join(&mut self, logs: &mut Logs) {
        if !self.followers.open(at(0), "t", SMALL) {
            return;
        }
        let now = self.followers.position("t").expect("it was read").offset;
        let from = self.position.unwrap_or(0);
        match self.followers.since(at(0), "t", of(from), u64::MAX) {
            Some(missed) => self.got.extend(missed.iter().map(|(position, _)| position.offset)),
            None => self.is_told = true,
        }
        (self.position, self.is_joined) = (Some(now.max(from)), true);
        self.followers.add_shard(at(0), "t", SMALL);
        self.run(logs);
    }

    fn arrive(&mut self, logs: &mut Logs) {
        match self.arriving.pop_front() {
            Some(Arriving::Stored(before, sequence)) => {
                let stored = Stored { sequence, age: Duration::ZERO, message: message("1") };
                self.followers.handle_stored(at(0), "t", before, stored);
            }
            Some(Arriving::Read(number, read)) => {
                self.followers.handle_read(at(0), "t", number, read);
            }
            None => {}
        }
        self.run(logs);
    }
}

const SMALL: Bounds = Bounds { messages: 5, ..BOUNDS };

/// The link to each process is in order, breaks, and is replaced. Another topic is forgotten meanwhile.
#[test]
fn processes_that_follow_the_logs_miss_no_message_in_silence() {
    let mut told = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::from_seed(seed);
        let mut logs = Logs::new(EPOCH, MEMORY_BYTES_MAX);
        let mut processes = [Process::new(), Process::new()];
        processes.iter_mut().for_each(|process| process.run(&mut logs));
        let mut published = Vec::new();
        for step in 0..400 {
            let process = &mut processes[rng.below(2) as usize];
            match if step < 300 { rng.below(20) } else { 10 } {
                0..=3 => {
                    let Placed { after, position, is_first } =
                        logs.publish(at(0), "t", SMALL, message("1"));
                    let before = if is_first { 0 } else { after.offset };
                    published.push(position.offset);
                    let stored = || Arriving::Stored(before, position.offset);
                    processes.iter_mut().for_each(|process| process.arriving.push_back(stored()));
                }
                4 => {
                    (0..rng.below(3)).for_each(|_| {
                        logs.publish(at(0), "other", SMALL, message("1"));
                    });
                }
                5 if rng.below(20) == 0 => {
                    // Everything that has a log is forgotten. A log that clients use would not be.
                    if processes.iter().all(|process| process.got.is_empty()) {
                        (0..200).for_each(|_| logs.handle_tick(at(100_000)));
                    }
                }
                6 if rng.below(3) == 0 => {
                    process.arriving.clear();
                    process.followers.handle_relink();
                    process.run(&mut logs);
                }
                _ => process.arrive(&mut logs),
            }
        }
        for process in &processes {
            assert!(process.got.is_sorted_by(|one, other| one < other), "seed {seed}");
            told += u64::from(process.is_told);
            if !process.is_told {
                assert_eq!(process.got, published, "seed {seed}");
            }
        }
    }
    assert!((100..3_900).contains(&told), "{told} of 4,000 were told");
}
