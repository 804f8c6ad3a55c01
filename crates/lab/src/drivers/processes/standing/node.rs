//! A node of a standing cluster: how it starts, and how scenarios use it.
//!
//! A node of Watchfire is `watchfire hold --commands`. Its commands come through a named pipe in its folder, and
//! its events are in a file beside it. The node itself has the pipe open for writing too: so its input does not
//! end when the command that started it does, and each further command can open the pipe again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::Value;

use super::record::NodeRecord;
use crate::definition::{Implementation, Peer};
use crate::drivers::processes::host::{NodeError, Process, ProcessId, Site};
use crate::drivers::processes::program::{
    Content, Node, Program, START_TIMEOUT, STOP_TIMEOUT, Server, Started, Status, Ticket, Totals,
    Transport, totals,
};

/// The name of the node's output and log.
const NAME: &str = "node";
const COMMANDS: &str = "commands";
/// How long storing the content of a node may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(600);

/// How a peer runs in a standing cluster, or why it cannot.
pub enum Kind {
    Watchfire(Transport),
    Server(BTreeMap<String, String>),
}

impl Kind {
    pub fn of(peer: &Peer) -> Result<Kind, String> {
        match peer.implementation {
            Implementation::Watchfire => {
                let known = |key: &&String| key.as_str() != "transport";
                if let Some(key) = peer.settings.keys().find(known) {
                    return Err(format!(
                        "a standing node has no setting {key:?}; known: transport"
                    ));
                }
                Ok(Kind::Watchfire(Transport::of(&peer.settings)?))
            }
            Implementation::Server => Ok(Kind::Server(peer.settings.clone())),
            other => Err(format!("{other:?} cannot stand; known: watchfire, server")),
        }
    }

    /// Starts a node that stays. Returns its process, and the identity by which others dial it.
    pub fn start(
        &self,
        site: &Site,
        program: &Path,
    ) -> Result<(ProcessId, Option<String>), NodeError> {
        let (process, peer) = match self {
            Kind::Watchfire(transport) => start_watchfire(site, program, *transport)?,
            Kind::Server(settings) => {
                let server = Server::new(program.to_owned(), settings);
                let mut command = server.command(site);
                command.process_group(0);
                let mut process = Process::start(site, command, NAME)?;
                server.wait_until_ready(&mut process)?;
                (process, None)
            }
        };
        Ok((process.leave()?, peer))
    }
}

fn start_watchfire(
    site: &Site,
    program: &Path,
    transport: Transport,
) -> Result<(Process, Option<String>), NodeError> {
    let pipe = site.folder.join(COMMANDS);
    match mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(NodeError::file(&pipe)(error.into())),
    }
    let input = OpenOptions::new().read(true).write(true).open(&pipe);
    let input = input.map_err(NodeError::file(&pipe))?;
    let mut command = Command::new(program);
    command.args(["hold", "--commands", "--json", "--listen", &transport.address(site)]);
    command.arg("--store").arg(site.folder.join("store"));
    command.arg("--identity").arg(site.folder.join("identity"));
    // An interrupt at the terminal is for the command that runs there, not for a node.
    command.process_group(0);
    let mut process = Process::start_with_input(site, command, NAME, Stdio::from(input))?;
    let peer = process.wait_until(START_TIMEOUT, |process| {
        let events = process.lines()?.into_iter().filter_map(|line| event(&line));
        let mut started = events.filter(|event| event["event"] == "started");
        Ok(started.next().map(|event| event["peer"].as_str().unwrap_or_default().to_owned()))
    })?;
    Ok((process, Some(peer)))
}

fn event(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok()
}

/// A running node as the program of a trial: what others start, it has already.
pub struct Attached {
    record: NodeRecord,
    kind: Kind,
}

impl Attached {
    pub fn new(record: NodeRecord, kind: Kind) -> Self {
        Attached { record, kind }
    }

