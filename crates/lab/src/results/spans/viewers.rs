//! Spans in the formats of two viewers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::lab_spans::spans;
use crate::results::run_result::RunResult;
use crate::results::trace::{Span, Value};

/// The runs as Jaeger's page opens them: a trace for each run, with a process for each node.
pub fn jaeger(runs: &[RunResult]) -> Json {
    let mut traces = Vec::new();
    for run in runs {
        let mut by_trace: BTreeMap<[u8; 16], Vec<Span>> = BTreeMap::new();
        for span in spans(run) {
            by_trace.entry(span.trace_id).or_default().push(span);
        }
        traces.extend(by_trace.iter().map(|(id, spans)| jaeger_trace(run, *id, spans)));
    }
    json!({ "data": traces, "total": traces.len(), "limit": 0, "offset": 0, "errors": null })
}

fn jaeger_trace(run: &RunResult, id: [u8; 16], spans: &[Span]) -> Json {
    let nodes: BTreeSet<Option<usize>> = spans.iter().map(|span| span.node).collect();
    let processes: serde_json::Map<String, Json> = nodes
        .into_iter()
        .map(|node| {
            let process = json!({ "serviceName": name(run, node), "tags": [] });
            (process_id(node), process)
        })
        .collect();
    json!({
        "traceID": hex(&id),
        "spans": spans.iter().map(jaeger_span).collect::<Vec<_>>(),
        "processes": processes,
        "warnings": null,
    })
}

fn jaeger_span(span: &Span) -> Json {
    let parent = span.parent.map(|parent| {
        json!({ "refType": "CHILD_OF", "traceID": hex(&span.trace_id), "spanID": hex(&parent) })
    });
    let mut tags: Vec<Json> = span.attributes.iter().map(|(key, value)| tag(key, value)).collect();
    if let Some(error) = &span.error {
        tags.push(tag("error", &Value::Flag(true)));
        tags.push(tag("error.message", &Value::Text(error.clone())));
    }
    let log = |(name, at): &(&str, u64)| {
        let field = tag("event", &Value::Text((*name).to_owned()));
        json!({ "timestamp": at / 1000, "fields": [field] })
    };
    json!({
        "traceID": hex(&span.trace_id),
        "spanID": hex(&span.id),
        "operationName": span.name,
        "references": parent.into_iter().collect::<Vec<_>>(),
        "startTime": span.started_at / 1000,
        "duration": (span.ended_at - span.started_at) / 1000,
        "tags": tags,
        "logs": span.events.iter().map(log).collect::<Vec<_>>(),
        "processID": process_id(span.node),
        "warnings": null,
    })
}

fn tag(key: &str, value: &Value) -> Json {
    let (kind, value) = match value {
        Value::Text(text) => ("string", json!(text)),
        Value::Number(number) => ("int64", json!(number)),
        Value::Decimal(number) => ("float64", json!(number)),
        Value::Flag(flag) => ("bool", json!(flag)),
    };
    json!({ "key": key, "type": kind, "value": value })
}

