//! `watchfire share`, and `watchfire hold` or `watchfire get`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{
    Content, Node, NodeError, Program, START_TIMEOUT, STOP_TIMEOUT, Site, Status, Ticket, Totals,
    Usage, check_settings,
};
use crate::drivers::processes::process::Process;

const PORT: u16 = 4001;
/// How long storing one object may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(600);
/// The folder of a node's blocks.
const STORE: &str = "store";
/// Bytes that a node hashes per second at least, before it shares them.
const HASH_RATE: u64 = 20 << 20;

pub struct Watchfire {
    program: PathBuf,
    /// Nodes end when they have their content, as `get` does, in place of serving it on.
    ends_when_done: bool,
    /// The profile of `share`.
    profile: Option<String>,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Quic,
}

impl Transport {
    /// The address on which a node listens.
    fn address(self, site: &Site) -> String {
        let at = site.address;
        match self {
            Transport::Tcp => format!("/ip4/{at}/tcp/{PORT}"),
            Transport::Quic => format!("/ip4/{at}/udp/{PORT}/quic-v1"),
        }
    }
}

impl Watchfire {
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["command", "profile", "transport"])?;
        let ends_when_done = match settings.get("command").map(String::as_str) {
            None | Some("hold") => false,
            Some("get") => true,
            Some(other) => return Err(format!("unknown command {other:?}; known: hold, get")),
        };
        let transport = match settings.get("transport").map(String::as_str) {
            None | Some("tcp") => Transport::Tcp,
            Some("quic") => Transport::Quic,
            Some(other) => return Err(format!("unknown transport {other:?}; known: tcp, quic")),
        };
        let profile = settings.get("profile").cloned();
        Ok(Watchfire { program, ends_when_done, profile, transport })
    }

    fn command(&self, site: &Site, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).args(["--json", "--listen", &self.transport.address(site)]);
        command
    }
}

impl Watchfire {
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
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError> {
        let mut command = self.command(site, "share");
        command.args(contents.iter().map(|content| &content.path));
        if let Some(profile) = &self.profile {
            command.args(["--profile", profile]);
        }
        let bytes: u64 = contents.iter().map(|content| content.bytes).sum();
        let timeout = START_TIMEOUT + Duration::from_secs(bytes / HASH_RATE);
        let mut process = Process::start(site, command, "share")?;
        let mut tickets: Vec<Ticket> = Vec::new();
        process.wait_until(timeout, |process| {
            for event in events(process)?.iter().filter(|event| event["event"] == "shared") {
                let name = event["cid"].as_str().unwrap_or_default().to_owned();
                let bytes = contents.get(tickets.len()).map_or(0, |content| content.bytes);
                tickets.push(Ticket { object: tickets.len(), name, bytes });
            }
            Ok((tickets.len() == contents.len()).then_some(()))
        })?;
        let peer = Peer::new(site, self.transport);
        Ok(Box::new(Peer { process: Some(process), tickets, ..peer }))
    }

    fn store(&self, site: &Site, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let mut tickets = Vec::new();
        for (object, content) in contents.iter().enumerate() {
            let archive = site.folder.join("content.car");
            let mut export = Command::new(&self.program);
            export
                .args(["car", "export", "--json"])
                .arg(&content.path)
                .arg("--output")
                .arg(&archive);
            if let Some(profile) = &self.profile {
                export.args(["--profile", profile]);
            }
            self.run_to_end(site, export, "export")?;
            let mut import = Command::new(&self.program);
            import.args(["car", "import", "--json"]).arg(&archive);
            import.arg("--store").arg(site.folder.join(STORE));
            let event = self.run_to_end(site, import, "import")?;
            fs::remove_file(&archive).map_err(NodeError::file(&archive))?;
            let name = event.first().and_then(|event| event["cid"].as_str()).unwrap_or_default();
            tickets.push(Ticket { object, name: name.to_owned(), bytes: content.bytes });
        }
        Ok(tickets)
    }

    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        stored: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError> {
        let mut command = self.command(site, if self.ends_when_done { "get" } else { "hold" });
        let (names, bytes): (Vec<_>, Vec<_>) =
            tickets.iter().map(|ticket| (&ticket.name, ticket.bytes)).unzip();
        // `hold` takes one link after another: what is stored is held immediately.
        command.args(stored.iter().map(|ticket| &ticket.name)).args(names);
        match self.ends_when_done {
            true => command.arg("--output").arg(site.folder.join("copy")),
            false => command.arg("--store").arg(site.folder.join(STORE)),
        };
        Ok(Box::new(Peer {
            command: Some(command),
            awaited: stored.len() + tickets.len(),
            total_bytes: bytes.iter().sum(),
            ends_when_done: self.ends_when_done,
            ..Peer::new(site, self.transport)
        }))
    }
}

