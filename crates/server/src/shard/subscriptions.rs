//! The records of subscriptions.

use std::ops::{Index, IndexMut};

use watchfire_hub::SubscriptionId;

use super::client::SubscriptionRecord;
use crate::chunked_vec::ChunkedVec;

/// A record for each subscription of the hub, by its index.
#[derive(Default)]
pub(super) struct SubscriptionRecords(ChunkedVec<SubscriptionRecord>);

impl SubscriptionRecords {
    /// The record of a new subscription, which is created when the index is new.
    pub fn open(&mut self, id: SubscriptionId) -> &mut SubscriptionRecord {
        while self.0.len() <= id.index() {
            self.0.push(SubscriptionRecord::default());
        }
        &mut self[id]
    }

    /// The record of a subscription; `None` when the index was never used.
    pub fn get(&self, id: SubscriptionId) -> Option<&SubscriptionRecord> {
        self.0.get(id.index())
    }
}

impl Index<SubscriptionId> for SubscriptionRecords {
    type Output = SubscriptionRecord;

    fn index(&self, id: SubscriptionId) -> &SubscriptionRecord {
        &self.0[id.index()]
    }
}

impl IndexMut<SubscriptionId> for SubscriptionRecords {
    fn index_mut(&mut self, id: SubscriptionId) -> &mut SubscriptionRecord {
        &mut self.0[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_content_while_others_are_added() {
        let mut records = SubscriptionRecords::default();
        let ids = [0, 1, 1_000, 3].map(SubscriptionId::from_index);
        for (serial, id) in ids.into_iter().enumerate() {
            records.open(id).serial = serial as u32;
        }
        for (serial, id) in ids.into_iter().enumerate() {
            assert_eq!(records[id].serial, serial as u32);
        }
        assert!(records.get(SubscriptionId::from_index(1_001)).is_none());
    }
}
