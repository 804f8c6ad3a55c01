//! The upgrade request of a websocket, and the times of phoenix.js.

use crate::message::WEBSOCKET_KEY;

/// Retry delays of phoenix.js in milliseconds, after the first failure, the second, and so on.
pub const RETRY_MILLIS: [u64; 10] = [10, 50, 100, 150, 200, 250, 500, 1000, 2000, 5000];
/// The timeout of phoenix.js for a connection and a join.
pub const JOIN_TIMEOUT_NS: u64 = 10_000_000_000;

pub fn put_upgrade(path: &str, out: &mut Vec<u8>) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
    );
    out.extend_from_slice(request.as_bytes());
}
