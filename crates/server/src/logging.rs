use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::settings::{LogFormat, LogSettings};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.level` is not a valid filter.
    #[error("cannot use log.level: {0}")]
    BadLevel(#[from] ParseError),
    /// The process already has a logger.
    #[error("cannot start logging: this process already has a logger")]
    AlreadyStarted,
}

/// Starts logging to standard error, in the format and from the level of the settings.
///
/// ```
/// let settings = watchfire_server::LogSettings::default();
/// watchfire_server::start_logging(&settings).unwrap();
/// // A process has one logger.
/// assert!(watchfire_server::start_logging(&settings).is_err());
/// ```
pub fn start_logging(settings: &LogSettings) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(&settings.level)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    }
    .map_err(|_| LogError::AlreadyStarted)
}
