//! `[thresholds]`: what must hold.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::place::Place;
use super::values::Span;
use crate::scenario::{Gates, ScenarioError, StepGate};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThresholdsFile {
    errors_max: Option<u64>,
    errors_percent_max: Option<f64>,
    connected_min: Option<u64>,
    missing_users_max: Option<u64>,
    start_lateness_p99_max: Option<Span>,
    #[serde(default)]
    broadcasts: BroadcastGateFile,
    #[serde(default)]
    steps: BTreeMap<Spanned<String>, StepGateFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BroadcastGateFile {
    missing_max: Option<u64>,
    last_max: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepGateFile {
    p50_max: Option<Span>,
    p95_max: Option<Span>,
    p99_max: Option<Span>,
    p999_max: Option<Span>,
    max: Option<Span>,
    count_min: Option<u64>,
}

impl ThresholdsFile {
    pub(super) fn check(
        &self,
        steps: &[String],
        place: &Place<'_>,
    ) -> Result<Gates, ScenarioError> {
        let span = |span: Option<Span>| span.map(|span| span.0);
        let mut gates = Gates {
            errors_max: self.errors_max,
            errors_percent_max: self.errors_percent_max,
            connected_min: self.connected_min,
            missing_users_max: self.missing_users_max,
            start_lateness_p99_max: span(self.start_lateness_p99_max),
            broadcasts_missing_max: self.broadcasts.missing_max,
            broadcasts_last_max: span(self.broadcasts.last_max),
            steps: Vec::new(),
        };
        for (name, gate) in &self.steps {
            if !steps.contains(name.get_ref()) {
                let problem = format!("no such step; there is {}", steps.join(", "));
                return Err(place.error(name.span().start, name.get_ref(), problem));
            }
            let gate = StepGate {
                p50_max: span(gate.p50_max),
                p95_max: span(gate.p95_max),
                p99_max: span(gate.p99_max),
                p999_max: span(gate.p999_max),
                max: span(gate.max),
                count_min: gate.count_min,
            };
            gates.steps.push((name.get_ref().clone(), gate));
        }
        Ok(gates)
    }
}
