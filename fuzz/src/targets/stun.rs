use std::net::SocketAddr;

use watchfire_stun::{ANSWER_BYTES_MAX, BindingRequest};

/// Whatever is a Binding request is answered shortly, with its own transaction, and no answer is
/// taken for a request.
pub fn stun_request(bytes: &[u8]) {
    let Ok(request) = BindingRequest::parse(bytes) else { return };
    for from in ["192.0.2.1:1", "[2001:db8::1]:65535"] {
        let answer = request.answer(from.parse::<SocketAddr>().expect("an address"));
        assert!(answer.len() <= ANSWER_BYTES_MAX, "a long answer");
        assert_eq!(answer[4..20], bytes[4..20]);
        assert!(BindingRequest::parse(&answer).is_err(), "an answer to an answer");
    }
}
