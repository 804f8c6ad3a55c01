use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The text of a JSON object, without the fields that only the server may set: `phx_ref` and
/// `phx_ref_prev`. `None` when the text is not a JSON object.
pub(crate) fn parse(meta: &str) -> Option<Cow<'_, str>> {
    let object = serde_json::from_str::<&RawValue>(meta).ok()?.get();
    if !object.starts_with('{') {
        return None;
    }
    // Names may contain escapes, so parse also when there are any.
    if !object.contains("phx_ref") && !object.contains("\\u") {
        return Some(Cow::Borrowed(object));
    }
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    fields.remove("phx_ref");
    fields.remove("phx_ref_prev");
    serde_json::to_string(&fields).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_accepted_unchanged() {
        let meta = r#"{"status": "online", "since": 12345678901234567890}"#;
        assert_eq!(parse(&format!(" {meta}\n")).as_deref(), Some(meta));
    }

    #[test]
    fn anything_else_is_refused() {
        for meta in ["", "5", "[]", "\"{}\"", "{", "{}{}", "{\"a\":}", "{'a':1}", "null"] {
            assert_eq!(parse(meta), None, "{meta}");
        }
    }

    #[test]
    fn a_meta_cannot_contain_its_own_references() {
        let meta = r#"{"phx_ref":"forged","a":1.50,"phx_ref_prev":1,"phx_\u0072ef":2}"#;
        assert_eq!(parse(meta).as_deref(), Some(r#"{"a":1.50}"#));
        assert_eq!(parse(r#"{"a":"phx_ref"}"#).as_deref(), Some(r#"{"a":"phx_ref"}"#));
    }
}
