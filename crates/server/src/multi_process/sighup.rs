//! SIGHUP in a server of several processes: the supervisor passes it on to its workers.

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal, kill_process};
use watchfire_cluster::workers::SupervisorEvent;
use watchfire_types::NodeId;

/// The workers to which a supervisor passes SIGHUP.
///
/// A worker is included only once it is ready: before that, the signal would end it. It loads the
/// current files at its start anyway.
#[derive(Debug, Default)]
pub(super) struct SighupForwarding {
    starting: BTreeMap<NodeId, Pid>,
    ready: BTreeMap<NodeId, Pid>,
}

impl SighupForwarding {
    /// Notes the processes that start and end.
    pub fn note(&mut self, event: &SupervisorEvent) {
        match event {
            SupervisorEvent::Started { slot, pid, .. } => {
                let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    self.starting.insert(*slot, pid);
                }
            }
            SupervisorEvent::Ready { slot, .. } => {
                if let Some(pid) = self.starting.remove(slot) {
                    self.ready.insert(*slot, pid);
                }
            }
            SupervisorEvent::Ended { slot, .. } => {
                self.starting.remove(slot);
                self.ready.remove(slot);
            }
            _ => {}
        }
    }

    /// Passes SIGHUP on.
    pub fn pass_on(&self) {
        for pid in self.ready.values() {
            // It fails only when the worker has just ended.
            let _ = kill_process(*pid, Signal::HUP);
        }
    }
}
