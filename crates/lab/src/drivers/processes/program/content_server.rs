//! A server of content whose log tells how much it sent: nginx or docker-registry.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use super::contract::{Node, STOP_TIMEOUT, Status, Ticket, Totals};
use crate::drivers::processes::host::{NodeError, Process};

pub struct ContentServer {
    pub tickets: Vec<Ticket>,
    pub process: Process,
    /// The signal at which it ends after its log is complete.
    pub stop: Signal,
    pub log: PathBuf,
    /// The bytes of content that a log says were sent; `None` if it does not say it.
    pub sent_bytes: fn(&str) -> Option<u64>,
}

impl Node for ContentServer {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.process.check_running()?;
        Ok(Status { bytes: 0, has_all: true })
    }

    fn main_process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        self.process.stop(self.stop, STOP_TIMEOUT)?;
        let log = fs::read_to_string(&self.log).map_err(NodeError::file(&self.log))?;
        Ok(Totals { content_sent_bytes: (self.sent_bytes)(&log), ..Totals::default() })
    }
}
