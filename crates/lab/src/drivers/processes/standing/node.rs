//! A node of a standing cluster: how it starts, and how scenarios use it.
//!
//! A node of Watchfire is `watchfire hold --commands`. Its commands come through a named pipe in its folder, and
//! its events are in a file beside it. The node itself has the pipe open for writing too: so its input does not
//! end when the command that started it does, and each further command can open the pipe again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use serde_json::Value;

use super::super::network::Site;
use super::super::objects::Content;
use super::super::process::{NodeError, Process, end_of_log, take_lines};
use super::super::programs::server::Server;
use super::super::programs::{
    Node, Program, START_TIMEOUT, STOP_TIMEOUT, Status, Ticket, Totals, Usage,
};
use super::super::programs::{events::totals, watchfire::Transport};
use super::record::{NodeRecord, ProcessId};
use crate::definition::{Implementation, Peer};

/// The name of the node's output and log.
const NAME: &str = "node";
const COMMANDS: &str = "commands";
/// The interval in which a node is asked for an answer.
const PAUSE: Duration = Duration::from_millis(5);
/// Most bytes of events that are read in one scenario.
const EVENTS_BYTES_MAX: u64 = 64 << 20;
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
        let program = process.program().to_owned();
        let id = ProcessId::of(process.leave());
        Ok((id.map_err(|source| NodeError::Spawn { program, source })?, peer))
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
        let address = match (&self.kind, &self.record.peer) {
            (Kind::Watchfire(transport), Some(peer)) => {
                format!("{}/p2p/{peer}", transport.address(site))
            }
            (Kind::Watchfire(transport), None) => transport.address(site),
            (Kind::Server(_), _) => Server::url(site),
        };
        let control = match self.kind {
            Kind::Watchfire(_) => Some(Control::open(site, &self.record)?),
            Kind::Server(_) => None,
        };
        self.record.process.reset_peak_memory();
        let mut node = Standing {
            control,
            address,
            process: self.record.process.clone(),
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
    fn seed(&self, site: &Site, contents: &[Content]) -> Result<Box<dyn Node>, NodeError> {
        let mut node = self.node(site)?;
        let tickets = contents.iter().enumerate().map(|(object, content)| {
            let name = node.control()?.add(content)?;
            Ok(Ticket { object, name, bytes: content.bytes })
        });
        node.tickets = tickets.collect::<Result<_, NodeError>>()?;
        Ok(Box::new(node))
    }

    fn serve(&self, site: &Site) -> Result<Box<dyn Node>, NodeError> {
        Ok(Box::new(self.node(site)?))
    }

    fn store(&self, site: &Site, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        Ok(self.seed(site, contents)?.tickets().to_vec())
    }

    fn prepare(
        &self,
        site: &Site,
        tickets: &[Ticket],
        _: &[Ticket],
    ) -> Result<Box<dyn Node>, NodeError> {
        let mut node = self.node(site)?;
        node.wanted = tickets.to_vec();
        Ok(Box::new(node))
    }
}

/// The commands and the events of a node.
struct Control {
    program: String,
    process: ProcessId,
    commands: File,
    events: File,
    rest: Vec<u8>,
    read_bytes: u64,
    log: std::path::PathBuf,
}

impl Control {
    /// Reads the events from now on.
    fn open(site: &Site, record: &NodeRecord) -> Result<Control, NodeError> {
        let (pipe, out) = (site.folder.join(COMMANDS), site.folder.join(format!("{NAME}.out")));
        // A pipe that nobody reads would block a command without a word.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let commands = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&pipe);
        let mut events = File::open(&out).map_err(NodeError::file(&out))?;
        events.seek(SeekFrom::End(0)).map_err(NodeError::file(&out))?;
        Ok(Control {
            program: record.name.clone(),
            process: record.process.clone(),
            commands: commands.map_err(NodeError::file(&pipe))?,
            events,
            rest: Vec::new(),
            read_bytes: 0,
            log: site.folder.join(format!("{NAME}.log")),
        })
    }

    fn unexpected(&self, problem: impl ToString) -> NodeError {
        let problem = format!("{}{}", problem.to_string(), end_of_log(&self.log));
        NodeError::Unexpected { program: self.program.clone(), problem }
    }

