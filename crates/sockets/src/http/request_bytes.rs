//! Finds the end of a request in the bytes of a connection.

use super::chunks::Chunks;
use crate::head::BodyLength;

/// Counts a request's bytes down to its end.
#[derive(Debug)]
pub(super) struct RequestBytes {
    head_left: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Bytes(u64),
    Chunked(Chunks),
}

impl RequestBytes {
    pub(super) fn new(head_len: usize, body: BodyLength) -> Self {
        let body = match body {
            BodyLength::Bytes(len) => Body::Bytes(len),
            BodyLength::Chunked => Body::Chunked(Chunks::new()),
        };
        RequestBytes { head_left: head_len, body }
    }

    /// Consumes `bytes`, and returns how many of them belong to the request.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let head = self.head_left.min(bytes.len());
        self.head_left -= head;
        let body = &bytes[head..];
        head + match &mut self.body {
            Body::Bytes(left) => {
                let here = (*left).min(body.len() as u64);
                *left -= here;
                here as usize
            }
            Body::Chunked(chunks) => chunks.take(body),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.head_left == 0
            && match &self.body {
                Body::Bytes(left) => *left == 0,
                Body::Chunked(chunks) => chunks.is_over(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let mut request = RequestBytes::new(4, BodyLength::Bytes(3));
        assert_eq!(request.take(b"he"), 2);
        assert!(!request.is_over());
        assert_eq!(request.take(b"adbodynext"), 5);
        assert!(request.is_over());
        assert_eq!(request.take(b"next"), 0);
    }

    #[test]
    fn a_chunked_request_ends_with_its_last_chunk() {
        let mut request = RequestBytes::new(1, BodyLength::Chunked);
        assert_eq!(request.take(b"h1\r\nx\r\n0\r\n\r\nGET"), 12);
        assert!(request.is_over());
    }
}
