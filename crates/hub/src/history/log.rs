//! The log of one topic.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchfire_types::Instant;

use crate::history::position::Position;
use crate::tables::should_shrink;

/// Epochs of one log. A client with a position of an earlier one is not recovered.
const EPOCHS_MAX: usize = 16;
/// The messages whose origin a log remembers, to recognise one that is sent again. More messages of a
/// topic are hardly ever on their way together.
const ORIGINS_MAX: usize = 256;
/// The memory of the two texts of a kept message besides themselves: each has two counts, and the
/// allocator adds 16 bytes on average.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// How much of a topic is kept. The oldest messages are dropped at the first bound that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub messages: usize,
    /// The longest time that a message is kept.
    pub age: Duration,
    /// The most bytes of all messages together.
    pub bytes: usize,
}

impl Bounds {
    /// The bounds of a log that keeps nothing.
    pub const NOTHING: Bounds = Bounds { messages: 0, age: Duration::ZERO, bytes: 0 };
}

/// A message of a topic. Its copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub event: Arc<str>,
    pub payload: Arc<str>,
}

impl Message {
    pub fn len(&self) -> usize {
        self.event.len() + self.payload.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&*self.event, &*self.payload).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (event, payload) = <(String, String)>::deserialize(deserializer)?;
        Ok(Message { event: event.into(), payload: payload.into() })
    }
}

/// Where a message was published: it names the message once among all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The number of the process's node.
    pub node: u16,
    /// Random: another process with the same node has another one.
    pub incarnation: u64,
    /// The number of the message in its process.
    pub number: u64,
}

pub type Positioned = (Position, Message);

/// A part of a log, written by one process without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Epoch {
    id: u64,
    /// The last offset before this epoch.
    before: u64,
}

/// A log, or its end, on its way to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogImage {
    generation: u32,
    epochs: Vec<Epoch>,
    origins: Vec<Origin>,
    last: u64,
    /// The last messages, with their ages in nanoseconds.
    messages: Vec<(u64, Message)>,
}

/// How the log of another process compares with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both have the same messages.
    Same,
    /// The other one is the beginning of this one.
    Older,
    /// This one is the beginning of the other one, or the other one replaces it.
    Newer,
    /// Each has messages that the other one lacks.
    Diverged,
}

/// The recent messages of one topic.
///
/// Offsets count the messages from 1, without gaps. A process that begins to write the log begins an
/// *epoch* with a random id, so two processes that write at the same time never give two messages the same
/// position. The log remembers where its epochs end.
#[derive(Debug)]
pub struct Log {
    /// How often the copies of this topic's log diverged, so that it began again.
    generation: u32,
    epochs: VecDeque<Epoch>,
    /// Of the last messages, which may not be kept any more.
    origins: VecDeque<Origin>,
    last: u64,
    bytes: usize,
    messages: VecDeque<(Instant, Message)>,
}

impl Log {
    /// An empty log. The caller chooses a random epoch.
    pub fn new(epoch: u64) -> Self {
        let epochs = VecDeque::from([Epoch { id: epoch, before: 0 }]);
        let (origins, messages) = (VecDeque::new(), VecDeque::new());
        Log { generation: 0, epochs, origins, last: 0, bytes: 0, messages }
    }

    /// An empty log that replaces this one, because its copies diverged. It replaces all of them.
    pub fn restarted(&self, epoch: u64) -> Self {
        Log { generation: self.generation.saturating_add(1), ..Log::new(epoch) }
    }

    /// Whether one of the last messages has this origin.
    pub fn has(&self, origin: Origin) -> bool {
        self.origins.contains(&origin)
    }

    /// The last messages that a process published, by their numbers.
    pub fn numbers_of(&self, incarnation: u64) -> impl Iterator<Item = u64> {
        self.origins
            .iter()
            .filter(move |origin| origin.incarnation == incarnation)
            .map(|origin| origin.number)
    }

    /// Remembers the origin of the message that is pushed next.
    pub fn note_origin(&mut self, origin: Origin) {
        if self.origins.len() == ORIGINS_MAX {
            self.origins.pop_front();
        }
        self.origins.push_back(origin);
    }

    pub fn position(&self) -> Position {
        Position { epoch: self.current().id, offset: self.last }
    }

