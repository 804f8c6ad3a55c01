//! The use that a session makes of an answer: values that it saves, and checks that decide how it
//! goes on. Nothing here waits or sends; the engine acts on the [`Action`].

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::Read as _;
use std::time::Duration;

use serde_json::Value as Json;

use super::pattern::Pattern;
use super::text::{Text, TextContext};
use super::value::{JsonPath, Value};
use super::xpath::XPath;

/// The longest value that is saved; a longer one counts as missing.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// The part of a decompressed body that is looked at.
const DECOMPRESSED_BYTES_MAX: u64 = 16 << 20;

/// The use of the answer to one step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) saves: Vec<Save>,
    pub(crate) checks: Vec<Check>,
}

impl Answer {
    pub(crate) fn is_unused(&self) -> bool {
        self.saves.is_empty() && self.checks.is_empty()
    }
}

/// A value that is saved from an answer.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    pub(crate) slot: usize,
    pub(crate) find: Find,
    pub(crate) missing: Missing,
}

/// Where a value is in an answer.
#[derive(Clone, Debug)]
pub(crate) enum Find {
    /// A JSON pointer into the body.
    Pointer(String),
    Json(JsonPath),
    /// The first group of a pattern, in head and body.
    Pattern {
        pattern: Pattern,
        decodes_entities: bool,
    },
    /// A list of attributes or texts of a web page.
    Page(XPath),
    /// A header, or one parameter of it.
    Header {
        name: String,
        parameter: Option<String>,
    },
}

/// The fate of a variable whose value is not in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The step is an error.
    Fails,
    Empties,
    Unsets,
    /// It keeps its value; one that has none becomes empty.
    Keeps,
}

pub(crate) enum Found {
    Value(Value),
    Nothing,
    /// The body is not JSON.
    Unreadable,
}

/// A pattern that an answer is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) wanted: CheckPattern,
    /// Whether a match triggers the action, rather than its absence.
    pub(crate) acts_on_match: bool,
    pub(crate) skips_head: bool,
    /// Whether the MD5 sum of the answer is compared, in hexadecimal.
    pub(crate) compares_sum: bool,
    pub(crate) name: String,
    pub(crate) action: Action,
}

#[derive(Clone, Debug)]
pub(crate) enum CheckPattern {
    Fixed(Pattern),
    /// A pattern with the values of a user. One that is invalid then matches nothing.
    Filled(Text),
}

/// How a session goes on after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Continue,
    /// Note the match in the results.
    Log,
    /// Note the match with the text of the answer.
    Dump,
    /// End the session.
    Abort,
    /// End the load.
    AbortLoad,
    /// Begin the session again, at most `max` times.
    Restart {
        max: u32,
    },
    /// Go back by `back` steps, or repeat this step if that is 0; at most `max` times.
    Repeat {
        back: u16,
        max: u32,
        pause: Duration,
    },
}

/// The answer to a step: a response with a head, or a message without one.
pub(crate) struct Content<'a> {
    head: &'a [u8],
    body: Cow<'a, [u8]>,
    whole: OnceCell<Vec<u8>>,
    json: OnceCell<Option<Json>>,
}

impl<'a> Content<'a> {
    /// The body of a response is decompressed, so that values and patterns are found in it.
    pub(crate) fn new(head: &'a [u8], body: &'a [u8]) -> Content<'a> {
        let body = Cow::from(body);
        let mut content = Content { head, body, whole: OnceCell::new(), json: OnceCell::new() };
        if content.header("content-encoding").is_some_and(|coding| coding.ends_with("gzip"))
            && let Some(body) = decompressed(&content.body)
        {
            content.body = Cow::from(body);
        }
        content
    }

    /// The body of a response, or a whole message.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Head and body.
    pub(crate) fn whole(&self) -> &[u8] {
        if self.head.is_empty() {
            return &self.body;
        }
        self.whole.get_or_init(|| [self.head, &self.body].concat())
    }

    fn json(&self) -> Option<&Json> {
        self.json.get_or_init(|| serde_json::from_slice(&self.body).ok()).as_ref()
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        let lines =
            self.head.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let mut headers = lines.filter_map(|line| line.split_once(':'));
        let found = headers.find(|(known, _)| known.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }
}

impl Find {
    pub(crate) fn find(&self, content: &Content<'_>) -> Found {
        let value = match self {
            Find::Json(path) => {
                let Some(json) = content.json() else { return Found::Unreadable };
                path.find(json)
            }
            Find::Pointer(pointer) => {
                let Some(json) = content.json() else { return Found::Unreadable };
                let found = json.pointer(pointer).filter(|found| !found.is_null());
                // A list is inserted as JSON.
                found.map(|found| match found {
                    Json::Array(_) => Value::text(&found.to_string()),
                    other => Value::of_json(other),
                })
            }
            Find::Pattern { pattern, decodes_entities } => {
                pattern.first_group(content.whole()).map(|found| {
                    let found = String::from_utf8_lossy(found);
                    if *decodes_entities {
                        Value::text(&decoded(&found))
                    } else {
                        Value::text(&found)
                    }
                })
            }
            Find::Page(path) => {
                let found = path.find(&String::from_utf8_lossy(&content.body));
                (!found.is_empty()).then(|| Value::List(found.into_iter().map(Box::from).collect()))
            }
            Find::Header { name, parameter } => {
                content.header(name).and_then(|value| match parameter {
                    None => Some(Value::text(value)),
                    Some(parameter) => {
                        self::parameter(name, value, parameter).map(|text| Value::text(&text))
                    }
                })
            }
        };
        match value.filter(|value| value.len() <= VALUE_BYTES_MAX) {
            Some(value) => Found::Value(value),
            None => Found::Nothing,
        }
    }
}

