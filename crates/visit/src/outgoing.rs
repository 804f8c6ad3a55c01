//! Messages on their way to one peer, which the server carries part by part, and may refuse.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use vocab::Instant;

use crate::segment::{OVERHEAD_BYTES, Segment};

/// Messages up to here go before longer ones, so that a want does not wait behind a block.
const SHORT_BYTES_MAX: usize = 16 << 10;
/// Parts that the server has not answered yet.
const WINDOW: usize = 4;
/// Parts in a row without an answer before the peer counts as lost.
const TIMEOUTS_MAX: u32 = 3;
/// How long a peer may be too busy for a single part before it counts as lost.
const BUSY_MAX: Duration = Duration::from_secs(30);
/// Bounds on the waits that the server tells.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A part that was sent, by which its answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    message: u32,
    from: usize,
    to: usize,
}

/// Why a part was not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Busy {
        wait: Duration,
    },
    Budget {
        wait: Duration,
    },
    TooLarge {
        max: usize,
    },
    /// The peer cannot be reached, now or later.
    Lost,
}

/// The peer cannot be reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// What is to be sent to one peer. Whoever fills it minds its bound.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// In the order in which they came.
    messages: Vec<Sending>,
    next_message: u32,
    part_bytes_max: usize,
    unanswered: usize,
    timeouts: u32,
    /// Since when every part was refused because the peer was busy.
    busy_since: Option<Instant>,
    wait_until: Option<Instant>,
}

#[derive(Debug)]
struct Sending {
    id: u32,
    bytes: Bytes,
    /// What is still to be sent; refused parts come back here.
    ranges: VecDeque<(usize, usize)>,
    /// Bytes that were not accepted yet.
    left: usize,
}

