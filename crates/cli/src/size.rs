//! Bytes as people write and read them.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// `300`, `256KiB`, `1.5 GiB`: units are powers of 1024, and a bare number is bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let power = UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit));
    let power = if unit.is_empty() { Some(0) } else { power };
    let wrong = || format!("a number of bytes such as 300, 256KiB or 1.5GiB, not {text:?}");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * 1024_f64.powi(power.ok_or_else(wrong)? as i32);
    if bytes.fract() == 0.0 && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// `314 B`, `1.5 KiB`, `300.0 MiB`.
pub fn show_bytes(bytes: u64) -> String {
    let mut number = bytes as f64;
    let mut unit = 0;
    // Not 1024, which rounding would show as 1024.0.
    while number >= 1023.95 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{number:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_are_written() {
        for (text, bytes) in [
            ("0", 0),
            ("300", 300),
            ("256KiB", 262_144),
            ("1.5 gib", 1_610_612_736),
            ("2 B", 2),
            ("3TiB", 3 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "1MB", "-1", "0.3", "1..2", "99999999999TiB", "1 KiB more"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (314_572_800, "300.0 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(show_bytes(bytes), text);
        }
    }
}
