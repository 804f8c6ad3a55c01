//! The key by which the server recognises its own clients, which its features start.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use watchfire_channels::handshake::Params;

/// The parameter with the key, of a request to connect and of a join.
const PARAMETER: &str = "own_client_key";

/// A secret that only the processes of this server and its own clients know.
#[derive(Clone)]
pub struct OwnClientKey(String);

impl OwnClientKey {
    /// The key of a server, whose processes know `secret`.
    pub fn new(secret: &[u8; 32]) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC accepts a key of any length");
        let key = mac.chain_update(PARAMETER).finalize().into_bytes();
        OwnClientKey(key.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The parameters that a client of this server's own adds to its join.
    pub fn to_json(&self) -> Value {
        json!({ PARAMETER: self.0 })
    }

    /// The parameter that such a client adds to its request to connect.
    pub fn to_query(&self) -> String {
        format!("{PARAMETER}={}", self.0)
    }

    /// Whether this is the key.
    pub fn matches(&self, key: &str) -> bool {
        // The time that the comparison of two hashes takes says nothing about the key.
        Sha256::digest(&self.0) == Sha256::digest(key)
    }

    /// Whether a request to connect is one of this server's own clients.
    pub fn is_in(&self, params: &Params) -> bool {
        params.text(PARAMETER).is_some_and(|key| self.matches(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_knows_the_key_of_its_own_clients_only() {
        let [ours, theirs] = [[1; 32], [2; 32]].map(|secret| OwnClientKey::new(&secret));
        let is_own = |query: &str| ours.is_in(&Params::parse(query).unwrap());
        assert!(is_own(&format!("vsn=2.0.0&{}", ours.to_query())));
        for query in ["vsn=2.0.0", "own_client_key=", "own_client_key[a]=b", &theirs.to_query()] {
            assert!(!is_own(query), "{query}");
        }
        assert!(ours.matches(ours.to_json()[PARAMETER].as_str().unwrap()));
    }
}
