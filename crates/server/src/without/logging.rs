//! Without the feature `logging`, the application has a logger of its own.

use crate::not_built::NotBuilt;

pub(crate) fn set_level(_: &str) -> Result<(), NotBuilt> {
    Err(NotBuilt { setting: "log.level", feature: "logging" })
}

pub(crate) fn level() -> Option<String> {
    None
}
