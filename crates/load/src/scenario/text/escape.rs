//! How a value is escaped, so that it cannot end the place where it stands.

/// Where a value is inserted, which decides how it is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is escaped.
    Plain,
    /// JSON. Between quotes a value is escaped as a string; elsewhere it is inserted unchanged, such as
    /// a number or a whole object.
    Json,
    /// A string of JSON, without its quotes.
    JsonString,
    Target,
    Header,
    /// A form: `application/x-www-form-urlencoded`.
    Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Nothing,
    Json,
    Target,
    Header,
    Form,
}

impl Place {
    /// The place for a text that is JSON if it begins like an object or an array.
    pub(crate) fn of_message(text: &str) -> Place {
        if text.trim_start().starts_with(['{', '[']) { Place::Json } else { Place::Plain }
    }

    /// How a value is escaped that follows the text that was read so far.
    pub(super) fn escape(self, quotes: &Quotes) -> Escape {
        match self {
            Place::Plain => Escape::Nothing,
            Place::Json if quotes.is_open => Escape::Json,
            Place::Json => Escape::Nothing,
            Place::JsonString => Escape::Json,
            Place::Target => Escape::Target,
            Place::Header => Escape::Header,
            Place::Form => Escape::Form,
        }
    }
}

/// Whether a text of JSON is within a string.
#[derive(Default)]
pub(super) struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    pub(super) fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_open => self.is_escaped = true,
                b'"' => self.is_open = !self.is_open,
                _ => {}
            }
        }
    }
}

impl Escape {
    /// Appends a value, so that it cannot end the place where it stands.
    pub(super) fn write(self, value: &[u8], out: &mut Vec<u8>) {
        use std::io::Write as _;
        let percent = |byte: u8, out: &mut Vec<u8>| {
            write!(out, "%{byte:02X}").expect("writing to a vector cannot fail");
        };
        for byte in value {
            match (self, *byte) {
                (Escape::Json, b'"' | b'\\') => out.extend([b'\\', *byte]),
                (Escape::Json, byte @ ..0x20) => {
                    write!(out, "\\u{byte:04x}").expect("writing to a vector cannot fail");
                }
                // A value may be a whole path: only what no target can contain is escaped.
                (Escape::Target, byte @ (..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'#')) => {
                    percent(byte, out);
                }
                (Escape::Header, b'\r' | b'\n' | 0) => out.push(b' '),
                (Escape::Form, b' ') => out.push(b'+'),
                (Escape::Form, byte)
                    if !byte.is_ascii_alphanumeric() && !b"-._*".contains(&byte) =>
                {
                    percent(byte, out);
                }
                (_, byte) => out.push(byte),
            }
        }
    }
}
