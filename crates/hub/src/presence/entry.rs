use super::reference::{REFERENCE_LEN, References};
use crate::slab::NONE;

const PREVIOUS_FIELD: &str = "\"phx_ref_prev\":\"";
const PREVIOUS_LEN: usize = PREVIOUS_FIELD.len() + REFERENCE_LEN + 1;

/// One version of one presence, as clients are told of it.
#[derive(Debug)]
pub(crate) struct Version {
    /// The key as a JSON text with its quotes, then the meta without its closing brace.
    text: Box<str>,
    reference: u64,
    topic: u32,
    key_len: u16,
    /// Whether the meta ends in a `phx_ref_prev`.
    follows: bool,
}

impl Default for Version {
    fn default() -> Self {
        Version { text: Box::default(), reference: 0, topic: NONE, key_len: 0, follows: false }
    }
}

impl Version {
    /// `key` is a JSON text, `meta` the text of a JSON object.
    pub fn new(topic: u32, key: &str, meta: &str, reference: u64) -> Self {
        let key_len = u16::try_from(key.len()).expect("the key's length was checked");
        let text = [key, meta.strip_suffix('}').expect("an object ends in a brace")].concat();
        Version { text: text.into(), reference, topic, key_len, follows: false }
    }

    /// The version that replaces an older one which clients know: it names that.
    pub fn after(self, older: &Version, references: &References) -> Self {
        let mut text = self.text_for_a_field();
        text.push_str(PREVIOUS_FIELD);
        references.write(older.reference, &mut text);
        text.push('"');
        Version { text: text.into(), follows: true, ..self }
    }

    /// The version that replaces one that no client knows: it follows what that followed.
    pub fn instead_of(self, unknown: &Version) -> Self {
        if !unknown.follows {
            return self;
        }
        let mut text = self.text_for_a_field();
        text.push_str(&unknown.text[unknown.text.len() - PREVIOUS_LEN..]);
        Version { text: text.into(), follows: true, ..self }
    }

    pub fn reference(&self) -> u64 {
        self.reference
    }

    pub fn topic(&self) -> u32 {
        self.topic
    }

    /// The key as a JSON text.
    pub fn key(&self) -> &str {
        &self.text[..usize::from(self.key_len)]
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

    fn write_meta(&self, references: &References, out: &mut String) {
        out.push_str(self.meta());
        out.push_str(if self.meta() == "{" { "\"phx_ref\":\"" } else { ",\"phx_ref\":\"" });
        references.write(self.reference, out);
        out.push_str("\"}");
    }
}

/// Write `{key: {"metas": […]}}`. Versions of the same key come one after another.
pub(crate) fn write_by_key<'a>(
    versions: impl Iterator<Item = &'a Version>,
    references: &References,
    out: &mut String,
) {
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
        version.write_meta(references, out);
    }
    out.push_str(if key.is_some() { "]}}" } else { "}" });
}

/// One owner's presence on one topic under one key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub version: Version,
    /// The place of its key among the topic's, when it stands for its key there.
    pub position: u32,
    /// The ring of the entries with the same topic and key.
    pub next_of_key: u32,
    pub previous_of_key: u32,
    /// The same owner's next entry.
    pub next_of_owner: u32,
}

const _: () = assert!(size_of::<Entry>() == 48, "kept once per presence");

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

    fn written(versions: &[Version]) -> String {
        let mut out = String::new();
        write_by_key(versions.iter(), &References::new(0), &mut out);
        out
    }

    #[test]
    fn versions_of_one_key_share_its_metas() {
        let versions = [
            Version::new(0, "\"a\"", "{\"n\":1}", 1),
            Version::new(0, "\"a\"", "{}", 2),
            Version::new(0, "\"b\"", "{}", 3),
        ];
        let metas = r#"[{"n":1,"phx_ref":"AAAAAAAAAAAAAAAB"},{"phx_ref":"AAAAAAAAAAAAAAAC"}]"#;
        let others = r#"[{"phx_ref":"AAAAAAAAAAAAAAAD"}]"#;
        let expected = format!(r#"{{"a":{{"metas":{metas}}},"b":{{"metas":{others}}}}}"#);
        assert_eq!(written(&versions), expected);
        assert_eq!(written(&[]), "{}");
    }

    #[test]
    fn a_version_names_the_one_before_it_that_clients_know() {
        let references = References::new(0);
        let known = Version::new(0, "\"a\"", "{\"n\":1}", 1);
        let unknown = Version::new(0, "\"a\"", "{\"n\":2}", 2).after(&known, &references);
        let newest = Version::new(0, "\"a\"", "{}", 3).instead_of(&unknown);
        let meta = r#"{"phx_ref_prev":"AAAAAAAAAAAAAAAB","phx_ref":"AAAAAAAAAAAAAAAD"}"#;
        assert_eq!(written(&[newest]), format!(r#"{{"a":{{"metas":[{meta}]}}}}"#));
    }
}
