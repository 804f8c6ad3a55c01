//! Requests for profiles between processes.

use serde::{Deserialize, Serialize};

/// How a profile is written.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Format {
    Pprof,
    FlameGraph,
}

/// A call to the same part in another process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Start a profile. The answer is empty, or why there is none.
    Start { id: u64, seconds: u64, format: Format },
    /// The profile, in base64. The answer is empty while it runs.
    Take { id: u64 },
    /// End a profile whose client has left.
    Cancel { id: u64 },
}

/// Samples of the calls.
#[cfg(test)]
pub(crate) fn message_samples() -> Vec<crate::cluster::Samples> {
    use crate::cluster::samples;
    vec![
        samples!(enum Call:
            Call::Start { id: 1, seconds: 2, format: Format::Pprof },
            Call::Take { id: 1 },
            Call::Cancel { id: 1 },
        ),
        samples!(enum Format: Format::Pprof, Format::FlameGraph),
    ]
}
