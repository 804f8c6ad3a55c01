//! The records of subscriptions.

use std::ops::{Index, IndexMut};

use watchfire_hub::SubscriptionId;
use watchfire_types::heap_bytes;

use super::client::{SubscriptionRecord, Use};

/// Records of one piece.
const PIECE_LEN: usize = 256;

/// A record for each subscription of the hub, by its index.
///
/// The hub gives the lowest free index, so after a crowd has left, the indices in use are low. The
/// memory of a piece without a record in use is freed, except for the first piece.
#[derive(Default)]
pub(super) struct SubscriptionRecords {
    pieces: Vec<Piece>,
    /// At least the serial of every record whose memory was freed.
    serial_floor: u32,
}

#[derive(Default)]
struct Piece {
    /// Empty, or [`PIECE_LEN`] records.
    records: Box<[SubscriptionRecord]>,
    /// The records in use.
    used: usize,
}

impl SubscriptionRecords {
    /// Begins the use of a subscription's record, which is created if it has no memory.
    pub fn open(&mut self, id: SubscriptionId, number: u16, used_by: Use) {
        let (piece, in_piece) = place(id);
        if self.pieces.len() <= piece {
            self.pieces.resize_with(piece + 1, Piece::default);
        }
        let floor = self.serial_floor;
        let piece = &mut self.pieces[piece];
        if piece.records.is_empty() {
            let new = || SubscriptionRecord { serial: floor, ..SubscriptionRecord::default() };
            piece.records = std::iter::repeat_with(new).take(PIECE_LEN).collect();
        }
        let record = &mut piece.records[in_piece];
        debug_assert!(matches!(record.used_by, Use::Free), "a record has one use at a time");
        (record.number, record.used_by) = (number, used_by);
        piece.used += 1;
    }

    /// Ends the use of a record, and returns what used it. From now on, its serial is another one.
    pub fn close(&mut self, id: SubscriptionId) -> Use {
        let (piece, in_piece) = place(id);
        let used_by = {
            let piece = &mut self.pieces[piece];
            let record = &mut piece.records[in_piece];
            record.serial = record.serial.wrapping_add(1);
            piece.used -= 1;
            std::mem::take(&mut record.used_by)
        };
        if piece > 0 && self.pieces[piece].used == 0 {
            let freed = std::mem::take(&mut self.pieces[piece].records);
            let serials = freed.iter().map(|record| record.serial);
            self.serial_floor = self.serial_floor.max(serials.max().unwrap_or_default());
            while self.pieces.last().is_some_and(|piece| piece.records.is_empty()) {
                self.pieces.pop();
            }
        }
        used_by
    }

    pub fn memory_bytes(&self) -> usize {
        let records = self
            .pieces
            .iter()
            .map(|piece| heap_bytes(piece.records.len() * size_of::<SubscriptionRecord>()));
        heap_bytes(self.pieces.capacity() * size_of::<Piece>()) + records.sum::<usize>()
    }

    /// The record of a subscription; `None` when it has no memory.
    pub fn get(&self, id: SubscriptionId) -> Option<&SubscriptionRecord> {
        let (piece, in_piece) = place(id);
        self.pieces.get(piece)?.records.get(in_piece)
    }
}

fn place(id: SubscriptionId) -> (usize, usize) {
    (id.index() / PIECE_LEN, id.index() % PIECE_LEN)
}

impl Index<SubscriptionId> for SubscriptionRecords {
    type Output = SubscriptionRecord;

    fn index(&self, id: SubscriptionId) -> &SubscriptionRecord {
        let (piece, in_piece) = place(id);
        &self.pieces[piece].records[in_piece]
    }
}

impl IndexMut<SubscriptionId> for SubscriptionRecords {
    fn index_mut(&mut self, id: SubscriptionId) -> &mut SubscriptionRecord {
        let (piece, in_piece) = place(id);
        &mut self.pieces[piece].records[in_piece]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: usize) -> SubscriptionId {
        SubscriptionId::from_index(index)
    }

    #[test]
    fn a_record_keeps_its_content_while_others_come_and_go() {
        let mut records = SubscriptionRecords::default();
        for index in [0, 1, 1_000, 3] {
            records.open(id(index), index as u16, Use::SocketId);
        }
        records.close(id(1));
        for index in [0, 1_000, 3] {
            assert_eq!(records[id(index)].number, index as u16);
        }
        assert!(records.get(id(2_000)).is_none());
    }

    #[test]
    fn memory_is_freed_and_a_serial_never_comes_back() {
        let mut records = SubscriptionRecords::default();
        let mut serials = std::collections::BTreeSet::new();
        for _ in 0..3 {
            (0..2_000).for_each(|index| records.open(id(index), 7, Use::SocketId));
            assert!(serials.insert(records[id(1_500)].serial), "an address is stale");
            (0..2_000).for_each(|index| drop(records.close(id(index))));
            assert_eq!(records.pieces.len(), 1);
            assert!(records.get(id(1_500)).is_none());
        }
    }
}
