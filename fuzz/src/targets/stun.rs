use std::net::SocketAddr;

use watchfire_pages::stun::{BindingRequest, RESPONSE_BYTES_MAX};

/// A Binding request gets a short answer with its transaction ID. An answer never parses as a
/// request.
pub fn stun_request(bytes: &[u8]) {
    let Ok(request) = BindingRequest::parse(bytes) else { return };
    for from in ["192.0.2.1:1", "[2001:db8::1]:65535"] {
        let answer = request.answer(from.parse::<SocketAddr>().expect("an address"));
        assert!(answer.len() <= RESPONSE_BYTES_MAX, "the answer is too long");
        assert_eq!(answer[4..20], bytes[4..20]);
        assert!(BindingRequest::parse(&answer).is_err(), "an answer parses as a request");
    }
}
