use serde::{Deserialize, Serialize};

/// Where distributed traces are sent, over OTLP. Without an endpoint, there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceSettings {
    /// URL of the collector, such as `http://127.0.0.1:4318`. Spans are sent to `/v1/traces` below
    /// it. Empty: the variable `OTEL_EXPORTER_OTLP_ENDPOINT`, and without it no traces.
    pub endpoint: String,
    /// The share of new traces that are recorded, from 0 to 1. A request that continues a trace is
    /// recorded if its caller records it.
    pub sample: f64,
    /// The name of this service in the traces. Empty: the variable `OTEL_SERVICE_NAME`, and without
    /// it `watchfire`.
    pub service_name: String,
}

impl Default for TraceSettings {
    fn default() -> Self {
        TraceSettings { endpoint: String::new(), sample: 1.0, service_name: String::new() }
    }
}
