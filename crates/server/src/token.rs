//! Tokens of long-poll sessions and of slots, signed so that a client cannot guess them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use watchfire_types::{NodeId, PeerId, ShardId};

/// Identifies a long-poll session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId {
    pub node: NodeId,
    pub shard: ShardId,
    /// The client's key in that shard.
    pub client: u32,
    /// How many clients had the key before.
    pub generation: u32,
}

/// A peer of a grid, and the process that has its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotToken {
    /// The peer.
    pub peer: PeerId,
    /// The process.
    pub node: NodeId,
}

const ID_BYTES: usize = 12;
/// Shorter than a session's id, so that one kind of token is never valid as the other.
const SLOT_BYTES: usize = 10;
/// Bytes of the signature in a token.
const SIGNATURE_BYTES: usize = 16;

/// Signs tokens. A key lives as long as the sessions or slots that its tokens name.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl TokenKey {
    /// The key of processes that know this secret.
    pub fn new(secret: [u8; 32]) -> Self {
        TokenKey(Hmac::new_from_slice(&secret).expect("HMAC accepts a key of any length"))
    }

    /// The token of a session.
    pub fn seal(&self, id: SessionId) -> String {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        bytes[..2].copy_from_slice(&id.node.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&id.shard.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&id.client.to_be_bytes());
        bytes[8..ID_BYTES].copy_from_slice(&id.generation.to_be_bytes());
        let signature = self.signed(&bytes[..ID_BYTES]).finalize().into_bytes();
        bytes[ID_BYTES..].copy_from_slice(&signature[..SIGNATURE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The session of a token. `None` when this key did not sign it.
    pub fn open(&self, token: &str) -> Option<SessionId> {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        if len != bytes.len() {
            return None;
        }
        self.signed(&bytes[..ID_BYTES]).verify_truncated_left(&bytes[ID_BYTES..]).ok()?;
        Some(SessionId {
            node: NodeId(u16::from_be_bytes(bytes[..2].try_into().ok()?)),
            shard: ShardId(u16::from_be_bytes(bytes[2..4].try_into().ok()?)),
            client: u32::from_be_bytes(bytes[4..8].try_into().ok()?),
            generation: u32::from_be_bytes(bytes[8..ID_BYTES].try_into().ok()?),
        })
    }

    /// The process in a session's token. The signature is not checked: only that process can do so.
    pub fn node_of(token: &str) -> Option<NodeId> {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let node = NodeId(u16::from_be_bytes([bytes[0], bytes[1]]));
        (len == bytes.len()).then_some(node)
    }

    /// The token that gives a peer its slot back.
    pub fn seal_slot(&self, slot: SlotToken) -> String {
        let mut bytes = [0; SLOT_BYTES + SIGNATURE_BYTES];
        bytes[..8].copy_from_slice(&slot.peer.to_bytes());
        bytes[8..SLOT_BYTES].copy_from_slice(&slot.node.0.to_be_bytes());
        let signature = self.signed(&bytes[..SLOT_BYTES]).finalize().into_bytes();
        bytes[SLOT_BYTES..].copy_from_slice(&signature[..SIGNATURE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The slot of a token. `None` when this key did not sign it.
    pub fn open_slot(&self, token: &str) -> Option<SlotToken> {
        let mut bytes = [0; SLOT_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (slot, signature) = bytes.split_first_chunk::<SLOT_BYTES>()?;
        let is_whole = len == bytes.len();
        self.signed(slot).verify_truncated_left(signature).ok().filter(|()| is_whole)?;
        Some(SlotToken {
            peer: PeerId::from_bytes(slot[..8].try_into().ok()?),
            node: NodeId(u16::from_be_bytes(slot[8..].try_into().ok()?)),
        })
    }

    fn signed(&self, id: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(id)
    }
}

/// The token of a long-poll request: the header's, or else the last one of the query. A client appends
/// it to the parameters of its application, which may have a `token` too.
pub fn request_token<'a>(header: Option<&'a str>, query: &'a str) -> Option<&'a str> {
    let in_query = || query.rsplit('&').find_map(|pair| pair.strip_prefix("token="));
    header.or_else(in_query).filter(|token| !token.is_empty())
}

/// The token in a query string.
pub fn query_token(query: &str) -> Option<&str> {
    request_token(None, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_token_opens_only_with_its_key_and_never_as_a_session_token() {
        let key = TokenKey::new([1; 32]);
        let slot = SlotToken { peer: PeerId(7), node: NodeId(2) };
        let token = key.seal_slot(slot);
        assert_eq!(key.open_slot(&token), Some(slot));
        assert_eq!(TokenKey::new([2; 32]).open_slot(&token), None);
        assert_eq!(key.open(&token), None);
        let session = SessionId { node: NodeId(0), shard: ShardId(0), client: 0, generation: 7 };
        assert_eq!(key.open_slot(&key.seal(session)), None);
        assert_eq!(key.open_slot(""), None);
    }

    #[test]
    fn a_token_opens_only_with_the_key_that_sealed_it_and_only_unchanged() {
        let key = TokenKey::new([1; 32]);
        let id = SessionId { node: NodeId(5), shard: ShardId(3), client: 70_000, generation: 9 };
        let token = key.seal(id);
        assert_eq!(TokenKey::node_of(&token), Some(NodeId(5)));
        assert_eq!(key.open(&token), Some(id));
        assert_eq!(TokenKey::new([2; 32]).open(&token), None);
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            assert_eq!(key.open(std::str::from_utf8(&changed).unwrap()), None);
        }
        for text in ["", "A", "é", &token[1..], &format!("{token}AAAA")] {
            assert_eq!(key.open(text), None, "{text}");
        }
    }
}