/// The runs as Perfetto opens them: a process for each node of each run, and an arrow from a span to each one below it
/// at another node. Spans of a node that overlap are on several tracks of it, because a track is a stack.
pub fn perfetto(runs: &[RunResult]) -> Json {
    let mut events = Vec::new();
    let mut first_process = 1;
    for (number, run) in runs.iter().enumerate() {
        let spans = spans(run);
        let begin = spans.iter().map(|span| span.started_at).min().unwrap_or(0);
        let mut tracks: BTreeMap<usize, Tracks> = BTreeMap::new();
        let mut places: BTreeMap<[u8; 8], (usize, usize, &Span)> = BTreeMap::new();
        for span in &spans {
            let process = first_process + span.node.map_or(0, |node| node + 1);
            let track = tracks.entry(process).or_default().place(span);
            places.insert(span.id, (process, track, span));
            events.extend(slice(span, process, track, begin));
        }
        for (process, tracks) in &tracks {
            let node = (process - first_process).checked_sub(1);
            let title = format!("{}: run {} of {}", name(run, node), number + 1, run.trial);
            events.push(metadata("process_name", *process, 0, json!({ "name": title })));
            events.push(metadata(
                "process_sort_index",
                *process,
                0,
                json!({ "sort_index": process }),
            ));
            for track in 0..tracks.0.len() {
                let title = json!({ "name": name(run, node) });
                events.push(metadata("thread_name", *process, track, title));
            }
        }
        for below in &spans {
            let above = below.parent.and_then(|parent| places.get(&parent));
            if let Some(above) = above.filter(|above| above.2.node != below.node) {
                events.extend(arrow(*above, places[&below.id], begin));
            }
        }
        first_process += run.nodes.len() + 1;
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

/// The tracks of a node: of each, the ends of the spans that are open.
#[derive(Default)]
struct Tracks(Vec<Vec<u64>>);

impl Tracks {
    /// The first track on which a span lies inside what is open there. Spans come in the order of their starts.
    fn place(&mut self, span: &Span) -> usize {
        let fits = |open: &mut Vec<u64>| {
            while open.pop_if(|end| *end <= span.started_at).is_some() {}
            open.last().is_none_or(|end| span.ended_at <= *end)
        };
        let track = self.0.iter_mut().position(fits).unwrap_or_else(|| {
            self.0.push(Vec::new());
            self.0.len() - 1
        });
        self.0[track].push(span.ended_at);
        track
    }
}

/// A span, and a mark for each moment in it.
fn slice(span: &Span, process: usize, track: usize, begin: u64) -> Vec<Json> {
    let mut arguments: serde_json::Map<String, Json> = span
        .attributes
        .iter()
        .map(|(key, value)| (key.clone(), tag(key, value)["value"].clone()))
        .collect();
    if let Some(error) = &span.error {
        arguments.insert("error".to_owned(), json!(error));
    }
    let mut events = vec![json!({
        "ph": "X", "cat": "span", "name": span.name, "pid": process, "tid": track,
        "ts": micros(span.started_at - begin), "dur": micros(span.ended_at - span.started_at),
        "args": arguments,
    })];
    events.extend(span.events.iter().map(|(name, at)| {
        let ts = micros(at.saturating_sub(begin));
        json!({ "ph": "i", "s": "t", "cat": "moment", "name": name, "pid": process, "tid": track, "ts": ts })
    }));
    events
}

fn arrow(above: (usize, usize, &Span), below: (usize, usize, &Span), begin: u64) -> [Json; 2] {
    let end = |phase: &str, (process, track, _): (usize, usize, &Span), at: u64| {
        json!({
            "ph": phase, "bp": "e", "cat": "parent", "name": "parent",
            "id": u64::from_be_bytes(below.2.id).to_string(),
            "pid": process, "tid": track, "ts": micros(at - begin),
        })
    };
    let from = below.2.started_at.clamp(above.2.started_at, above.2.ended_at);
    [end("s", above, from), end("f", below, below.2.started_at)]
}

fn metadata(name: &str, process: usize, track: usize, arguments: Json) -> Json {
    json!({ "ph": "M", "name": name, "pid": process, "tid": track, "args": arguments })
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

fn name(run: &RunResult, node: Option<usize>) -> String {
    match node {
        None => "lab".to_owned(),
        Some(node) => {
            run.nodes.get(node).map_or_else(|| node.to_string(), |node| node.name.clone())
        }
    }
}

fn process_id(node: Option<usize>) -> String {
    node.map_or_else(|| "lab".to_owned(), |node| format!("n{node}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::spans::lab_spans;
    use crate::results::trace::{RunTrace, span_id};

    fn run() -> RunResult {
        let mut run = lab_spans::tests::run();
        let id = run.trace.id;
        run.nodes[0].failure = Some("it \"broke\"".to_owned());
        run.nodes[1].arrived_at = 0.0;
        let served = Span {
            trace_id: id,
            id: [5; 8],
            parent: Some(span_id(id, Some(1), "fetch")),
            node: Some(0),
            name: "serve".to_owned(),
            started_at: 500_000_000,
            ended_at: 1_500_000_000,
            attributes: vec![("watchfire.blocks".to_owned(), Value::Number(4))],
            events: Vec::new(),
            error: None,
        };
        run.trace = RunTrace { id, exported: vec![served], ..RunTrace::default() };
        run
    }

    #[test]
    fn jaeger_gets_a_process_for_each_node_and_the_parents() {
        let file = jaeger(&[run()]);
        let trace = &file["data"][0];
        assert_eq!(trace["processes"]["n0"]["serviceName"], "source");
        assert_eq!(trace["processes"]["lab"]["serviceName"], "lab");
        let spans = trace["spans"].as_array().unwrap();
        let find =
            |name: &str| spans.iter().find(|span| span["operationName"] == name).expect(name);
        let serve = find("serve");
        assert_eq!(
            (serve["startTime"].as_u64(), serve["duration"].as_u64()),
            (Some(500_000), Some(1_000_000))
        );
        assert_eq!(serve["references"][0]["spanID"], find("fetch")["spanID"]);
        assert_eq!(serve["tags"][0]["value"], 4);
        assert_eq!(find("share")["tags"][1]["value"], "it \"broke\"");
        assert_eq!(find("fetch")["logs"][1]["fields"][0]["value"], "done");
    }

    #[test]
    fn perfetto_gets_a_process_for_each_node_and_an_arrow_between_nodes() {
        let file = perfetto(&[run(), run()]);
        let events = file["traceEvents"].as_array().unwrap();
        let of =
            |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let names = of("M").iter().filter(|event| event["name"] == "process_name").count();
        assert_eq!(names, 6, "the lab and two nodes, in each of two runs");
        let serve = of("X").into_iter().find(|event| event["name"] == "serve").unwrap();
        assert_eq!((serve["ts"].as_f64(), serve["dur"].as_f64()), (Some(5e5), Some(1e6)));
        let arrows = of("s").into_iter().filter(|event| event["ts"] == 5e5).count();
        assert_eq!(arrows, 2, "from each fetch to what the source served");
    }

    #[test]
    fn spans_that_overlap_are_on_two_tracks() {
        let span =
            |started_at, ended_at| Span { started_at, ended_at, ..run().trace.exported[0].clone() };
        let mut tracks = Tracks::default();
        let places = [(0, 10), (1, 5), (2, 6), (5, 9), (6, 12), (20, 30)];
        assert_eq!(places.map(|(from, to)| tracks.place(&span(from, to))), [0, 0, 1, 0, 1, 0]);
    }
}
