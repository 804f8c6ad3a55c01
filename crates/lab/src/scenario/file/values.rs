//! Values that are written in more than one way.

use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::scenario::program::{Think, ThinkTime};

/// A time such as "1s 500ms".
#[derive(Clone, Copy)]
pub(super) struct Span(pub(super) Duration);

/// Longer than any load; so sums of a few cannot overflow.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        match humantime::parse_duration(&text) {
            Ok(duration) if duration <= SPAN_MAX => Ok(Span(duration)),
            Ok(_) => Err(D::Error::custom(format!("{text:?} is longer than a year"))),
            Err(error) => {
                Err(D::Error::custom(format!("{text:?} is no time such as \"10s\": {error}")))
            }
        }
    }
}

/// A payload as a table, or JSON in a text just as it is to be sent.
pub(super) struct PayloadFile(pub(super) String);

impl<'de> Deserialize<'de> for PayloadFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PayloadFile, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(PayloadFile(text)),
            value => serde_json::to_string(&value).map(PayloadFile).map_err(D::Error::custom),
        }
    }
}

/// `"1s"`, or a table with one kind of draw and `from = "answer"`.
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
        let Span(time) = Span::deserialize(serde::de::value::StrDeserializer::new(text))?;
        Ok(ThinkFile(Think { time: ThinkTime::Fixed(time), is_after_answer: false }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ThinkFile, A::Error> {
        let mut time = None;
        let mut is_after_answer = false;
        while let Some(key) = map.next_key::<String>()? {
            let drawn = match key.as_str() {
                "fixed" => ThinkTime::Fixed(map.next_value::<Span>()?.0),
                "uniform" => {
                    let [min, max] = map.next_value::<[Span; 2]>()?;
                    if min.0 > max.0 {
                        return Err(A::Error::custom(
                            "uniform goes from the shorter to the longer time",
                        ));
                    }
                    ThinkTime::Uniform(min.0, max.0)
                }
                "exponential" => ThinkTime::Exponential(map.next_value::<Span>()?.0),
                "from" => {
                    is_after_answer = match map.next_value::<String>()?.as_str() {
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
                return Err(A::Error::custom("one of fixed, uniform and exponential is enough"));
            }
        }
        let time = time.ok_or_else(|| A::Error::custom("needs fixed, uniform or exponential"))?;
        Ok(ThinkFile(Think { time, is_after_answer }))
    }
}
