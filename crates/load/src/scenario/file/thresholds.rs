//! `[thresholds]`: the thresholds that the load must keep.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::{ScenarioError, StepThresholds, Thresholds};
use watchfire_report::scenario::SourceText;
use watchfire_report::units::DurationText;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThresholdsFile {
    errors_max: Option<u64>,
    errors_percent_max: Option<f64>,
    connected_min: Option<u64>,
    missing_users_max: Option<u64>,
    lost_max: Option<u64>,
    start_lateness_p99_max: Option<DurationText>,
    #[serde(default)]
    in_order: InOrderThresholdsFile,
    #[serde(default)]
    broadcasts: BroadcastThresholdsFile,
    #[serde(default)]
    steps: BTreeMap<Spanned<String>, StepThresholdsFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InOrderThresholdsFile {
    missing_max: Option<u64>,
    repeated_max: Option<u64>,
    received_min: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BroadcastThresholdsFile {
    missing_max: Option<u64>,
    last_max: Option<DurationText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepThresholdsFile {
    p50_max: Option<DurationText>,
    p95_max: Option<DurationText>,
    p99_max: Option<DurationText>,
    p999_max: Option<DurationText>,
    max: Option<DurationText>,
    count_min: Option<u64>,
}

impl ThresholdsFile {
    pub(super) fn check(
        &self,
        steps: &[String],
        source: &SourceText<'_>,
    ) -> Result<Thresholds, ScenarioError> {
        let span = |span: Option<DurationText>| span.map(|span| span.0);
        let mut thresholds = Thresholds {
            errors_max: self.errors_max,
            errors_percent_max: self.errors_percent_max,
            connected_min: self.connected_min,
            missing_users_max: self.missing_users_max,
            lost_max: self.lost_max,
            start_lateness_p99_max: span(self.start_lateness_p99_max),
            in_order_missing_max: self.in_order.missing_max,
            in_order_repeated_max: self.in_order.repeated_max,
            in_order_received_min: self.in_order.received_min,
            broadcasts_missing_max: self.broadcasts.missing_max,
            broadcasts_last_max: span(self.broadcasts.last_max),
            steps: Vec::new(),
        };
        for (name, threshold) in &self.steps {
            if !steps.contains(name.get_ref()) {
                let problem = format!("unknown step; known steps: {}", steps.join(", "));
                return Err(source.error(name.span().start, name.get_ref(), problem));
            }
            let threshold = StepThresholds {
                p50_max: span(threshold.p50_max),
                p95_max: span(threshold.p95_max),
                p99_max: span(threshold.p99_max),
                p999_max: span(threshold.p999_max),
                max: span(threshold.max),
                count_min: threshold.count_min,
            };
            thresholds.steps.push((name.get_ref().clone(), threshold));
        }
        Ok(thresholds)
    }
}
