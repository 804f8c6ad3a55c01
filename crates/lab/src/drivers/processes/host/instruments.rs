//! Spans and flame graphs: the programs of a run record them besides its figures, and this asks for them.

use std::io;
use std::path::{Path, PathBuf};

use super::site::Site;
use crate::definition::{NodePlan, TrialPlan};
use crate::results::spans::{Listening, Receiver};
use crate::results::{trace_id, traceparent};

#[derive(Clone, Copy, Default)]
pub struct Instruments<'a> {
    /// Receives the spans that programs export.
    pub spans: Option<&'a Receiver>,
    /// The folder of flame graphs.
    pub flames: Option<&'a Path>,
}

impl Instruments<'_> {
    /// Sets the variables with which the programs of a node export their spans to the lab. The result is kept as
    /// long as they run.
    pub fn receive_spans(
        &self,
        site: &mut Site,
        index: usize,
        node: &NodePlan,
    ) -> io::Result<Option<Listening>> {
        let Some(receiver) = self.spans else { return Ok(None) };
        let in_namespace =
            site.span_listener()?.map(|listener| receiver.listen(listener)).transpose()?;
        let own = in_namespace.as_ref().map(|listening| listening.endpoint(index));
        let endpoint = own.unwrap_or_else(|| receiver.endpoint(index));
        let context = traceparent(trace_id(&site.run), index, !node.fetches.is_empty());
        site.environment = vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_SERVICE_NAME", node.name.clone()),
            ("TRACEPARENT", context),
        ];
        Ok(in_namespace)
    }

    /// The file for the flame graph of a node.
    pub fn flame(&self, plan: &TrialPlan, node: &NodePlan) -> Option<PathBuf> {
        let allowed = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name = format!("{}-{}-{}.svg", plan.name, plan.seed, node.name);
        Some(self.flames?.join(name.chars().map(allowed).collect::<String>()))
    }
}
