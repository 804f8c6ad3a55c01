//! Bodies of POST requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The most lines of a body with content. A body with more is refused.
///
/// Phoenix reads a hundred lines and drops the rest in silence, but npm `phoenix` puts every message
/// that was sent in one turn into one body.
pub const LINES_MAX: usize = 1_000;

/// The longest base64 line, in bytes. A body with a longer one is refused.
pub const BASE64_LINE_BYTES_MAX: usize = 10_000_000;

/// One frame of a POST, as received over a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Text(&'a str),
    Binary(Vec<u8>),
}

/// The reason why a whole body is refused, with HTTP 400. None of its frames is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("line {line} of the body is neither a text frame nor base64")]
    NotBase64 {
        /// Which line, from 1.
        line: usize,
    },
    #[error(
        "the body has {lines} lines, the maximum is {LINES_MAX}: send the others in another request"
    )]
    TooManyLines { lines: usize },
    #[error("line {line} of the body has {len} bytes, the maximum is {BASE64_LINE_BYTES_MAX}")]
    LineTooLong {
        /// Which line, from 1.
        line: usize,
        len: usize,
    },
}

/// Decodes a body: one frame per line if it is `application/x-ndjson`, otherwise one frame.
///
/// A line that starts like JSON is a text frame, any other the base64 of a binary frame.
pub fn decode_body<'a>(
    content_type: Option<&str>,
    body: &'a [u8],
) -> Result<Vec<Frame<'a>>, BodyError> {
    let text = simdutf8::basic::from_utf8(body).map_err(|_| BodyError::NotUtf8)?;
    if !content_type.is_some_and(is_ndjson) {
        return Ok(vec![Frame::Text(text)]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let count = lines.clone().count();
    if count > LINES_MAX {
        return Err(BodyError::TooManyLines { lines: count });
    }
    lines.map(|(index, line)| decode_line(index + 1, line)).collect()
}

fn is_ndjson(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-ndjson")
}

fn decode_line(line: usize, text: &str) -> Result<Frame<'_>, BodyError> {
    // `{` does not occur in base64, so V1 objects can be accepted too, unlike in Phoenix.
    if text.starts_with(['[', '{']) {
        return Ok(Frame::Text(text));
    }
    if text.len() > BASE64_LINE_BYTES_MAX {
        return Err(BodyError::LineTooLong { line, len: text.len() });
    }
    STANDARD.decode(text).map(Frame::Binary).map_err(|_| BodyError::NotBase64 { line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NDJSON: Option<&str> = Some("application/x-ndjson");

    #[test]
    fn a_body_of_another_type_is_one_text_frame() {
        let body = b"[1]\n[2]";
        for content_type in [None, Some("application/json"), Some("text/plain")] {
            assert_eq!(decode_body(content_type, body), Ok(vec![Frame::Text("[1]\n[2]")]));
        }
    }

    #[test]
    fn an_ndjson_body_has_one_frame_per_line() {
        let frames = vec![Frame::Text("[1]"), Frame::Binary(vec![0, 1, 255]), Frame::Text("[2]")];
        assert_eq!(decode_body(NDJSON, b"[1]\nAAH/\r\n[2]"), Ok(frames.clone()));
        let with_charset = Some("Application/X-NDJSON; charset=utf-8");
        assert_eq!(decode_body(with_charset, b"[1]\r\nAAH/\n[2]\n"), Ok(frames));
    }

    #[test]
    fn objects_may_be_lines_too() {
        assert_eq!(decode_body(NDJSON, b"{}\n{}"), Ok(vec![Frame::Text("{}"), Frame::Text("{}")]));
    }

    #[test]
    fn empty_lines_are_skipped() {
        assert_eq!(decode_body(NDJSON, b""), Ok(Vec::new()));
        assert_eq!(decode_body(NDJSON, b"\n\r\n[1]\n\n"), Ok(vec![Frame::Text("[1]")]));
    }

    #[test]
    fn a_body_of_more_than_a_thousand_lines_is_refused_and_none_is_dropped() {
        for lines in [101, 1_000] {
            let body = "[1]\n\n".repeat(lines);
            assert_eq!(decode_body(NDJSON, body.as_bytes()).unwrap().len(), lines);
        }
        let body = "[1]\n".repeat(1_001);
        let error = decode_body(NDJSON, body.as_bytes()).unwrap_err();
        assert_eq!(error, BodyError::TooManyLines { lines: 1_001 });
        assert!(error.to_string().contains("1001 lines, the maximum is 1000"), "{error}");
    }

    #[test]
    fn a_line_that_is_neither_json_nor_base64_refuses_the_body() {
        let error = BodyError::NotBase64 { line: 3 };
        assert_eq!(decode_body(NDJSON, b"[1]\n\nhello, world"), Err(error));
    }

    #[test]
    fn a_base64_line_over_ten_million_bytes_refuses_the_body() {
        let body = "A".repeat(10_000_004);
        let error = BodyError::LineTooLong { line: 1, len: 10_000_004 };
        assert_eq!(decode_body(NDJSON, body.as_bytes()), Err(error));
    }

    #[test]
    fn a_body_that_is_not_utf_8_is_refused() {
        assert_eq!(decode_body(None, b"\xff"), Err(BodyError::NotUtf8));
    }
}
