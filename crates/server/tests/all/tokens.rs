//! Tokens of clients, and a channel of an application beside those that need them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Socket};

pub const SECRET: &str = "an HS256 secret of 32 bytes or more";

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn hmac(secret: &str, message: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

/// The part of a token that is signed.
pub fn message(head: &Value, claims: &Value) -> String {
    [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

pub fn sign(claims: &Value) -> String {
    let message = message(&json!({ "alg": "HS256" }), claims);
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac(SECRET, &message)))
}

/// The reason of a refusal.
pub fn reason(reply: &Value) -> &str {
    assert_eq!(reply["status"], "error", "{reply}");
    reply["response"]["reason"].as_str().expect("an error has a reason")
}

/// A channel that answers joins with the data of its application.
pub struct Own;

impl Channel for Own {
    type State = ();

    fn join(&self, socket: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        let user = socket.assigns::<String>().cloned();
        Ok(Joined::with(()).response(json!({ "own": user })))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}