/// A `share`, a `hold` or a `get`.
struct Peer {
    site: Site,
    transport: Transport,
    /// The command that fetches, until it runs.
    command: Option<Command>,
    process: Option<Process>,
    tickets: Vec<Ticket>,
    /// Objects that it fetches.
    awaited: usize,
    finished: usize,
    total_bytes: u64,
    /// Bytes of the object that it fetches now, and of those before.
    bytes: u64,
    bytes_before: u64,
    ends_when_done: bool,
    totals: Totals,
}

impl Peer {
    fn new(site: &Site, transport: Transport) -> Self {
        Peer {
            site: site.clone(),
            transport,
            command: None,
            process: None,
            tickets: Vec::new(),
            awaited: 0,
            finished: 0,
            total_bytes: 0,
            bytes: 0,
            bytes_before: 0,
            ends_when_done: false,
            totals: Totals::default(),
        }
    }

    fn read_events(&mut self) -> Result<(), NodeError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        for event in events(process)? {
            match event["event"].as_str() {
                Some("progress") => self.bytes = event["bytes"].as_u64().unwrap_or(0),
                Some("held") => self.finish_one(),
                Some("got") => {
                    self.finish_one();
                    self.totals = totals(&event);
                }
                Some("stopped") => self.totals = totals(&event),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish_one(&mut self) {
        self.finished += 1;
        self.bytes_before += std::mem::take(&mut self.bytes);
    }
}

impl Node for Peer {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn address(&self) -> Option<String> {
        Some(self.transport.address(&self.site))
    }

    fn fetch(&mut self, dials: &[String]) -> Result<(), NodeError> {
        let Some(mut command) = self.command.take() else { return Ok(()) };
        for peer in dials {
            command.args(["--peer", peer]);
        }
        self.process = Some(Process::start(&self.site, command, "fetch")?);
        Ok(())
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.read_events()?;
        let has_all = self.finished == self.awaited;
        if let Some(process) = &mut self.process
            && let Some(status) = process.has_ended()?
            && !(self.ends_when_done && status.success())
        {
            return Err(process.ended_with(status));
        }
        let bytes = if has_all { self.total_bytes } else { self.bytes_before + self.bytes };
        Ok(Status { bytes, has_all })
    }

    fn usage(&mut self) -> Usage {
        let Some(process) = &mut self.process else { return Usage::default() };
        process.measure();
        Usage { cpu: process.cpu(), peak_memory: process.peak_memory() }
    }

    fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill();
        }
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        if let Some(process) = &mut self.process {
            process.stop(Signal::TERM, STOP_TIMEOUT)?;
        }
        self.read_events()?;
        Ok(std::mem::take(&mut self.totals))
    }
}

/// The events that a process wrote since the last call.
fn events(process: &mut Process) -> Result<Vec<Value>, NodeError> {
    let program = process.program().to_owned();
    let event = |line: String| {
        serde_json::from_str(&line)
            .map_err(|_| NodeError::Unexpected { program: program.clone(), problem: line })
    };
    process.lines()?.into_iter().map(event).collect()
}

/// The totals in the last event of a process.
fn totals(event: &Value) -> Totals {
    let exchange = &event["exchange"];
    let number = |value: &Value| value.as_u64();
    let with = exchange["with"].as_array().into_iter().flatten().filter_map(|one| {
        let peer = one["peer"].as_str()?.to_owned();
        Some((peer, one["sent_bytes"].as_u64()?, one["received_bytes"].as_u64()?))
    });
    Totals {
        content_sent_bytes: number(&event["sent_bytes"]),
        sent_bytes: number(&exchange["sent_bytes"]),
        received_bytes: number(&exchange["received_bytes"]),
        duplicate_bytes: number(&exchange["duplicate_bytes"]),
        messages: number(&exchange["received_messages"]),
        identity: exchange["peer"].as_str().map(str::to_owned),
        with: with.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    }

    #[test]
    fn totals_are_read_from_the_last_event() {
        let exchange = json!({
            "sent_bytes": 10, "received_bytes": 20, "received_messages": 3, "duplicate_bytes": 0,
            "with": [{ "peer": "12D3", "sent_bytes": 8, "received_bytes": 9 }],
        });
        let totals = totals(&json!({ "event": "stopped", "sent_bytes": 8, "exchange": exchange }));
        assert_eq!((totals.content_sent_bytes, totals.sent_bytes), (Some(8), Some(10)));
        assert_eq!((totals.received_bytes, totals.messages), (Some(20), Some(3)));
        assert_eq!(totals.with, [("12D3".to_owned(), 8, 9)]);
    }
}
