use bytes::Bytes;

use super::Opcode;

/// The longest header of a server's frame, which has no mask.
pub const HEADER_BYTES_MAX: usize = 10;

/// Appends the header of an unfragmented message of `len` bytes.
///
/// ```
/// use watchfire_sockets::frame::{Opcode, write_header};
///
/// let mut out = Vec::new();
/// write_header(Opcode::Text, 5, &mut out);
/// out.extend_from_slice(b"hello");
/// assert_eq!(out, b"\x81\x05hello");
/// ```
pub fn write_header(opcode: Opcode, len: usize, out: &mut Vec<u8>) {
    out.push(0x80 | opcode.bits());
    match len {
        0..=125 => out.push(len as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

/// A complete frame. The payload of a text frame must be UTF-8, or clients close the connection.
pub fn frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEADER_BYTES_MAX + payload.len());
    write_header(opcode, payload.len(), &mut out);
    out.extend_from_slice(payload);
    out.into()
}

/// A complete text message. The payload must be UTF-8, or clients close the connection.
pub fn text_frame(payload: &[u8]) -> Bytes {
    frame(Opcode::Text, payload)
}

pub fn binary_frame(payload: &[u8]) -> Bytes {
    frame(Opcode::Binary, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_takes_the_fewest_bytes() {
        let header = |len| {
            let mut out = Vec::new();
            write_header(Opcode::Binary, len, &mut out);
            out
        };
        assert_eq!(header(0), [0x82, 0]);
        assert_eq!(header(125), [0x82, 125]);
        assert_eq!(header(126), [0x82, 126, 0, 126]);
        assert_eq!(header(0xffff), [0x82, 126, 0xff, 0xff]);
        assert_eq!(header(0x1_0000), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
