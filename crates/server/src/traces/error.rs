use crate::not_built::NotBuilt;

/// Why traces cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracesError {
    /// `traces.sample` is not a share.
    #[error("cannot use traces.sample {sample}: it must be from 0 to 1")]
    Sample {
        /// The value of the setting.
        sample: f64,
    },
    /// `traces.endpoint`, or the variable that stands in for it, is not a URL.
    #[error(
        "cannot send traces to {endpoint:?}: set traces.endpoint or OTEL_EXPORTER_OTLP_ENDPOINT to a URL such as http://127.0.0.1:4318, where a collector receives OTLP over HTTP"
    )]
    Endpoint {
        /// The value of the setting.
        endpoint: String,
    },
    /// The exporter cannot start.
    #[error("cannot send traces: {0}")]
    Start(String),
    /// The process already sends traces.
    #[error("cannot start traces: this process already sends traces")]
    AlreadyStarted,
    /// This program cannot send traces.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
}
