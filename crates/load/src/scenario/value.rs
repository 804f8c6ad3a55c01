//! The values of variables that a session sets while it runs, and their places in JSON.

use serde_json::Value as Json;

/// The value of one variable of one user.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Value {
    #[default]
    Undefined,
    /// A random value, which is computed again when it is needed, so that no user stores it.
    Drawn {
        /// The index of the variable in [`super::Variables::drawn`].
        drawn: u32,
        /// How many times the user had drawn; 0 belongs to variables that are drawn once.
        times: u32,
    },
    Number(i64),
    Text(Box<str>),
    List(Box<[Box<str>]>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    /// The value of JSON: a list of an array, a text of everything else.
    pub(crate) fn of_json(json: &Json) -> Value {
        match json {
            Json::Array(all) => Value::List(all.iter().map(|one| text_of(one).into()).collect()),
            Json::Number(number) if number.is_i64() => Value::Number(number.as_i64().unwrap_or(0)),
            other => Value::text(&text_of(other)),
        }
    }

    /// The memory that the value needs besides its own record.
    pub(crate) fn len(&self) -> usize {
        match self {
            Value::Undefined | Value::Drawn { .. } | Value::Number(_) => 0,
            Value::Text(text) => text.len(),
            Value::List(list) => list.iter().map(|text| text.len() + 16).sum(),
        }
    }
}

fn text_of(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Tsung's part of JSONPath: `$.field.list[3].name`, `[*]` for all elements, and `[?name=bar]` for
/// those with this value. A path without `$.` means the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Key(String),
    /// An element of an array, from 0. In an object it is a key.
    Element(usize),
    All,
    Where {
        key: String,
        value: String,
    },
}

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Result<JsonPath, String> {
        let path = text.strip_prefix('$').unwrap_or(text).replace('[', ".").replace(']', "");
        let steps = path.split('.').filter(|step| !step.is_empty()).map(|step| {
            Ok(match (step, step.strip_prefix('?'), step.parse()) {
                ("*", ..) => PathStep::All,
                (_, Some(condition), _) => {
                    let unknown = || format!("invalid condition ?{condition}; use ?name=value");
                    let (key, value) = condition.split_once('=').ok_or_else(unknown)?;
                    let value = value.trim_start_matches('=');
                    PathStep::Where { key: key.to_owned(), value: value.to_owned() }
                }
                (_, None, Ok(index)) => PathStep::Element(index),
                (key, None, Err(_)) => PathStep::Key(key.trim_matches(['\'', '"']).to_owned()),
            })
        });
        steps.collect::<Result<_, _>>().map(JsonPath)
    }

    /// The value at this path; `None` if there is none.
    pub(crate) fn find(&self, json: &Json) -> Option<Value> {
        let found = find(&self.0, json)?;
        // A single match of a condition is a value, several are a list.
        (!found.is_null() || !self.0.is_empty()).then(|| Value::of_json(&found))
    }
}

fn find(steps: &[PathStep], json: &Json) -> Option<Json> {
    let Some((step, rest)) = steps.split_first() else { return Some(json.clone()) };
    match (step, json) {
        (PathStep::All, Json::Array(all)) => {
            Some(Json::Array(all.iter().filter_map(|one| find(rest, one)).collect()))
        }
        (PathStep::All, other) => find(rest, other),
        (PathStep::Element(index), Json::Array(all)) => find(rest, all.get(*index)?),
        (PathStep::Element(index), Json::Object(fields)) => {
            find(rest, fields.get(&index.to_string())?)
        }
        (PathStep::Where { key, value }, Json::Array(all)) => {
            let is_wanted =
                |one: &&Json| one.get(key).is_some_and(|found| text_of(found) == *value);
            let mut wanted = all.iter().filter(is_wanted);
            match (wanted.next()?, wanted.next()) {
                (only, None) => find(rest, only),
                _ => {
                    let wanted = all.iter().filter(is_wanted);
                    Some(Json::Array(wanted.filter_map(|one| find(rest, one)).collect()))
                }
            }
        }
        (PathStep::Key(key), Json::Object(fields)) => find(rest, fields.get(key)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_finds_fields_elements_lists_and_conditions() {
        let json = json!({"a": {"list": [{"name": "x", "n": 1}, {"name": "y", "n": 2.5},
            {"name": "y", "n": true}]}, "7": "seven", "empty": null, "o": {"k": "v"}});
        let find = |path: &str| JsonPath::parse(path).unwrap().find(&json);
        let list = |all: &[&str]| Some(Value::List(all.iter().map(|one| (*one).into()).collect()));
        for path in ["$.a.list[0].n", "a.list[0].n", "a.list.0.n", "a.list[?name=x].n"] {
            assert_eq!(find(path), Some(Value::Number(1)), "{path}");
        }
        assert_eq!(find("$.a.list[1].n"), Some(Value::text("2.5")));
        assert_eq!(find("$.a.list[*].name"), list(&["x", "y", "y"]));
        assert_eq!(find("$.a.list[?name=y].n"), list(&["2.5", "true"]));
        assert_eq!(find("$['7']"), Some(Value::text("seven")));
        assert_eq!(find("[7]"), Some(Value::text("seven")));
        assert_eq!(find("o"), Some(Value::text(r#"{"k":"v"}"#)));
        for path in ["b", "a.list[9].n", "a.list[?name=z].n", "a.b.c", "o.k.x"] {
            assert_eq!(find(path), None, "{path}");
        }
        assert!(JsonPath::parse("a[?name]").is_err());
    }
}
