//! Regular expressions in the syntax of Perl, as Tsung's files have them.
//!
//! A pattern is matched in time that grows only with the length of the answer. So a pattern that
//! looks around or refers back is rejected: such patterns can take seconds on one answer, while
//! other users are late. Perl reads a few characters as themselves that the library reads
//! otherwise; they are escaped first.

use regex::bytes::{Regex, RegexBuilder};

/// The most memory of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        let mut builder = RegexBuilder::new(&escaped(text));
        let regex = builder.unicode(false).size_limit(PATTERN_BYTES_MAX).build();
        regex.map(Pattern).map_err(|error| {
            let cause = error.to_string();
            let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("invalid regular expression {text:?}: {cause}")
        })
    }

    /// Parses the notation that Tsung had before version 1.4, where `\(` and `\)` are the group.
    pub(crate) fn parse_old(text: &str) -> Result<Pattern, String> {
        let plain = text.replace("\\(", "\u{1}").replace("\\)", "\u{2}");
        let plain = plain.replace('(', "(?:").replace('\u{1}', "(").replace('\u{2}', ")");
        Pattern::parse(&plain)
    }

    pub(crate) fn is_match(&self, bytes: &[u8]) -> bool {
        self.0.is_match(bytes)
    }

    /// The text of the first group; `None` without a match. A group that took no part is empty.
    pub(crate) fn first_group<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let groups = self.0.captures(bytes)?;
        Some(groups.get(1).map_or(&[][..], |group| group.as_bytes()))
    }
}

/// Escapes what only Perl reads as itself: braces that repeat nothing, brackets and operators
/// within a class, and escaped angle brackets.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Where the class begins that the text is in.
    let mut class: Option<usize> = None;
    let mut at = 0;
    while let Some(one) = text[at..].chars().next() {
        let rest = &text[at..];
        let (len, escaped) = match one {
            '\\' => escape(rest),
            '[' if class.is_none() => {
                class = Some(at);
                (1, "[".to_owned())
            }
            '[' if rest.starts_with("[:") => {
                let len = rest.find(":]").map_or(1, |end| end + 2);
                (len, rest[..len].to_owned())
            }
            // A bracket at the begin of a class is one of its characters.
            ']' if class.is_some_and(|begin| !["[", "[^"].contains(&&text[begin..at])) => {
                class = None;
                (1, "]".to_owned())
            }
            '[' | ']' | '&' | '~' if class.is_some() => (1, format!("\\{one}")),
            '{' if class.is_none() => match repetition(rest) {
                Some(len) => (len, rest[..len].to_owned()),
                None => (1, "\\{".to_owned()),
            },
            '}' if class.is_none() => (1, "\\}".to_owned()),
            _ => (one.len_utf8(), one.to_string()),
        };
        out.push_str(&escaped);
        at += len;
    }
    out
}

/// The length of an escape sequence, and how the library writes it.
fn escape(text: &str) -> (usize, String) {
    let Some(one) = text[1..].chars().next() else { return (1, text.to_owned()) };
    let len = 1 + one.len_utf8();
    match one {
        '<' | '>' => (len, one.to_string()),
        'Z' => (len, "\\z".to_owned()),
        // `\x{41}` and `\p{L}`.
        'x' | 'p' | 'P' if text[len..].starts_with('{') => {
            let len = text.find('}').map_or(text.len(), |end| end + 1);
            (len, text[..len].to_owned())
        }
        _ if one.is_ascii() => (len, text[..len].to_owned()),
        _ => (len, one.to_string()),
    }
}

/// The length of a repetition such as `{2}`, `{2,}` or `{2,5}` at the begin of the text.
fn repetition(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (min, max) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!min.is_empty() && is_number(min) && is_number(max)).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_perl_match_as_in_perl() {
        for (pattern, text, group) in [
            (r#"name="id" value="(.*?)""#, r#"name="id" value="7" x="8""#, "7"),
            (r#"{"id":([0-9]{2,})"#, r#"{"id":123}"#, "123"),
            (r#"\{"id":"([^"]*)"\}"#, r#"{"id":"a"}"#, "a"),
            (r"\<b\>(\w+)\<\/b\>", "<b>bold</b>", "bold"),
            (r"([[&]+)]", "x[&]", "[&"),
            (r"([]a]+)", "b]a", "]a"),
            (r"([^]]+)", "]b", "b"),
            (r"([[:digit:]]+)", "a42", "42"),
            (r"a{2}(b){0,1}{", "aab{", "b"),
            (r"\x{41}(.)", "AB", "B"),
            (r"é(.)", "éx", "x"),
            (r"(a)|b", "b", ""),
        ] {
            let found = Pattern::parse(pattern).unwrap();
            let found = found.first_group(text.as_bytes());
            assert_eq!(found, Some(group.as_bytes()), "{pattern}");
        }
        let old = Pattern::parse_old(r"(<|>)id=\([0-9]*\)").unwrap();
        assert_eq!(old.first_group(b">id=12"), Some(&b"12"[..]));
        assert!(!Pattern::parse("^a$").unwrap().is_match(b"ab\xff"));
    }

    #[test]
    fn patterns_that_could_take_seconds_are_rejected() {
        for pattern in ["(?=a)b", r"(a)\1", "(", "(((a{100}){100}){100}){100}", "\\"] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.starts_with("invalid regular expression"), "{error}");
        }
    }
}
