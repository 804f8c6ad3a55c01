//! The log: its start, and its level, which can change while the server runs. Without the feature
//! `logging`, the application has a logger of its own.

#[cfg(feature = "logging")]
mod running;

use std::error::Error;

#[cfg(feature = "logging")]
pub use running::{LogError, start_logging};

/// Changes the level of the running log, until the process ends.
#[cfg(feature = "logging")]
pub fn set_level(level: &str) -> Result<(), Box<dyn Error>> {
    Ok(running::set_level(level)?)
}

/// Without a log of its own, the server changes no level.
#[cfg(not(feature = "logging"))]
pub fn set_level(_: &str) -> Result<(), Box<dyn Error>> {
    Err(crate::not_built::NotBuilt { setting: "log.level", feature: "logging" }.into())
}

/// The level of the running log; `None` when the program has a logger of its own.
pub fn level() -> Option<String> {
    #[cfg(feature = "logging")]
    return running::level();
    #[cfg(not(feature = "logging"))]
    None
}
