//! Values with units.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A time such as "20ms".
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span(pub(super) Duration);

/// Longer than any simulation; so sums of a few cannot overflow.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        match humantime::parse_duration(&text) {
            Ok(duration) if duration <= SPAN_MAX => Ok(Span(duration)),
            Ok(_) => Err(D::Error::custom(format!("{text:?} is longer than a year"))),
            Err(error) => {
                Err(D::Error::custom(format!("{text:?} is no time such as \"20ms\": {error}")))
            }
        }
    }
}

/// Bytes such as "300MiB".
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let units = [
            ("KiB", 1024.0),
            ("MiB", 1024.0 * 1024.0),
            ("GiB", 1024.0 * 1024.0 * 1024.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("B", 1.0),
        ];
        let text = String::deserialize(deserializer)?;
        let bytes = number(&text, &units);
        let problem = || format!("{text:?} is no size such as \"300MiB\" or \"5kB\"");
        bytes.map(Size).ok_or_else(|| D::Error::custom(problem()))
    }
}

/// Bytes a second, written in bits or bytes, such as "100Mbit" or "12MB".
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(pub(super) u64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let units = [
            ("kbit", 1e3 / 8.0),
            ("Mbit", 1e6 / 8.0),
            ("Gbit", 1e9 / 8.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
        ];
        let text = String::deserialize(deserializer)?;
        let rate = number(&text, &units).filter(|rate| *rate >= 1000);
        let problem = || {
            format!(
                "{text:?} is no rate of 8kbit or more, such as \"100Mbit\" or \"12MB\" a second"
            )
        };
        rate.map(Rate).ok_or_else(|| D::Error::custom(problem()))
    }
}

/// A number and a unit, as a whole number of what the units are in; `None` when it is not that, or
/// more than a million million.
fn number(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let value: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    let value = value * factor;
    (0.0..=1e12).contains(&value).then_some(value as u64)
}

/// A part of a whole, between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part(pub(super) f64);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        let part = f64::deserialize(deserializer)?;
        let is_part = (0.0..=1.0).contains(&part);
        let problem = || format!("{part} is not between 0 and 1");
        is_part.then_some(Part(part)).ok_or_else(|| D::Error::custom(problem()))
    }
}
