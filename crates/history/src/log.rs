//! The log of one topic.

use std::collections::VecDeque;
use std::time::Duration;

use watchfire_types::Instant;

/// How much of a topic is kept. The oldest messages are dropped at the first bound that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most messages.
    pub messages: usize,
    /// The longest time that a message is kept.
    pub age: Duration,
    /// The most bytes of all messages together.
    pub bytes: usize,
}

/// A place in a log: all messages up to and including the offset have been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The log that the offset belongs to.
    pub epoch: u64,
    /// The last received message; 0 is before the first.
    pub offset: u64,
}

/// The messages after a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since<'a> {
    /// All of them, oldest first.
    Recovered(Vec<&'a [u8]>),
    /// Some were dropped, or the position is not one of this log.
    Lost,
}

/// The recent messages of one topic. The first message has offset 1.
#[derive(Debug)]
pub struct Log {
    epoch: u64,
    last: u64,
    bytes: usize,
    messages: VecDeque<(Instant, Box<[u8]>)>,
}

impl Log {
    /// An empty log. The caller chooses a random epoch.
    pub fn new(epoch: u64) -> Self {
        Log { epoch, last: 0, bytes: 0, messages: VecDeque::new() }
    }

    /// The position of the last message.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch, offset: self.last }
    }

    /// The bytes of all kept messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message, and returns its position. A message over the bound of bytes gets an offset
    /// but is not kept.
    pub fn push(&mut self, now: Instant, bounds: &Bounds, message: &[u8]) -> Position {
        self.last += 1;
        self.bytes += message.len();
        self.messages.push_back((now, message.into()));
        self.expire(now, bounds);
        self.position()
    }

    /// Drops the messages that exceed a bound.
    pub fn expire(&mut self, now: Instant, bounds: &Bounds) {
        while let Some((at, message)) = self.messages.front() {
            let exceeds = self.messages.len() > bounds.messages
                || self.bytes > bounds.bytes
                || now.since(*at) > bounds.age;
            if !exceeds {
                return;
            }
            self.bytes -= message.len();
            self.messages.pop_front();
        }
    }

    /// The kept messages after a position.
    pub fn since(&self, position: Position) -> Since<'_> {
        if position.epoch != self.epoch || position.offset > self.last {
            return Since::Lost;
        }
        let missed = self.last - position.offset;
        let kept = self.messages.len();
        match usize::try_from(missed).ok().and_then(|missed| kept.checked_sub(missed)) {
            Some(skip) => {
                Since::Recovered(self.messages.iter().skip(skip).map(|(_, m)| &**m).collect())
            }
            None => Since::Lost,
        }
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

    #[test]
    fn a_client_gets_all_messages_after_its_position_or_none() {
        let mut log = Log::new(7);
        assert_eq!(log.since(of(0)), Since::Recovered(vec![]));
        for message in [b"a", b"b", b"c", b"d"] {
            log.push(at(0), &BOUNDS, message);
        }
        assert_eq!(log.position(), of(4));
        assert_eq!(log.since(of(4)), Since::Recovered(vec![]));
        assert_eq!(log.since(of(1)), Since::Recovered(vec![b"b", b"c", b"d"]));
        assert_eq!(log.since(of(0)), Since::Lost);
    }

    #[test]
    fn positions_of_another_epoch_or_of_the_future_are_lost() {
        let log = Log::new(7);
        assert_eq!(log.since(Position { epoch: 8, offset: 0 }), Since::Lost);
        assert_eq!(log.since(of(1)), Since::Lost);
        assert_eq!(log.since(of(u64::MAX)), Since::Lost);
    }

    #[test]
    fn bytes_and_age_bound_the_log() {
        let mut log = Log::new(7);
        log.push(at(0), &BOUNDS, b"12345");
        log.push(at(1), &BOUNDS, b"6789");
        assert_eq!((log.bytes(), log.since(of(0))), (4, Since::Lost));
        log.expire(at(11), &BOUNDS);
        assert_eq!(log.since(of(1)), Since::Recovered(vec![b"6789"]));
        log.expire(at(12), &BOUNDS);
        assert_eq!((log.bytes(), log.since(of(1))), (0, Since::Lost));
        log.push(at(12), &BOUNDS, b"too long a message");
        assert_eq!((log.bytes(), log.position()), (0, of(3)));
    }
}
