//! Nodes whose program writes events: a JSON object on each line of its output, as `watchfire share`,
//! `hold` and `get` do with `--json`.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::content::Content;
use super::contract::{Node, START_TIMEOUT, STOP_TIMEOUT, Status, Ticket, Totals};
use crate::drivers::processes::host::{NodeError, Process, Site};

/// Bytes that a node hashes per second at least, before it shares them.
const HASH_RATE: u64 = 20 << 20;

/// Tells a command which nodes to dial.
pub type Dial = fn(&mut Command, &[String]);

/// A node whose program writes events.
pub struct EventNode {
    site: Site,
    /// The address that others dial.
    address: Option<String>,
    /// The command that fetches, until it runs, and how it is told which nodes to dial.
    fetching: Option<(Command, Dial)>,
    /// It runs already, and begins to fetch at a line with the nodes to dial.
    waits: bool,
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

impl EventNode {
    /// Starts a command that shares contents, and waits until it has named each.
    pub fn sharing(
        site: &Site,
        command: Command,
        contents: &[Content],
        address: Option<String>,
    ) -> Result<EventNode, NodeError> {
        let bytes: u64 = contents.iter().map(|content| content.bytes).sum();
        let timeout = START_TIMEOUT + Duration::from_secs(bytes / HASH_RATE);
        let mut process = Process::start(site, command, "share")?;
        let (mut tickets, mut told) = (Vec::new(), None);
        process.wait_until(timeout, |process| {
            for event in events(process)?.iter().filter(|event| event["event"] == "shared") {
                let name = event["cid"].as_str().unwrap_or_default().to_owned();
                let bytes = contents.get(tickets.len()).map_or(0, |content| content.bytes);
                tickets.push(Ticket { object: tickets.len(), name, bytes });
                // With the identity of the node, which some programs need to dial it.
                let address = event["address"].as_str().or(event["addresses"][0].as_str());
                told = address.map(str::to_owned).or(told.take());
            }
            Ok((tickets.len() == contents.len()).then_some(()))
        })?;
        let address = told.or(address);
        Ok(EventNode { process: Some(process), tickets, ..EventNode::new(site, address) })
    }

    /// A node that will fetch tickets with a command, beside content that it has stored.
    pub fn fetching(
        site: &Site,
        command: Command,
        dial: Dial,
        wanted: &[Ticket],
        stored: &[Ticket],
        address: Option<String>,
    ) -> EventNode {
        EventNode {
            fetching: Some((command, dial)),
            awaited: stored.len() + wanted.len(),
            total_bytes: wanted.iter().map(|ticket| ticket.bytes).sum(),
            ..EventNode::new(site, address)
        }
    }

    /// A node whose command runs before the clock starts. It says that it is ready, and waits for a line of input.
    pub fn waiting(
        site: &Site,
        command: Command,
        wanted: &[Ticket],
    ) -> Result<EventNode, NodeError> {
        let process = Process::start_with_input(site, command, "fetch", Stdio::piped())?;
        Ok(EventNode {
            process: Some(process),
            waits: true,
            awaited: wanted.len(),
            total_bytes: wanted.iter().map(|ticket| ticket.bytes).sum(),
            ..EventNode::new(site, None)
        })
    }

    /// The program ends when it has its content, and that is no failure.
    pub fn ending_when_done(self, ends_when_done: bool) -> EventNode {
        EventNode { ends_when_done, ..self }
    }

    fn new(site: &Site, address: Option<String>) -> Self {
        EventNode {
            site: site.clone(),
            address,
            fetching: None,
            waits: false,
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

impl Node for EventNode {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn address(&self) -> Option<String> {
        self.address.clone()
    }

    fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), NodeError> {
        let Some(process) = self.process.as_mut().filter(|_| self.waits) else { return Ok(()) };
        process.wait_until(timeout, |process| {
            let is_ready = |event: &Value| event["event"] == "ready";
            Ok(events(process)?.iter().any(is_ready).then_some(()))
        })
    }

    fn fetch(&mut self, dials: &[String]) -> Result<(), NodeError> {
        if let Some(process) = self.process.as_mut().filter(|_| std::mem::take(&mut self.waits)) {
            return process.write_line(&json!(dials).to_string());
        }
        let Some((mut command, dial)) = self.fetching.take() else { return Ok(()) };
        dial(&mut command, dials);
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

    fn main_process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
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
pub fn events(process: &mut Process) -> Result<Vec<Value>, NodeError> {
    let program = process.program().to_owned();
    let event = |line: String| {
        serde_json::from_str(&line)
            .map_err(|_| NodeError::Unexpected { program: program.clone(), problem: line })
    };
    process.lines()?.into_iter().map(event).collect()
}

/// The numbers of an object, by their names.
pub fn named(object: &Value) -> Vec<(String, f64)> {
    let members = object.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

/// The totals in the last event of a process.
pub fn totals(event: &Value) -> Totals {
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
        from_hosts_bytes: None,
        identity: exchange["peer"].as_str().map(str::to_owned),
        with: with.collect(),
        figures: named(&event["figures"]),
        peaks: named(&event["peaks"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_the_last_event() {
        let exchange = json!({
            "sent_bytes": 10, "received_bytes": 20, "received_messages": 3, "duplicate_bytes": 0,
            "with": [{ "peer": "12D3", "sent_bytes": 8, "received_bytes": 9 }],
        });
        let totals = totals(&json!({
            "event": "stopped", "sent_bytes": 8, "exchange": exchange,
            "figures": { "relayed": 3, "name": "no number" }, "peaks": { "connections": 4.5 },
        }));
        assert_eq!((totals.content_sent_bytes, totals.sent_bytes), (Some(8), Some(10)));
        assert_eq!((totals.received_bytes, totals.messages), (Some(20), Some(3)));
        assert_eq!(totals.with, [("12D3".to_owned(), 8, 9)]);
        assert_eq!(totals.figures, [("relayed".to_owned(), 3.0)]);
        assert_eq!(totals.peaks, [("connections".to_owned(), 4.5)]);
    }
}
