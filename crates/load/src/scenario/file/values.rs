//! Values with more than one notation.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use watchfire_report::units::DurationText;

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
