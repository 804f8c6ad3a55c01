//! The names of the parts that exchange messages with themselves in other processes.

use std::sync::atomic::{AtomicU64, Ordering};

use watchfire_types::NodeId;

/// The name of a part, as messages carry it.
///
/// A name is one byte that never depends on the other parts of a process: machines with other rules,
/// features or settings have other parts. One list is enough for that. Names that two processes
/// negotiate would need a table for each link, and hashes of texts would need several bytes to be
/// distinct. Here the compiler refuses two equal names. Numbers are not used again for other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PartName {
    /// The processes themselves.
    Cluster = 0,
    Endpoint = 1,
    History = 2,
    Presence = 3,
    Addresses = 4,
    Availability = 5,
    Pages = 6,
    Sprites = 7,
    DenyList = 8,
    Api = 9,
    Metrics = 10,
    DeniedAddresses = 11,
    Operator = 12,
    Profiles = 13,
}

#[cfg(test)]
impl PartName {
    pub const ALL: [PartName; 14] = {
        use PartName::*;
        [
            Cluster,
            Endpoint,
            History,
            Presence,
            Addresses,
            Availability,
            Pages,
            Sprites,
            DenyList,
            Api,
            Metrics,
            DeniedAddresses,
            Operator,
            Profiles,
        ]
    };
}

/// The parts of other processes that this process does not have, each of them logged once.
#[derive(Debug, Default)]
pub(super) struct UnknownParts([AtomicU64; 4]);

impl UnknownParts {
    /// Notes a message for a part that this process does not have. Returns whether it is the first.
    pub fn note(&self, from: NodeId, part: u8) -> bool {
        let bit = 1 << (part % 64);
        let is_first = self.0[usize::from(part / 64)].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        if is_first {
            tracing::info!(
                %from,
                part,
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
    fn an_unknown_part_is_logged_once() {
        let unknown = UnknownParts::default();
        for part in [0, 63, 64, 255] {
            assert!(unknown.note(NodeId(1), part));
            assert!(!unknown.note(NodeId(2), part));
        }
    }
}
