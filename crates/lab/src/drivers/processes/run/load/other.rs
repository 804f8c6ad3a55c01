//! The users of another load generator: a command, and what it costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::definition::Load;
use crate::drivers::processes::host::{NodeError, Process, ProcessTree, Site};
use crate::drivers::processes::program::shell;

/// The interval in which the memory of the users is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);

/// The command of a load generator, with the variables that say what to do.
pub fn command(
    line: &str,
    load: &Load,
    site: &Site,
    (target, seed): (&str, u64),
    watchfire: &Path,
) -> Command {
    let mut command = shell(line);
    command.env("LAB_FILE", &load.file).env("LAB_FOLDER", &site.folder);
    command.env("LAB_TARGET", target).env("LAB_SEED", seed.to_string());
    command.env("LAB_PROGRAM", watchfire);
    command.envs(load.users.map(|users| ("LAB_USERS", users.to_string())));
    command
}

/// The process of the users, with those that it starts.
pub struct OtherUsers {
    process: Process,
    /// How many users there are, if the experiment says it.
    count: Option<u32>,
    peak_memory: u64,
    measured_at: Instant,
}

impl OtherUsers {
    pub fn start(
        site: &Site,
        command: Command,
        count: Option<u32>,
    ) -> Result<OtherUsers, NodeError> {
        let process = Process::start(site, command, "load")?;
        Ok(OtherUsers { process, count, peak_memory: 0, measured_at: Instant::now() })
    }

    /// The figures, once all users have ended.
    pub fn poll(&mut self) -> Result<Option<BTreeMap<String, f64>>, NodeError> {
        if self.measured_at.elapsed() >= MEMORY_INTERVAL
            && let Some(process) = self.process.id()
        {
            self.measured_at = Instant::now();
            self.peak_memory = self.peak_memory.max(ProcessTree::of(process).peak_memory());
        }
        let Some(status) = self.process.has_ended()? else { return Ok(None) };
        if !status.success() {
            return Err(self.process.ended_with(status));
        }
        let usage = self.process.usage();
        let peak_memory = self.peak_memory.max(usage.peak_memory);
        Ok(Some(costs(usage.cpu, peak_memory, self.count)))
    }
}

/// The processor time and the memory of the users.
fn costs(cpu: Duration, peak_memory: u64, users: Option<u32>) -> BTreeMap<String, f64> {
    let (cpu, peak_memory) = (cpu.as_secs_f64(), peak_memory as f64);
    let mut costs = BTreeMap::from([
        ("load: CPU-seconds of the users".to_owned(), cpu),
        ("load: peak memory of the users, bytes".to_owned(), peak_memory),
    ]);
    if let Some(users) = users {
        let users = f64::from(users);
        costs.insert("load: CPU time of a user, ms".to_owned(), cpu * 1e3 / users);
        costs.insert("load: memory of a user, bytes".to_owned(), peak_memory / users);
    }
    costs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::definition::Query;

    #[test]
    fn costs_are_of_all_users_and_of_one() {
        let of_all = costs(Duration::from_secs(2), 4_000_000, None);
        assert_eq!((of_all["load: CPU-seconds of the users"], of_all.len()), (2.0, 2));
        let costs = costs(Duration::from_secs(2), 4_000_000, Some(1_000));
        assert_eq!(costs["load: CPU time of a user, ms"], 2.0);
        assert_eq!(costs["load: memory of a user, bytes"], 4_000.0);
    }

    #[test]
    fn a_load_generator_gets_its_file_and_its_target() {
        let (site, _folder) = Site::for_test();
        let run = |line: &str| {
            let load = Load {
                file: "users.js".into(),
                command: Some(line.to_owned()),
                users: Some(7),
                on: Query::parse("server").unwrap(),
                set: BTreeMap::new(),
                quick: BTreeMap::new(),
            };
            let at = ("ws://server", 1);
            let command = command(line, &load, &site, at, Path::new("/watchfire"));
            let mut users = OtherUsers::start(&site, command, load.users).unwrap();
            loop {
                match users.poll() {
                    Ok(None) => std::thread::yield_now(),
                    Ok(Some(figures)) => return Ok(figures),
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        let line = "printf '%s %s %s' \"$LAB_TARGET\" \"$LAB_USERS\" \"$LAB_FILE\" > said\nsleep 0.6 & wait";
        let figures = run(line).unwrap();
        assert!(figures["load: memory of a user, bytes"] > 0.0, "{figures:?}");
        assert_eq!(fs::read_to_string(site.folder.join("said")).unwrap(), "ws://server 7 users.js");
        let error = run("no-such-load-generator").unwrap_err();
        assert!(error.contains("no-such-load-generator: not found"), "{error}");
    }
}
