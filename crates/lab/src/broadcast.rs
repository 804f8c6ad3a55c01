//! Broadcasts: one message to many, each told of by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Buckets;

/// Broadcasts of one worker that are told of one by one; further ones are deliveries like others.
pub(crate) const SENT_MAX: usize = 500;
/// Broadcasts of one load, or of one worker's second, that are told of one by one.
pub(crate) const BROADCASTS_MAX: usize = 2_000;

/// Which broadcast: when it was sent, in nanoseconds of its sender's clock, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BroadcastId {
    pub(crate) sent_at: u64,
    pub(crate) user: u32,
}

/// What only the sender knows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) id: BroadcastId,
    pub(crate) step: u16,
    pub(crate) audience: u8,
    /// Since the load began.
    pub(crate) at: Duration,
}

/// What was heard of each broadcast.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(BroadcastId, Buckets)>", into = "Vec<(BroadcastId, Buckets)>")]
pub(crate) struct Heard(BTreeMap<BroadcastId, Buckets>);

impl From<Vec<(BroadcastId, Buckets)>> for Heard {
    fn from(heard: Vec<(BroadcastId, Buckets)>) -> Heard {
        Heard(heard.into_iter().take(BROADCASTS_MAX).collect())
    }
}

impl From<Heard> for Vec<(BroadcastId, Buckets)> {
    fn from(heard: Heard) -> Self {
        heard.0.into_iter().collect()
    }
}

impl Heard {
    /// The place for what is heard of a broadcast; `None` when there are too many, which only a
    /// server can bring about that makes messages up.
    fn of(&mut self, id: BroadcastId) -> Option<&mut Buckets> {
        let is_full = self.0.len() >= BROADCASTS_MAX && !self.0.contains_key(&id);
        (!is_full).then(|| self.0.entry(id).or_default())
    }

    pub(crate) fn record(&mut self, id: BroadcastId, duration: Duration) {
        if let Some(buckets) = self.of(id) {
            buckets.record(duration);
        }
    }

    pub(crate) fn merge(&mut self, other: &Heard) {
        for (id, buckets) in &other.0 {
            if let Some(known) = self.of(*id) {
                known.merge(buckets);
            }
        }
    }

    pub(crate) fn get(&self, id: BroadcastId) -> Buckets {
        self.0.get(&id).cloned().unwrap_or_default()
    }
}

/// One message that everyone of its audience was to hear.
#[derive(Clone, Debug, Default)]
pub struct Broadcast {
    /// The step that sent it.
    pub step: String,
    /// When it was sent, since the load began.
    pub at: Duration,
    /// How many were to hear it: the fewest that were of its audience in that second.
    pub audience: u64,
    /// Those who were to hear it and did not.
    pub missing: u64,
    /// How long it took to each who heard it.
    pub times: Buckets,
}

impl Broadcast {
    /// As if all had been one.
    pub(crate) fn all(broadcasts: &[Broadcast]) -> Broadcast {
        let mut all = Broadcast::default();
        for broadcast in broadcasts {
            all.audience += broadcast.audience;
            all.missing += broadcast.missing;
            all.times.merge(&broadcast.times);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_makes_broadcasts_up_fills_no_memory() {
        let mut heard = Heard::default();
        for user in 0..10_000 {
            heard.record(BroadcastId { sent_at: 1, user }, Duration::ZERO);
        }
        assert_eq!(heard.0.len(), BROADCASTS_MAX);
        heard.record(BroadcastId { sent_at: 1, user: 0 }, Duration::ZERO);
        assert_eq!(heard.get(BroadcastId { sent_at: 1, user: 0 }).len(), 2);
    }
}
