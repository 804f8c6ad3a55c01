//! `make bench-recovery`: clients that were cut off get the messages that they missed, on one machine and on three.
//!
//! A machine is a server process of its own; all are in one network namespace, with the engine
//! (NATS or Redis) that carries messages between them. Each client counts the messages of its topic by their numbers,
//! which no load of `watchfire load` does. All other figures of several machines are in `experiments/cluster.toml`.

mod clients;
mod machines;
mod recovery;
mod system;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use self::clients::Bench;
use self::recovery::Place;
use self::system::{Programs, versions};
use crate::limits;
use crate::progress::Progress;
use crate::scale::{namespace, percent, watchfire_beside};
use watchfire_lab::machine::Machine;
/// Machines of a cluster.
pub const MACHINES: usize = 3;

/// The size, and the folders of the output.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Run at this percentage of the full size.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// The Watchfire program; by default the one beside this program.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// The Centrifugo program.
    #[arg(long, default_value = "target/centrifugo/v6.9.1/centrifugo")]
    centrifugo: PathBuf,
    /// The NATS server.
    #[arg(long, default_value = "target/nats/v2.15.2/nats-server")]
    nats_server: PathBuf,
    /// The Redis server.
    #[arg(long, default_value = "redis-server")]
    redis_server: PathBuf,
    /// Folder for results and logs, and for the pages of partial runs.
    #[arg(long, default_value = "target/cluster")]
    out: PathBuf,
    /// Folder for the page and the picture of a full run.
    #[arg(long, default_value = "docs/scale")]
    docs: PathBuf,
}

/// Cut clients of each system off, and write the page.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if !namespace::is_inside() {
        return namespace::run_inside("bench-recovery");
    }
    namespace::prepare()?;
    limits::raise_open_files()?;
    let programs = settings.programs()?;
    let versions = versions(&programs)?;
    let machine = Machine::read()?;
    let (started_at, percent) = (Instant::now(), settings.percent);
    let mut progress = Progress::new(Place::ALL.len());
    let (mut results, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for place in Place::ALL {
        let bench = Bench { programs: &programs, progress: &progress };
        match bench.recovery(place, percent) {
            Ok(recovered) => results.push((place, recovered)),
            Err(error) => {
                progress.note(&format!("{}: {error:#}", place.name()));
                ended = ExitCode::FAILURE;
            }
        }
        progress.step(&place.name());
    }
    progress.finish();
    let seconds = started_at.elapsed().as_secs();
    let report = recovery::report(&results, &machine, &versions, percent, seconds);
    report.write(&settings.docs, &settings.out)?;
    println!("{}", report.terminal());
    Ok(ended)
}

impl Settings {
    fn programs(&self) -> Result<Programs> {
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create {}", self.out.display()))?;
        let here = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        Ok(Programs {
            watchfire: here(&self.watchfire.clone().map_or_else(watchfire_beside, Ok)?),
            centrifugo: here(&self.centrifugo),
            nats_server: here(&self.nats_server),
            redis_server: self.redis_server.clone(),
            out: here(&self.out),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::system::CENTRIFUGO_VERSION;
    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn the_programs_are_those_that_make_builds() {
        let Settings { centrifugo, nats_server, .. } = Arguments::parse_from(["recovery"]).settings;
        let version = |path: &Path| {
            let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            folder.unwrap().to_owned()
        };
        assert_eq!(version(&centrifugo), CENTRIFUGO_VERSION);
        let makefile = include_str!("../../../Makefile");
        let line = format!("CENTRIFUGO_VERSION := {}", version(&centrifugo));
        assert!(makefile.lines().any(|one| one == line), "the Makefile has another {line}");
        let module = include_str!("../../../tests/interop/nats/go.mod");
        let line = format!("require github.com/nats-io/nats-server/v2 {}", version(&nats_server));
        assert!(module.lines().any(|one| one == line), "{module}");
    }
}
