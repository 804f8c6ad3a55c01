//! The token that gives a client its slot back.

use watchfire::internal::TokenKey;
use watchfire_types::{NodeId, PeerId};

/// A peer of a grid, and the process that has its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotToken {
    pub peer: PeerId,
    pub node: NodeId,
}

impl SlotToken {
    pub fn seal(self, key: &TokenKey) -> String {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.peer.to_bytes());
        bytes[8..].copy_from_slice(&self.node.0.to_be_bytes());
        key.seal_bytes(bytes)
    }

    /// The slot of a token. `None` when this key did not sign it.
    pub fn open(key: &TokenKey, token: &str) -> Option<Self> {
        let bytes: [u8; 10] = key.open_bytes(token)?;
        let (peer, node) = bytes.split_first_chunk()?;
        let node = NodeId(u16::from_be_bytes(node.try_into().ok()?));
        Some(SlotToken { peer: PeerId::from_bytes(*peer), node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_token_opens_only_with_its_key() {
        let key = TokenKey::new([1; 32]);
        let slot = SlotToken { peer: PeerId(7), node: NodeId(2) };
        let token = slot.seal(&key);
        assert_eq!(SlotToken::open(&key, &token), Some(slot));
        assert_eq!(SlotToken::open(&TokenKey::new([2; 32]), &token), None);
    }
}
