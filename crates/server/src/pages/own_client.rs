//! The key by which the server recognises its own page clients, which the gateway starts.

use serde_json::{Value, json};

/// A secret that only this server and its own page clients know.
#[derive(Clone)]
pub(crate) struct OwnClientKey(String);

impl OwnClientKey {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        Ok(OwnClientKey(secret.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The parameters that a page client of this server adds to its join.
    pub fn to_json(&self) -> Value {
        json!({ "own_client_key": self.0 })
    }

    pub fn matches(&self, key: &str) -> bool {
        // The comparison is not constant-time. An attacker could only gain that the gateway does
        // not count its peers.
        self.0 == key
    }
}
