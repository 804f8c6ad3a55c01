use std::ops::{Index, IndexMut};

use hub::SubscriptionId;

use super::client::Slot;

/// Slots that lie together.
const PIECE_LEN: usize = 256;

/// A slot for each subscription of the hub, by its index.
///
/// It grows by pieces that stay where they are: a vector that doubles would have, on average, a
/// third more room than it needs, at 64 bytes for each topic of each client.
#[derive(Default)]
pub(super) struct Slots {
    pieces: Vec<Box<[Slot]>>,
}

impl Slots {
    /// The slot of a subscription that may be the first with this index.
    pub fn open(&mut self, id: SubscriptionId) -> &mut Slot {
        while self.pieces.len() * PIECE_LEN <= id.index() {
            self.pieces.push((0..PIECE_LEN).map(|_| Slot::default()).collect());
        }
        &mut self[id]
    }

    /// The slot of a subscription that may never have been.
    pub fn get(&self, id: SubscriptionId) -> Option<&Slot> {
        self.pieces.get(id.index() / PIECE_LEN)?.get(id.index() % PIECE_LEN)
    }
}

impl Index<SubscriptionId> for Slots {
    type Output = Slot;

    fn index(&self, id: SubscriptionId) -> &Slot {
        &self.pieces[id.index() / PIECE_LEN][id.index() % PIECE_LEN]
    }
}

impl IndexMut<SubscriptionId> for Slots {
    fn index_mut(&mut self, id: SubscriptionId) -> &mut Slot {
        &mut self.pieces[id.index() / PIECE_LEN][id.index() % PIECE_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_it_has_while_others_come() {
        let mut slots = Slots::default();
        let ids = [0, PIECE_LEN - 1, PIECE_LEN, 10 * PIECE_LEN + 3];
        for (serial, id) in ids.map(SubscriptionId::from_index).into_iter().enumerate() {
            slots.open(id).serial = serial as u32;
        }
        for (serial, id) in ids.map(SubscriptionId::from_index).into_iter().enumerate() {
            assert_eq!(slots[id].serial, serial as u32);
        }
        assert!(slots.get(SubscriptionId::from_index(11 * PIECE_LEN)).is_none());
    }
}
