//! The spans of a run, and the ids by which the lab and the programs of its nodes name them.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::SystemTime;

/// A piece of work of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: [u8; 16],
    pub id: [u8; 8],
    pub parent: Option<[u8; 8]>,
    /// The index of the node; `None` for the run itself.
    pub node: Option<usize>,
    pub name: String,
    /// Nanoseconds since 1970; since the start of the clock for simulated runs.
    pub started_at: u64,
    pub ended_at: u64,
    pub attributes: Vec<(String, Value)>,
    /// Moments within the span.
    pub events: Vec<(&'static str, u64)>,
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(i64),
    Decimal(f64),
    Flag(bool),
}

/// The trace of a run, beside its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTrace {
    pub id: [u8; 16],
    /// When the clock of the run started; `None` for a simulated clock.
    pub clock_started_at: Option<SystemTime>,
    /// Spans that the programs exported.
    pub exported: Vec<Span>,
    /// Spans that were dropped because there were too many.
    pub cut: u64,
}

/// The id of a run's trace, made of something that only this run has.
pub fn trace_id(run: impl Hash) -> [u8; 16] {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &run).hash(&mut hasher);
        hasher.finish().max(1).to_be_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half(1));
    id[8..].copy_from_slice(&half(2));
    id
}

/// The id of one of the lab's spans.
pub fn span_id(trace_id: [u8; 16], node: Option<usize>, name: &str) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    (trace_id, node, name).hash(&mut hasher);
    hasher.finish().max(1).to_be_bytes()
}

/// The W3C context of the span below which a node works: `fetch`, or `share` if it fetches nothing.
pub fn traceparent(trace_id: [u8; 16], node: usize, fetches: bool) -> String {
    let span_id = span_id(trace_id, Some(node), if fetches { "fetch" } else { "share" });
    let (trace_id, span_id) = (u128::from_be_bytes(trace_id), u64::from_be_bytes(span_id));
    format!("00-{trace_id:032x}-{span_id:016x}-01")
}
