//! `watchfire top --at`: a moment of the past, from the record of the server.

use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use watchfire_operator::answers::{Event, Events, History, ProfiledFunctions};
use watchfire_report::{Table, units};

use super::charts::{CHARTS, Charts};
use super::text::{figure, time};
use crate::operator::Operator;
use crate::visible::visible;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// The steps of the record, their lengths, and the time before the moment of which rows are shown.
const STEPS: [(&str, u64, u64); 3] =
    [("second", 1_000, MINUTE_MS), ("minute", MINUTE_MS, HOUR_MS), ("hour", HOUR_MS, 24 * HOUR_MS)];
/// How long before and after the moment events are shown.
const EVENTS_AROUND_MS: u64 = 5 * MINUTE_MS;

/// A moment in UTC, such as `14:03`, `yesterday 14:03` or `2026-11-29 14:03:20`.
pub fn parse(text: &str) -> Result<SystemTime, String> {
    parse_at(text, SystemTime::now())
}

fn parse_at(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    let (day, clock) = text.trim().rsplit_once([' ', 'T']).unwrap_or(("today", text.trim()));
    let ago = match day {
        "today" => Some(0),
        "yesterday" => Some(24),
        _ => None,
    };
    let date = ago.map(|hours| {
        let moment = now - Duration::from_secs(hours * 3_600);
        humantime::format_rfc3339_seconds(moment).to_string()[..10].to_owned()
    });
    let clock = clock.strip_suffix('Z').unwrap_or(clock);
    let seconds = if clock.matches(':').count() == 1 { ":00" } else { "" };
    let date = date.as_deref().unwrap_or(day);
    humantime::parse_rfc3339(&format!("{date}T{clock}{seconds}Z")).map_err(|_| {
        format!(
            "{text:?} is not a moment: write it in UTC, such as 14:03, \"yesterday 14:03\" or \"2026-11-29 14:03:20\""
        )
    })
}

/// Returns a text about a moment: the figures, the troubles that lasted, and what happened.
pub fn about(operator: &Operator, moment: SystemTime) -> anyhow::Result<String> {
    let at = moment.duration_since(SystemTime::UNIX_EPOCH).context("the moment is before 1970")?;
    let at = u64::try_from(at.as_millis())?;
    anyhow::ensure!(
        moment <= SystemTime::now(),
        "cannot show {} UTC: it is in the future; give a past moment",
        time(at)
    );
    let mut found = None;
    for (step, step_ms, span) in STEPS {
        let path =
            format!("/admin/history?step={step}&after={}&until={at}", at.saturating_sub(span));
        let history: History = operator.call_blocking("GET", &path)?;
        // An older row is of the time before the server was down.
        let last = history.rows.last().and_then(|row| *row.first()?).unwrap_or_default() as u64;
        if last + 2 * step_ms > at {
            found = Some((step, history));
            break;
        }
    }
    let events = |after: u64, until: u64| -> anyhow::Result<Vec<Event>> {
        let path = format!("/admin/events?after={after}&until={until}");
        let Events { events } = operator.call_blocking("GET", &path)?;
        Ok(events)
    };
    let before = events(1, at)?;
    let around = events(at.saturating_sub(EVENTS_AROUND_MS), at + EVENTS_AROUND_MS)?;
    let text = text(at, found.as_ref().map(|(step, history)| (*step, history)), &before, &around);
    // Most servers keep no profile, and say so with an error.
    let profile = operator.call_blocking("GET", &format!("/admin/profile?at={at}&functions=true"));
    Ok(text + &profile.map(|profile| functions(&profile)).unwrap_or_default())
}

fn functions(ProfiledFunctions { samples, functions }: &ProfiledFunctions) -> String {
    let mut table = Table::new(["function", "self", "total"]);
    let part = |of: u64| units::percent(of as f64 / (*samples).max(1) as f64, 1);
    for (name, own, total) in functions.iter().take(10) {
        table.push([visible(name), part(*own), part(*total)]);
    }
    format!("\nCPU time of the minute, from {samples} samples:\n\n{}", table.terminal())
}

