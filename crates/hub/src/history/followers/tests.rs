use std::collections::BTreeMap;

use watchfire_types::Rng;

use super::*;

const BOUNDS: Bounds = Bounds { messages: 4, age: Duration::from_secs(600), bytes: 1_000 };
const EPOCH: u64 = 7;
const NOW: Instant = Instant::from_nanos(1 << 60);

fn stored(sequence: u64) -> Stored {
    let message = Message { event: "e".into(), payload: sequence.to_string().into() };
    Stored { sequence, age: Duration::ZERO, message }
}

fn position(offset: u64) -> Position {
    Position { epoch: EPOCH, offset }
}

fn read(sequences: &[u64], complete_from: u64, last: u64) -> ReadTopic {
    let messages = sequences.iter().map(|sequence| stored(*sequence)).collect();
    ReadTopic { epoch: EPOCH, messages, complete_from, last }
}

struct Process {
    followers: Followers,
    read: Option<ReadRequest>,
    delivered: Vec<u64>,
    resets: usize,
}

impl Process {
    fn new() -> Self {
        let followers = Followers::new(1 << 20);
        Process { followers, read: None, delivered: Vec::new(), resets: 0 }
    }

    /// A process with a client on the topic `t`, which has these messages.
    fn with(sequences: &[u64], complete_from: u64, last: u64) -> Self {
        let mut process = Process::new();
        process.followers.open(NOW, "t", BOUNDS);
        process.run();
        process.answer(read(sequences, complete_from, last));
        process.followers.add_shard(NOW, "t", BOUNDS);
        process
    }

    fn run(&mut self) {
        while let Some(output) = self.followers.poll_output() {
            match output {
                FollowerOutput::Read { request, .. } => self.read = Some(request),
                FollowerOutput::Deliver { after, position, message, .. } => {
                    assert_eq!(
                        after.offset,
                        self.delivered.last().copied().unwrap_or(after.offset)
                    );
                    assert_eq!(*message.payload, *position.offset.to_string());
                    self.delivered.push(position.offset);
                }
                FollowerOutput::Reset { .. } => self.resets += 1,
                _ => {}
            }
        }
    }

    fn answer(&mut self, read: ReadTopic) {
        let request = self.read.take().expect("a read was asked for");
        self.followers.handle_read(NOW, "t", request.number, read);
        self.run();
    }

    fn stored(&mut self, before: u64, sequence: u64) {
        self.followers.handle_stored(NOW, "t", before, stored(sequence));
        self.run();
    }

    fn since(&mut self, offset: u64) -> Option<Vec<u64>> {
        let since = self.followers.since(NOW, "t", position(offset), 0)?;
        Some(since.into_iter().map(|(position, _)| position.offset).collect())
    }
}

#[test]
fn the_next_message_is_delivered_and_an_old_one_is_not() {
    let mut process = Process::with(&[11, 14], 0, 14);
    process.stored(14, 20);
    process.stored(11, 14);
    process.stored(20, 21);
    assert_eq!(process.delivered, [20, 21]);
    assert_eq!(process.read, None);
}

#[test]
fn a_message_after_a_gap_waits_for_those_before_it() {
    let mut process = Process::with(&[14], 0, 14);
    process.stored(20, 31);
    assert_eq!(process.delivered.len(), 0);
    let request = process.read.unwrap();
    assert_eq!((request.after, request.until), (14, 20));
    process.stored(31, 32);
    process.answer(read(&[17, 20], 3, 20));
    assert_eq!(process.delivered, [17, 20, 31, 32]);
    assert_eq!((process.read, process.resets), (None, 0));
}

#[test]
fn when_missing_messages_are_gone_the_clients_are_told() {
    let mut process = Process::with(&[14], 0, 14);
    process.stored(20, 31);
    process.answer(read(&[20, 31], 19, 31));
    assert_eq!((process.delivered.len(), process.resets), (0, 1));
    assert_eq!(process.read.unwrap().after, 0);
    process.answer(read(&[20, 31], 19, 31));
    assert_eq!(process.since(14), None);
    assert_eq!(process.since(20), Some(vec![31]));
}

#[test]
fn when_missing_messages_cannot_be_read_the_clients_are_told() {
    let mut process = Process::with(&[14], 0, 14);
    process.stored(20, 31);
    let number = process.read.unwrap().number;
    process.followers.handle_unread("t", number);
    process.run();
    assert_eq!(process.resets, 1);
    assert!(process.followers.position("t").is_none());
}

#[test]
fn a_client_is_complete_from_the_first_sequence_of_which_nothing_was_dropped() {
    let mut process = Process::with(&[11, 14], 8, 14);
    assert_eq!(process.since(8), Some(vec![11, 14]));
    assert_eq!(process.since(12), Some(vec![14]));
    assert_eq!(process.since(7), None);
    let other = Position { epoch: EPOCH + 1, offset: 12 };
    assert_eq!(process.followers.since(NOW, "t", other, 0), None);
    for sequence in 15..=18 {
        process.stored(sequence - 1, sequence);
    }
    assert_eq!(process.since(11), None, "the rule keeps four messages");
    assert_eq!(process.since(14), Some(vec![15, 16, 17, 18]));
}

