//! Messages, put together from segments in any order.

use std::collections::BTreeMap;
use std::time::Duration;

use bitswap::message::MESSAGE_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use vocab::Instant;

use crate::segment::Segment;

/// Messages of one peer in the making; at one more, the one that has waited longest is forgotten.
const MESSAGES_MAX: usize = 4;
/// Parts of one message; more are no honest way to send one.
const SEGMENTS_MAX: usize = 512;
/// A message that does not grow for so long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Bytes of unfinished messages of all peers of a page; at the bound, the message whose segment
/// came is forgotten.
#[derive(Debug)]
pub(crate) struct AssemblyBudget {
    pub bytes: usize,
    pub bytes_max: usize,
}

/// What came of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Assembled {
    Partial,
    Whole(Bytes),
    /// No honest peer sends this.
    Malformed,
    /// There is no room for its message; who waits for it asks again.
    Forgotten,
}

/// One peer's messages in the making.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    messages: BTreeMap<u32, Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    total: usize,
    /// By their places.
    segments: BTreeMap<usize, Bytes>,
    bytes: usize,
    grew_at: Instant,
}

impl Assembler {
    /// Takes a segment, which may come twice.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        budget: &mut AssemblyBudget,
        segment: Segment,
    ) -> Assembled {
        self.forget_idle(now, budget);
        let Segment { message, offset, total, bytes } = segment;
        let len = bytes.len();
        if total > MESSAGE_BYTES_MAX || len == 0 || offset + len > total {
            return Assembled::Malformed;
        }
        if len == total {
            return Assembled::Whole(bytes);
        }
        if !self.messages.contains_key(&message) && self.messages.len() == MESSAGES_MAX {
            let oldest = self.messages.iter().min_by_key(|(_, unfinished)| unfinished.grew_at);
            if let Some(&oldest) = oldest.map(|(id, _)| id) {
                self.forget(oldest, budget);
            }
        }
        let unfinished = self.messages.entry(message).or_insert_with(|| Unfinished {
            total,
            segments: BTreeMap::new(),
            bytes: 0,
            grew_at: now,
        });
        if unfinished.total != total {
            return Assembled::Malformed;
        }
        if let Some(before) = unfinished.segments.get(&offset) {
            let is_same = before.len() == len;
            return if is_same { Assembled::Partial } else { Assembled::Malformed };
        }
        if unfinished.segments.len() == SEGMENTS_MAX || unfinished.bytes + len > total {
            return Assembled::Malformed;
        }
        if budget.bytes + len > budget.bytes_max {
            self.forget(message, budget);
            return Assembled::Forgotten;
        }
        unfinished.segments.insert(offset, bytes);
        unfinished.bytes += len;
        unfinished.grew_at = now;
        budget.bytes += len;
        if unfinished.bytes < total { Assembled::Partial } else { self.finish(message, budget) }
    }

    /// Forgets everything unfinished.
    pub(crate) fn clear(&mut self, budget: &mut AssemblyBudget) {
        for unfinished in std::mem::take(&mut self.messages).into_values() {
            budget.bytes -= unfinished.bytes;
        }
    }

    fn finish(&mut self, message: u32, budget: &mut AssemblyBudget) -> Assembled {
        let Some(unfinished) = self.forget(message, budget) else { return Assembled::Malformed };
        let mut whole = BytesMut::with_capacity(unfinished.total);
        for (offset, bytes) in unfinished.segments {
            // Parts that overlap have a hole somewhere else.
            if offset != whole.len() {
                return Assembled::Malformed;
            }
            whole.extend_from_slice(&bytes);
        }
        Assembled::Whole(whole.freeze())
    }

    fn forget_idle(&mut self, now: Instant, budget: &mut AssemblyBudget) {
        self.messages.retain(|_, unfinished| {
            let is_idle = now.since(unfinished.grew_at) > IDLE_MAX;
            budget.bytes -= if is_idle { unfinished.bytes } else { 0 };
            !is_idle
        });
    }

    fn forget(&mut self, message: u32, budget: &mut AssemblyBudget) -> Option<Unfinished> {
        let unfinished = self.messages.remove(&message)?;
        budget.bytes -= unfinished.bytes;
        Some(unfinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Receiver {
        assembler: Assembler,
        budget: AssemblyBudget,
        now: Instant,
    }

    impl Receiver {
        fn new() -> Self {
            let budget = AssemblyBudget { bytes: 0, bytes_max: 100 };
            Receiver { assembler: Assembler::default(), budget, now: Instant::ZERO }
        }

        fn hear(&mut self, message: u32, offset: usize, total: usize, part: &str) -> Assembled {
            let bytes = Bytes::copy_from_slice(part.as_bytes());
            let segment = Segment { message, offset, total, bytes };
            self.assembler.accept(self.now, &mut self.budget, segment)
        }
    }

    #[test]
    fn segments_come_in_any_order_and_some_twice() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.hear(1, 4, 6, "ef"), Assembled::Partial);
        assert_eq!(receiver.hear(1, 0, 6, "ab"), Assembled::Partial);
        assert_eq!(receiver.hear(1, 0, 6, "ab"), Assembled::Partial);
        assert_eq!(receiver.hear(1, 2, 6, "cd"), Assembled::Whole("abcdef".into()));
        assert_eq!(receiver.hear(1, 0, 2, "zz"), Assembled::Whole("zz".into()));
        assert_eq!(receiver.budget.bytes, 0);
    }

    #[test]
    fn what_no_honest_peer_sends_is_told_apart() {
        let mut receiver = Receiver::new();
        for (offset, total, part) in
            [(0, 0, ""), (0, 5, ""), (4, 5, "xx"), (0, 5 << 20, "x"), (usize::MAX >> 32, 3, "x")]
        {
            assert_eq!(receiver.hear(1, offset, total, part), Assembled::Malformed, "{offset}");
        }
        assert_eq!(receiver.hear(1, 0, 9, "abc"), Assembled::Partial);
        assert_eq!(receiver.hear(1, 3, 8, "abc"), Assembled::Malformed);
        assert_eq!(receiver.hear(1, 0, 9, "ab"), Assembled::Malformed);
        // A hole, and an overlap as long.
        assert_eq!(receiver.hear(2, 0, 6, "abcd"), Assembled::Partial);
        assert_eq!(receiver.hear(2, 3, 6, "de"), Assembled::Malformed);
    }

    #[test]
    fn what_is_never_finished_is_forgotten() {
        let mut receiver = Receiver::new();
        for message in 0..6 {
            assert_eq!(receiver.hear(message, 0, 50, "twenty bytes of fifty"), Assembled::Partial);
        }
        assert_eq!(receiver.budget.bytes, 4 * 21, "of four messages at most");
        assert_eq!(receiver.hear(5, 21, 50, "twenty bytes of fifty"), Assembled::Forgotten);
        assert_eq!(receiver.budget.bytes, 3 * 21);
        receiver.now = Instant::ZERO + IDLE_MAX + Duration::from_secs(1);
        assert_eq!(receiver.hear(9, 0, 50, "x"), Assembled::Partial);
        assert_eq!(receiver.budget.bytes, 1);
        receiver.assembler.clear(&mut receiver.budget);
        assert_eq!(receiver.budget.bytes, 0);
    }
}
