//! CPU time and memory in each phase of a load.
//!
//! `watchfire load --events` writes a line when a phase begins and when it ends. At each end the lab reads the
//! CPU time of the server first, then its memory. Reading the memory of a hundred processes takes a part of a second, in
//! which the next phase has begun. So the CPU time at the end of a phase is that at the begin of the next one.

use std::time::Duration;

use serde_json::Value;

use crate::drivers::processes::process_tree::{ProcessTree, pinned_kernel_memory};

/// Phases of a load, and the use of the server before its users.
pub struct Phases {
    /// The first process of each server on this machine.
    servers: Vec<u32>,
    memory_before: u64,
    kernel_before: Option<u64>,
    /// The last change: seconds since the load began, and the CPU times then.
    changed: Option<(f64, CpuTimes)>,
    pub done: Vec<PhaseUse>,
}

/// The use of a server in one phase.
#[derive(Clone, Debug, Default)]
pub struct PhaseUse {
    pub name: String,
    /// Seconds since the load began.
    pub from: f64,
    pub to: f64,
    /// `None` if the server is not on this machine.
    pub cpu: Option<CpuTimes>,
    /// Memory of the server at the end of the phase, beyond that before the first user.
    pub memory: Option<u64>,
    /// Memory of the kernel at the end of the phase, beyond that before the first user.
    pub kernel_memory: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    pub server: Duration,
    pub users: Duration,
}

impl Phases {
    /// Reads the memory of servers before their users start.
    pub fn before_users(servers: Vec<u32>) -> Phases {
        let memory_before = memory(&servers);
        let kernel_before = pinned_kernel_memory();
        Phases { servers, memory_before, kernel_before, changed: None, done: Vec::new() }
    }

    /// Notes the begin or the end of a phase. `users` is the process of the users.
    pub fn note(&mut self, event: &Value, users: Option<u32>) {
        let at = event["at"].as_f64().unwrap_or(0.0);
        let is_end = match event["event"].as_str() {
            Some("phase_began") => false,
            Some("phase_ended") => true,
            _ => return,
        };
        // A phase begins where the one before has ended.
        if !is_end && self.changed.is_some_and(|(changed_at, _)| changed_at == at) {
            return;
        }
        let now = self.cpu_times(users);
        if let Some((from, before)) = self.changed.replace((at, now)).filter(|_| is_end) {
            let is_here = !self.servers.is_empty();
            let beyond = |now: u64, before: u64| is_here.then(|| now.saturating_sub(before));
            let cpu = CpuTimes {
                server: now.server.saturating_sub(before.server),
                users: now.users.saturating_sub(before.users),
            };
            let kernel = pinned_kernel_memory().zip(self.kernel_before);
            self.done.push(PhaseUse {
                name: event["phase"].as_str().unwrap_or_default().to_owned(),
                from,
                to: at,
                cpu: is_here.then_some(cpu),
                memory: beyond(memory(&self.servers), self.memory_before),
                kernel_memory: kernel.and_then(|(now, before)| beyond(now, before)),
            });
        }
    }

    fn cpu_times(&self, users: Option<u32>) -> CpuTimes {
        let cpu = |root: &u32| ProcessTree::of(*root).cpu();
        CpuTimes {
            server: self.servers.iter().map(cpu).sum(),
            users: users.as_ref().map(cpu).unwrap_or_default(),
        }
    }
}

fn memory(servers: &[u32]) -> u64 {
    servers.iter().map(|root| ProcessTree::of(*root).memory()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(event: &str, phase: &str, at: f64) -> Value {
        json!({ "event": event, "phase": phase, "at": at })
    }

    #[test]
    fn a_phase_has_the_use_between_its_begin_and_its_end() {
        let own = std::process::id();
        let mut phases = Phases::before_users(vec![own]);
        phases.note(&event("phase_began", "join", 0.0), Some(own));
        phases.note(&event("phase_ended", "join", 2.0), Some(own));
        phases.note(&event("phase_began", "stay", 2.0), Some(own));
        phases.note(&event("phase_ended", "stay", 3.5), Some(own));
        phases.note(&json!({ "event": "unknown" }), None);
        let times: Vec<_> =
            phases.done.iter().map(|phase| (phase.name.as_str(), phase.from, phase.to)).collect();
        assert_eq!(times, [("join", 0.0, 2.0), ("stay", 2.0, 3.5)]);
        assert!(phases.done.iter().all(|phase| phase.memory.is_some() && phase.cpu.is_some()));
    }

    #[test]
    fn a_server_on_another_host_has_no_use_here() {
        let mut phases = Phases::before_users(Vec::new());
        phases.note(&event("phase_began", "join", 0.0), None);
        phases.note(&event("phase_ended", "join", 2.0), None);
        assert!(phases.done[0].cpu.is_none() && phases.done[0].memory.is_none());
    }
}
