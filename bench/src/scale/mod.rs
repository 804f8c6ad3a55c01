//! The parts of a benchmark with several server processes and clients on one machine: a network namespace, client
//! processes, and their orders.
//!
//! The measuring process sends orders as JSON to the client processes, and adds up their results. Nothing outlives it:
//! children end with their parent, and the network namespace with the last of them.

mod client;
pub mod client_processes;
pub mod clock;
pub mod kernel;
pub mod namespace;
pub mod orders;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use client::run as run_members;

/// The Watchfire program in the folder of this program.
pub fn watchfire_beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().map(Path::to_path_buf).context("this program has no folder")?.join("watchfire"))
}

/// Parse a percentage above 0 and at most 100.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        Ok(_) => Err("above 0, at most 100".into()),
        Err(error) => Err(format!("{error}")),
    }
}