    /// Whether it never had a message.
    pub fn is_blank(&self) -> bool {
        self.last == 0
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory of the log, with its vacant places for messages.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
            + self.messages.len() * MESSAGE_OVERHEAD_BYTES
            + self.messages.capacity() * size_of::<(Instant, Message)>()
            + self.origins.capacity() * size_of::<Origin>()
            + self.epochs.capacity() * size_of::<Epoch>()
    }

    fn current(&self) -> Epoch {
        *self.epochs.back().expect("a log has an epoch")
    }

    /// Adds a message, and returns its position. Another epoch than the current one begins with it. A
    /// message over the bound of bytes gets an offset but is not kept.
    pub fn push(
        &mut self,
        now: Instant,
        bounds: &Bounds,
        epoch: u64,
        message: Message,
    ) -> Position {
        if self.current().id != epoch {
            self.epochs.push_back(Epoch { id: epoch, before: self.last });
            if self.epochs.len() > EPOCHS_MAX {
                self.epochs.pop_front();
            }
        }
        self.last += 1;
        self.bytes += message.len();
        self.messages.push_back((now, message));
        self.expire(now, bounds);
        self.position()
    }

    /// Drops the messages that exceed a bound, and gives back the places of a burst of them.
    pub fn expire(&mut self, now: Instant, bounds: &Bounds) {
        while let Some((at, message)) = self.messages.front() {
            let exceeds = self.messages.len() > bounds.messages
                || self.bytes > bounds.bytes
                || now.since(*at) > bounds.age;
            if !exceeds {
                break;
            }
            self.bytes -= message.len();
            self.messages.pop_front();
        }
        if should_shrink(self.messages.len(), self.messages.capacity()) {
            self.messages.shrink_to(self.messages.len() * 2);
        }
    }

    /// Drops all messages. The log still knows its position.
    pub fn clear(&mut self) {
        self.messages = VecDeque::new();
        self.bytes = 0;
    }

    /// The kept messages after a position, oldest first. `None`: some were dropped, or the position
    /// is not one of this log.
    pub fn since(&self, position: Position) -> Option<Vec<Positioned>> {
        let epoch = self.epochs.iter().rposition(|epoch| epoch.id == position.epoch)?;
        // A process that is gone may have delivered a message that no other process has. Its epoch
        // ended before that message, which its publisher may have sent again since.
        let is_known = self.epochs[epoch].before..=self.end_of(epoch);
        if !is_known.contains(&position.offset) {
            return None;
        }
        let missed = usize::try_from(self.last - position.offset).ok()?;
        (missed <= self.messages.len()).then(|| self.newest(missed))
    }

    /// The last messages, oldest first.
    pub fn newest(&self, count: usize) -> Vec<Positioned> {
        let count = count.min(self.messages.len());
        let skipped = self.messages.len() - count;
        let first = self.last - count as u64 + 1;
        let messages = self.messages.iter().skip(skipped).zip(first..);
        messages.map(|((_, message), offset)| (self.position_of(offset), message.clone())).collect()
    }

    /// The position of a message that is not older than the oldest known epoch.
    fn position_of(&self, offset: u64) -> Position {
        let epoch = self.epochs.iter().rev().find(|epoch| epoch.before < offset);
        Position { epoch: epoch.unwrap_or(&self.epochs[0]).id, offset }
    }

    pub fn contains(&self, position: Position) -> bool {
        position.offset <= self.last && self.position_of(position.offset) == position
    }

    fn end_of(&self, epoch: usize) -> u64 {
        self.epochs.get(epoch + 1).map_or(self.last, |next| next.before)
    }

    /// The whole log for a process; only the end if `known` is a position of it.
    pub fn image(&self, now: Instant, known: Option<Position>) -> LogImage {
        let missed =
            known.filter(|known| self.contains(*known)).map(|known| self.last - known.offset);
        let count = missed.and_then(|missed| usize::try_from(missed).ok()).unwrap_or(usize::MAX);
        let skipped = self.messages.len().saturating_sub(count);
        let age = |at: &Instant| u64::try_from(now.since(*at).as_nanos()).unwrap_or(u64::MAX);
        LogImage {
            generation: self.generation,
            epochs: self.epochs.iter().copied().collect(),
            origins: self.origins.iter().copied().collect(),
            last: self.last,
            messages: self
                .messages
                .iter()
                .skip(skipped)
                .map(|(at, m)| (age(at), m.clone()))
                .collect(),
        }
    }

