//! Connect parameters in the query of the socket's URL.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::version::UnsupportedVersion;
use crate::codec::Serializer;

/// The maximum number of parameters. A longer query is refused.
pub const PARAMS_MAX: usize = 256;

/// The maximum depth of brackets in a parameter's name. Deeper ones are refused.
pub const PARAM_DEPTH_MAX: usize = 8;

/// The connect parameters of a client.
///
/// `a=1` is a text, `a[b]=1` an object, `a[]=1` a list. The last of contradictory
/// parameters counts. Empty ones (`&&`) are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Map<String, Value>);

/// The reason why a query is not valid. The request is refused with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("parameter {index} of the query is not UTF-8")]
    NotUtf8 {
        /// Which parameter, from 0.
        index: usize,
    },
    #[error("the query has more than {PARAMS_MAX} parameters")]
    TooMany,
    #[error("parameter {index} of the query nests deeper than {PARAM_DEPTH_MAX}")]
    TooDeep {
        /// Which parameter, from 0.
        index: usize,
    },
}

impl Params {
    /// Parses a query, without its `?`.
    pub fn parse(query: &str) -> Result<Params, QueryError> {
        let mut params = Map::new();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (index, pair) in pairs.enumerate() {
            if index == PARAMS_MAX {
                return Err(QueryError::TooMany);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| decode(text).ok_or(QueryError::NotUtf8 { index });
            let (name, value) = (decode(name)?, decode(value)?);
            if !name.contains('[') {
                params.insert(name, Value::String(value));
                continue;
            }
            let path = path_of(&name);
            if path.len() > PARAM_DEPTH_MAX {
                return Err(QueryError::TooDeep { index });
            }
            insert(&mut params, &path, value);
        }
        Ok(Params(params))
    }

    /// The top-level parameter with this name, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// The serializer requested by `vsn`.
    pub fn serializer(&self) -> Result<Serializer, UnsupportedVersion> {
        match self.0.get("vsn") {
            None => Serializer::from_vsn(None),
            Some(Value::String(vsn)) => Serializer::from_vsn(Some(vsn)),
            Some(other) => Err(UnsupportedVersion { asked: other.to_string() }),
        }
    }

    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// All parameters, owned.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// Decodes form encoding. A `%` without two hexadecimal digits is kept.
fn decode(text: &str) -> Option<String> {
    if !text.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
        return Some(text.to_owned());
    }
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { text.into() };
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

/// `a[b][]` gives `a`, `b` and an empty step for the list; a malformed name is one step.
fn path_of(name: &str) -> Vec<&str> {
    let Some((root, brackets)) = name.split_once('[') else { return vec![name] };
    let Some(brackets) = brackets.strip_suffix(']').filter(|_| !root.is_empty()) else {
        return vec![name];
    };
    let mut path = vec![root];
    path.extend(brackets.split("]["));
    path
}

fn insert(object: &mut Map<String, Value>, path: &[&str], value: String) {
    let [step, rest @ ..] = path else { return };
    match rest {
        [] => {
            object.insert((*step).to_owned(), Value::String(value));
        }
        [""] => match object.get_mut(*step) {
            Some(Value::Array(list)) => list.push(Value::String(value)),
            _ => {
                object.insert((*step).to_owned(), Value::Array(vec![Value::String(value)]));
            }
        },
        rest => {
            let entry = object.entry(*step).or_insert(Value::Null);
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            let inner = entry.as_object_mut().expect("the entry was just made an object");
            insert(inner, rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_parsed_as_phoenix_js_writes_them() {
        // new Socket("/socket", {params: {user: 1, a: {b: "x y", c: {d: "é"}}}}) of 1.8.16
        let query = "user=1&a%5Bb%5D=x%20y&a%5Bc%5D%5Bd%5D=%C3%A9&vsn=2.0.0";
        let expected = json!({"user": "1", "a": {"b": "x y", "c": {"d": "é"}}, "vsn": "2.0.0"});
        assert_eq!(Value::Object(parse(query)), expected);
    }

    #[test]
    fn a_plus_is_a_space_and_a_stray_percent_is_kept() {
        assert_eq!(
            Value::Object(parse("a=1+2%2B3&b=100%&c=%zz")),
            json!({
                "a": "1 2+3", "b": "100%", "c": "%zz"
            })
        );
    }

    #[test]
    fn empty_parameters_are_skipped_and_missing_values_are_empty() {
        let params = parse("&vsn=2.0.0&&a&b=&");
        assert_eq!(Value::Object(params), json!({"vsn": "2.0.0", "a": "", "b": ""}));
    }

    #[test]
    fn empty_brackets_make_a_list() {
        assert_eq!(Value::Object(parse("a[]=1&a[]=2")), json!({"a": ["1", "2"]}));
    }

    #[test]
    fn of_two_contradictory_parameters_the_last_counts() {
        assert_eq!(Value::Object(parse("a=1&a=2")), json!({"a": "2"}));
        assert_eq!(Value::Object(parse("a=1&a[b]=2")), json!({"a": {"b": "2"}}));
        assert_eq!(Value::Object(parse("a[b]=2&a=1")), json!({"a": "1"}));
    }

    #[test]
    fn unclosed_brackets_belong_to_the_name() {
        assert_eq!(Value::Object(parse("a[b=1&[c]=2")), json!({"a[b": "1", "[c]": "2"}));
    }

    #[test]
    fn a_vsn_that_is_not_a_text_is_refused() {
        let params = Params::parse("vsn[]=2.0.0").unwrap();
        let refused = UnsupportedVersion { asked: r#"["2.0.0"]"#.to_owned() };
        assert_eq!(params.serializer(), Err(refused));
        assert_eq!(params.text("vsn"), None);
        assert_eq!(Params::default().serializer(), Ok(Serializer::V1));
    }

    #[test]
    fn invalid_utf_8_too_many_parameters_and_deep_names_are_refused() {
        assert_eq!(Params::parse("a=1&b=%ff"), Err(QueryError::NotUtf8 { index: 1 }));
        assert_eq!(Params::parse(&"a=1&".repeat(257)), Err(QueryError::TooMany));
        let deep = format!("a{}=1", "[b]".repeat(8));
        assert_eq!(Params::parse(&deep), Err(QueryError::TooDeep { index: 0 }));
        let just_deep_enough = format!("a{}=1", "[b]".repeat(7));
        assert!(Params::parse(&just_deep_enough).is_ok());
    }

    fn parse(query: &str) -> Map<String, Value> {
        Params::parse(query).unwrap().into_map()
    }
}
