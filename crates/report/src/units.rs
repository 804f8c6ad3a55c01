//! Formatting and parsing of numbers with units.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Longest duration in a scenario, so that sums cannot overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Largest size or rate in a scenario.
const BYTES_MAX: f64 = 1e18;

const BINARY_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const DECIMAL_UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
const BIT_RATES: [(&str, f64); 3] = [("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];

/// A number with thousands separators, such as `1,234.5`.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A whole number with thousands separators, such as `1,234`.
pub fn count(value: u64) -> String {
    number(value as f64, 0)
}

/// A share of a whole from 0 to 1 in percent, such as `12.5 %`.
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", share * 100.0)
}

/// A duration with three digits, such as `1.23 ms`.
pub fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        _ if micros < 1e3 => (micros, "µs"),
        _ if micros < 1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let decimals = if value >= 99.95 { 0 } else { usize::from(value < 9.995) + 1 };
    format!("{value:.decimals$} {unit}")
}

/// A size in binary units, such as `1.5 MiB`. All sizes are in these, so that two of them can be compared.
pub fn binary_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // A little below the step: rounding must not show 1024 of the smaller unit.
    while value >= 1023.5 && unit + 1 < BINARY_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // Four digits at most, for columns of a terminal.
    let decimals = usize::from(unit > 0 && value < 999.95);
    format!("{value:.decimals$} {}", BINARY_UNITS[unit])
}

/// A rate in bytes per second, such as `1.5 MiB/s`.
pub fn byte_rate(bytes_per_second: f64) -> String {
    binary_bytes(bytes_per_second as u64) + "/s"
}

/// A duration such as `10s` or `1m 30s`, at most a year.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= DURATION_MAX => Ok(duration),
        Ok(_) => Err(format!("the duration {text:?} is longer than a year")),
        Err(error) => Err(format!("invalid duration {text:?}: {error}; write one like \"10s\"")),
    }
}

/// A size such as `300`, `256KiB` or `1.5 MB`. A number without a unit is bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (value, unit) = value_and_unit(text);
    // "Mb" is read as megabits by some and as megabytes by others; "mb" by nobody as megabits of a file.
    let is_of_bits = unit.ends_with('b') && unit.starts_with(|c: char| c.is_ascii_uppercase());
    let power = |step: f64, units: &[&str]| {
        let power = units.iter().position(|known| known.eq_ignore_ascii_case(unit))?;
        Some(step.powi(power as i32))
    };
    let factor = match unit {
        "" => Some(1.0),
        _ if is_of_bits => None,
        _ => power(1024.0, &BINARY_UNITS).or_else(|| power(1000.0, &DECIMAL_UNITS)),
    };
    let bytes = value.zip(factor).map(|(value, factor)| value * factor);
    let is_size = |bytes: &f64| bytes.fract() == 0.0 && (0.0..=BYTES_MAX).contains(bytes);
    bytes.filter(is_size).map(|bytes| bytes as u64).ok_or_else(|| {
        format!("invalid size {text:?}; write a number of bytes like 300, \"256KiB\" or \"5MB\"")
    })
}

/// Bytes per second from bits or bytes per second, such as `100Mbit` or `12MB`; at least `8kbit`.
pub fn parse_byte_rate(text: &str) -> Result<u64, String> {
    let (value, unit) = value_and_unit(text);
    let bits = BIT_RATES.iter().find(|(known, _)| *known == unit);
    if let Some(prefix) = unit.strip_suffix('b') {
        return Err(format!(
            "invalid rate {text:?}: \"{unit}\" can be bits or bytes; write \"{prefix}bit\" or \"{prefix}B\" in its place"
        ));
    }
    let rate = match (value, bits) {
        (Some(value), Some((_, bits))) => Some((value * bits / 8.0) as u64),
        _ if unit.is_empty() => None,
        _ => parse_bytes(text).ok(),
    };
    rate.filter(|rate| *rate >= 1000).ok_or_else(|| {
        format!(
            "invalid rate {text:?}; write bits or bytes per second like \"100Mbit\" or \"12MB\", at \
             least \"8kbit\""
        )
    })
}

fn value_and_unit(text: &str) -> (Option<f64>, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (value, unit) = text.split_at(end);
    (value.parse().ok().filter(|value: &f64| value.is_finite()), unit.trim())
}

/// A duration in a scenario file, such as `"10s"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DurationText(pub Duration);

/// A size in a scenario file, such as `"300MiB"`.
#[derive(Clone, Copy, Debug)]
pub struct BytesText(pub u64);

/// Bytes per second in a scenario file, such as `"100Mbit"` or `"12MB"`.
#[derive(Clone, Copy, Debug)]
pub struct ByteRateText(pub u64);

/// A share of a whole in a scenario file, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share(pub f64);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(DurationText).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for BytesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_bytes(&text).map(BytesText).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ByteRateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_byte_rate(&text).map(ByteRateText).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = f64::deserialize(deserializer)?;
        let is_share = (0.0..=1.0).contains(&share);
        let problem = || D::Error::custom(format!("{share} is not between 0 and 1"));
        is_share.then_some(Share(share)).ok_or_else(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(-350.25, 1), "-350.2");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.125, 1), "12.5 %");
    }

    #[test]
    fn durations_have_three_digits() {
        let cases = [
            (0, "0.00 µs"),
            (1_234, "1.23 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (1_234_567, "1.23 ms"),
            (12_000_000_000, "12.0 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn sizes_are_formatted_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1_023_900, "999.9 KiB"),
            (1_047_552, "1023 KiB"),
            (1_048_575, "1.0 MiB"),
            (314_572_800, "300.0 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(binary_bytes(bytes), text);
        }
        assert_eq!(byte_rate(1_572_864.0), "1.5 MiB/s");
    }

    #[test]
    fn sizes_are_parsed_in_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("300", 300),
            ("256KiB", 262_144),
            ("1.5 gib", 1_610_612_736),
            ("2 B", 2),
            ("5kB", 5_000),
            ("3TiB", 3 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bytes("5mb"), Ok(5_000_000));
        for text in ["", "KiB", "-1", "0.3", "1..2", "99999999999TiB", "1 KiB more", "5Mb", "5Gib"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_parsed_in_bits_and_bytes() {
        assert_eq!(parse_byte_rate("100Mbit"), Ok(12_500_000));
        assert_eq!(parse_byte_rate("12MB"), Ok(12_000_000));
        for text in ["100", "7kbit", "fast", "-1MB", "1mbit"] {
            assert!(parse_byte_rate(text).is_err(), "{text}");
        }
        for text in ["100Mb", "100 mb", "1Gib"] {
            let error = parse_byte_rate(text).unwrap_err();
            assert!(error.contains("can be bits or bytes"), "{error}");
        }
    }

    #[test]
    fn durations_are_at_most_a_year() {
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("9999 years").unwrap_err().contains("longer than a year"));
        assert!(parse_duration("10 bananas").unwrap_err().contains("invalid duration"));
    }
}
