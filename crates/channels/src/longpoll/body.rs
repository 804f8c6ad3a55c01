//! What a POST carries.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How many lines of a body are read; the rest are ignored, as Phoenix does.
pub const LINES_MAX: usize = 100;

/// The longest base64 line, in bytes. A body with a longer one is refused.
pub const BASE64_LINE_BYTES_MAX: usize = 10_000_000;

/// One frame of a POST, as if it had come over a websocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A text frame.
    Text(&'a str),
    /// A binary frame.
    Binary(Vec<u8>),
}

/// Why a body is refused whole, with HTTP 400: none of its frames is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is not UTF-8.
    #[error("the body is not UTF-8")]
    NotUtf8,
    /// A line is neither JSON nor base64.
    #[error("line {line} of the body is neither a text frame nor base64")]
    NotBase64 {
        /// Which line, from 1.
        line: usize,
    },
    /// A base64 line is longer than [`BASE64_LINE_BYTES_MAX`].
    #[error("line {line} of the body has {len} bytes, at most {BASE64_LINE_BYTES_MAX} are taken")]
    LineTooLong {
        /// Which line, from 1.
        line: usize,
        /// Its length in bytes.
        len: usize,
    },
}

/// Read a POST's body: lines if its content type is `application/x-ndjson`, otherwise one frame.
///
/// A line that starts like JSON is a text frame, any other is the base64 of a binary frame, an
/// empty one is nothing.
pub fn decode_body<'a>(
    content_type: Option<&str>,
    body: &'a [u8],
) -> Result<Vec<Frame<'a>>, BodyError> {
    let text = simdutf8::basic::from_utf8(body).map_err(|_| BodyError::NotUtf8)?;
    if !content_type.is_some_and(is_ndjson) {
        return Ok(vec![Frame::Text(text)]);
    }
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .take(LINES_MAX)
        .map(|(index, line)| decode_line(index + 1, line))
        .collect()
}

fn is_ndjson(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-ndjson")
}

fn decode_line(line: usize, text: &str) -> Result<Frame<'_>, BodyError> {
    // `{` is in no base64, so V1 objects are understood too, unlike in Phoenix.
    if text.starts_with(['[', '{']) {
        return Ok(Frame::Text(text));
    }
    if text.len() > BASE64_LINE_BYTES_MAX {
        return Err(BodyError::LineTooLong { line, len: text.len() });
    }
    STANDARD.decode(text).map(Frame::Binary).map_err(|_| BodyError::NotBase64 { line })
}