    /// The log of an image. `None`: it is not the image of a log.
    pub fn of_image(now: Instant, image: LogImage) -> Option<Log> {
        let LogImage { generation, epochs, origins, last, messages } = image;
        let is_ordered = epochs.is_sorted_by_key(|epoch| epoch.before);
        let is_valid = is_ordered
            && (1..=EPOCHS_MAX).contains(&epochs.len())
            && origins.len() <= ORIGINS_MAX
            && epochs.iter().all(|epoch| epoch.before <= last)
            && messages.len() as u64 <= last;
        if !is_valid {
            return None;
        }
        let at = |age: u64| Instant::from_nanos(now.as_nanos().saturating_sub(age));
        Some(Log {
            generation,
            epochs: epochs.into(),
            origins: origins.into(),
            last,
            bytes: messages.iter().map(|(_, message)| message.len()).sum(),
            messages: messages.into_iter().map(|(age, message)| (at(age), message)).collect(),
        })
    }

    /// Compares with the log of another process. Each epoch has one writer, which sends its messages
    /// in order, so of one epoch each process has a beginning.
    pub fn compare(&self, other: &Log) -> Comparison {
        match self.generation.cmp(&other.generation) {
            Ordering::Less => return Comparison::Newer,
            Ordering::Greater => return Comparison::Older,
            Ordering::Equal => {}
        }
        match (self.is_blank(), other.is_blank()) {
            (_, true) if self.epochs == other.epochs => {}
            (true, false) => return Comparison::Newer,
            (false, true) => return Comparison::Older,
            // Both have only joins. Every process decides for the same one.
            (true, true) => {
                return match self.current().id < other.current().id {
                    true => Comparison::Newer,
                    false => Comparison::Older,
                };
            }
            (false, false) => {}
        }
        let common = self.epochs.iter().enumerate().rev().find_map(|(mine, epoch)| {
            let theirs = other.epochs.iter().rposition(|other| other.id == epoch.id)?;
            Some((mine, theirs))
        });
        let Some((mine, theirs)) = common else { return Comparison::Diverged };
        let (my_end, their_end) = (self.end_of(mine), other.end_of(theirs));
        let i_continue = mine + 1 < self.epochs.len();
        let they_continue = theirs + 1 < other.epochs.len();
        match (i_continue, they_continue) {
            (true, true) => Comparison::Diverged,
            (true, false) if their_end <= my_end => Comparison::Older,
            (false, true) if my_end <= their_end => Comparison::Newer,
            (true, false) | (false, true) => Comparison::Diverged,
            (false, false) if my_end == their_end => Comparison::Same,
            (false, false) if my_end < their_end => Comparison::Newer,
            (false, false) => Comparison::Older,
        }
    }

