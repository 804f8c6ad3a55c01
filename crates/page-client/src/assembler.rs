//! Assembles messages from segments in any order.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use watchfire_bitswap::message::MESSAGE_BYTES_MAX;
use watchfire_types::Instant;

use crate::segment::Segment;

/// Most incomplete messages of one peer. At the limit, a new message replaces the one that has not
/// grown for the longest time.
const MESSAGES_MAX: usize = 4;
/// Most segments of one message. A message with more segments is malformed.
const SEGMENTS_MAX: usize = 512;
/// A message that does not grow for this time is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bounds the incomplete messages of all peers of a page. If a segment does not fit, its message is
/// dropped.
#[derive(Debug)]
pub(crate) struct AssemblyBudget {
    pub bytes: usize,
    pub bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Assembled {
    Partial,
    Whole(Bytes),
    /// The segment contradicts itself or earlier segments.
    Malformed,
    /// There was no room for the message. Its requests time out and are repeated.
    Dropped,
}

/// The incomplete messages of one peer.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    messages: BTreeMap<u32, Incomplete>,
}

#[derive(Debug)]
struct Incomplete {
    total: usize,
    /// By their offsets.
    segments: BTreeMap<usize, Bytes>,
    bytes: usize,
    grew_at: Instant,
}

impl Assembler {
    /// Adds a segment. A repeated segment has no effect.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        budget: &mut AssemblyBudget,
        segment: Segment,
    ) -> Assembled {
        self.drop_idle(now, budget);
        let Segment { message, offset, total, bytes } = segment;
        let len = bytes.len();
        if total > MESSAGE_BYTES_MAX || len == 0 || offset + len > total {
            return Assembled::Malformed;
        }
        if len == total {
            return Assembled::Whole(bytes);
        }
        if !self.messages.contains_key(&message) && self.messages.len() == MESSAGES_MAX {
            let oldest = self.messages.iter().min_by_key(|(_, incomplete)| incomplete.grew_at);
            if let Some(&oldest) = oldest.map(|(id, _)| id) {
                self.remove(oldest, budget);
            }
        }
        let incomplete = self.messages.entry(message).or_insert_with(|| Incomplete {
            total,
            segments: BTreeMap::new(),
            bytes: 0,
            grew_at: now,
        });
        if incomplete.total != total {
            return Assembled::Malformed;
        }
        if let Some(before) = incomplete.segments.get(&offset) {
            let is_same = before.len() == len;
            return if is_same { Assembled::Partial } else { Assembled::Malformed };
        }
        if incomplete.segments.len() == SEGMENTS_MAX || incomplete.bytes + len > total {
            return Assembled::Malformed;
        }
        if budget.bytes + len > budget.bytes_max {
            self.remove(message, budget);
            return Assembled::Dropped;
        }
        incomplete.segments.insert(offset, bytes);
        incomplete.bytes += len;
        incomplete.grew_at = now;
        budget.bytes += len;
        if incomplete.bytes < total { Assembled::Partial } else { self.finish(message, budget) }
    }

    pub(crate) fn clear(&mut self, budget: &mut AssemblyBudget) {
        for incomplete in std::mem::take(&mut self.messages).into_values() {
            budget.bytes -= incomplete.bytes;
        }
    }

    fn finish(&mut self, message: u32, budget: &mut AssemblyBudget) -> Assembled {
        let Some(incomplete) = self.remove(message, budget) else { return Assembled::Malformed };
        let mut whole = BytesMut::with_capacity(incomplete.total);
        for (offset, bytes) in incomplete.segments {
            // Overlapping segments of the right total length leave a gap elsewhere.
            if offset != whole.len() {
                return Assembled::Malformed;
            }
            whole.extend_from_slice(&bytes);
        }
        Assembled::Whole(whole.freeze())
    }

    fn drop_idle(&mut self, now: Instant, budget: &mut AssemblyBudget) {
        self.messages.retain(|_, incomplete| {
            let is_idle = now.since(incomplete.grew_at) > IDLE_TIMEOUT;
            budget.bytes -= if is_idle { incomplete.bytes } else { 0 };
            !is_idle
        });
    }

    fn remove(&mut self, message: u32, budget: &mut AssemblyBudget) -> Option<Incomplete> {
        let incomplete = self.messages.remove(&message)?;
        budget.bytes -= incomplete.bytes;
        Some(incomplete)
    }
}
