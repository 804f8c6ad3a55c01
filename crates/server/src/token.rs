//! Tokens of long-poll sessions and of features, signed so that a client cannot guess them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use watchfire_types::{NodeId, ShardId};

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

const ID_BYTES: usize = 12;
/// Bytes of the signature in a token.
const SIGNATURE_BYTES: usize = 16;
/// The bytes of the longest token, before it is encoded.
const TOKEN_BYTES_MAX: usize = 64;

/// Signs tokens. A key lives as long as what its tokens name.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl TokenKey {
    /// The key of processes that know this secret.
    pub fn new(secret: [u8; 32]) -> Self {
        TokenKey(Hmac::new_from_slice(&secret).expect("HMAC accepts a key of any length"))
    }

    /// The token of a session.
    pub fn seal(&self, id: SessionId) -> String {
        let mut bytes = [0; ID_BYTES];
        bytes[..2].copy_from_slice(&id.node.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&id.shard.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&id.client.to_be_bytes());
        bytes[8..].copy_from_slice(&id.generation.to_be_bytes());
        self.seal_bytes(bytes)
    }

    /// The session of a token. `None` when this key did not sign it.
    pub fn open(&self, token: &str) -> Option<SessionId> {
        let bytes: [u8; ID_BYTES] = self.open_bytes(token)?;
        Some(SessionId {
            node: NodeId(u16::from_be_bytes(bytes[..2].try_into().ok()?)),
            shard: ShardId(u16::from_be_bytes(bytes[2..4].try_into().ok()?)),
            client: u32::from_be_bytes(bytes[4..8].try_into().ok()?),
            generation: u32::from_be_bytes(bytes[8..].try_into().ok()?),
        })
    }

    /// The process in a session's token. The signature is not checked: only that process can do so.
    pub fn node_of(token: &str) -> Option<NodeId> {
        let mut bytes = [0; ID_BYTES + SIGNATURE_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let node = NodeId(u16::from_be_bytes([bytes[0], bytes[1]]));
        (len == bytes.len()).then_some(node)
    }

    /// A token of these bytes. Each kind of token has another number of bytes, so none is valid as another. A
    /// session has 12.
    pub fn seal_bytes<const N: usize>(&self, id: [u8; N]) -> String {
        let signature = self.signed(&id).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&id[..], &signature[..SIGNATURE_BYTES]].concat())
    }

    /// The bytes of a token. `None` when this key did not sign it.
    pub fn open_bytes<const N: usize>(&self, token: &str) -> Option<[u8; N]> {
        // On the stack: each poll opens a token, and a longer one is refused before it is decoded.
        let mut bytes = [0; TOKEN_BYTES_MAX];
        const { assert!(N + SIGNATURE_BYTES <= TOKEN_BYTES_MAX) };
        let len = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (id, signature) = bytes[..len].split_first_chunk::<N>()?;
        if signature.len() != SIGNATURE_BYTES {
            return None;
        }
        self.signed(id).verify_truncated_left(signature).ok().map(|()| *id)
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
    fn a_token_of_other_bytes_is_never_a_session_token() {
        let key = TokenKey::new([1; 32]);
        let token = key.seal_bytes([7; 10]);
        assert_eq!(key.open_bytes(&token), Some([7; 10]));
        assert_eq!(TokenKey::new([2; 32]).open_bytes::<10>(&token), None);
        assert_eq!(key.open(&token), None);
        let session = SessionId { node: NodeId(0), shard: ShardId(0), client: 0, generation: 7 };
        assert_eq!(key.open_bytes::<10>(&key.seal(session)), None);
        assert_eq!(key.open_bytes::<10>(""), None);
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