    fn node(&self, site: &Site) -> Result<Standing, NodeError> {
        let (address, commands) = match (&self.kind, &self.record.peer) {
            (Kind::Server(_), _) => (Server::url(site), None),
            (Kind::Watchfire(transport), peer) => {
                let peer = peer.as_ref().map_or_else(String::new, |peer| format!("/p2p/{peer}"));
                let pipe = site.folder.join(COMMANDS);
                // A pipe that nobody reads would block a command without a word.
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                let mut options = OpenOptions::new();
                let commands = options.read(true).write(true).custom_flags(flags).open(&pipe);
                let commands = commands.map_err(NodeError::file(&pipe))?;
                (transport.address(site) + &peer, Some(commands))
            }
        };
        let NodeRecord { name, process: id, .. } = &self.record;
        id.reset_peak_memory();
        let has_commands = commands.is_some();
        let mut node = Standing {
            process: Process::standing(site, NAME, name, id.clone(), commands)?,
            has_commands,
            address,
            tickets: Vec::new(),
            wanted: Vec::new(),
            received: BTreeMap::new(),
            held: BTreeSet::new(),
            before: Totals::default(),
        };
        node.before = node.totals()?;
        Ok(node)
    }
}

impl Program for Attached {
    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        let mut node = self.node(site)?;
        let tickets = contents.iter().enumerate().map(|(object, content)| {
            let name = node.add(content)?;
            Ok(Ticket { object, name, bytes: content.bytes })
        });
        node.tickets = tickets.collect::<Result<_, NodeError>>()?;
        Ok(Box::new(node))
    }

    fn serve(&self, site: &Site) -> Started {
        Ok(Box::new(self.node(site)?))
    }

    fn store(&self, site: &Site, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        Ok(self.seed(site, contents)?.tickets().to_vec())
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], _: &[Ticket]) -> Started {
        let mut node = self.node(site)?;
        node.wanted = tickets.to_vec();
        Ok(Box::new(node))
    }
}

/// A node of a standing cluster during one trial.
struct Standing {
    process: Process,
    /// Whether it takes commands, and has content. A server does not.
    has_commands: bool,
    address: String,
    tickets: Vec<Ticket>,
    wanted: Vec<Ticket>,
    /// Bytes that have arrived, by CID.
    received: BTreeMap<String, u64>,
    held: BTreeSet<String>,
    /// The totals when the trial began.
    before: Totals,
}

impl Standing {
    fn send(&mut self, command: &str) -> Result<(), NodeError> {
        match self.has_commands {
            true => self.process.write_line(command),
            false => Err(NodeError::Unexpected {
                program: self.address.clone(),
                problem: "a server has no content".to_owned(),
            }),
        }
    }

    /// Sends a command, and waits for its event.
    fn ask(&mut self, command: &str, kind: &str, timeout: Duration) -> Result<Value, NodeError> {
        self.send(command)?;
        let answer = self.process.wait_until(timeout, |process| {
            Ok(events(process)?.into_iter().find(|event| event["event"] == kind))
        });
        answer.map_err(|error| match error {
            NodeError::NotReady { .. } => {
                self.process.unexpected(format!("no event {kind} in {timeout:?}"))
            }
            error => error,
        })
    }

    /// Stores an object at the node. Returns its CID.
    fn add(&mut self, content: &Content) -> Result<String, NodeError> {
        let path = content.path.display().to_string();
        if path.contains('\n') {
            return Err(self.process.unexpected(format!("cannot send the path {path:?}")));
        }
        let added = self.ask(&format!("add {path}"), "added", STORE_TIMEOUT)?;
        Ok(added["cid"].as_str().unwrap_or_default().to_owned())
    }

    fn totals(&mut self) -> Result<Totals, NodeError> {
        if !self.has_commands {
            return Ok(Totals::default());
        }
        Ok(totals(&self.ask("totals", "totals", STOP_TIMEOUT)?))
    }