    /// Becomes a newer log that this one is the beginning of. Returns the messages that are new here.
    /// `None`: some of them were dropped already.
    pub fn extend(&mut self, newer: Log) -> Option<Vec<Positioned>> {
        let missed = newer.last - self.last;
        let known = usize::try_from(missed).unwrap_or(usize::MAX);
        let is_complete = known <= newer.messages.len();
        let mut newer = newer;
        // The image may have only the end.
        let oldest = newer.last - newer.messages.len() as u64 + 1;
        let mut offset = self.last;
        while let Some((at, message)) = self.messages.pop_back() {
            if offset < oldest && is_complete {
                newer.bytes += message.len();
                newer.messages.push_front((at, message));
            }
            offset -= 1;
        }
        *self = newer;
        is_complete.then(|| self.newest(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { messages: 3, age: Duration::from_secs(10), bytes: 8 };

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    fn of(offset: u64) -> Position {
        Position { epoch: 7, offset }
    }

    fn message(text: &str) -> Message {
        Message { event: "".into(), payload: text.into() }
    }

    fn since(log: &Log, position: Position) -> Option<String> {
        let messages = log.since(position)?;
        Some(messages.iter().map(|(_, message)| &*message.payload).collect())
    }

    /// A log with one letter for each message. A digit begins an epoch.
    fn log(text: &str) -> Log {
        let bounds = Bounds { messages: 100, bytes: 100, ..BOUNDS };
        let mut log = Log::new(0);
        let mut epoch = 0;
        for letter in text.chars() {
            match letter.to_digit(10) {
                Some(digit) => epoch = digit.into(),
                None => drop(log.push(at(0), &bounds, epoch, message(&letter.to_string()))),
            }
        }
        log
    }

    #[test]
    fn a_client_gets_all_messages_after_its_position_or_none() {
        let mut log = Log::new(7);
        assert_eq!(since(&log, of(0)).unwrap(), "");
        for text in ["a", "b", "c", "d"] {
            log.push(at(0), &BOUNDS, 7, message(text));
        }
        assert_eq!(log.position(), of(4));
        assert_eq!(since(&log, of(4)).unwrap(), "");
        assert_eq!(since(&log, of(1)).unwrap(), "bcd");
        assert_eq!(since(&log, of(0)), None);
        assert_eq!(log.newest(1), [(of(4), message("d"))]);
        assert_eq!(log.newest(9).len(), 3);
    }

    #[test]
    fn positions_of_another_epoch_or_of_the_future_are_lost() {
        let log = Log::new(7);
        assert_eq!(since(&log, Position { epoch: 8, offset: 0 }), None);
        assert_eq!(since(&log, of(1)), None);
        assert_eq!(since(&log, of(u64::MAX)), None);
    }

    #[test]
    fn bytes_and_age_bound_the_log() {
        let mut log = Log::new(7);
        log.push(at(0), &BOUNDS, 7, message("12345"));
        log.push(at(1), &BOUNDS, 7, message("6789"));
        assert_eq!((log.bytes(), since(&log, of(0))), (4, None));
        log.expire(at(11), &BOUNDS);
        assert_eq!(since(&log, of(1)).unwrap(), "6789");
        log.expire(at(12), &BOUNDS);
        assert_eq!((log.bytes(), since(&log, of(1))), (0, None));
        assert_eq!(since(&log, of(2)).unwrap(), "", "an empty log knows its last position");
        log.push(at(12), &BOUNDS, 7, message("too long a message"));
        assert_eq!((log.bytes(), log.position()), (0, of(3)));
    }

    #[test]
    fn a_position_of_an_earlier_epoch_leads_into_the_next() {
        let log = log("1ab2cd");
        let of = |epoch, offset| since(&log, Position { epoch, offset });
        assert_eq!(of(1, 1).unwrap(), "bcd");
        assert_eq!(of(1, 2).unwrap(), "cd");
        assert_eq!(of(1, 3), None, "a message that only the client has");
        assert_eq!(of(2, 3).unwrap(), "d");
        assert_eq!(of(2, 1), None, "before its epoch");
        assert_eq!(of(2, 5), None);
    }

    #[test]
    fn logs_of_one_writer_at_a_time_are_beginnings_of_each_other() {
        use Comparison::{Diverged, Newer, Older, Same};
        for (mine, theirs, expected) in [
            ("1ab", "1ab", Same),
            ("1a", "1ab", Newer),
            ("1abc", "1ab", Older),
            ("1ab", "1ab2c", Newer),
            ("1ab2c", "1a", Older),
            ("1abc", "1ab2c", Diverged),
            ("1ab2c", "1ab3c", Diverged),
            ("1a", "2a", Diverged),
            ("", "1a", Newer),
        ] {
            assert_eq!(log(mine).compare(&log(theirs)), expected, "{mine} {theirs}");
        }
    }

    #[test]
    fn a_log_becomes_the_newer_one_from_its_end() {
        let newer = log("1abc2de");
        let mut mine = log("1ab");
        let image = newer.image(at(5), Some(mine.position()));
        assert_eq!(image.messages.len(), 3);
        let new = mine.extend(Log::of_image(at(9), image).unwrap()).unwrap();
        let text: String = new.iter().map(|(_, message)| &*message.payload).collect();
        assert_eq!(text, "cde");
        assert_eq!(new[0].0, Position { epoch: 1, offset: 3 });
        assert_eq!(mine.compare(&newer), Comparison::Same);
        assert_eq!(since(&mine, Position { epoch: 0, offset: 0 }).unwrap(), "abcde");
        assert_eq!((mine.len(), mine.bytes()), (5, 5));
    }

    #[test]
    fn a_damaged_image_is_no_log() {
        let image = log("1abc2de").image(at(0), None);
        for damaged in [
            LogImage { epochs: vec![], ..image.clone() },
            LogImage { last: 1, ..image.clone() },
            LogImage { epochs: vec![Epoch { id: 1, before: 9 }], ..image.clone() },
        ] {
            assert!(Log::of_image(at(0), damaged).is_none());
        }
        assert!(Log::of_image(at(0), image).is_some());
    }
}
