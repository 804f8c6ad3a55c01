use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::settings::{LogFormat, LogSettings};

/// Why logging does not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.level` is no filter.
    #[error("log.level: {0}")]
    BadLevel(#[from] ParseError),
    /// Something else already writes this process's log.
    #[error("this process already logs")]
    Taken,
}

/// Log to standard error, as the settings say.
pub fn start_logging(settings: &LogSettings) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(&settings.level)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    }
    .map_err(|_| LogError::Taken)
}
