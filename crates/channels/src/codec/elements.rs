//! Elements that both text serializers read and write.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::{DecodeError, Field};
use crate::reference::{REF_BYTES_MAX, Ref};

/// The longest topic or event that is parsed, in bytes.
///
/// A topic that is too long for a channel, but not longer than this, is answered with an error
/// reply, which must repeat the topic. Longer ones are decode errors, which close the socket.
pub(super) const TEXT_BYTES_MAX: usize = 16 * 1024;

/// Reads a ref: absent or any JSON value.
pub(super) fn reference(field: Field, raw: &RawValue) -> Result<Ref, DecodeError> {
    Ref::from_json(raw.get()).map_err(|error| DecodeError::FieldTooLong {
        field,
        len: error.len,
        max: REF_BYTES_MAX,
    })
}

/// Reads a topic or event. It is borrowed if it has no escapes.
pub(super) fn text<'a>(field: Field, raw: &'a RawValue) -> Result<Cow<'a, str>, DecodeError> {
    let json = raw.get();
    let content = json
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or(DecodeError::NotText { field })?;
    let text = if content.as_bytes().contains(&b'\\') {
        // Half of a surrogate pair is valid JSON, but not valid text.
        let unescaped = serde_json::from_str(json).map_err(|_| DecodeError::NotText { field })?;
        Cow::Owned(unescaped)
    } else {
        Cow::Borrowed(content)
    };
    match text.len() {
        len if len > TEXT_BYTES_MAX => {
            Err(DecodeError::FieldTooLong { field, len, max: TEXT_BYTES_MAX })
        }
        _ => Ok(text),
    }
}

/// Converts serde's error; `wrong_type` is the error for valid JSON of another type.
pub(super) fn decode_error(error: &serde_json::Error, wrong_type: DecodeError) -> DecodeError {
    if error.is_data() {
        return wrong_type;
    }
    DecodeError::NotJson { line: error.line(), column: error.column() }
}

pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().any(needs_escape) {
        serde_json::to_writer(out, text).expect("writing a string to memory cannot fail");
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}