/// The content of a body in gzip; `None` if it is not in gzip.
fn decompressed(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(body);
    reader.take(DECOMPRESSED_BYTES_MAX).read_to_end(&mut out).ok()?;
    Some(out)
}

/// One parameter of a header, such as `nonce` of `Digest realm="x", nonce="y"`.
fn parameter(header: &str, value: &str, wanted: &str) -> Option<String> {
    let is_login = ["www-authenticate", "authentication-info"]
        .iter()
        .any(|known| header.eq_ignore_ascii_case(known));
    let parameters = match (is_login, value.split_once(' ')) {
        // The scheme comes before the parameters, unless there is none.
        (true, Some((scheme, rest))) if !scheme.contains('=') => rest,
        _ => value,
    };
    let separator = if is_login { ',' } else { ';' };
    let pairs = parameters.split(separator).filter_map(|part| part.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
    let found = named.next()?.1.trim();
    let inner = found.strip_prefix('"').map_or(found, |inner| inner.trim_end_matches('"'));
    Some(inner.replace('\\', ""))
}

/// Replaces the named entities of HTML.
pub(super) fn decoded(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, one)| text.replace(entity, one))
}

impl Check {
    /// Whether the answer matches.
    pub(crate) fn is_match(&self, content: &Content<'_>, context: &TextContext<'_>) -> bool {
        let bytes = if self.skips_head { content.body() } else { content.whole() };
        let sum;
        let bytes = match self.compares_sum {
            true => {
                sum = super::login::md5_hex(bytes);
                sum.as_bytes()
            }
            false => bytes,
        };
        match &self.wanted {
            CheckPattern::Fixed(pattern) => pattern.is_match(bytes),
            CheckPattern::Filled(text) => Pattern::parse(&text.to_string(context))
                .is_ok_and(|pattern| pattern.is_match(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(find: &Find, head: &str, body: &str) -> Option<Value> {
        match find.find(&Content::new(head.as_bytes(), body.as_bytes())) {
            Found::Value(value) => Some(value),
            Found::Nothing => None,
            Found::Unreadable => Some(Value::text("unreadable")),
        }
    }

    #[test]
    fn a_value_is_found_in_a_head_a_body_or_json() {
        let head = "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm=\"a b\", nonce=\"x=1\"\r\n\
            Content-Type: text/html; charset=utf-8\r\n\r\n";
        let header = |name: &str, parameter: Option<&str>| {
            let parameter = parameter.map(str::to_owned);
            find(&Find::Header { name: name.to_owned(), parameter }, head, "")
        };
        assert_eq!(header("www-authenticate", Some("realm")), Some(Value::text("a b")));
        assert_eq!(header("www-authenticate", Some("nonce")), Some(Value::text("x=1")));
        assert_eq!(header("content-type", Some("charset")), Some(Value::text("utf-8")));
        assert_eq!(header("Content-Type", None), Some(Value::text("text/html; charset=utf-8")));
        assert_eq!((header("location", None), header("content-type", Some("q"))), (None, None));

        let pattern = |text: &str, decodes_entities| Find::Pattern {
            pattern: Pattern::parse(text).unwrap(),
            decodes_entities,
        };
        assert_eq!(find(&pattern("401 (..)", false), head, ""), Some(Value::text("No")));
        let title = pattern("<t>(.*)</t>", true);
        assert_eq!(find(&title, head, "<t>a &amp;lt; b</t>"), Some(Value::text("a &lt; b")));
        let long = format!("<t>{}</t>", "x".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(find(&title, head, &long), None);

        let zipped = {
            use std::io::Write as _;
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(b"<t>zipped</t>").unwrap();
            encoder.finish().unwrap()
        };
        let whole = |head: &str, body: &[u8]| match title.find(&Content::new(head.as_bytes(), body))
        {
            Found::Value(value) => Some(value),
            Found::Nothing | Found::Unreadable => None,
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        assert_eq!(whole(head, &zipped), Some(Value::text("zipped")));
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\n", &zipped), None);
        assert_eq!(whole(head, b"<t>plain</t>"), Some(Value::text("plain")), "not as announced");

        let pointer = Find::Pointer("/a".to_owned());
        assert_eq!(find(&pointer, "", r#"{"a":[1,"x"]}"#), Some(Value::text(r#"[1,"x"]"#)));
        assert_eq!(find(&pointer, "", r#"{"a":null}"#), None);
        assert_eq!(find(&pointer, "", "<html>"), Some(Value::text("unreadable")));
    }
}
