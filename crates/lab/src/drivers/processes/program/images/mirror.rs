//! `watchfire mirror` at a host, alone or in the fleet of all hosts of a run.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde::Deserialize;

use super::disk::Disk;
use super::facts::{PORT, nodes_folder};
use crate::drivers::processes::host::{NodeError, Process, Site, run_to_end};
use crate::drivers::processes::program::contract::{START_TIMEOUT, STOP_TIMEOUT, Totals};

const FLEET_PORT: u16 = 5001;
/// The file with the key of the fleet, and the one with the address that mirrors join, in the folder of all nodes.
const KEY: &str = ".fleet.key";
const JOINED: &str = ".fleet.address";

/// The program of mirrors, and whether they share images.
#[derive(Clone, Debug)]
pub struct MirrorProgram {
    pub program: PathBuf,
    pub has_fleet: bool,
}

/// A running mirror.
pub struct Mirror {
    pub process: Process,
    program: MirrorProgram,
}

/// The part of a mirror's report that is read.
#[derive(Default, Deserialize)]
struct Report {
    fleet: Option<Fleet>,
}

#[derive(Default, Deserialize)]
struct Fleet {
    received_bytes: u64,
    sent_bytes: u64,
    duplicate_bytes: u64,
}

/// The address on which the mirror of a node listens. A mirror tells its report only to its own host, on a loopback address.
pub fn address(site: &Site) -> String {
    let at = if site.address.is_loopback() { site.address } else { Ipv4Addr::LOCALHOST };
    format!("{at}:{PORT}")
}

impl MirrorProgram {
    /// Starts the mirror of a node for a registry, which it knows by `upstream`.
    pub fn start(
        &self,
        site: &Site,
        upstream: &str,
        is_on_disk: bool,
    ) -> Result<Mirror, NodeError> {
        let mut command = Command::new(&self.program);
        command.args(["mirror", "--upstream", upstream, "--listen", &address(site)]);
        if self.has_fleet {
            self.join(site, &mut command)?;
        }
        let store = |folder: &Path| folder.join("store");
        let command = if is_on_disk {
            let disk = Disk::new(site, "mirror").map_err(NodeError::file(&site.folder))?;
            command.arg("--store").arg(store(&disk.path()));
            disk.command(&command, None)
        } else {
            command.arg("--store").arg(store(&site.folder));
            command
        };
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let mut process = Process::start(site, command, "mirror")?.called(&name);
        process.wait_for_line("Mirroring on", START_TIMEOUT)?;
        Ok(Mirror { process, program: self.clone() })
    }

    /// The first mirror that is prepared writes the key of the fleet and its own address, where the others find both.
    fn join(&self, site: &Site, command: &mut Command) -> Result<(), NodeError> {
        let nodes = nodes_folder(site);
        let (key, joined) = (nodes.join(KEY), nodes.join(JOINED));
        let own = format!("{}:{FLEET_PORT}", site.address);
        command.args(["--peer-listen", &own, "--fleet-key"]).arg(&key);
        if let Ok(other) = fs::read_to_string(&joined) {
            command.args(["--join", &other]);
            return Ok(());
        }
        let text = run_to_end(Command::new(&self.program).args(["mirror", "key"]))?;
        fs::write(&key, text).map_err(NodeError::file(&key))?;
        fs::write(&joined, &own).map_err(NodeError::file(&joined))
    }
}

impl Mirror {
    /// Ends it. Its totals are those of its report, if it has one.
    pub fn end(&mut self, site: &Site) -> Result<Totals, NodeError> {
        let report = self.report(site);
        self.process.stop(Signal::TERM, STOP_TIMEOUT)?;
        let fleet = match self.program.has_fleet {
            true => report,
            false => Some(Fleet::default()),
        };
        Ok(Totals {
            // Small blobs are not among them.
            content_sent_bytes: fleet.as_ref().map(|fleet| fleet.sent_bytes),
            duplicate_bytes: fleet.as_ref().map(|fleet| fleet.duplicate_bytes),
            from_hosts_bytes: fleet.as_ref().map(|fleet| fleet.received_bytes),
            ..Totals::default()
        })
    }

    /// The part of its report about the fleet; `None` if it tells none, as older programs.
    fn report(&self, site: &Site) -> Option<Fleet> {
        let mut command = Command::new(&self.program.program);
        let url = format!("http://{}", address(site));
        command.args(["mirror", "status", "--json", "--mirror", &url]);
        let mut process = Process::start(site, command, "status").ok()?;
        process.end(STOP_TIMEOUT).ok().filter(|status| status.success())?;
        let text = process.lines().ok()?.join("\n");
        serde_json::from_str::<Report>(&text).ok()?.fleet
    }
}