    fn send(&mut self, command: &str) -> Result<(), NodeError> {
        let line = format!("{command}\n");
        let sent = self.commands.write_all(line.as_bytes());
        sent.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => self.unexpected("it does not read its commands"),
            _ => self.unexpected(error),
        })
    }

    /// The events since the last call. Fails if the node has ended.
    fn events(&mut self) -> Result<Vec<Value>, NodeError> {
        let is_running = self.process.is_running();
        let left = EVENTS_BYTES_MAX - self.read_bytes;
        let read = (&mut self.events).take(left).read_to_end(&mut self.rest);
        self.read_bytes += read.map_err(NodeError::file(&self.log))? as u64;
        let events: Vec<Value> =
            take_lines(&mut self.rest).iter().filter_map(|line| event(line)).collect();
        if events.is_empty() && !is_running {
            return Err(self.unexpected("it has ended"));
        }
        let failed = events.iter().find(|event| event["event"] == "failed");
        // A dial that fails is not the end: other nodes dial too.
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match failed.filter(|event| !text(event, "command").starts_with("peer ")) {
            Some(event) => Err(self.unexpected(text(event, "error"))),
            None => Ok(events),
        }
    }

    fn wait_for(&mut self, kind: &str, timeout: Duration) -> Result<Value, NodeError> {
        let started_at = Instant::now();
        loop {
            let found = self.events()?.into_iter().find(|event| event["event"] == kind);
            if let Some(event) = found {
                return Ok(event);
            }
            if started_at.elapsed() > timeout {
                return Err(self.unexpected(format!("no event {kind} in {timeout:?}")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stores an object at the node. Returns its CID.
    fn add(&mut self, content: &Content) -> Result<String, NodeError> {
        let path = content.path.display().to_string();
        if path.contains('\n') {
            return Err(self.unexpected(format!("cannot send the path {path:?}")));
        }
        self.send(&format!("add {path}"))?;
        let added = self.wait_for("added", STORE_TIMEOUT)?;
        Ok(added["cid"].as_str().unwrap_or_default().to_owned())
    }
}

/// A node of a standing cluster during one trial.
struct Standing {
    /// `None` for a server, which takes no commands.
    control: Option<Control>,
    address: String,
    process: ProcessId,
    tickets: Vec<Ticket>,
    wanted: Vec<Ticket>,
    /// Bytes that have arrived, by CID.
    received: BTreeMap<String, u64>,
    held: BTreeSet<String>,
    /// The totals when the trial began.
    before: Totals,
}

impl Standing {
    fn control(&mut self) -> Result<&mut Control, NodeError> {
        let address = &self.address;
        self.control.as_mut().ok_or_else(|| NodeError::Unexpected {
            program: address.clone(),
            problem: "a server has no content".to_owned(),
        })
    }

    fn totals(&mut self) -> Result<Totals, NodeError> {
        let Some(control) = &mut self.control else { return Ok(Totals::default()) };
        control.send("totals")?;
        Ok(totals(&control.wait_for("totals", STOP_TIMEOUT)?))
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
}

impl Node for Standing {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn fetch(&mut self, dials: &[String]) -> Result<(), NodeError> {
        let wanted = self.wanted.clone();
        let control = self.control()?;
        dials.iter().try_for_each(|address| control.send(&format!("peer {address}")))?;
        wanted.iter().try_for_each(|ticket| control.send(&format!("hold {}", ticket.name)))
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        let Some(control) = &mut self.control else {
            return match self.process.is_running() {
                true => Ok(Status::default()),
                false => Err(NodeError::Unexpected {
                    program: self.address.clone(),
                    problem: "it has ended".to_owned(),
                }),
            };
        };
        for event in control.events()? {
            self.note(&event);
        }
        let bytes = |ticket: &Ticket| match self.held.contains(&ticket.name) {
            true => ticket.bytes,
            false => self.received.get(&ticket.name).copied().unwrap_or(0),
        };
        let has_all = self.wanted.iter().all(|ticket| self.held.contains(&ticket.name));
        Ok(Status { bytes: self.wanted.iter().map(bytes).sum(), has_all })
    }

    fn usage(&mut self) -> Usage {
        let usage = self.process.usage().unwrap_or_default();
        Usage { cpu: usage.cpu, peak_memory: usage.peak_memory }
    }

    fn kill(&mut self) {
        self.process.signal(Signal::KILL);
    }

    /// Reads the totals of the trial. The node runs on; what it did not get, it stops fetching.
    fn end(&mut self) -> Result<Totals, NodeError> {
        let now = self.totals()?;
        let unfinished = self.wanted.iter().filter(|ticket| !self.held.contains(&ticket.name));
        for ticket in unfinished.cloned().collect::<Vec<_>>() {
            self.control()?.send(&format!("release {}", ticket.name))?;
        }
        Ok(since(&self.before, now))
    }
}

/// The totals of a trial. Those with a peer begin again when it connects again.
fn since(before: &Totals, now: Totals) -> Totals {
    let less = |now: Option<u64>, before: Option<u64>| {
        now.map(|now| now.checked_sub(before.unwrap_or(0)).unwrap_or(now))
    };
    let with = now.with.into_iter().map(|(peer, sent, received)| {
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
        from_hosts_bytes: None,
        identity: now.identity,
        figures: now.figures,
        peaks: now.peaks,
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
