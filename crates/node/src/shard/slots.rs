use std::ops::{Index, IndexMut};

use hub::SubscriptionId;

use super::client::Slot;
use crate::pieces::Pieces;

/// A slot for each subscription of the hub, by its index.
#[derive(Default)]
pub(super) struct Slots(Pieces<Slot>);

impl Slots {
    /// The slot of a subscription that may be the first with this index.
    pub fn open(&mut self, id: SubscriptionId) -> &mut Slot {
        while self.0.len() <= id.index() {
            self.0.push(Slot::default());
        }
        &mut self[id]
    }

    /// The slot of a subscription that may never have been.
    pub fn get(&self, id: SubscriptionId) -> Option<&Slot> {
        self.0.get(id.index())
    }
}

impl Index<SubscriptionId> for Slots {
    type Output = Slot;

    fn index(&self, id: SubscriptionId) -> &Slot {
        &self.0[id.index()]
    }
}

impl IndexMut<SubscriptionId> for Slots {
    fn index_mut(&mut self, id: SubscriptionId) -> &mut Slot {
        &mut self.0[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_it_has_while_others_come() {
        let mut slots = Slots::default();
        let ids = [0, 1, 1_000, 3].map(SubscriptionId::from_index);
        for (serial, id) in ids.into_iter().enumerate() {
            slots.open(id).serial = serial as u32;
        }
        for (serial, id) in ids.into_iter().enumerate() {
            assert_eq!(slots[id].serial, serial as u32);
        }
        assert!(slots.get(SubscriptionId::from_index(1_001)).is_none());
    }
}
