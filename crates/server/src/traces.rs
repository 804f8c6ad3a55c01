//! Distributed traces: the settings of the exporter in `watchfire_traces::otlp`.

#[cfg(feature = "otlp")]
use watchfire_traces::otlp::{self, Export, OtlpError, Sending};

use crate::not_built::NotBuilt;
use crate::settings::TraceSettings;

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
    /// Spans cannot be sent to the collector.
    #[cfg(feature = "otlp")]
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// This program cannot send traces.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
}

/// The traces of this process. When it is dropped, the last spans are sent, for three seconds at
/// most.
#[derive(Debug)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    _sending: Option<Sending>,
}

/// Starts to record spans and to send them to the collector of the settings, until the result is
/// dropped. Without a collector, it does nothing.
///
/// ```
/// let settings = watchfire::TraceSettings::default();
/// let traces = watchfire::start_traces(&settings).unwrap();
/// // The last spans are sent here.
/// drop(traces);
/// ```
pub fn start_traces(settings: &TraceSettings) -> Result<Traces, TracesError> {
    check(settings)?;
    Ok(Traces {
        #[cfg(feature = "otlp")]
        _sending: Sending::start(Export {
            endpoint: &settings.endpoint,
            service_name: &settings.service_name,
            sample: settings.sample,
        })?,
    })
}

/// Whether the settings are valid, and this program can send traces.
pub(crate) fn check(settings: &TraceSettings) -> Result<(), TracesError> {
    let TraceSettings { endpoint, sample, .. } = settings;
    if !(0.0..=1.0).contains(sample) {
        return Err(TracesError::Sample { sample: *sample });
    }
    if endpoint.is_empty() {
        return Ok(());
    }
    #[cfg(feature = "otlp")]
    return Ok(otlp::check_endpoint(endpoint)?);
    #[cfg(not(feature = "otlp"))]
    Err(NotBuilt { setting: "traces.endpoint", feature: "otlp" }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_named() {
        let settings = |sample, endpoint: &str| TraceSettings {
            sample,
            endpoint: endpoint.into(),
            ..TraceSettings::default()
        };
        let error = |settings| check(&settings).unwrap_err().to_string();
        for sample in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = error(settings(sample, ""));
            assert!(error.starts_with("cannot use traces.sample "), "{error}");
        }
        for endpoint in ["127.0.0.1:4318", "grpc://collector:4317", "http://"] {
            let error = error(settings(1.0, endpoint));
            let start = match cfg!(feature = "otlp") {
                true => "cannot send traces to",
                false => "cannot use traces.endpoint",
            };
            assert!(error.starts_with(start), "{error}");
        }
        let error = check(&settings(0.5, "http://127.0.0.1:4318")).err().map(|e| e.to_string());
        match cfg!(feature = "otlp") {
            true => assert_eq!(error, None),
            false => assert!(error.unwrap().contains("without the feature \"otlp\"")),
        }
    }
}
