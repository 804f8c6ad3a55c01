use bytes::Bytes;

use super::{Opcode, encode::frame};

/// Largest payload of a control frame, in bytes.
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// Whether a close frame may carry this code (RFC 6455, 7.4, and its registry). Codes that are only
/// reported locally, such as 1005 and 1006, and undefined codes are invalid.
pub const fn close_code_is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A close frame; `None` for one without a code. A long reason is cut at a character boundary.
pub fn close_frame(code: Option<u16>, reason: &str) -> Bytes {
    let Some(code) = code else {
        return frame(Opcode::Close, b"");
    };
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - 2)];
    let mut payload = Vec::with_capacity(2 + reason.len());
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    frame(Opcode::Close, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_frame_carries_its_code_and_reason() {
        assert_eq!(&close_frame(Some(1001), "away")[..], b"\x88\x06\x03\xe9away");
        assert_eq!(&close_frame(None, "unused")[..], b"\x88\x00");
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character_boundary() {
        let frame = close_frame(Some(1001), &"é".repeat(100));
        assert_eq!(frame.len(), 2 + 2 + 122);
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
    }

    #[test]
    fn only_registered_and_private_codes_may_be_sent() {
        for code in [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999] {
            assert!(close_code_is_valid(code), "{code}");
        }
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            assert!(!close_code_is_valid(code), "{code}");
        }
    }
}
