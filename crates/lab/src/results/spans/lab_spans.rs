//! The spans of a run: those of the lab, and those that programs exported.

use std::time::SystemTime;

use crate::results::run_result::{NodeResult, RunResult};
use crate::results::trace::{Span, Value, span_id};

/// All spans of a run: those of the lab, and those that its programs exported.
pub fn spans(run: &RunResult) -> Vec<Span> {
    let mut spans = Vec::new();
    let lab = Lab { run, origin: origin(run) };
    let begin = run.nodes.iter().filter_map(|node| Some(node.prepared?[0])).fold(0.0, f64::min);
    let mut whole = lab.span(None, "run", begin, run.took_seconds.max(begin));
    whole.attributes.push(("trial".to_owned(), Value::Text(run.trial.clone())));
    whole.attributes.push(("driver".to_owned(), Value::Text(run.driver.clone())));
    whole.attributes.push(("seed".to_owned(), Value::Text(run.seed.to_string())));
    spans.push(whole);
    for (index, node) in run.nodes.iter().enumerate() {
        lab.node(index, node, &mut spans);
    }
    spans.extend(run.trace.exported.iter().cloned());
    spans.sort_by_key(|span| (span.started_at, std::cmp::Reverse(span.ended_at)));
    spans
}

/// When the clock of a run started, in nanoseconds since 1970.
fn origin(run: &RunResult) -> u64 {
    let since =
        run.trace.clock_started_at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Makes the lab's own spans of a run.
struct Lab<'a> {
    run: &'a RunResult,
    origin: u64,
}

impl Lab<'_> {
    /// A time of the run's clock. Times before its start are negative.
    fn at(&self, seconds: f64) -> u64 {
        let nanos = (seconds * 1e9).round() as i64;
        self.origin.saturating_add_signed(nanos)
    }

    fn span(&self, node: Option<usize>, name: &str, from: f64, to: f64) -> Span {
        let trace_id = self.run.trace.id;
        let is_root = node.is_none();
        Span {
            trace_id,
            id: span_id(trace_id, node, name),
            parent: (!is_root).then(|| span_id(trace_id, None, "run")),
            node,
            name: name.to_owned(),
            started_at: self.at(from),
            ended_at: self.at(to.max(from)),
            attributes: Vec::new(),
            events: Vec::new(),
            error: None,
        }
    }

    fn node(&self, index: usize, node: &NodeResult, spans: &mut Vec<Span>) {
        if let Some([from, to]) = node.prepared {
            spans.push(self.span(Some(index), "prepare", from, to));
        }
        let end = node.left_at.unwrap_or(self.run.took_seconds);
        let left_early = node.left_at.is_some() && !node.is_seeder;
        if node.is_awaited || node.first_byte_at.is_some() || left_early {
            self.fetch(index, node, end, spans);
        } else if node.is_seeder || node.prepared.is_some() {
            let mut share = self.span(Some(index), "share", 0.0, end);
            self.note_end(node, &mut share);
            spans.push(share);
        }
    }

    fn fetch(&self, index: usize, node: &NodeResult, end: f64, spans: &mut Vec<Span>) {
        let to = node.finished_at.unwrap_or(end).max(node.arrived_at);
        let mut fetch = self.span(Some(index), "fetch", node.arrived_at, to);
        if let Some(bytes) = node.received_bytes {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            fetch.attributes.push(("received_bytes".to_owned(), Value::Number(bytes)));
        }
        self.note_end(node, &mut fetch);
        let parent = Some(fetch.id);
        spans.push(fetch);
        let mut below = |name: &str, from: f64, to: f64| {
            spans.push(Span { parent, ..self.span(Some(index), name, from, to) });
        };
        below("until the first byte", node.arrived_at, node.first_byte_at.unwrap_or(to).min(to));
        if let Some(first) = node.first_byte_at.filter(|first| *first < to) {
            below("from the first byte", first, to);
        }
    }

    /// Notes what happened to a node in its span.
    fn note_end(&self, node: &NodeResult, span: &mut Span) {
        let times = [
            ("first byte", node.first_byte_at),
            ("done", node.finished_at),
            ("leave", node.left_at),
        ];
        span.events.extend(times.iter().filter_map(|(name, at)| Some((*name, self.at((*at)?)))));
        span.error.clone_from(&node.failure);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::results::trace::{RunTrace, trace_id, traceparent};

    /// A node that shares and one that fetches.
    pub fn run() -> RunResult {
        let source = NodeResult {
            name: "source".to_owned(),
            is_seeder: true,
            prepared: Some([-1.0, -0.5]),
            left_at: Some(2.0),
            ..NodeResult::default()
        };
        let peer = NodeResult {
            name: "peer".to_owned(),
            is_awaited: true,
            arrived_at: 0.5,
            first_byte_at: Some(1.0),
            finished_at: Some(2.5),
            ..NodeResult::default()
        };
        RunResult {
            trial: "t".to_owned(),
            took_seconds: 3.0,
            nodes: vec![source, peer],
            trace: RunTrace {
                id: trace_id("a run"),
                clock_started_at: Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(10)),
                ..RunTrace::default()
            },
            ..RunResult::default()
        }
    }

    #[test]
    fn each_node_has_the_spans_that_the_lab_knows() {
        let spans = spans(&run());
        let find = |name: &str| spans.iter().find(|span| span.name == name).expect(name);
        let seconds = |span: &Span| (span.started_at as f64 / 1e9, span.ended_at as f64 / 1e9);
        assert_eq!(seconds(find("run")), (9.0, 13.0));
        assert_eq!(seconds(find("prepare")), (9.0, 9.5));
        assert_eq!(seconds(find("share")), (10.0, 12.0));
        assert_eq!(find("share").events, [("leave", 12_000_000_000)]);
        assert_eq!(seconds(find("fetch")), (10.5, 12.5));
        assert_eq!(find("fetch").parent, Some(find("run").id));
        assert_eq!(find("until the first byte").parent, Some(find("fetch").id));
        assert_eq!(seconds(find("from the first byte")), (11.0, 12.5));
        assert_eq!(find("run").parent, None);
    }

    #[test]
    fn a_program_is_told_the_span_of_its_node() {
        let run = run();
        let fetch = spans(&run).into_iter().find(|span| span.name == "fetch").unwrap();
        let context = traceparent(run.trace.id, 1, true);
        assert!(context.contains(&format!("{:016x}", u64::from_be_bytes(fetch.id))), "{context}");
        assert_eq!(context.len(), 55);
        assert_ne!(trace_id("a run"), trace_id("another run"));
    }
}