fn text(at: u64, found: Option<(&str, &History)>, before: &[Event], around: &[Event]) -> String {
    let mut out = match found {
        None => format!("The record has no figures of {} UTC.\n", time(at)),
        Some((step, history)) => figures(step, history),
    };
    let mut lasting: Vec<&Event> = Vec::new();
    for event in before {
        match &*event.kind {
            "trouble_begin" => lasting.push(event),
            "trouble_end" => lasting.retain(|began| began.trouble != event.trouble),
            // A server that starts has no troubles yet.
            "start" => lasting.clear(),
            _ => {}
        }
    }
    let line = |event: &Event| format!("  {}  {}\n", time(event.time_ms), visible(&event.text));
    out += if lasting.is_empty() { "\nNo trouble.\n" } else { "\nTroubles:\n" };
    out.extend(lasting.into_iter().map(line));
    out +=
        if around.is_empty() { "" } else { "\nEvents from 5 minutes before to 5 minutes after:\n" };
    out.extend(around.iter().map(line));
    out
}

fn figures(step: &str, history: &History) -> String {
    let mut charts = Charts::default();
    charts.add(history);
    let mut table = Table::new(["figure", "then", "lowest before", "highest before"]);
    for (place, chart) in CHARTS.iter().enumerate() {
        let of = |value| figure(value, chart.unit);
        let extremes = charts.extremes(place);
        table.push([
            chart.title.to_owned(),
            of(charts.latest(place)),
            of(extremes.map(|(low, _)| low)),
            of(extremes.map(|(_, high)| high)),
        ]);
    }
    let rows = history.rows.len();
    let begin = format!("{} UTC, from {rows} rows, one each {step}\n", time(charts.last_ms()));
    format!("{begin}\n{}", table.terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_of_today_of_yesterday_or_of_a_date() {
        let now = humantime::parse_rfc3339("2026-03-01T10:00:00Z").unwrap();
        let parsed = |text| {
            parse_at(text, now).map(|moment| humantime::format_rfc3339_seconds(moment).to_string())
        };
        for (text, moment) in [
            ("09:05", "2026-03-01T09:05:00Z"),
            ("yesterday 14:03", "2026-02-28T14:03:00Z"),
            ("today 14:03:20", "2026-03-01T14:03:20Z"),
            ("2026-01-31 00:00", "2026-01-31T00:00:00Z"),
            ("2026-01-31T23:59:59Z", "2026-01-31T23:59:59Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(moment), "{text}");
        }
        for text in ["", "tomorrow 10:00", "25:00", "2026-02-30 10:00", "14", "yesterday"] {
            assert!(parsed(text).unwrap_err().contains("such as 14:03"), "{text}");
        }
    }

    #[test]
    fn troubles_that_lasted_are_named_and_those_that_had_ended_are_not() {
        let event = |time_ms, kind: &str, trouble: &str| Event {
            time_ms,
            kind: kind.into(),
            trouble: trouble.into(),
            text: format!("{trouble} {kind}"),
        };
        let before = [
            event(1, "trouble_begin", "lost_by_a_crash"),
            event(2, "start", ""),
            event(3, "trouble_begin", "slow_clients"),
            event(4, "trouble_begin", "disk_full"),
            event(5, "trouble_end", "slow_clients"),
        ];
        let text = text(9, None, &before, &before[3..]);
        assert!(
            text.starts_with("The record has no figures of 1970-01-01 00:00:00 UTC.\n"),
            "{text}"
        );
        let (troubles, events) = text.split_once("Events").unwrap();
        assert!(troubles.contains("disk_full") && !troubles.contains("slow_clients"), "{text}");
        assert!(!troubles.contains("lost_by_a_crash"), "{text}");
        assert!(events.contains("slow_clients trouble_end"), "{text}");
    }
}
