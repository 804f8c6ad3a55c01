//! The messages that all servers receive: Phoenix V2 text frames, and the part of RFC 6455 and HTTP
//! that carries them.

pub const JOINED: &str = r#"["1","1","rooms:lobby","phx_reply",{"status":"ok","response":{}}]"#;
pub const HEARTBEAT_ANSWER: &str =
    r#"[null,"2","phoenix","phx_reply",{"status":"ok","response":{}}]"#;

pub const TEXT: u8 = 1;
pub const CLOSE: u8 = 8;

pub fn mask(mask: [u8; 4], payload: &mut [u8]) {
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Writes an unmasked frame, as servers must send.
pub fn put_server_frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match u8::try_from(payload.len()) {
        Ok(short @ ..126) => out.push(short),
        _ => {
            out.push(126);
            let len = u16::try_from(payload.len()).expect("the bench sends small frames only");
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

/// One frame at the start of `bytes`.
pub struct Frame<'a> {
    pub opcode: u8,
    pub mask: Option<[u8; 4]>,
    /// Still masked when there is a mask.
    pub payload: &'a [u8],
    /// Length of header and payload together.
    pub len: usize,
}

/// The frame at the start of `bytes`; `None` while it is incomplete.
pub fn frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let [first, second, ..] = *bytes else { return None };
    let (len, at) = match second & 0x7f {
        126 => (u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let masked = second & 0x80 != 0;
    let mask = if masked { Some(bytes.get(at..at + 4)?.try_into().ok()?) } else { None };
    let at = at + if masked { 4 } else { 0 };
    let end = at.checked_add(usize::try_from(len).ok()?)?;
    Some(Frame { opcode: first & 0x0f, mask, payload: bytes.get(at..end)?, len: end })
}

/// One HTTP message, request or answer, at the start of `bytes`.
pub struct HttpMessage<'a> {
    pub line: &'a str,
    /// The head without its empty line.
    pub head: &'a str,
    pub body: &'a [u8],
    /// Length of head and body together.
    pub len: usize,
}

impl HttpMessage<'_> {
    /// The value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }
}

/// The HTTP message at the start of `bytes`; `None` while it is incomplete.
///
/// A body needs a `content-length`: a chunked one appears empty here.
pub fn http_message(bytes: &[u8]) -> Option<HttpMessage<'_>> {
    let head_len = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_len]).ok()?;
    let line = head.lines().next().unwrap_or_default();
    let body_len = header(head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let start = head_len + 4;
    let end = usize::checked_add(start, body_len)?;
    Some(HttpMessage { line, head, body: bytes.get(start..end)?, len: end })
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| key.trim().eq_ignore_ascii_case(name).then(|| value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    #[test]
    fn a_frame_is_parsed_only_when_complete() {
        for len in [0, 5, 125, 126, 300] {
            let payload = vec![7; len];
            let mut bytes = Vec::new();
            put_server_frame(TEXT, &payload, &mut bytes);
            // As clients must send: masked.
            let head = bytes.len() - len;
            bytes[1] |= 0x80;
            bytes.splice(head..head, MASK);
            mask(MASK, &mut bytes[head + MASK.len()..]);
            for cut in 0..bytes.len() {
                assert!(frame(&bytes[..cut]).is_none());
            }
            let frame = frame(&bytes).unwrap();
            let mut unmasked = frame.payload.to_vec();
            mask(frame.mask.unwrap(), &mut unmasked);
            assert_eq!((frame.opcode, unmasked, frame.len), (TEXT, payload, bytes.len()));
        }
    }

    #[test]
    fn an_http_response_is_parsed_only_when_complete() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        for cut in 0..bytes.len() {
            assert!(http_message(&bytes[..cut]).is_none());
        }
        let answer = http_message(bytes).unwrap();
        assert_eq!(
            (answer.line, answer.body, answer.len),
            ("HTTP/1.1 200 OK", &b"ok"[..], bytes.len())
        );
    }
}
