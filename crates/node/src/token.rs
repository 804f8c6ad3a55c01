//! Long-poll tokens: which session a request belongs to, signed so that none can be guessed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use vocab::{PeerId, ShardId};

/// Where a long-poll session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId {
    pub shard: ShardId,
    /// The client's slot in that shard.
    pub client: u32,
    /// How many clients the slot has held before.
    pub generation: u32,
}

const ID_BYTES: usize = 10;
/// Shorter than a session's id, so that neither token passes for the other.
const PEER_BYTES: usize = 8;
/// Bytes of the signature that a token carries.
const SIGNATURE_BYTES: usize = 16;

/// Signs tokens with a key that lives and dies with the process, as the sessions do.
#[derive(Clone)]
pub(crate) struct TokenKey(Hmac<Sha256>);

impl TokenKey {
    pub fn new(secret: [u8; 32]) -> Self {
        TokenKey(Hmac::new_from_slice(&secret).expect("a key of any length will do"))
    }

    pub fn seal(&self, id: SessionId) -> String {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        bytes[..2].copy_from_slice(&id.shard.0.to_be_bytes());
        bytes[2..6].copy_from_slice(&id.client.to_be_bytes());
        bytes[6..ID_BYTES].copy_from_slice(&id.generation.to_be_bytes());
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
            shard: ShardId(u16::from_be_bytes(bytes[..2].try_into().ok()?)),
            client: u32::from_be_bytes(bytes[2..6].try_into().ok()?),
            generation: u32::from_be_bytes(bytes[6..ID_BYTES].try_into().ok()?),
        })
    }

    /// What gives a peer its place on a plane back.
    pub fn seal_peer(&self, peer: PeerId) -> String {
        let mut bytes = [0; PEER_BYTES + SIGNATURE_BYTES];
        bytes[..PEER_BYTES].copy_from_slice(&peer.to_bytes());
        let signature = self.signed(&bytes[..PEER_BYTES]).finalize().into_bytes();
        bytes[PEER_BYTES..].copy_from_slice(&signature[..SIGNATURE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The peer that a token names; `None` for what we did not sign.
    pub fn open_peer(&self, token: &str) -> Option<PeerId> {
        let mut bytes = [0; PEER_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (peer, signature) = bytes.split_first_chunk::<PEER_BYTES>()?;
        let is_whole = len == bytes.len();
        self.signed(peer).verify_truncated_left(signature).ok().filter(|()| is_whole)?;
        Some(PeerId::from_bytes(*peer))
    }

    fn signed(&self, id: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_s_token_opens_only_with_its_key_and_never_as_a_session_s() {
        let key = TokenKey::new([1; 32]);
        let token = key.seal_peer(PeerId(7));
        assert_eq!(key.open_peer(&token), Some(PeerId(7)));
        assert_eq!(TokenKey::new([2; 32]).open_peer(&token), None);
        assert_eq!(key.open(&token), None);
        let session = SessionId { shard: ShardId(0), client: 0, generation: 7 };
        assert_eq!(key.open_peer(&key.seal(session)), None);
        assert_eq!(key.open_peer(""), None);
    }

    #[test]
    fn a_token_opens_only_with_the_key_that_sealed_it_and_only_unchanged() {
        let key = TokenKey::new([1; 32]);
        let id = SessionId { shard: ShardId(3), client: 70_000, generation: 9 };
        let token = key.seal(id);
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
