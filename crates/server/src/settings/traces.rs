use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "traces";
    /// Where distributed traces are sent, over OTLP. Without an endpoint, there are none.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct TraceSettings {
        /// URL of a collector that receives OTLP over HTTP, such as `"http://127.0.0.1:4318"`.
        /// Empty: the variable `OTEL_EXPORTER_OTLP_ENDPOINT`, and without it no traces. The program
        /// needs the feature otlp.
        endpoint: String = String::new();
        /// The share of new traces that are recorded, from 0 to 1. A request that continues a trace
        /// of its caller is recorded if the caller records it.
        sample: f64 = 1.0;
        /// The name of this service in the traces. Empty: the variable `OTEL_SERVICE_NAME`, and
        /// without it `"watchfire"`.
        service_name: String = String::new();
    }
}
