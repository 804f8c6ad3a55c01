//! The JSON of a call.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::{CallError, Code};

/// Parses the parameters of a call.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(body)
        .map_err(|error| CallError::new(Code::BadRequest, format!("cannot read the call: {error}")))
}

/// Reads a whole number. JSON has one kind of number, so `3.0` and `3e0` are whole too: JSON Schema
/// calls them integers, and some languages write them.
pub fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    deserializer.deserialize_any(WholeNumber)
}

struct WholeNumber;

impl Visitor<'_> for WholeNumber {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", u32::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u32, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        // The cast is exact: the number is whole and in the range.
        is_whole
            .then_some(number as u32)
            .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Params {
        #[serde(deserialize_with = "whole_number")]
        limit: u32,
    }

    #[test]
    fn a_whole_number_may_have_a_fraction_of_zero() {
        for text in ["737", "737.0", "7.37e2", "73700E-2"] {
            let body = format!("{{\"limit\":{text}}}");
            assert_eq!(parse(body.as_bytes()), Ok(Params { limit: 737 }), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_not_whole_is_refused_by_its_value() {
        for text in ["0.5", "-1", "-1.0", "4294967296", "1e300", "\"3\"", "null", "true"] {
            let body = format!("{{\"limit\":{text}}}");
            let refused = parse::<Params>(body.as_bytes()).expect_err(text);
            assert_eq!(refused.code, Code::BadRequest, "{text}");
            assert!(refused.message.contains("a whole number"), "{}", refused.message);
        }
    }
}
