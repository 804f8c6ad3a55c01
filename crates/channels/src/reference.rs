//! Refs: the client's ids of its messages and joins.

use std::borrow::Cow;
use std::fmt;

use compact_str::CompactString;

/// The longest ref, in bytes: its length is one byte in a binary frame.
pub const REF_BYTES_MAX: usize = 255;

/// A ref chosen by a client: any JSON value, compared strictly, so `"1"` and `1` differ.
///
/// It is stored as JSON text, because most uses write it. Strings have one canonical spelling.
/// Other values stay as received, so that a reply repeats even a number too large for any type
/// here. Texts of up to 24 bytes (all that phoenix.js makes) are stored inline, without an
/// allocation.
///
/// ```
/// use watchfire_channels::Ref;
///
/// let number = Ref::from_json("7").unwrap();
/// assert_ne!(number, Ref::from_text("7").unwrap());
/// assert_eq!(number.text(), "7");
/// assert!(Ref::NULL.is_null());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ref(CompactString);

const _: () = assert!(size_of::<Ref>() <= 24);

/// [`Ref::NULL`] for functions that return references.
pub(crate) static NULL: Ref = Ref::NULL;

/// A ref of more than [`REF_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ref has at most {REF_BYTES_MAX} bytes, not {len}")]
pub struct RefTooLong {
    /// Its length in bytes; for a string, without quotes and escapes.
    pub len: usize,
}

impl Ref {
    /// The absent ref: `null` in JSON, empty in binary frames.
    pub const NULL: Ref = Ref(CompactString::const_new("null"));

    pub fn from_text(text: &str) -> Result<Ref, RefTooLong> {
        within_max(text.len())?;
        let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
        if !plain {
            let json = serde_json::to_string(text).expect("a string is always JSON");
            return Ok(Ref(json.into()));
        }
        let mut json = CompactString::with_capacity(text.len() + 2);
        json.push('"');
        json.push_str(text);
        json.push('"');
        Ok(Ref(json))
    }

    /// A ref from one JSON value, which the caller has checked to be JSON.
    pub fn from_json(json: &str) -> Result<Ref, RefTooLong> {
        if json.starts_with('"') {
            if !json.as_bytes().contains(&b'\\') {
                within_max(json.len().saturating_sub(2))?;
                return Ok(Ref(json.into()));
            }
            // Half of a surrogate pair is not valid text; keep such a ref as received.
            if let Ok(text) = serde_json::from_str::<String>(json) {
                return Ref::from_text(&text);
            }
        }
        within_max(json.len())?;
        Ok(Ref(json.into()))
    }

    /// Whether the ref is absent.
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The text in a binary frame: a string's content, nothing for null, otherwise JSON text.
    pub fn text(&self) -> Cow<'_, str> {
        match self.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(content) if !content.as_bytes().contains(&b'\\') => Cow::Borrowed(content),
            Some(content) => serde_json::from_str(&self.0).unwrap_or(Cow::Borrowed(content)),
            None if self.is_null() => Cow::Borrowed(""),
            None => Cow::Borrowed(&self.0),
        }
    }
}

fn within_max(len: usize) -> Result<(), RefTooLong> {
    if len > REF_BYTES_MAX { Err(RefTooLong { len }) } else { Ok(()) }
}

impl Default for Ref {
    fn default() -> Self {
        Ref::NULL
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a join, to distinguish its messages from the messages of an earlier join.
///
/// A join may have no join_ref. Then the server uses the join's ref instead in its own messages,
/// but the client's messages must continue to have no join_ref.
///
/// ```
/// use watchfire_channels::{JoinRef, Ref};
///
/// let join = JoinRef::new(&Ref::NULL, &Ref::from_text("4").unwrap());
/// assert_eq!(join.shown().text(), "4");
/// assert!(join.given().is_null());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JoinRef(Repr);

/// Stored once per channel, by the million, so the usual refs of phoenix.js are inline.
#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Inline { has_join_ref: bool, len: u8, json: [u8; INLINE_BYTES] },
    Boxed(Box<Boxed>),
}

#[derive(Clone, PartialEq, Eq)]
struct Boxed {
    has_join_ref: bool,
    shown: Ref,
}

/// The longest JSON text stored inline: a number of eleven digits in quotes.
const INLINE_BYTES: usize = 13;

const _: () = assert!(size_of::<JoinRef>() == 16, "stored once per channel");

impl JoinRef {
    pub fn new(join_ref: &Ref, reference: &Ref) -> JoinRef {
        match join_ref.is_null() {
            true => JoinRef::from_parts(reference, false),
            false => JoinRef::from_parts(join_ref, true),
        }
    }

    fn from_parts(shown: &Ref, has_join_ref: bool) -> JoinRef {
        let text = shown.as_json().as_bytes();
        let mut json = [0; INLINE_BYTES];
        JoinRef(match json.get_mut(..text.len()) {
            Some(inline) => {
                inline.copy_from_slice(text);
                Repr::Inline { has_join_ref, len: text.len() as u8, json }
            }
            None => Repr::Boxed(Box::new(Boxed { has_join_ref, shown: shown.clone() })),
        })
    }

