//! What a run records beside its figures, and how a program is asked for it.

use std::path::{Path, PathBuf};

use crate::definition::{NodePlan, TrialPlan};
use crate::results::spans::{Receiver, trace_id, traceparent};

#[derive(Clone, Copy, Default)]
pub struct Records<'a> {
    /// Receives the spans that programs export.
    pub spans: Option<&'a Receiver>,
    /// The folder of flame graphs.
    pub flames: Option<&'a Path>,
}

impl Records<'_> {
    /// The variables with which a program exports its spans to the lab.
    pub fn environment(
        &self,
        run: &str,
        index: usize,
        node: &NodePlan,
    ) -> Vec<(&'static str, String)> {
        let Some(receiver) = self.spans else { return Vec::new() };
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint(index)),
            ("OTEL_SERVICE_NAME", node.name.clone()),
            ("TRACEPARENT", traceparent(trace_id(run), index, !node.fetches.is_empty())),
        ]
    }

    /// The file for the flame graph of a node.
    pub fn flame(&self, plan: &TrialPlan, node: &NodePlan) -> Option<PathBuf> {
        let allowed = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name = format!("{}-{}-{}.svg", plan.name, plan.seed, node.name);
        Some(self.flames?.join(name.chars().map(allowed).collect::<String>()))
    }
}
