//! A server for the users of a load, while it runs.

use std::time::Duration;

use rustix::process::Signal;

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
}

impl Serving {
    pub fn new(url: String, process: Process) -> Serving {
        Serving { url, process, usage: Usage::default() }
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
        Ok(Totals::default())
    }
}
