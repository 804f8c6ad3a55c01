use watchfire_types::heap_bytes;

use super::reference::{REFERENCE_LEN, Reference};
use crate::tables::NONE;

const PREVIOUS_FIELD: &str = "\"phx_ref_prev\":\"";
const PREVIOUS_LEN: usize = PREVIOUS_FIELD.len() + REFERENCE_LEN + 1;

/// The audience that knows of a version; each includes the ones before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KnownTo {
    #[default]
    Nobody,
    /// Other nodes may know it, so they receive its leave.
    Nodes,
    /// Clients of this node know it too, so its leave is in the next diff.
    Clients,
}

/// One version of one presence, as sent to clients.
#[derive(Debug)]
pub(crate) struct Version {
    /// The key as a JSON text with its quotes, then the meta without its closing brace.
    text: Box<str>,
    reference: Reference,
    topic: u32,
    key_len: u16,
    /// Whether the meta ends in a `phx_ref_prev`.
    has_previous: bool,
    pub known_to: KnownTo,
}

/// The content of a vacant slot.
impl Default for Version {
    fn default() -> Self {
        Version {
            text: Box::default(),
            reference: Reference::NONE,
            topic: NONE,
            key_len: 0,
            has_previous: false,
            known_to: KnownTo::Nobody,
        }
    }
}

impl Version {
    /// `key` is a JSON text, `meta` the text of a JSON object.
    pub fn new(topic: u32, key: &str, meta: &str, reference: Reference) -> Self {
        let key_len = u16::try_from(key.len()).expect("the key's length was checked");
        let open = meta.strip_suffix('}').expect("an object ends in a brace").trim_end();
        let text = [key, open].concat().into();
        Version { text, reference, topic, key_len, has_previous: false, known_to: KnownTo::Nobody }
    }

    /// The version that replaces an older one. It names the newest version known to clients.
    pub fn replacing(self, older: &Version) -> Self {
        let mut text = self.text_for_a_field();
        if older.known_to == KnownTo::Clients {
            text.push_str(PREVIOUS_FIELD);
            older.reference.write(&mut text);
            text.push('"');
        } else if older.has_previous {
            text.push_str(&older.text[older.text.len() - PREVIOUS_LEN..]);
        } else {
            return self;
        }
        Version { text: text.into(), has_previous: true, ..self }
    }

    pub fn reference(&self) -> Reference {
        self.reference
    }

    /// The memory that it owns.
    pub fn memory_bytes(&self) -> usize {
        heap_bytes(self.text.len())
    }

    pub fn topic(&self) -> u32 {
        self.topic
    }

    /// The key as a JSON text.
    pub fn key(&self) -> &str {
        &self.text[..usize::from(self.key_len)]
    }

    /// The key without JSON quoting.
    pub fn plain_key(&self) -> String {
        serde_json::from_str(self.key()).expect("a key is stored as JSON")
    }

    /// The meta without `phx_ref_prev`.
    pub fn plain_meta(&self) -> String {
        let mut meta = self.meta();
        if self.has_previous {
            meta = &meta[..meta.len() - PREVIOUS_LEN];
            meta = meta.strip_suffix(',').unwrap_or(meta);
        }
        [meta, "}"].concat()
    }

    /// The reference in `phx_ref_prev`.
    pub fn previous(&self) -> Option<Reference> {
        let end = self.text.len() - 1;
        self.has_previous.then(|| Reference::parse(&self.text[end - REFERENCE_LEN..end]))?
    }

    fn meta(&self) -> &str {
        &self.text[usize::from(self.key_len)..]
    }

    fn text_for_a_field(&self) -> String {
        let comma = if self.meta() == "{" { "" } else { "," };
        let mut text = String::with_capacity(self.text.len() + 1 + PREVIOUS_LEN);
        text.push_str(&self.text);
        text.push_str(comma);
        text
    }

    fn write_meta(&self, out: &mut String) {
        out.push_str(self.meta());
        out.push_str(if self.meta() == "{" { "\"phx_ref\":\"" } else { ",\"phx_ref\":\"" });
        self.reference.write(out);
        out.push_str("\"}");
    }
}

