use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started; all its processes share this clock.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Today's date in UTC, such as `2026-11-24`.
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let (year, month, day) = date_of(since.map_or(0, |since| since.as_secs() / 86_400));
    format!("{year}-{month:02}-{day:02}")
}

/// The date of a day since 1970. Years begin in March here, so that a leap day ends its year.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since the first of March of the year 0
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, years) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + years, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_since_1970_are_converted_to_dates() {
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(11_016), (2000, 2, 29));
        assert_eq!(date_of(20_778), (2026, 11, 21));
    }

    #[test]
    fn the_clock_is_monotonic() {
        let before = now_ns();
        assert!(now_ns() >= before && before > 0);
    }
}
