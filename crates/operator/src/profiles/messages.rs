//! Requests for profiles between processes.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Format {
    Pprof,
    FlameGraph,
}

/// A call to the same part in another process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Start a profile. The answer is a [`Started`].
    Start { id: u64, seconds: u64, format: Format },
    /// The answer is a [`Taken`].
    Take { id: u64 },
    /// End a profile whose client has left.
    Cancel { id: u64 },
}

/// The answer to [`Call::Start`]; an error says why there is no profile.
pub(super) type Started = Result<(), String>;

/// The answer to [`Call::Take`]: the profile, `None` while it runs, or why there is none.
pub(super) type Taken = Result<Option<Vec<u8>>, String>;

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    vec![
        samples!(enum Call:
            Call::Start { id: 1, seconds: 2, format: Format::Pprof },
            Call::Take { id: 1 },
            Call::Cancel { id: 1 },
        ),
        samples!(enum Format: Format::Pprof, Format::FlameGraph),
        samples!(enum Started: Ok(()), Err("e".into())),
        samples!(enum Taken: Ok(None), Ok(Some(vec![1])), Err("e".into())),
    ]
}
