//! The metrics of hooks.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::MetricWriter;
use crate::settings::Hook;

/// The bounds of the histogram, in seconds.
const BUCKETS: [f64; 9] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    hook: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    hook: &'static str,
}

/// Counts of the requests of this process.
#[derive(Debug)]
pub(super) struct HookMetrics {
    requests: Family<Outcome, Counter>,
    seconds: Family<Name, Histogram, fn() -> Histogram>,
}

impl Default for HookMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        HookMetrics {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram),
        }
    }
}

impl HookMetrics {
    /// Counts a question or a notice. `outcome` is one of a closed set.
    pub fn count(&self, hook: Hook, outcome: &'static str) {
        self.requests.get_or_create(&Outcome { hook: name(hook), outcome }).inc();
    }

    /// Counts the time of a request that was sent.
    pub fn took(&self, hook: Hook, time: Duration) {
        self.seconds.get_or_create(&Name { hook: name(hook) }).observe(time.as_secs_f64());
    }

    pub fn write(&self, writer: &mut MetricWriter<'_>) -> fmt::Result {
        let help = "Questions and notices to the backend";
        writer.family("hooks_requests", help, &self.requests)?;
        writer.family("hooks_request_seconds", "Time of a request", &self.seconds)
    }
}

fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::Connect => "connect",
        Hook::Join => "join",
        Hook::Publish => "publish",
        Hook::Leave => "leave",
    }
}
