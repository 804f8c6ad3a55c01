//! Responses to long-poll requests: always HTTP 200, with the real status in the body.

use bytes::Bytes;

use crate::frame::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// GET: the response has messages. POST: the messages were processed.
    Ok,
    /// GET: no message arrived within the window, or a newer GET replaced this one.
    NoContent,
    /// GET or POST: the connection was refused.
    Forbidden,
    /// POST: the session did not respond within the window.
    TimedOut,
    /// GET: the response has the token of a new session. POST: the session has ended.
    Gone,
    /// GET: the server ends, or the session ended with an earlier server. Every release of phoenix.js then reconnects and joins its channels
    /// again; after [`Status::Gone`], those before 1.8 open a new session without their channels.
    Restarting,
}

impl Status {
    pub const fn code(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::NoContent => 204,
            Status::Forbidden => 403,
            Status::TimedOut => 408,
            Status::Gone => 410,
            Status::Restarting => 500,
        }
    }
}

/// The error payload that replaces a binary reply, which long poll does not support.
pub const BINARY_REFUSAL: &str = r#"{"reason":"binary cannot be carried over long poll"}"#;

/// A frame as a message of a response; `None` for a binary frame.
///
/// Clients cannot decode binary frames of a poll. Skip a binary push or broadcast, and replace a
/// binary reply by an error reply with [`BINARY_REFUSAL`].
pub fn message(kind: Kind, frame: &[u8]) -> Option<Bytes> {
    match kind {
        Kind::Text => Some(escape_message(frame)),
        Kind::Binary => None,
    }
}

/// Encodes a text frame as a quoted JSON string. Encode a broadcast once, and share it.
pub fn escape_message(frame: &[u8]) -> Bytes {
    let mut string = Vec::with_capacity(frame.len() + frame.len() / 4 + 2);
    string.push(b'"');
    // Runs of bytes without escapes are copied whole.
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let mut rest = frame;
    while let Some(at) = rest.iter().position(is_escaped) {
        string.extend_from_slice(&rest[..at]);
        write_escape(rest[at], &mut string);
        rest = &rest[at + 1..];
    }
    string.extend_from_slice(rest);
    string.push(b'"');
    string.into()
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\n' => out.extend_from_slice(br"\n"),
        b'\r' => out.extend_from_slice(br"\r"),
        b'\t' => out.extend_from_slice(br"\t"),
        0..0x20 => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        byte => out.extend_from_slice(&[b'\\', byte]),
    }
}

/// Appends a response body: `{"status":S}`, or with a token
/// `{"status":S,"token":T,"messages":[…]}`. The messages are from [`escape_message`].
pub fn encode_answer(status: Status, token: Option<&str>, messages: &[Bytes], out: &mut Vec<u8>) {
    let messages_len = messages.iter().map(|message| message.len() + 1).sum::<usize>();
    out.reserve(messages_len + token.map_or(0, str::len) + 48);
    out.extend_from_slice(br#"{"status":"#);
    out.extend_from_slice(status.code().to_string().as_bytes());
    if let Some(token) = token {
        out.extend_from_slice(br#","token":"#);
        serde_json::to_writer(&mut *out, token).expect("writing a string to memory cannot fail");
        out.extend_from_slice(br#","messages":["#);
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(message);
        }
        out.push(b']');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_a_token_has_only_a_status() {
        assert_eq!(answer(Status::Ok, None, &[]), r#"{"status":200}"#);
        assert_eq!(answer(Status::Forbidden, None, &[]), r#"{"status":403}"#);
        assert_eq!(answer(Status::TimedOut, None, &[]), r#"{"status":408}"#);
        assert_eq!(answer(Status::Gone, None, &[]), r#"{"status":410}"#);
    }

    #[test]
    fn a_response_to_a_poll_repeats_the_token_and_lists_the_messages() {
        let opened = r#"{"status":410,"token":"abc","messages":[]}"#;
        assert_eq!(answer(Status::Gone, Some("abc"), &[]), opened);
        let nothing = r#"{"status":204,"token":"abc","messages":[]}"#;
        assert_eq!(answer(Status::NoContent, Some("abc"), &[]), nothing);
        let two = r#"{"status":200,"token":"abc","messages":["[\"1\"]","[2]"]}"#;
        assert_eq!(answer(Status::Ok, Some("abc"), &[r#"["1"]"#, "[2]"]), two);
    }

    #[test]
    fn an_escaped_message_decodes_to_its_frame() {
        let every_ascii: String = (0..128).map(char::from).collect();
        for frame in ["", "[]", "\"\\\n\r\t\0\u{1f}\u{7f}", "grüße 🔥", &every_ascii] {
            let message = escape_message(frame.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&message).unwrap(), frame);
        }
    }

    fn answer(status: Status, token: Option<&str>, frames: &[&str]) -> String {
        let messages: Vec<_> =
            frames.iter().map(|frame| escape_message(frame.as_bytes())).collect();
        let mut out = Vec::new();
        encode_answer(status, token, &messages, &mut out);
        String::from_utf8(out).unwrap()
    }
}
