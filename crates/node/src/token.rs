//! Long-poll tokens: which session a request belongs to, signed so that none can be guessed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use vocab::{NodeId, PeerId, ShardId};

/// Where a long-poll session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId {
    pub node: NodeId,
    pub shard: ShardId,
    /// The client's slot in that shard.
    pub client: u32,
    /// How many clients the slot has held before.
    pub generation: u32,
}

/// A peer of a plane, and the process where its seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub peer: PeerId,
    pub node: NodeId,
}

const ID_BYTES: usize = 12;
/// Shorter than a session's id, so that neither token passes for the other.
const PLACE_BYTES: usize = 10;
/// Bytes of the signature that a token carries.
const SIGNATURE_BYTES: usize = 16;

/// Signs tokens with a key that lives and dies with what the tokens are for.
#[derive(Clone)]
pub(crate) struct TokenKey(Hmac<Sha256>);

impl TokenKey {
    pub fn new(secret: [u8; 32]) -> Self {
        TokenKey(Hmac::new_from_slice(&secret).expect("a key of any length will do"))
    }

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

    /// The session that a token names; `None` for what we did not sign.
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

    /// The process that a session's token names, whoever signed it: the one that can tell.
    pub fn node_of(token: &str) -> Option<NodeId> {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let node = NodeId(u16::from_be_bytes([bytes[0], bytes[1]]));
        (len == bytes.len()).then_some(node)
    }

    /// What gives a peer its place on a plane back, at the process where its seat is.
    pub fn seal_place(&self, place: Place) -> String {
        let mut bytes = [0; PLACE_BYTES + SIGNATURE_BYTES];
        bytes[..8].copy_from_slice(&place.peer.to_bytes());
        bytes[8..PLACE_BYTES].copy_from_slice(&place.node.0.to_be_bytes());
        let signature = self.signed(&bytes[..PLACE_BYTES]).finalize().into_bytes();
        bytes[PLACE_BYTES..].copy_from_slice(&signature[..SIGNATURE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place that a token names; `None` for what we did not sign.
    pub fn open_place(&self, token: &str) -> Option<Place> {
        let mut bytes = [0; PLACE_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (place, signature) = bytes.split_first_chunk::<PLACE_BYTES>()?;
        let is_whole = len == bytes.len();
        self.signed(place).verify_truncated_left(signature).ok().filter(|()| is_whole)?;
        Some(Place {
            peer: PeerId::from_bytes(place[..8].try_into().ok()?),
            node: NodeId(u16::from_be_bytes(place[8..].try_into().ok()?)),
        })
    }

    fn signed(&self, id: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_s_token_opens_only_with_its_key_and_never_as_a_session_s() {
        let key = TokenKey::new([1; 32]);
        let place = Place { peer: PeerId(7), node: NodeId(2) };
        let token = key.seal_place(place);
        assert_eq!(key.open_place(&token), Some(place));
        assert_eq!(TokenKey::new([2; 32]).open_place(&token), None);
        assert_eq!(key.open(&token), None);
        let session = SessionId { node: NodeId(0), shard: ShardId(0), client: 0, generation: 7 };
        assert_eq!(key.open_place(&key.seal(session)), None);
        assert_eq!(key.open_place(""), None);
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
