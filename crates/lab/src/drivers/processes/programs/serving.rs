//! A server for the users of a load, while it runs.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::events::named;
use super::{Node, NodeError, Status, Totals, Usage};
use crate::drivers::processes::process::Process;
use crate::drivers::processes::process_tree::ProcessTree;

/// How long it may take to end. The kernel closes two million connections in a minute.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// A server, with all processes that it has started.
pub struct Serving {
    url: String,
    process: Process,
    /// The last usage that was read while it ran.
    usage: Usage,
    /// The last figures of its own.
    figures: Vec<(String, f64)>,
}

impl Serving {
    pub fn new(url: String, process: Process) -> Serving {
        Serving { url, process, usage: Usage::default(), figures: Vec::new() }
    }

    /// With figures that it has told already.
    pub fn with_figures(self, figures: Vec<(String, f64)>) -> Serving {
        Serving { figures, ..self }
    }
}

impl Node for Serving {
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
        let Usage { cpu, peak_memory } = &mut self.usage;
        *cpu = (*cpu).max(tree.cpu()).max(root.cpu);
        *peak_memory = (*peak_memory).max(tree.peak_memory()).max(root.peak_memory);
        self.usage
    }

    fn kill(&mut self) {
        self.process.kill();
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
