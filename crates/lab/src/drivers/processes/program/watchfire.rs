//! `watchfire share`, and `watchfire hold` or `watchfire get`.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::content::Content;
use super::contract::{Program, Started, Ticket, multiaddrs};
use super::events::{EventNode, events};
use crate::drivers::driver::{check_settings, choice};
use crate::drivers::processes::host::{NodeError, Process, Site};

const PORT: u16 = 4001;
/// How long storing one object may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(600);
/// The folder of a node's blocks.
const STORE: &str = "store";

pub struct Watchfire {
    program: PathBuf,
    /// Nodes end when they have their content, as `get` does, in place of serving it on.
    ends_when_done: bool,
    /// The options that determine the blocks of its content.
    block_options: Vec<String>,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Quic,
}

impl Transport {
    pub fn of(settings: &BTreeMap<String, String>) -> Result<Transport, String> {
        let transport = choice(settings, "transport", &["tcp", "quic"])?;
        Ok(if transport == Some("quic") { Transport::Quic } else { Transport::Tcp })
    }

    /// The address by which others reach a node.
    pub fn address(self, site: &Site) -> String {
        self.at(site.address, site)
    }

    /// The address on which it listens.
    fn listen(self, site: &Site) -> String {
        self.at(site.listen(), site)
    }

    fn at(self, at: Ipv4Addr, site: &Site) -> String {
        let port = site.port(PORT);
        match self {
            Transport::Tcp => format!("/ip4/{at}/tcp/{port}"),
            Transport::Quic => format!("/ip4/{at}/udp/{port}/quic-v1"),
        }
    }
}

impl Watchfire {
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["command", "profile", "chunk", "transport"])?;
        let ends_when_done = choice(settings, "command", &["hold", "get"])? == Some("get");
        let transport = Transport::of(settings)?;
        let option = |name: &str| Some(format!("--{name}={}", settings.get(name)?));
        let block_options = ["profile", "chunk"].into_iter().filter_map(option).collect();
        Ok(Watchfire { program, ends_when_done, block_options, transport })
    }

    fn command(&self, site: &Site, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).args(["--json", "--listen", &self.transport.listen(site)]);
        if let Some(flame) = &site.flame {
            command.arg("--cpu-profile").arg(flame);
        }
        command
    }

    /// Runs a command to its end, and returns the events that it wrote.
    fn run_to_end(
        &self,
        site: &Site,
        command: Command,
        name: &str,
    ) -> Result<Vec<Value>, NodeError> {
        let mut process = Process::start(site, command, name)?;
        let status = process.end(STORE_TIMEOUT)?;
        if status.success() { events(&mut process) } else { Err(process.ended_with(status)) }
    }
}

impl Program for Watchfire {
    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        let mut command = self.command(site, "share");
        command.args(contents.iter().map(|content| &content.path));
        command.args(&self.block_options);
        let address = Some(self.transport.address(site));
        Ok(Box::new(EventNode::sharing(site, command, contents, address)?))
    }

    fn store(&self, site: &Site, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let mut tickets = Vec::new();
        for (object, content) in contents.iter().enumerate() {
            let archive = site.path("content.car");
            let mut export = Command::new(&self.program);
            export
                .args(["car", "export", "--json"])
                .arg(&content.path)
                .arg("--output")
                .arg(&archive);
            export.args(&self.block_options);
            self.run_to_end(site, export, "export")?;
            let mut import = Command::new(&self.program);
            import.args(["car", "import", "--json"]).arg(&archive);
            import.arg("--store").arg(site.path(STORE));
            let event = self.run_to_end(site, import, "import")?;
            if site.remote.is_none() {
                fs::remove_file(&archive).map_err(NodeError::file(&archive))?;
            }
            let name = event.first().and_then(|event| event["cid"].as_str()).unwrap_or_default();
            tickets.push(Ticket { object, name: name.to_owned(), bytes: content.bytes });
        }
        Ok(tickets)
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], stored: &[Ticket]) -> Started {
        let mut command = self.command(site, if self.ends_when_done { "get" } else { "hold" });
        // `hold` takes one link after another: what is stored is held immediately.
        command.args(stored.iter().chain(tickets).map(|ticket| &ticket.name));
        match self.ends_when_done {
            true => command.arg("--output").arg(site.path("copy")),
            false => command.arg("--store").arg(site.path(STORE)),
        };
        let address = Some(self.transport.address(site));
        let dial = |command: &mut Command, peers: &[String]| {
            for peer in multiaddrs(peers) {
                command.args(["--peer", peer]);
            }
        };
        let node = EventNode::fetching(site, command, dial, tickets, stored, address);
        Ok(Box::new(node.ending_when_done(self.ends_when_done)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked() {
        let new = |key: &str, value: &str| {
            let settings = [(key.to_owned(), value.to_owned())].into();
            Watchfire::new("watchfire".into(), &settings).err().unwrap_or_default()
        };
        assert_eq!(new("command", "get"), "");
        assert!(new("command", "fetch").contains("known: hold, get"));
        assert!(new("comand", "get").contains("unknown setting \"comand\""));
        let chunk = [("chunk".to_owned(), "256KiB".to_owned())].into();
        let chunk =
            Watchfire::new("watchfire".into(), &chunk).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(chunk.block_options, ["--chunk=256KiB"]);
    }
}