/// Writes `{key: {"metas": […]}}`. Versions of the same key must be adjacent.
pub(crate) fn write_by_key<'a>(versions: impl Iterator<Item = &'a Version>, out: &mut String) {
    out.push('{');
    let mut key = None;
    for version in versions {
        if key == Some(version.key()) {
            out.push(',');
        } else {
            out.push_str(if key.is_some() { "]}," } else { "" });
            out.push_str(version.key());
            out.push_str(":{\"metas\":[");
            key = Some(version.key());
        }
        version.write_meta(out);
    }
    out.push_str(if key.is_some() { "]}}" } else { "}" });
}

/// One owner's presence on one topic under one key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub version: Version,
    /// The position in the topic's `keys`; `NONE` unless this entry represents its key.
    pub position: u32,
    /// The ring of the entries with the same topic and key.
    pub next_of_key: u32,
    pub previous_of_key: u32,
    /// The next entry: of the same owner; after a leave, of the topic's pending leaves.
    pub next_of_owner: u32,
}

impl Entry {
    /// Whether the entry waits only for its leave to be sent; true for a vacant slot too. It keeps
    /// its slot, because a separate list would use extra memory just when a crowd leaves.
    pub fn has_left(&self) -> bool {
        self.next_of_key == NONE
    }
}

const _: () = assert!(size_of::<Entry>() == 48, "stored once per presence");

impl Default for Entry {
    fn default() -> Self {
        Entry {
            version: Version::default(),
            position: NONE,
            next_of_key: NONE,
            previous_of_key: NONE,
            next_of_owner: NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(key: &str, meta: &str, number: u64, known_to: KnownTo) -> Version {
        Version { known_to, ..Version::new(0, key, meta, Reference::numbered(number)) }
    }

    fn written(versions: &[Version]) -> String {
        let mut out = String::new();
        write_by_key(versions.iter(), &mut out);
        out
    }

    #[test]
    fn versions_of_one_key_share_its_metas() {
        let versions = [
            version("\"a\"", "{\"n\":1}", 1, KnownTo::Nobody),
            version("\"a\"", "{}", 2, KnownTo::Nobody),
            version("\"b\"", "{ }", 3, KnownTo::Nobody),
        ];
        let metas = r#"[{"n":1,"phx_ref":"AAAAAAAAAAAAAAAB"},{"phx_ref":"AAAAAAAAAAAAAAAC"}]"#;
        let others = r#"[{"phx_ref":"AAAAAAAAAAAAAAAD"}]"#;
        let expected = format!(r#"{{"a":{{"metas":{metas}}},"b":{{"metas":{others}}}}}"#);
        assert_eq!(written(&versions), expected);
        assert_eq!(written(&[]), "{}");
    }

    #[test]
    fn a_version_names_the_one_before_it_that_clients_know() {
        let known = version("\"a\"", "{\"n\":1}", 1, KnownTo::Clients);
        let unknown = version("\"a\"", "{\"n\":2}", 2, KnownTo::Nodes).replacing(&known);
        let newest = version("\"a\"", "{}", 3, KnownTo::Nobody).replacing(&unknown);
        let meta = r#"{"phx_ref_prev":"AAAAAAAAAAAAAAAB","phx_ref":"AAAAAAAAAAAAAAAD"}"#;
        assert_eq!(newest.previous(), Some(known.reference()));
        assert_eq!(written(&[newest]), format!(r#"{{"a":{{"metas":[{meta}]}}}}"#));
    }

    #[test]
    fn the_original_key_and_meta_can_be_restored() {
        let known = version("\"\\\"a\"", "{}", 1, KnownTo::Clients);
        for meta in ["{}", "{\"n\":[1, 2]}"] {
            let newer = version(known.key(), meta, 2, KnownTo::Nobody);
            assert_eq!((newer.plain_meta(), newer.previous()), (meta.into(), None));
            let newer = newer.replacing(&known);
            assert_eq!((newer.plain_key(), newer.plain_meta()), ("\"a".into(), meta.into()));
        }
    }
}
