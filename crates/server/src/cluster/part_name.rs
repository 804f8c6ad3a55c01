//! The names of the parts that exchange messages with themselves in other processes.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use watchfire_types::{FixedHash, NodeId};

/// The bytes of a name in a message.
pub(super) type PartId = [u8; 4];

/// Unknown parts of which a process keeps a note. Beyond them, it logs nothing.
const UNKNOWN_MAX: usize = 256;

/// The name of a part, and the format of its messages.
///
/// Messages carry four bytes of a hash of both. They never depend on the other parts of a process:
/// machines with other rules, features or settings have other parts. Numbers would need a list of all
/// features, and names that two processes negotiate a table for each link. A part with another format
/// is another part, which the older process does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartName {
    name: &'static str,
    id: PartId,
}

impl PartName {
    /// The processes themselves.
    pub(super) const CLUSTER: PartName = PartName { name: "cluster", id: [0; 4] };

    /// The name of a part. `format` changes with the messages of the part; a feature computes it from
    /// samples of them.
    pub fn new(name: &'static str, format: u64) -> Self {
        let hash = FixedHash::new(format).text(name).finish().to_le_bytes();
        // The first byte differs from those of a message within a span and of the cluster itself.
        PartName { name, id: [hash[0] % 127 + 1, hash[1], hash[2], hash[3]] }
    }

    /// The name of a part of the server itself. The format of these parts is that of the cluster.
    pub(crate) fn own(name: &'static str) -> Self {
        Self::new(name, 0)
    }

    pub(super) fn id(self) -> PartId {
        self.id
    }

    pub(super) fn name(self) -> &'static str {
        self.name
    }
}

/// The parts of other processes that this process does not have, each of them logged once.
#[derive(Debug, Default)]
pub(super) struct UnknownParts(Mutex<BTreeSet<PartId>>);

impl UnknownParts {
    /// Notes a message for a part that this process does not have. Returns whether it is the first.
    pub fn note(&self, from: NodeId, part: PartId) -> bool {
        let mut known = self.0.lock();
        let is_first = known.len() < UNKNOWN_MAX && known.insert(part);
        if is_first {
            tracing::info!(
                %from,
                part = u32::from_le_bytes(part),
                "ignoring messages of another process for a part that this process does not have; \
                 give all machines the same features and settings if this is not intended"
            );
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_is_logged_once_and_the_notes_are_bounded() {
        let unknown = UnknownParts::default();
        for part in 0..300_u32 {
            let is_first = unknown.note(NodeId(1), part.to_le_bytes());
            assert_eq!(is_first, (part as usize) < UNKNOWN_MAX);
            assert!(!unknown.note(NodeId(2), part.to_le_bytes()));
        }
    }

    #[test]
    fn a_part_of_another_name_or_format_is_another_part() {
        let ids = [("rooms", 1), ("rooms", 2), ("games", 1), ("games", 2)];
        let ids = BTreeSet::from(ids.map(|(name, format)| PartName::new(name, format).id()));
        assert_eq!(ids.len(), 4);
        assert!(ids.iter().all(|id| id[0] != 0 && id[0] < 128));
    }
}
