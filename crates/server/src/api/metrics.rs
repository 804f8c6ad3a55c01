//! The metrics of the API.

use crate::metrics::{CountersBy, MetricWriter};

/// Counts of the requests that this process answered.
#[derive(Debug)]
pub(super) struct ApiMetrics {
    requests: CountersBy<2>,
}

impl Default for ApiMetrics {
    fn default() -> Self {
        ApiMetrics { requests: CountersBy::new(["method", "result"]) }
    }
}

impl ApiMetrics {
    /// Counts a request. `method` is a name of the table of methods or `unknown`; `result` is `ok`,
    /// `replayed` or the code of an error.
    pub fn count(&self, method: &'static str, result: &'static str) {
        self.requests.inc([method, result]);
    }

    pub fn write(&self, writer: &mut MetricWriter) {
        writer.counters("api_requests", "Requests of the API", &self.requests);
    }
}
