//! The spans of a tab's load of a page, which the tab reports when the page is complete.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::Deserialize;
use watchfire_traces::{FinishedSpan, Kind, TraceContext, Value, is_on, report};

/// Spans of one report. A longer report is refused.
const SPANS_MAX: usize = 64;
/// The longest load that is reported.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Reports that one process accepts in a second. Further ones are refused.
const REPORTS_PER_SECOND_MAX: u32 = 100;

/// The report of a tab about its load of a page. Its times count from the beginning of the load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report<'a> {
    /// The span of the load itself.
    traceparent: &'a str,
    took_ms: f64,
    spans: Vec<ReportedSpan<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedSpan<'a> {
    name: SpanName,
    id: &'a str,
    start_ms: f64,
    took_ms: f64,
    peer: Option<&'a str>,
    peers: Option<u32>,
    blocks: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum SpanName {
    #[serde(rename = "join")]
    Join,
    #[serde(rename = "introduce")]
    Introduce,
    #[serde(rename = "connect")]
    Connect,
    #[serde(rename = "blocks from peer")]
    Blocks,
}

impl SpanName {
    const fn as_str(self) -> &'static str {
        match self {
            SpanName::Join => "join",
            SpanName::Introduce => "introduce",
            SpanName::Connect => "connect",
            SpanName::Blocks => "blocks from peer",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReportRefusal {
    #[error("the server records no traces")]
    Off,
    #[error("too many reports; this one is not recorded")]
    TooMany,
    #[error("invalid report of a trace")]
    Invalid,
}

/// Accepts reports, up to a rate.
#[derive(Debug, Default)]
pub(super) struct TraceReports {
    second: Mutex<Option<(Instant, u32)>>,
}

impl TraceReports {
    /// Records the spans of a load of a page that has just ended.
    pub fn record(&self, page: &str, text: &str) -> Result<(), ReportRefusal> {
        if !is_on() {
            return Err(ReportRefusal::Off);
        }
        if !self.has_room(Instant::now()) {
            return Err(ReportRefusal::TooMany);
        }
        let spans = spans_of(page, text, SystemTime::now()).ok_or(ReportRefusal::Invalid)?;
        spans.into_iter().for_each(report);
        Ok(())
    }

    fn has_room(&self, now: Instant) -> bool {
        let mut second = self.second.lock();
        let (began, count) = match *second {
            Some((began, count)) if now - began < Duration::from_secs(1) => (began, count),
            _ => (now, 0),
        };
        *second = Some((began, count.saturating_add(1)));
        count < REPORTS_PER_SECOND_MAX
    }
}

/// The spans of a report; `None` if any part of it is invalid, or its trace is not sampled.
fn spans_of(page: &str, text: &str, now: SystemTime) -> Option<Vec<FinishedSpan>> {
    let Report { traceparent, took_ms, spans } = serde_json::from_str(text).ok()?;
    let root = TraceContext::parse(traceparent.as_bytes()).filter(|root| root.is_sampled)?;
    let took = time(took_ms)?;
    if spans.len() > SPANS_MAX {
        return None;
    }
    let began_at = now.checked_sub(took)?;
    let attributes = vec![
        ("watchfire.page", text_of(page)),
        // The process that received the report is not the one that did the work.
        ("watchfire.reported_by", Value::from("browser")),
    ];
    let load = FinishedSpan {
        context: root,
        parent: None,
        is_parent_remote: false,
        name: Cow::Borrowed("load page"),
        kind: Kind::Client,
        started_at: began_at,
        duration: took,
        attributes,
        error: None,
    };
    let mut finished = vec![load.clone()];
    for span in spans {
        let span_id = id(span.id).filter(|id| *id != 0)?;
        let mut attributes = load.attributes.clone();
        if let Some(peer) = span.peer {
            id(peer)?;
            attributes.push(("watchfire.peer", text_of(peer)));
        }
        let numbers = [
            ("watchfire.peers", span.peers.map(u64::from)),
            ("watchfire.blocks", span.blocks),
            ("watchfire.bytes", span.bytes),
        ];
        for (name, number) in numbers {
            attributes.extend(number.map(|number| (name, Value::from(number))));
        }
        finished.push(FinishedSpan {
            context: TraceContext { span_id: span_id.to_be_bytes(), ..root },
            parent: Some(root.span_id),
            name: Cow::Borrowed(span.name.as_str()),
            started_at: began_at + time(span.start_ms)?,
            duration: time(span.took_ms)?,
            attributes,
            ..load.clone()
        });
    }
    Some(finished)
}

fn text_of(text: &str) -> Value {
    Value::from(text.to_owned())
}

/// The id of a span or a peer: sixteen hexadecimal digits.
fn id(text: &str) -> Option<u64> {
    let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_id)
}

/// A time in milliseconds; `None` if it is no time of a load.
fn time(ms: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(ms / 1_000.0).ok()?;
    (time <= TIME_MAX).then_some(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROOT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn spans(report: serde_json::Value) -> Option<Vec<FinishedSpan>> {
        spans_of("bafk", &report.to_string(), SystemTime::UNIX_EPOCH + TIME_MAX)
    }

    fn one(name: &str) -> serde_json::Value {
        json!({ "name": name, "id": "00f067aa0ba902b7", "start_ms": 5.5, "took_ms": 20 })
    }

    #[test]
    fn a_report_becomes_a_tree_that_ended_now() {
        let mut blocks = one("blocks from peer");
        blocks["peer"] = json!("00000000000000aa");
        blocks["blocks"] = json!(3);
        blocks["bytes"] = json!(3_000_000_000_u64);
        let report =
            json!({ "traceparent": ROOT, "took_ms": 1500, "spans": [one("join"), blocks] });
        let spans = spans(report).unwrap();
        let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["load page", "join", "blocks from peer"]);
        let end = SystemTime::UNIX_EPOCH + TIME_MAX;
        assert_eq!(spans[0].started_at + spans[0].duration, end);
        assert_eq!(spans[0].parent, None);
        let root = TraceContext::parse(ROOT.as_bytes()).unwrap();
        for span in &spans[1..] {
            assert_eq!(span.parent, Some(root.span_id));
            assert_eq!(span.context.trace_id, root.trace_id);
            assert_eq!(span.started_at, spans[0].started_at + Duration::from_micros(5_500));
        }
        assert!(spans[2].attributes.contains(&("watchfire.bytes", Value::Number(3_000_000_000))));
    }

    #[test]
    fn a_report_with_an_invalid_part_is_refused_as_a_whole() {
        let report = |member: &str, value: serde_json::Value| {
            let mut report = json!({ "traceparent": ROOT, "took_ms": 9, "spans": [one("join")] });
            report[member] = value;
            spans(report)
        };
        assert!(report("took_ms", json!(0)).is_some());
        let span = |member: &str, value: serde_json::Value| {
            let mut span = one("connect");
            span[member] = value;
            report("spans", json!([span]))
        };
        assert!(span("peer", json!("0123456789abcdef")).is_some());
        let refused = [
            report("traceparent", json!("x")),
            report("traceparent", json!(ROOT.replace("-01", "-00"))),
            report("took_ms", json!(-1)),
            report("took_ms", json!(1e300)),
            report("took_ms", json!("9")),
            report("other", json!(1)),
            report("spans", json!(vec![one("join"); SPANS_MAX + 1])),
            span("name", json!("rm -rf")),
            span("id", json!("0000000000000000")),
            span("id", json!("+0f067aa0ba902b7")),
            span("id", json!("7")),
            span("start_ms", json!(1e12)),
            span("took_ms", json!(null)),
            span("peer", json!("x")),
            span("blocks", json!(-1)),
            span("bytes", json!(1e30)),
        ];
        for (n, refused) in refused.iter().enumerate() {
            assert!(refused.is_none(), "report {n}: {refused:?}");
        }
        assert!(spans_of("bafk", "{", SystemTime::now()).is_none());
    }

    #[test]
    fn reports_have_a_rate() {
        let reports = TraceReports::default();
        let now = Instant::now();
        let accepted = (0..3 * REPORTS_PER_SECOND_MAX).filter(|_| reports.has_room(now)).count();
        assert_eq!(accepted, REPORTS_PER_SECOND_MAX as usize);
        assert!(reports.has_room(now + Duration::from_secs(1)));
    }
}