    /// The join_ref that the client sent, for the reply to the join.
    pub fn given(&self) -> Ref {
        if self.has_join_ref() { self.shown() } else { Ref::NULL }
    }

    /// The join_ref for later replies, pushes and the close.
    pub fn shown(&self) -> Ref {
        match &self.0 {
            Repr::Inline { len, json, .. } => {
                let text = std::str::from_utf8(&json[..usize::from(*len)]);
                Ref(CompactString::new(text.expect("it was stored from a text")))
            }
            Repr::Boxed(boxed) => boxed.shown.clone(),
        }
    }

    fn has_join_ref(&self) -> bool {
        match &self.0 {
            Repr::Inline { has_join_ref, .. } => *has_join_ref,
            Repr::Boxed(boxed) => boxed.has_join_ref,
        }
    }

    /// Whether a message with this join_ref belongs to this join; always true for a null one.
    pub fn is_current(&self, join_ref: &Ref) -> bool {
        join_ref.is_null() || *join_ref == self.given()
    }

    /// The same for a join_ref from a binary frame, where a number and its text are the same.
    pub fn is_current_text(&self, join_ref: &Ref) -> bool {
        join_ref.is_null() || join_ref.text() == self.given().text()
    }
}

impl fmt::Debug for JoinRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, has_join_ref) = (self.shown(), self.has_join_ref());
        f.debug_struct("JoinRef")
            .field("shown", &shown)
            .field("has_join_ref", &has_join_ref)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_has_one_spelling_with_any_escapes() {
        let plain = Ref::from_json(r#""a/1""#).unwrap();
        assert_eq!(Ref::from_json(r#""\u0061\/1""#).unwrap(), plain);
        assert_eq!(Ref::from_text("a/1").unwrap(), plain);
    }

    #[test]
    fn refs_of_different_types_differ() {
        let refs = ["1", r#""1""#, "null", r#""null""#, "true", "[1]", r#""""#];
        for (index, one) in refs.iter().enumerate() {
            for other in &refs[index + 1..] {
                assert_ne!(Ref::from_json(one).unwrap(), Ref::from_json(other).unwrap());
            }
        }
    }

    #[test]
    fn an_absent_ref_is_empty_in_a_binary_frame_and_others_are_their_text() {
        let text = |json| Ref::from_json(json).unwrap().text().into_owned();
        assert_eq!(text("null"), "");
        assert_eq!(text(r#""12""#), "12");
        assert_eq!(text(r#""a\"b""#), "a\"b");
        assert_eq!(text("12"), "12");
        assert_eq!(text("[1]"), "[1]");
    }

    #[test]
    fn a_ref_of_255_bytes_is_accepted_and_one_of_256_is_not() {
        for just_fits in ["r".repeat(255), "\n".repeat(255)] {
            let reference = Ref::from_text(&just_fits).unwrap();
            assert_eq!(Ref::from_json(reference.as_json()), Ok(reference));
        }
        let too_long = Err(RefTooLong { len: 256 });
        assert_eq!(Ref::from_text(&"r".repeat(256)), too_long);
        assert_eq!(Ref::from_json(&format!("\"{}\"", "r".repeat(256))), too_long);
        assert_eq!(Ref::from_json(&"1".repeat(256)), too_long);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_repeated_as_received() {
        let reference = Ref::from_json(r#""\ud83d""#).unwrap();
        assert_eq!(reference.as_json(), r#""\ud83d""#);
        assert_eq!(reference.text(), r"\ud83d");
    }

    #[test]
    fn the_refs_of_phoenix_js_need_no_allocation() {
        let reference = Ref::from_text("9007199254740991").unwrap();
        assert!(!reference.0.is_heap_allocated());
        assert!(!Ref::NULL.0.is_heap_allocated());

        let after_a_year = Ref::from_text("31536000").unwrap();
        let join = JoinRef::new(&after_a_year, &Ref::NULL);
        assert!(matches!(join.0, Repr::Inline { .. }));
    }

    #[test]
    fn a_join_is_identified_by_a_ref_of_any_length() {
        let refs = (0..=REF_BYTES_MAX).map(|len| Ref::from_text(&"r".repeat(len)).unwrap());
        let others = ["7", "-1.5e300", "[1,2,3,4,5]", r#""\n""#];
        for shown in refs.chain(others.map(|json| Ref::from_json(json).unwrap())) {
            let given = JoinRef::new(&shown, &Ref::NULL);
            assert_eq!((given.shown(), given.given()), (shown.clone(), shown.clone()));
            assert!(given.is_current(&shown) && given.is_current(&Ref::NULL));
            assert!(!given.is_current(&Ref::from_text("another").unwrap()));

            let implicit = JoinRef::new(&Ref::NULL, &shown);
            assert_eq!((implicit.shown(), implicit.given()), (shown.clone(), Ref::NULL));
            assert!(!implicit.is_current(&shown));
            assert_ne!(implicit, given);
        }
    }
}