    fn note(&mut self, event: &Value) {
        let cid = event["cid"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("progress") => {
                self.received.insert(cid, event["bytes"].as_u64().unwrap_or(0));
            }
            Some("held") => {
                self.held.insert(cid);
            }
            _ => {}
        }
    }

    fn has(&self, ticket: &Ticket) -> bool {
        self.held.contains(&ticket.name)
    }
}

/// The events since the last call. Fails if the node did not do what a command says.
fn events(process: &mut Process) -> Result<Vec<Value>, NodeError> {
    let lines = process.lines()?;
    let events: Vec<Value> = lines.iter().filter_map(|line| event(line)).collect();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let mut failed = events.iter().filter(|event| event["event"] == "failed");
    // A dial that fails is not the end: other nodes dial too.
    match failed.find(|event| !text(event, "command").starts_with("peer ")) {
        Some(event) => Err(process.unexpected(text(event, "error"))),
        None => Ok(events),
    }
}

impl Node for Standing {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn fetch(&mut self, dials: &[String]) -> Result<(), NodeError> {
        let dials = dials.iter().map(|address| format!("peer {address}"));
        let holds = self.wanted.iter().map(|ticket| format!("hold {}", ticket.name));
        let commands: Vec<String> = dials.chain(holds).collect();
        commands.iter().try_for_each(|command| self.send(command))
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        let events = events(&mut self.process)?;
        // Its last events count also if it has ended since.
        if events.is_empty() {
            self.process.check_running()?;
        }
        events.iter().for_each(|event| self.note(event));
        let bytes = |ticket: &Ticket| match self.has(ticket) {
            true => ticket.bytes,
            false => self.received.get(&ticket.name).copied().unwrap_or(0),
        };
        let has_all = self.wanted.iter().all(|ticket| self.has(ticket));
        Ok(Status { bytes: self.wanted.iter().map(bytes).sum(), has_all })
    }

    fn main_process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }

    /// Reads the totals of the trial. The node runs on; what it did not get, it stops fetching.
    fn end(&mut self) -> Result<Totals, NodeError> {
        let now = self.totals()?;
        let unfinished = self.wanted.iter().filter(|ticket| !self.has(ticket));
        let commands: Vec<String> =
            unfinished.map(|ticket| format!("release {}", ticket.name)).collect();
        commands.iter().try_for_each(|command| self.send(command))?;
        Ok(since(&self.before, now))
    }
}

/// The totals of a trial. Those with a peer begin again when it connects again.
fn since(before: &Totals, now: Totals) -> Totals {
    let less = |now: Option<u64>, before: Option<u64>| {
        now.map(|now| now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
    };
    let with = now.with.iter().cloned().map(|(peer, sent, received)| {
        let known = before.with.iter().find(|(known, ..)| *known == peer);
        let (_, sent_before, received_before) = known.cloned().unwrap_or_default();
        let sent = less(Some(sent), Some(sent_before)).unwrap_or(0);
        let received = less(Some(received), Some(received_before)).unwrap_or(0);
        (peer, sent, received)
    });
    Totals {
        with: with.collect(),
        content_sent_bytes: less(now.content_sent_bytes, before.content_sent_bytes),
        sent_bytes: less(now.sent_bytes, before.sent_bytes),
        received_bytes: less(now.received_bytes, before.received_bytes),
        duplicate_bytes: less(now.duplicate_bytes, before.duplicate_bytes),
        messages: less(now.messages, before.messages),
        ..now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_a_trial_are_those_since_it_began() {
        let totals = |sent, peer: &str, with| Totals {
            sent_bytes: Some(sent),
            with: vec![(peer.to_owned(), with, with)],
            ..Totals::default()
        };
        let trial = since(&totals(10, "a", 7), totals(25, "a", 9));
        assert_eq!((trial.sent_bytes, &trial.with[..]), (Some(15), &[("a".into(), 2, 2)][..]));
        let reconnected = since(&totals(10, "a", 7), totals(25, "a", 3));
        assert_eq!(reconnected.with, [("a".to_owned(), 3, 3)]);
    }
}
