//! Distributed traces: sends the spans of this process to a collector, over OTLP.
//!
//! A span that ends is put in a bounded queue. One thread of its own sends them in batches
//! ([`exporter`]). When the collector does not answer, spans are dropped and counted, and one line of
//! the log says so.

mod error;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod span_data;

pub use self::error::TracesError;
#[cfg(not(feature = "otlp"))]
use crate::not_built::NotBuilt;
use crate::settings::TraceSettings;

/// The traces of this process. When it is dropped, the last spans are sent, for three seconds at
/// most.
#[derive(Debug)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    _sending: Option<exporter::Sending>,
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
        _sending: exporter::Sending::start(settings)?,
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
    return exporter::check_endpoint(endpoint);
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
