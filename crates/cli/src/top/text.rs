//! Text and figures that fit into a column of the terminal.

use unicode_width::UnicodeWidthChar as _;
use watchfire_report::units;

use super::charts::Unit;
use crate::visible::visible_char;

/// Marks such as accents that may follow one character. More of them would be drawn over other lines.
const MARKS_MAX: usize = 2;

/// The text with visible characters only, cut to a width. A text that was cut ends with `…`.
pub fn cut(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let (mut width, mut marks) = (0, MARKS_MAX);
    // Where the text is cut when it does not fit.
    let mut end = 0;
    for char in text.chars().map(visible_char) {
        let mut char = char;
        let mut needed = char.width().unwrap_or(0);
        if needed == 0 {
            marks += 1;
            if marks > MARKS_MAX {
                (char, needed) = ('\u{fffd}', 1);
            }
        } else {
            marks = 0;
        }
        if width + needed > columns {
            out.truncate(end);
            if columns > 0 {
                out.push('…');
            }
            return out;
        }
        out.push(char);
        width += needed;
        if width < columns {
            end = out.len();
        }
    }
    out
}

/// A time span with at most two units, such as `3m 2s`.
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".to_owned();
    }
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..10 => format!("{:.1}s", seconds.clamp(0.0, 9.9)),
        10..60 => format!("{whole}s"),
        60..3_600 => format!("{}m {}s", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h {}m", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{}d {}h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// The time between two Unix times in milliseconds.
pub fn span_between(since_ms: u64, now_ms: u64) -> String {
    span(now_ms.saturating_sub(since_ms) as f64 / 1_000.0)
}

/// A value with its unit; `–` for one that is not known.
pub fn figure(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match unit {
        Unit::Count => units::count(value as u64),
        Unit::Rate => format!("{}/s", units::number(value, usize::from(value < 9.95))),
        Unit::Bytes => units::binary_bytes(value as u64),
        Unit::ByteRate => units::byte_rate(value),
        Unit::Share => units::percent(value, 0),
        Unit::Cores => format!("{} cores", units::number(value, 2)),
        Unit::Seconds => {
            let duration = std::time::Duration::try_from_secs_f64(value);
            duration.map_or("–".to_owned(), units::duration)
        }
    }
}

/// A Unix time in milliseconds as date and time in UTC.
pub fn time(unix_ms: u64) -> String {
    // RFC 3339 has no years above 9999.
    if unix_ms >= 253_402_300_800_000 {
        return "–".to_owned();
    }
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(unix_ms);
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', "")
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn a_text_is_cut_to_the_width_that_it_has_on_a_terminal() {
        assert_eq!(cut("rooms:1", 7), "rooms:1");
        assert_eq!(cut("rooms:1", 6), "rooms…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 1), "…");
        assert_eq!(cut("a", 0), "");
        assert_eq!(cut("", 3), "");
        for columns in 0..12 {
            let text = cut("a日\u{301}b\u{202e}c語👩\u{200d}👩d\x1b[2J", columns);
            assert!(text.width() <= columns, "{columns}: {text}");
        }
    }

    #[test]
    fn marks_cannot_pile_up() {
        assert_eq!(cut("e\u{301}\u{302}x", 9), "e\u{301}\u{302}x");
        assert_eq!(cut("e\u{301}\u{301}\u{301}", 9), "e\u{301}\u{301}\u{fffd}");
        assert_eq!(cut("\u{301}e", 9), "\u{fffd}e", "nothing to stand on");
        assert_eq!(cut("e\u{301}f", 1), "…");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(span(0.04), "0.0s");
        assert_eq!(span(9.99), "9.9s");
        assert_eq!(span(59.9), "59s");
        assert_eq!(span(184.0), "3m 4s");
        assert_eq!(span(86_399.0), "23h 59m");
        assert_eq!(span(200_000.0), "2d 7h");
        assert_eq!([span(-1.0), span(f64::NAN), span(f64::INFINITY)], ["0.0s", "–", "–"]);
        assert_eq!(span_between(5_000, 1_000), "0.0s");
        assert_eq!(figure(Some(1234.0), Unit::Count), "1,234");
        assert_eq!(figure(Some(1.25), Unit::Rate), "1.2/s");
        assert_eq!(figure(Some(0.0000021), Unit::Seconds), "2.10 µs");
        assert_eq!(figure(Some(-1.0), Unit::Seconds), "–");
        assert_eq!(figure(None, Unit::Bytes), "–");
        assert_eq!(time(1_767_225_630_000), "2026-01-01 00:00:30");
        assert_eq!(time(u64::MAX), "–");
    }
}