#[test]
fn a_position_ahead_of_the_process_is_known_if_the_stream_has_reached_it() {
    let mut process = Process::with(&[14], 0, 14);
    assert_eq!(process.followers.since(NOW, "t", position(20), 25), Some(vec![]));
    assert_eq!(process.followers.since(NOW, "t", position(26), 25), None);
}

#[test]
fn a_lost_last_message_is_found_by_comparing() {
    let mut process = Process::with(&[14], 0, 14);
    let compared = process.followers.to_compare(None, |_| true, 40, 10);
    assert_eq!(compared, [("t".into(), 14)]);
    process.followers.handle_compared("t", 14, 17, 40, 1);
    process.run();
    process.answer(read(&[17], 0, 17));
    assert_eq!(process.delivered, [17]);
    process.followers.handle_compared("t", 17, 0, 40, 1);
    assert_eq!(process.followers.to_compare(None, |_| true, 40, 10), []);
}

#[test]
fn after_an_interruption_a_dropped_message_is_not_passed_over() {
    let mut process = Process::with(&[14], 0, 14);
    process.stored(0, 30);
    assert_eq!(process.delivered, [30], "14 has expired, and nothing was between");
    process.followers.handle_interruption();
    process.stored(0, 50);
    process.answer(read(&[50], 45, 50));
    assert_eq!((&*process.delivered, process.resets), (&[30][..], 1));
}

#[test]
fn clients_that_joined_before_the_first_read_join_again() {
    let mut process = Process::new();
    process.followers.add_shard(NOW, "t", BOUNDS);
    process.followers.open(NOW, "t", BOUNDS);
    process.run();
    process.answer(read(&[14], 0, 14));
    assert_eq!(process.resets, 1);
}

#[test]
fn a_topic_without_clients_goes_after_its_age_and_is_followed_no_more() {
    let mut process = Process::with(&[14], 0, 14);
    let later = |secs| NOW + Duration::from_secs(secs);
    process.followers.handle_tick(later(10_000));
    assert_eq!(process.followers.totals().topics, 1);
    assert_eq!(process.followers.totals().messages, 0);
    process.followers.remove_shard(later(10_000), "t");
    process.followers.handle_tick(later(10_600));
    assert_eq!(process.followers.totals().topics, 1);
    process.followers.handle_tick(later(10_601));
    let unfollow = FollowerOutput::Unfollow { topic: "t".into(), bounds: BOUNDS };
    assert_eq!(process.followers.poll_output(), Some(unfollow));
    assert_eq!(process.followers.totals().memory_bytes, 0);
}

#[test]
fn the_memory_of_all_topics_is_bounded_and_topics_with_clients_stay() {
    let mut followers = Followers::new(100_000);
    for number in 0..1_000 {
        let topic = format!("t:{number}");
        followers.open(NOW + Duration::from_millis(number), &topic, BOUNDS);
        let output = std::iter::from_fn(|| followers.poll_output()).last();
        let Some(FollowerOutput::Read { request, .. }) = output else { panic!("{output:?}") };
        followers.handle_read(NOW, &topic, request.number, read(&[5, 6], 0, 6));
        if number < 10 {
            followers.add_shard(NOW, &topic, BOUNDS);
        }
    }
    followers.handle_tick(NOW + Duration::from_secs(1));
    let totals = followers.totals();
    assert!(totals.memory_bytes <= 100_000 && totals.topics < 1_000, "{totals:?}");
    assert!(totals.dropped_topics > 0);
    assert_eq!(followers.position("t:0"), Some(position(6)));
    assert_eq!(followers.position("t:20"), None);
}

#[test]
fn other_limits_begin_a_topic_again_with_its_clients() {
    let mut process = Process::with(&[14], 0, 14);
    let other = Bounds { messages: 9, ..BOUNDS };
    process.followers.set_bounds(NOW, |_| Some(BOUNDS));
    assert_eq!(process.followers.poll_output(), None);
    process.followers.set_bounds(NOW, |_| Some(other));
    let outputs: Vec<_> = std::iter::from_fn(|| process.followers.poll_output()).collect();
    assert_eq!(
        outputs,
        [
            FollowerOutput::Reset { topic: "t".into() },
            FollowerOutput::Unfollow { topic: "t".into(), bounds: BOUNDS },
            FollowerOutput::Follow { topic: "t".into(), bounds: other },
        ]
    );
    process.followers.handle_tick(NOW);
    process.run();
    assert!(process.read.is_some(), "it has clients, so it is read");
}

/// A stream with one topic and others, as an engine keeps it.
struct Stream {
    /// The kept messages of the topic.
    kept: BTreeMap<u64, ()>,
    first: u64,
    last: u64,
}

