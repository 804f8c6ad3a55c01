//! Values with more than one notation.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use watchfire_report::units::DurationText;

use crate::scenario::answer::Find;
use crate::scenario::pattern::Pattern;
use crate::scenario::program::{Think, ThinkTime};

/// A payload as a table, or as a string of JSON that is sent unchanged.
pub(super) struct PayloadFile(pub(super) String);

impl<'de> Deserialize<'de> for PayloadFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PayloadFile, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(PayloadFile(text)),
            value => serde_json::to_string(&value).map(PayloadFile).map_err(D::Error::custom),
        }
    }
}

/// A value of an answer: a JSON pointer, or a table with one place of it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum SaveFile {
    Pointer(String),
    Place(PlaceFile),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlaceFile {
    /// A JSON pointer.
    Json(String),
    /// The first group of a regular expression.
    Regex(String),
    /// A header of a response.
    Header(String),
}

impl SaveFile {
    pub(super) fn find(&self) -> Result<Find, String> {
        match self {
            SaveFile::Pointer(pointer) | SaveFile::Place(PlaceFile::Json(pointer)) => {
                if !pointer.is_empty() && !pointer.starts_with('/') {
                    return Err(format!(
                        "invalid JSON pointer {pointer:?}; use one such as \"/token\""
                    ));
                }
                Ok(Find::Pointer(pointer.clone()))
            }
            SaveFile::Place(PlaceFile::Regex(text)) => {
                let pattern = Pattern::parse(text)?;
                Ok(Find::Pattern { pattern, decodes_entities: false })
            }
            SaveFile::Place(PlaceFile::Header(name)) => {
                Ok(Find::Header { name: name.clone(), parameter: None })
            }
        }
    }
}

/// A think time: `"1s"`, or a table with one distribution and optionally `from = "answer"`.
pub(super) struct ThinkFile(pub(super) Think);

impl<'de> Deserialize<'de> for ThinkFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ThinkFile, D::Error> {
        deserializer.deserialize_any(ThinkVisitor)
    }
}

struct ThinkVisitor;

impl<'de> Visitor<'de> for ThinkVisitor {
    type Value = ThinkFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time, or a table with fixed, uniform or exponential")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ThinkFile, E> {
        let DurationText(time) =
            DurationText::deserialize(serde::de::value::StrDeserializer::new(text))?;
        Ok(ThinkFile(Think { time: ThinkTime::Fixed(time), is_after_reply: false }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ThinkFile, A::Error> {
        let mut time = None;
        let mut is_after_reply = false;
        while let Some(key) = map.next_key::<String>()? {
            let drawn = match key.as_str() {
                "fixed" => ThinkTime::Fixed(map.next_value::<DurationText>()?.0),
                "uniform" => {
                    let [min, max] = map.next_value::<[DurationText; 2]>()?;
                    if min.0 > max.0 {
                        return Err(A::Error::custom("uniform needs the shorter time first"));
                    }
                    ThinkTime::Uniform(min.0, max.0)
                }
                "exponential" => ThinkTime::Exponential(map.next_value::<DurationText>()?.0),
                "from" => {
                    is_after_reply = match map.next_value::<String>()?.as_str() {
                        "schedule" => false,
                        "answer" => true,
                        other => {
                            let known = &["schedule", "answer"];
                            return Err(A::Error::unknown_variant(other, known));
                        }
                    };
                    continue;
                }
                other => {
                    let known = &["fixed", "uniform", "exponential", "from"];
                    return Err(A::Error::unknown_field(other, known));
                }
            };
            if time.replace(drawn).is_some() {
                return Err(A::Error::custom("use only one of fixed, uniform and exponential"));
            }
        }
        let time = time.ok_or_else(|| A::Error::custom("needs fixed, uniform or exponential"))?;
        Ok(ThinkFile(Think { time, is_after_reply }))
    }
}
