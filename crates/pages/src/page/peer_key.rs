//! The secret by which a client has the same id at several servers.

use std::ops::RangeInclusive;

use serde::Deserialize;
use watchfire_content::Multihash;
use watchfire_types::PeerId;

/// The length of a key.
const KEY_BYTES: RangeInclusive<usize> = 16..=64;

/// The id that follows from a peer's key. Other peers learn the id and not the key, so they cannot take
/// the id at another server. A server that the client joins learns the key, and can join elsewhere under the id
/// before the client does.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PeerKey {
    /// The first eight bytes of the SHA-256 hash of the key.
    pub peer: PeerId,
}

impl TryFrom<String> for PeerKey {
    type Error = &'static str;

    fn try_from(key: String) -> Result<Self, Self::Error> {
        if !KEY_BYTES.contains(&key.len()) {
            return Err("a peer_key has 16 to 64 bytes");
        }
        let hash = Multihash::sha2_256(key.as_bytes());
        let first = *hash.digest().first_chunk().expect("the hash has 32 bytes");
        Ok(PeerKey { peer: PeerId::from_bytes(first) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(key: Value) -> Option<PeerId> {
        serde_json::from_value::<PeerKey>(key).ok().map(|key| key.peer)
    }

    #[test]
    fn the_id_of_a_peer_is_the_beginning_of_the_hash_of_its_key() {
        let hash = "9f9f5111f7b27a78".parse().unwrap();
        assert_eq!(read(json!("0123456789abcdef")), Some(hash));
        assert_ne!(read(json!("0123456789abcdeg")), Some(hash));
    }

    #[test]
    fn a_key_that_is_short_or_long_or_no_text_is_invalid() {
        // Bytes count, and not characters.
        let lengths = [("a", 16), ("a", 64), ("\u{e4}", 8), ("\u{e4}", 32)];
        assert!(lengths.iter().all(|(text, n)| read(json!(text.repeat(*n))).is_some()));
        let lengths = [("a", 0), ("a", 15), ("a", 65), ("\u{e4}", 33)];
        assert!(lengths.iter().all(|(text, n)| read(json!(text.repeat(*n))).is_none()));
        assert!(
            [json!(7), json!(["0123456789abcdef"]), json!({})]
                .map(read)
                .iter()
                .all(Option::is_none)
        );
    }
}
