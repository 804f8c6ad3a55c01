//! The client side of RFC 6455: it sends masked frames and receives unmasked ones.

use base64::Engine as _;
use sha1::{Digest as _, Sha1};

/// The longest message that is accepted; a longer one ends its user with an error.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Frame<'a> {
    pub(crate) is_final: bool,
    pub(crate) opcode: Opcode,
    pub(crate) payload: &'a [u8],
}

/// A violation of the protocol by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    Masked,
    ReservedBits,
    UnknownOpcode,
    BadControl,
    BadClose,
    TooLong,
}

/// The first frame in `bytes` and its total length; `None` while it is incomplete.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(FrameError::ReservedBits);
    }
    if second & 0x80 != 0 {
        return Err(FrameError::Masked);
    }
    let is_final = first & 0x80 != 0;
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(FrameError::UnknownOpcode),
    };
    if first & 0x08 != 0 && (!is_final || *second > 125) {
        return Err(FrameError::BadControl);
    }
    let (len, at) = match (second, rest) {
        (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4),
        (127, [a, b, c, d, e, f, g, h, ..]) => {
            (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10)
        }
        (126 | 127, _) => return Ok(None),
        (len, _) => (u64::from(*len), 2),
    };
    // Checked before the payload arrives, so that a user does not buffer it. The limit also keeps
    // the sum below from overflowing.
    if len > MESSAGE_BYTES_MAX as u64 {
        return Err(FrameError::TooLong);
    }
    let end = at + len as usize;
    let payload = bytes.get(at..end);
    Ok(payload.map(|payload| (Frame { is_final, opcode, payload }, end)))
}

/// The code in the payload of a close frame; `None` if it has none (RFC 6455, sections 5.5.1 and 7.4).
pub(crate) fn close_code(payload: &[u8]) -> Result<Option<u16>, FrameError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(FrameError::BadClose) };
    };
    let code = u16::from_be_bytes(*code);
    let is_sendable = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
    if !is_sendable || str::from_utf8(reason).is_err() {
        return Err(FrameError::BadClose);
    }
    Ok(Some(code))
}

/// Appends one whole masked frame.
pub(crate) fn encode(opcode: Opcode, payload: &[u8], mask: u32, out: &mut Vec<u8>) {
    out.push(0x80 | opcode as u8);
    match payload.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    let mask = mask.to_be_bytes();
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// The `Sec-WebSocket-Key` made of a random number.
pub(crate) fn key(nonce: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&nonce.to_be_bytes());
    bytes[8..].copy_from_slice(&nonce.rotate_left(23).to_be_bytes());
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The `Sec-WebSocket-Accept` that belongs to a key.
pub(crate) fn accept(key: &str) -> String {
    let mut sha1 = Sha1::new();
    sha1.update(key);
    sha1.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    base64::engine::general_purpose::STANDARD.encode(sha1.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(payload: &[u8]) -> Frame<'_> {
        Frame { is_final: true, opcode: Opcode::Text, payload }
    }

    #[test]
    fn the_examples_of_rfc_6455_hold() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let hello = [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
        assert_eq!(decode(&hello), Ok(Some((text(b"Hello"), 7))));
        let mut masked = Vec::new();
        encode(Opcode::Text, b"Hello", 0x37fa_213d, &mut masked);
        assert_eq!(masked, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn an_incomplete_frame_waits_for_the_rest() {
        for len in [0, 5, 125, 126, 300, 70_000] {
            let payload = vec![b'x'; len];
            let mut whole = vec![0x81];
            match len {
                0..126 => whole.push(len as u8),
                126..=0xffff => {
                    whole.push(126);
                    whole.extend((len as u16).to_be_bytes());
                }
                _ => {
                    whole.push(127);
                    whole.extend((len as u64).to_be_bytes());
                }
            }
            whole.extend(&payload);
            for cut in (0..whole.len()).step_by(97).chain(0..whole.len().min(12)) {
                assert_eq!(decode(&whole[..cut]), Ok(None), "{len} cut at {cut}");
            }
            assert_eq!(decode(&whole), Ok(Some((text(&payload), whole.len()))));
        }
    }

    #[test]
    fn invalid_frames_are_rejected_by_name() {
        let long = [0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0];
        let cases: [(&[u8], FrameError); 6] = [
            (&[0x81, 0x80], FrameError::Masked),
            (&[0xc1, 0x00], FrameError::ReservedBits),
            (&[0x83, 0x00], FrameError::UnknownOpcode),
            (&[0x09, 0x00], FrameError::BadControl),
            (&[0x89, 0x7e, 0, 200], FrameError::BadControl),
            (&long, FrameError::TooLong),
        ];
        for (bytes, error) in cases {
            assert_eq!(decode(bytes), Err(error), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_close_frame_has_no_payload_or_a_code_that_may_be_sent_and_a_reason_in_utf_8() {
        let close = |code: u16, reason: &[u8]| [&code.to_be_bytes(), reason].concat();
        assert_eq!(close_code(b""), Ok(None));
        for code in [1000, 1001, 1003, 1007, 1011, 1012, 1013, 3000, 4999] {
            assert_eq!(close_code(&close(code, b"")), Ok(Some(code)));
        }
        assert_eq!(close_code(&close(1000, "für immer".as_bytes())), Ok(Some(1000)));
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, u16::MAX] {
            assert_eq!(close_code(&close(code, b"")), Err(FrameError::BadClose), "{code}");
        }
        assert_eq!(close_code(&[3]), Err(FrameError::BadClose));
        assert_eq!(close_code(&close(1000, b"f\xfcr")), Err(FrameError::BadClose));
    }
}
