//! The metrics of the API.

use std::fmt;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::metrics::MetricWriter;

/// A method and its result. Both are of closed sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: &'static str,
    result: &'static str,
}

/// Counts of the requests that this process answered.
#[derive(Debug, Default)]
pub(super) struct ApiMetrics {
    requests: Family<Labels, Counter>,
}

impl ApiMetrics {
    /// Counts a request. `method` is a name of the table of methods or `unknown`; `result` is `ok`,
    /// `replayed` or the code of an error.
    pub fn count(&self, method: &'static str, result: &'static str) {
        self.requests.get_or_create(&Labels { method, result }).inc();
    }

    pub fn write(&self, writer: &mut MetricWriter<'_>) -> fmt::Result {
        writer.counters("api_requests", "Requests of the API", &self.requests)
    }
}