impl Outgoing {
    /// `frame_bytes_max`: a relayed frame, with its head.
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Outgoing {
            messages: Vec::new(),
            next_message: 0,
            part_bytes_max: frame_bytes_max.saturating_sub(OVERHEAD_BYTES).max(1),
            unanswered: 0,
            timeouts: 0,
            busy_since: None,
            wait_until: None,
        }
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        let id = self.next_message;
        self.next_message = id.wrapping_add(1);
        let (ranges, left) = ([(0, bytes.len())].into(), bytes.len());
        self.messages.push(Sending { id, bytes, ranges, left });
    }

    /// The next part to be sent now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Part, Segment)> {
        if self.unanswered == WINDOW || self.wait_until.is_some_and(|until| until > now) {
            return None;
        }
        self.wait_until = None;
        let unsent = self.messages.iter_mut().filter(|sending| !sending.ranges.is_empty());
        // The first of them among equals: among long ones none overtakes another, or one that is
        // some bytes longer than all that follow would never arrive.
        let sending = unsent.min_by_key(|sending| sending.bytes.len() > SHORT_BYTES_MAX)?;
        let (from, end) = sending.ranges.pop_front()?;
        let to = end.min(from + self.part_bytes_max);
        if to < end {
            sending.ranges.push_front((to, end));
        }
        self.unanswered += 1;
        let (message, total) = (sending.id, sending.bytes.len());
        let segment =
            Segment { message, offset: from, total, bytes: sending.bytes.slice(from..to) };
        Some((Part { message, from, to }, segment))
    }

    /// When [`Outgoing::next`] has something that has to wait.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.wait_until.filter(|_| self.messages.iter().any(|sending| !sending.ranges.is_empty()))
    }

    /// A part was passed on. Bytes of its message, when that was the last of it.
    pub(crate) fn accepted(&mut self, part: Part) -> Option<usize> {
        self.unanswered -= 1;
        self.timeouts = 0;
        self.busy_since = None;
        let at = self.messages.iter().position(|sending| sending.id == part.message)?;
        self.messages[at].left -= part.to - part.from;
        (self.messages[at].left == 0).then(|| self.messages.remove(at).bytes.len())
    }

    /// A part was not passed on.
    pub(crate) fn refused(
        &mut self,
        now: Instant,
        part: Part,
        refusal: &Refusal,
    ) -> Result<(), Lost> {
        self.take_back(part);
        match *refusal {
            Refusal::Busy { wait } => {
                let since = *self.busy_since.get_or_insert(now);
                if now.since(since) >= BUSY_MAX {
                    return Err(Lost);
                }
                self.wait(now, wait);
            }
            Refusal::Budget { wait } => self.wait(now, wait),
            Refusal::TooLarge { max } => {
                let len = part.to - part.from + OVERHEAD_BYTES;
                if max <= OVERHEAD_BYTES || len <= max {
                    return Err(Lost);
                }
                self.part_bytes_max = max - OVERHEAD_BYTES;
            }
            Refusal::Lost => return Err(Lost),
        }
        Ok(())
    }

    /// A part was not answered in time.
    pub(crate) fn timed_out(&mut self, part: Part) -> Result<(), Lost> {
        self.take_back(part);
        self.timeouts += 1;
        if self.timeouts == TIMEOUTS_MAX { Err(Lost) } else { Ok(()) }
    }

    fn take_back(&mut self, part: Part) {
        self.unanswered -= 1;
        if let Some(sending) = self.messages.iter_mut().find(|sending| sending.id == part.message) {
            sending.ranges.push_front((part.from, part.to));
        }
    }

    fn wait(&mut self, now: Instant, wait: Duration) {
        let until = now + wait.clamp(WAIT_MIN, WAIT_MAX);
        self.wait_until = self.wait_until.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn parts(outgoing: &mut Outgoing, now: Instant) -> Vec<(Part, Segment)> {
        std::iter::from_fn(|| outgoing.next(now)).collect()
    }

    fn outgoing(messages: &[usize]) -> Outgoing {
        let mut outgoing = Outgoing::new(30);
        messages.iter().for_each(|len| outgoing.push(vec![7; *len].into()));
        outgoing
    }

    const BUSY: Refusal = Refusal::Busy { wait: Duration::from_millis(50) };

    #[test]
    fn a_message_goes_in_parts_of_which_few_are_unanswered() {
        let mut outgoing = outgoing(&[45]);
        let sent = parts(&mut outgoing, at(0));
        let places: Vec<_> = sent.iter().map(|(_, s)| (s.offset, s.bytes.len())).collect();
        assert_eq!(places, [(0, 10), (10, 10), (20, 10), (30, 10)]);
        assert!(sent.iter().all(|(_, segment)| segment.total == 45));
        assert_eq!(outgoing.accepted(sent[1].0), None);
        let last = parts(&mut outgoing, at(0));
        assert_eq!((last.len(), last[0].1.offset, last[0].1.bytes.len()), (1, 40, 5));
        for (part, _) in [&sent[0], &sent[2], &sent[3]] {
            assert_eq!(outgoing.accepted(*part), None);
        }
        assert_eq!(outgoing.accepted(last[0].0), Some(45), "it is through");
    }

    #[test]
    fn a_short_message_does_not_wait_behind_a_long_one() {
        let mut outgoing = outgoing(&[SHORT_BYTES_MAX + 1]);
        let sent = parts(&mut outgoing, at(0));
        outgoing.push(vec![1; 3].into());
        outgoing.accepted(sent[0].0);
        assert_eq!(parts(&mut outgoing, at(0))[0].1.total, 3);
    }

    #[test]
    fn a_long_message_does_not_wait_for_those_behind_it() {
        let mut outgoing = Outgoing::new(SHORT_BYTES_MAX);
        for more in [3, 2, 1] {
            outgoing.push(vec![7; 2 * SHORT_BYTES_MAX + more].into());
        }
        let mut order = Vec::new();
        while let Some((part, segment)) = outgoing.next(at(0)) {
            order.push(segment.message);
            outgoing.accepted(part);
        }
        assert_eq!(order, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn what_is_refused_for_now_is_sent_again_when_it_is_time() {
        let mut outgoing = outgoing(&[20]);
        let sent = parts(&mut outgoing, at(0));
        outgoing.refused(at(5), sent[0].0, &BUSY).unwrap();
        assert_eq!(outgoing.next_wake(), Some(at(55)));
        assert_eq!(outgoing.next(at(54)), None);
        let again = parts(&mut outgoing, at(55));
        assert_eq!((again.len(), again[0].1.offset), (1, 0));
        let budget = Refusal::Budget { wait: Duration::ZERO };
        outgoing.refused(at(60), again[0].0, &budget).unwrap();
        assert_eq!(outgoing.next_wake(), Some(at(70)));
    }

    #[test]
    fn parts_are_cut_smaller_where_the_server_says_so() {
        let mut outgoing = outgoing(&[10]);
        let (part, _) = outgoing.next(at(0)).unwrap();
        outgoing.refused(at(0), part, &Refusal::TooLarge { max: 24 }).unwrap();
        let lens: Vec<_> = parts(&mut outgoing, at(0)).iter().map(|(_, s)| s.bytes.len()).collect();
        assert_eq!(lens, [4, 4, 2]);
        let mut other = Outgoing::new(30);
        other.push(vec![7; 5].into());
        let (part, _) = other.next(at(0)).unwrap();
        assert_eq!(other.refused(at(0), part, &Refusal::TooLarge { max: 25 }), Err(Lost));
    }

    #[test]
    fn a_peer_that_never_takes_anything_is_lost() {
        let mut busy = outgoing(&[5]);
        let mut now = at(0);
        let lost = loop {
            let (part, _) = busy.next(now).unwrap();
            if busy.refused(now, part, &BUSY) == Err(Lost) {
                break now;
            }
            now = busy.next_wake().unwrap();
        };
        assert_eq!(lost, at(0) + BUSY_MAX);

        let mut silent = outgoing(&[5]);
        for expected in [Ok(()), Ok(()), Err(Lost)] {
            let (part, _) = silent.next(at(0)).unwrap();
            assert_eq!(silent.timed_out(part), expected);
        }
        let mut gone = outgoing(&[5]);
        let (part, _) = gone.next(at(0)).unwrap();
        assert_eq!(gone.refused(at(0), part, &Refusal::Lost), Err(Lost));
    }
}
