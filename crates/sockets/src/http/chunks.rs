//! Finds the end of a chunked body (RFC 9112, section 7.1).

/// Longest accepted line: a chunk's size with its extensions, or a trailer field.
const LINE_BYTES_MAX: usize = 4096;

/// Follows a chunked body to its last byte, without decoding it; hyper decodes it and rejects a
/// malformed one. A malformed body has no end here: all following bytes belong to it.
#[derive(Debug)]
pub(super) struct Chunks {
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// In the digits of a chunk's size.
    Size { size: u64, digits: u8 },
    /// After the digits, before the line's end.
    Extension { size: u64, len: usize },
    /// In a chunk's bytes or the line end after them.
    Bytes { left: u64 },
    /// In the trailer, `len` bytes into a line.
    Trailer { len: usize },
    /// After the last byte.
    End,
    /// All following bytes belong to the body.
    Malformed,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Chunks { position: Position::Size { size: 0, digits: 0 } }
    }

    pub(super) fn is_over(&self) -> bool {
        self.position == Position::End
    }

    /// Consumes `bytes`, and returns how many of them belong to the body.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match self.position {
                Position::End => break,
                Position::Malformed => return bytes.len(),
                Position::Bytes { left } => {
                    let here = left.min((bytes.len() - at) as u64);
                    at += here as usize;
                    self.position = match left - here {
                        0 => Position::Size { size: 0, digits: 0 },
                        left => Position::Bytes { left },
                    };
                }
                _ => {
                    self.position = self.position.after(bytes[at]);
                    at += 1;
                }
            }
        }
        at
    }
}

impl Position {
    fn after(self, byte: u8) -> Position {
        match (self, byte) {
            (Position::Size { size, digits }, b'\n') => Position::after_line(size, digits),
            (Position::Size { size, digits }, _) => match (byte as char).to_digit(16) {
                Some(digit) if digits < 15 => {
                    Position::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
                }
                None if digits > 0 && matches!(byte, b'\r' | b';' | b' ' | b'\t') => {
                    Position::Extension { size, len: 0 }
                }
                _ => Position::Malformed,
            },
            (Position::Extension { size, .. }, b'\n') => Position::after_line(size, 1),
            (Position::Extension { size, len }, _) if len < LINE_BYTES_MAX => {
                Position::Extension { size, len: len + 1 }
            }
            (Position::Trailer { len: 0 }, b'\n') => Position::End,
            (Position::Trailer { .. }, b'\n') => Position::Trailer { len: 0 },
            (Position::Trailer { len: 0 }, b'\r') => Position::Trailer { len: 0 },
            (Position::Trailer { len }, _) if len < LINE_BYTES_MAX => {
                Position::Trailer { len: len + 1 }
            }
            _ => Position::Malformed,
        }
    }

    fn after_line(size: u64, digits: u8) -> Position {
        match (size, digits) {
            (_, 0) => Position::Malformed,
            (0, _) => Position::Trailer { len: 0 },
            // The line end after the chunk's bytes is counted with them.
            (size, _) => Position::Bytes { left: size + 2 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the body at the front of `bytes`, which arrive in pieces of `step`.
    fn body_len(bytes: &[u8], step: usize) -> (usize, bool) {
        let mut chunks = Chunks::new();
        let mut len = 0;
        for piece in bytes.chunks(step) {
            len += chunks.take(piece);
        }
        (len, chunks.is_over())
    }

    #[test]
    fn a_body_ends_after_its_last_chunk_and_trailer() {
        for body in [
            &b"0\r\n\r\n"[..],
            b"5\r\nhello\r\n0\r\n\r\n",
            b"A;name=value\r\n0\r\n\r\n56789\r\n1\r\nx\r\n0\r\nTrailer: yes\r\nOther: no\r\n\r\n",
        ] {
            let bytes = [body, b"GET / HTTP/1.1"].concat();
            for step in 1..bytes.len() {
                assert_eq!(body_len(&bytes, step), (body.len(), true), "in pieces of {step}");
            }
        }
    }

    #[test]
    fn a_malformed_body_has_no_end() {
        for body in [&b"x\r\n\r\n"[..], b"\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"1 1\n"] {
            let bytes = [body, b"0\r\n\r\n0\r\n\r\n"].concat();
            let (len, _) = body_len(&bytes, 3);
            assert!(len >= body.len(), "{body:?}");
        }
        assert!(!body_len(b"x\r\n0\r\n\r\n", 1).1);
    }
}
