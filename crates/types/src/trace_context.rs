use std::fmt;

/// The place of a span in a distributed trace, as in the header `traceparent` of W3C Trace Context.
///
/// ```
/// use watchfire_types::TraceContext;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let context = TraceContext::parse(text.as_bytes()).unwrap();
/// assert!(context.is_sampled);
/// assert_eq!(context.to_string(), text);
/// assert_eq!(TraceContext::parse(b"00-bad"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// Shared by all spans of a trace; never all zeros.
    pub trace_id: [u8; 16],
    /// The span itself; never all zeros.
    pub span_id: [u8; 8],
    /// Whether the caller records the trace.
    pub is_sampled: bool,
}

impl TraceContext {
    pub const TEXT_BYTES: usize = 55;

    /// Reads the text form. `None` for everything that is not exactly version 00 of the format: a
    /// context that a client made up must never cost more than this call.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; Self::TEXT_BYTES] = text.try_into().ok()?;
        if &text[..3] != b"00-" || text[35] != b'-' || text[52] != b'-' {
            return None;
        }
        let (mut trace_id, mut span_id, mut flags) = ([0; 16], [0; 8], [0; 1]);
        decode_hex(&text[3..35], &mut trace_id)?;
        decode_hex(&text[36..52], &mut span_id)?;
        decode_hex(&text[53..], &mut flags)?;
        let has_ids = trace_id != [0; 16] && span_id != [0; 8];
        has_ids.then_some(TraceContext { trace_id, span_id, is_sampled: flags[0] & 1 == 1 })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace_id = u128::from_be_bytes(self.trace_id);
        let span_id = u64::from_be_bytes(self.span_id);
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(self.is_sampled))
    }
}

/// Decodes lower-case hexadecimal digits, two for each byte.
fn decode_hex(digits: &[u8], bytes: &mut [u8]) -> Option<()> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    for (pair, byte) in digits.chunks_exact(2).zip(bytes) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn flags_other_than_sampled_are_ignored() {
        let parse = |flags: &str| TraceContext::parse(format!("{}{flags}", &TEXT[..53]).as_bytes());
        assert!(!parse("00").unwrap().is_sampled);
        assert!(parse("03").unwrap().is_sampled);
        assert_eq!(parse("03").unwrap().to_string(), TEXT);
    }

    #[test]
    fn only_the_exact_format_is_read() {
        let wrong = [
            String::new(),
            TEXT.to_uppercase(),
            format!("{TEXT}-"),
            TEXT[1..].to_owned(),
            TEXT.replacen("00", "01", 1),
            TEXT.replace('-', "_"),
            TEXT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TEXT.replace("b7ad6b7169203331", &"0".repeat(16)),
            TEXT.replace("b7", "é"),
            "x".repeat(TraceContext::TEXT_BYTES),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text:?}");
        }
        // A wrong byte at any position is either another valid context or no context.
        for at in 0..TEXT.len() {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = b'g';
            assert_eq!(TraceContext::parse(&bytes), None, "byte {at}");
        }
    }
}
