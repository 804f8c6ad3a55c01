//! Distributed traces of the commands that have no settings file.

use watchfire::{TraceSettings, Traces};
use watchfire_traces::TraceContext;

/// The span of the program that started this one, in the W3C format.
const PARENT_VARIABLE: &str = "TRACEPARENT";

/// Sends the traces of a command to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`, until the result is
/// dropped. Without the variable, it does nothing.
pub fn start(command: &str) -> anyhow::Result<Traces> {
    let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
    let service_name = if is_named { String::new() } else { format!("watchfire-{command}") };
    let settings = TraceSettings { service_name, ..TraceSettings::default() };
    Ok(watchfire::start_traces(&settings)?)
}

/// The span below which this command works, from the variable `TRACEPARENT`; `None` begins a trace.
pub fn parent() -> Option<TraceContext> {
    let context = std::env::var_os(PARENT_VARIABLE)?;
    TraceContext::parse(context.as_encoded_bytes())
}
