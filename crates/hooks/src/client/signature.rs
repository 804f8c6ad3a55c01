//! The signature of a request, with which the backend knows its sender.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of the header `Watchfire-Signature`: the time in seconds since the Unix epoch, and the
/// HMAC-SHA256 of the time, a dot and the body. With the time, the backend can refuse old requests
/// that someone repeats.
pub(super) fn signature(secret: &[u8], seconds: u64, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    let mac = mac.chain_update(seconds.to_string()).chain_update(".").chain_update(body);
    let mut text = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_other_programs() {
        // printf '1700000000.{"hook":"join"}' | openssl dgst -sha256 -hmac 'secret of the test'
        assert_eq!(
            signature(b"secret of the test", 1_700_000_000, r#"{"hook":"join"}"#),
            "t=1700000000,v1=7a28189f962ed5e8559a986b875005cb9bd70c8c7bc1cf7c1ba02cf571774491"
        );
    }
}
