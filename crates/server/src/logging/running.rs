//! The log that this program started.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::settings::{LogFormat, LogSettings};

/// The filter of the running log.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Why logging cannot start, or its level cannot change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// `log.level` is not a valid filter.
    #[error("cannot use log.level: {0}")]
    BadLevel(String),
    /// The process already has a logger.
    #[error("cannot start logging: this process already has a logger")]
    AlreadyStarted,
    /// The program has a logger of its own.
    #[error("cannot change the log level: this program did not start the log with start_logging")]
    NotStarted,
}

/// Starts logging to standard error, in the format and from the level of the settings. A panic of any
/// thread becomes an event of the log.
///
/// ```
/// let settings = watchfire::LogSettings::default();
/// watchfire::start_logging(&settings).unwrap();
/// // A process has one logger.
/// assert!(watchfire::start_logging(&settings).is_err());
/// ```
pub fn start_logging(settings: &LogSettings) -> Result<(), LogError> {
    let (filter, handle) = reload::Layer::new(parse(&settings.level)?);
    let stderr = std::io::stderr;
    let has_colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(has_colours);
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.map_err(|_| LogError::AlreadyStarted)?;
    std::panic::set_hook(Box::new(log_panic));
    FILTER.set(handle).map_err(|_| LogError::AlreadyStarted)
}

fn parse(level: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder().parse(level).map_err(|error| LogError::BadLevel(error.to_string()))
}

/// Writes the event of a panic, also of one that is caught later. With `RUST_BACKTRACE=1`, the
/// backtrace follows as text.
fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let reason = info.payload_as_str().unwrap_or("a value without a text");
    let location = info.location().map(tracing::field::display);
    tracing::error!(thread, location, reason, "a thread panicked");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        eprintln!("{backtrace}");
    }
}

/// Changes the level of the running log, until the process ends.
pub(super) fn set_level(level: &str) -> Result<(), LogError> {
    let filter = parse(level)?;
    FILTER.get().and_then(|handle| handle.reload(filter).ok()).ok_or(LogError::NotStarted)
}

/// The level of the running log; `None` when the program has a logger of its own.
pub(super) fn level() -> Option<String> {
    FILTER.get()?.with_current(|filter| filter.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_changed_while_the_log_runs() {
        assert!(matches!(set_level("debug"), Err(LogError::NotStarted)));
        start_logging(&LogSettings { level: "warn".into(), ..LogSettings::default() }).unwrap();
        assert_eq!(level().as_deref(), Some("warn"));
        set_level("error,watchfire=debug").unwrap();
        assert!(tracing::enabled!(tracing::Level::DEBUG));
        assert!(matches!(set_level("watchfire=loud"), Err(LogError::BadLevel(_))));
        set_level("error").unwrap();
        assert!(!tracing::enabled!(tracing::Level::WARN));
    }
}
