//! `make scale`: Watchfire with very many sockets, both ends on one machine.
//!
//! The measuring process creates a network namespace, starts the server and the client processes,
//! sends them orders as JSON, and adds up their results. Nothing outlives it: children end with
//! their parent, and the network namespace with the last of them.

mod benchmarks;
mod client;
pub mod client_processes;
pub mod clock;
pub mod kernel;
mod memory_group;
pub mod namespace;
pub mod orders;
pub mod requirements;
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::benchmarks::{Benchmark, Run};
use self::orders::Kind;
use crate::report;

/// The introduction of the page over all benchmarks.
const HEADING: &str = "# Watchfire at scale\n\nWritten by `make scale`, `make bench-cluster` and `make bench-recovery`; each benchmark has a page of its own. Both ends of \
     every connection are on one machine, in a network namespace. So CPU time contains the work of \
     the kernel for the receiver, and memory is that of both ends unless the page says otherwise.\n\n";

/// The benchmarks of a run, their size, and the folders of their output.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Benchmarks to run; all of them by default.
    benchmarks: Vec<Benchmark>,
    /// Run at this percentage of the full size.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// Number of server processes; by default as many as the open-file limit requires.
    #[arg(long)]
    processes: Option<usize>,
    /// Start separate servers, each with its own port and rooms, instead of several processes
    /// behind one port.
    #[arg(long)]
    separate: bool,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// Folder for results and logs, and for the pages of partial runs.
    #[arg(long, default_value = "target/scale")]
    out: PathBuf,
    /// Folder for the pages and charts of full runs.
    #[arg(long, default_value = "docs/scale")]
    docs: PathBuf,
    /// Run a client process of this kind, controlled by JSON lines on stdin.
    #[arg(long, hide = true)]
    clients: Option<Kind>,
}

/// Run the benchmarks, or a client process.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if let Some(kind) = settings.clients {
        return client::run(kind).map(|()| ExitCode::SUCCESS);
    }
    if !namespace::is_inside() {
        return namespace::run_inside("scale", Some(namespace::MANY_TCP_BUCKETS));
    }
    namespace::prepare()?;
    let mut run = Run::prepare(settings)?;
    let benchmarks = match &settings.benchmarks[..] {
        [] => Benchmark::ALL.to_vec(),
        named => named.to_vec(),
    };
    // Reject all benchmarks that do not fit before the first one starts.
    for benchmark in &benchmarks {
        run.check(*benchmark)?;
    }
    let mut ended = ExitCode::SUCCESS;
    for benchmark in benchmarks {
        match run.run(benchmark) {
            Ok(report) => {
                report.write(&settings.docs, &settings.out)?;
                println!("{}", report.terminal());
            }
            Err(error) => {
                eprintln!("cannot run {benchmark}: {error:#}");
                ended = ExitCode::FAILURE;
            }
        }
    }
    write_summary(&settings.docs, &settings.out)?;
    Ok(ended)
}

/// Write the page over all benchmarks. Those of several machines have commands of their own.
pub fn write_summary(docs: &Path, out: &Path) -> Result<()> {
    let mut names: Vec<_> = Benchmark::ALL.iter().map(Benchmark::to_string).collect();
    names.extend([crate::cluster::NAME, crate::cluster::RECOVERY].map(str::to_owned));
    report::write_summary(HEADING, &names, docs, out)
}

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
