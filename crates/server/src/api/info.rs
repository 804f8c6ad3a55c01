//! `info`: the state of the server.

use serde::Deserialize;
use serde_json::json;

use super::error::CallError;
use super::params::parse;
use super::processes::Processes;
use super::question::{ProcessInfo, Question};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {}

/// `{"version","processes","clients","topics","uptime_seconds"}`
pub(super) async fn info(processes: &Processes, body: &[u8]) -> Result<String, CallError> {
    let Params {} = parse(body)?;
    let all: Vec<ProcessInfo> = processes.ask_all(&Question::Info).await?;
    let sum = |count: fn(&ProcessInfo) -> u64| all.iter().map(count).sum::<u64>();
    let info = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processes": all.len(),
        "clients": sum(|process| process.clients),
        "topics": sum(|process| process.topics),
        "uptime_seconds": all.iter().map(|process| process.uptime_seconds).max(),
    });
    Ok(info.to_string())
}
