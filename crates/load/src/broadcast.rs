//! Broadcasts: one message to many receivers, each reported on its own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_report::{Histogram, Snapshot};

/// Most broadcasts of one worker that are reported one by one; further ones count only as
/// deliveries.
pub(crate) const SENT_MAX: usize = 500;
/// Most broadcasts of one load, or of one worker in one second, that are reported one by one.
pub(crate) const BROADCASTS_MAX: usize = 2_000;

/// The identity of a broadcast: its time in nanoseconds of the sender's clock, and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BroadcastId {
    pub(crate) sent_at: u64,
    pub(crate) user: u32,
}

/// The facts that only the sender knows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) id: BroadcastId,
    pub(crate) step: u16,
    pub(crate) audience: u8,
    /// Since the load began.
    pub(crate) at: Duration,
}

/// The delays of each broadcast to its receivers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(BroadcastId, Snapshot)>", into = "Vec<(BroadcastId, Snapshot)>")]
pub(crate) struct Receipts(BTreeMap<BroadcastId, Snapshot>);

impl From<Vec<(BroadcastId, Snapshot)>> for Receipts {
    fn from(receipts: Vec<(BroadcastId, Snapshot)>) -> Receipts {
        Receipts(receipts.into_iter().take(BROADCASTS_MAX).collect())
    }
}

impl From<Receipts> for Vec<(BroadcastId, Snapshot)> {
    fn from(receipts: Receipts) -> Self {
        receipts.0.into_iter().collect()
    }
}

impl Receipts {
    pub(crate) fn merge(&mut self, other: &Receipts) {
        for (id, times) in &other.0 {
            if let Some(known) = entry(&mut self.0, *id) {
                known.merge(times);
            }
        }
    }

    pub(crate) fn get(&self, id: BroadcastId) -> Histogram {
        self.0.get(&id).map_or_else(Histogram::new, Histogram::from)
    }
}

/// The receipts that one worker has recorded since it last reported.
#[derive(Debug, Default)]
pub(crate) struct ReceiptRecorder(BTreeMap<BroadcastId, Histogram>);

impl ReceiptRecorder {
    pub(crate) fn record(&mut self, id: BroadcastId, duration: Duration) {
        if let Some(histogram) = entry(&mut self.0, id) {
            histogram.record(duration);
        }
    }

    /// The receipts since the last call.
    pub(crate) fn take(&mut self) -> Receipts {
        let received = std::mem::take(&mut self.0).into_iter();
        Receipts(received.map(|(id, histogram)| (id, histogram.snapshot())).collect())
    }
}

/// The entry of a broadcast; `None` if there are too many, which only a faulty server can cause.
fn entry<T: Default>(all: &mut BTreeMap<BroadcastId, T>, id: BroadcastId) -> Option<&mut T> {
    let is_full = all.len() >= BROADCASTS_MAX && !all.contains_key(&id);
    (!is_full).then(|| all.entry(id).or_default())
}

/// One message that its whole audience should receive.
#[derive(Clone, Debug, Default)]
pub struct Broadcast {
    pub step: String,
    /// The time at which it was sent, since the load began.
    pub at: Duration,
    /// Users that should receive it: the smallest size of its audience in that second.
    pub audience: u64,
    /// Users of the audience that did not receive it.
    pub missing: u64,
    pub times: Histogram,
}

impl Broadcast {
    pub(crate) fn all(broadcasts: &[Broadcast]) -> Broadcast {
        let mut all = Broadcast::default();
        for broadcast in broadcasts {
            all.audience += broadcast.audience;
            all.missing += broadcast.missing;
            all.times.merge(&broadcast.times.snapshot());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_broadcasts_do_not_fill_the_memory() {
        let mut recorder = ReceiptRecorder::default();
        for user in 0..10_000 {
            recorder.record(BroadcastId { sent_at: 1, user }, Duration::ZERO);
        }
        assert_eq!(recorder.0.len(), BROADCASTS_MAX);
        recorder.record(BroadcastId { sent_at: 1, user: 0 }, Duration::ZERO);
        let receipts = recorder.take();
        assert_eq!(receipts.get(BroadcastId { sent_at: 1, user: 0 }).len(), 2);
    }
}