impl Stream {
    fn publish(&mut self) -> (u64, u64) {
        let before = self.kept.keys().next_back().copied().unwrap_or(0);
        self.last += 1;
        self.kept.insert(self.last, ());
        if self.kept.len() > BOUNDS.messages {
            self.kept.pop_first();
        }
        (before, self.last)
    }

    /// Drops the oldest messages of all topics.
    fn expire(&mut self, first: u64) {
        self.first = self.first.max(first.min(self.last + 1));
        self.kept = self.kept.split_off(&self.first);
    }

    fn read(&self, after: u64) -> ReadTopic {
        let sequences: Vec<u64> =
            self.kept.range(after + 1..).map(|(number, ())| *number).collect();
        let is_full = sequences.len() >= BOUNDS.messages;
        let complete_from = if is_full { sequences[0] } else { self.first - 1 };
        let empty = if self.kept.is_empty() { self.last } else { 0 };
        let last = sequences.last().copied().unwrap_or(after.max(empty));
        read(&sequences, complete_from, last)
    }
}

/// A client that joins with its last position after each reset.
#[derive(Default)]
struct Client {
    position: Option<u64>,
    has: Vec<u64>,
    /// Up to each of these, it was told that it may have missed messages.
    told: Vec<u64>,
}

impl Client {
    fn join(&mut self, process: &mut Process, stream_last: u64) {
        let now = process.followers.position("t").expect("it was read").offset;
        let since = |offset| position(offset);
        let missed =
            self.position.map(|at| process.followers.since(NOW, "t", since(at), stream_last));
        match missed {
            Some(Some(missed)) => {
                self.has.extend(missed.iter().map(|(position, _)| position.offset));
                self.position = self.position.max(Some(now));
            }
            Some(None) => {
                self.told.push(now);
                self.position = Some(now);
            }
            None => self.position = Some(now),
        }
    }
}

impl Process {
    /// Compares the topic with the stream, as a process does once a second.
    fn compare(&mut self, stream: &Stream) {
        for (_, known) in self.followers.to_compare(None, |_| true, stream.last, 1) {
            let last = stream.kept.keys().next_back().copied().unwrap_or(0);
            let last = if last > known { last } else { 0 };
            self.followers.handle_compared("t", known, last, stream.last, stream.first);
            self.run();
        }
    }
}

/// Each step loses, delays or reorders what a real network and a real stream may. At the end, a client has
/// each message once and in order, or was told after the last one that it has not.
#[test]
fn no_message_is_missed_in_silence() {
    let (mut told, mut delivered) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = Rng::from_seed(seed);
        let mut stream = Stream { kept: BTreeMap::new(), first: 1, last: 0 };
        let mut process = Process::with(&[], 0, 0);
        let mut client = Client { position: Some(0), ..Client::default() };
        let (mut published, mut late) = (Vec::new(), Vec::new());
        for step in 0..60 {
            let is_over = step >= 50;
            match if is_over { 3 + step % 2 } else { rng.below(9) } {
                0..=2 => {
                    let (before, sequence) = stream.publish();
                    published.push(sequence);
                    match rng.below(4) {
                        0 => {}
                        1 => late.push((before, sequence)),
                        _ => process.stored(before, sequence),
                    }
                }
                3 => {
                    let read = process.read.map(|request| stream.read(request.after));
                    let until = process.read.map_or(0, |request| request.until);
                    // The driver reads again while a replica lags.
                    if let Some(read) =
                        read.filter(|read| read.last >= until || stream.first > until)
                    {
                        process.answer(read);
                    }
                }
                4 => process.compare(&stream),
                5 => {
                    stream.last += rng.below(3); // Messages of other topics.
                }
                6 if rng.below(3) == 0 => {
                    process.followers.handle_interruption();
                    let first = stream.first + rng.below(4);
                    stream.expire(first);
                }
                7 if !late.is_empty() => {
                    let at = rng.below(late.len() as u64) as usize;
                    let (before, sequence) = late.swap_remove(at);
                    process.stored(before, sequence);
                }
                _ => {}
            }
            if process.resets > 0 {
                process.delivered.clear();
                if process.followers.position("t").is_some() {
                    process.resets = 0;
                    client.join(&mut process, stream.last);
                }
                continue;
            }
            client.has.append(&mut process.delivered);
            client.position = client.has.last().copied().max(client.position);
        }
        assert!(client.has.is_sorted_by(|one, other| one < other), "seed {seed}: {:?}", client.has);
        let told_up_to = client.told.last().copied().unwrap_or(0);
        let missing = published.iter().filter(|sequence| !client.has.contains(sequence));
        let silent: Vec<_> = missing.filter(|sequence| **sequence > told_up_to).collect();
        assert!(silent.is_empty(), "seed {seed}: {silent:?} are missing: {:?}", client.has);
        (told, delivered) = (told + client.told.len(), delivered + client.has.len());
    }
    assert!(told > 300 && delivered > 15_000, "told {told} times, {delivered} delivered");
}
