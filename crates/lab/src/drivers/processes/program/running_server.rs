//! A server for the users of a load, while it runs.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::contract::{Node, Status, Totals};
use super::events::named;
use crate::drivers::processes::host::{NodeError, Process, ProcessTree, Usage};

/// How long it may take to end. The kernel closes two million connections in a minute.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// A server, with all processes that it has started.
pub struct RunningServer {
    url: String,
    process: Process,
    /// The last usage that was read while it ran.
    usage: Usage,
    /// The last figures of its own.
    figures: Vec<(String, f64)>,
}

impl RunningServer {
    pub fn new(url: String, process: Process) -> RunningServer {
        RunningServer { url, process, usage: Usage::default(), figures: Vec::new() }
    }

    /// With figures that it has told already.
    pub fn with_figures(self, figures: Vec<(String, f64)>) -> RunningServer {
        RunningServer { figures, ..self }
    }
}

impl Node for RunningServer {
    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn process(&self) -> Option<u32> {
        self.process.id()
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.process.check_running()?;
        Ok(Status::default())
    }

    fn usage(&mut self) -> Usage {
        let root = self.process.usage();
        let Some(id) = self.process.id() else { return root };
        let tree = ProcessTree::of(id);
        self.usage.raise_to(root);
        self.usage.raise_to(Usage { cpu: tree.cpu(), peak_memory: tree.peak_memory() });
        self.usage
    }

    fn main_process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        self.process.stop(Signal::TERM, STOP_TIMEOUT)?;
        let told = self.process.lines()?;
        if let Some(figures) = told.iter().filter_map(|line| figures(line)).next_back() {
            self.figures = figures;
        }
        Ok(Totals { figures: std::mem::take(&mut self.figures), ..Totals::default() })
    }
}

/// The figures in a line of a server, if it has some.
pub fn figures(line: &str) -> Option<Vec<(String, f64)>> {
    let event: Value = serde_json::from_str(line).ok()?;
    (event["event"] == "figures").then(|| named(&event["figures"]))
}
