//! CPU time and memory in each phase of a load.
//!
//! `watchfire load --events` writes a line when a phase begins and when it ends. At each end the lab reads the
//! CPU time of the server first, then its memory. Reading the memory of a hundred processes takes a part of a second, in
//! which the next phase has begun. So the CPU time at the end of a phase is that at the begin of the next one.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::drivers::processes::host::{ProcessTree, Site, pinned_kernel_memory};

/// The processes whose use is read.
#[derive(Default)]
pub struct Watched {
    /// The first process of each server on this machine.
    pub servers: Vec<u32>,
    /// The first process of each backend on this machine.
    pub backends: Vec<u32>,
    pub backend_sites: Vec<Site>,
}

/// Phases of a load, and the use of the server before its users.
pub struct Phases {
    watched: Watched,
    before: Memory,
    /// The CPU times that were read last, of each process. A process that was killed keeps its time.
    cpu_seen: Vec<Duration>,
    /// The last change: seconds since the load began, and what was used until then.
    changed: Option<(f64, Totals)>,
    /// The memory at the end of the phase before.
    memory_seen: Memory,
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
    pub used: Option<Totals>,
    /// Memory at the end of the phase, beyond that before the first user.
    pub memory: Memory,
    /// Memory at the end of the phase, beyond that at the end of the phase before.
    pub growth: Memory,
}

/// Resources used since the load began, or in one phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub server: Duration,
    pub users: Duration,
    /// `None` without backends.
    pub backends: Option<Duration>,
    /// Bytes between backends and their clients, in both directions. `None` without backends.
    pub backend_bytes: Option<u64>,
}

/// Memory in bytes; `None` if it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub server: Option<f64>,
    pub backends: Option<f64>,
    pub kernel: Option<f64>,
}

impl Memory {
    fn read(watched: &Watched) -> Memory {
        let of = |roots: &[u32]| {
            let sum: u64 = roots.iter().map(|root| ProcessTree::of(*root).memory()).sum();
            (!roots.is_empty()).then_some(sum as f64)
        };
        let server = of(&watched.servers);
        let kernel = server.and(pinned_kernel_memory()).map(|bytes| bytes as f64);
        Memory { server, backends: of(&watched.backends), kernel }
    }

    fn beyond(self, before: Memory) -> Memory {
        let difference = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        Memory {
            server: difference(self.server, before.server),
            backends: difference(self.backends, before.backends),
            kernel: difference(self.kernel, before.kernel),
        }
    }
}

impl Totals {
    fn since(self, before: Totals) -> Totals {
        let bytes = self.backend_bytes.zip(before.backend_bytes);
        let backends = self.backends.zip(before.backends);
        Totals {
            server: self.server.saturating_sub(before.server),
            users: self.users.saturating_sub(before.users),
            backends: backends.map(|(now, before)| now.saturating_sub(before)),
            backend_bytes: bytes.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

impl Phases {
    /// Reads the memory of servers before their users start.
    pub fn before_users(watched: Watched) -> Phases {
        let before = Memory::read(&watched);
        let cpu_seen = vec![Duration::ZERO; watched.servers.len() + watched.backends.len()];
        let (changed, done) = (None, Vec::new());
        Phases { watched, before, cpu_seen, changed, memory_seen: before, done }
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
        let now = self.totals(users);
        if let Some((from, before)) = self.changed.replace((at, now)).filter(|_| is_end) {
            let memory = Memory::read(&self.watched);
            let growth = memory.beyond(std::mem::replace(&mut self.memory_seen, memory));
            self.done.push(PhaseUse {
                name: event["phase"].as_str().unwrap_or_default().to_owned(),
                from,
                to: at,
                used: (!self.watched.servers.is_empty()).then(|| now.since(before)),
                memory: memory.beyond(self.before),
                growth,
            });
        }
    }

    fn totals(&mut self, users: Option<u32>) -> Totals {
        let Watched { servers, backends, backend_sites } = &self.watched;
        for (seen, root) in self.cpu_seen.iter_mut().zip(servers.iter().chain(backends)) {
            *seen = (*seen).max(ProcessTree::of(*root).cpu());
        }
        let (of_servers, of_backends) = self.cpu_seen.split_at(servers.len());
        let bytes = backend_sites.iter().map(bytes_with);
        Totals {
            server: of_servers.iter().sum(),
            users: users.map(|root| ProcessTree::of(root).cpu()).unwrap_or_default(),
            backends: (!backends.is_empty()).then(|| of_backends.iter().sum()),
            backend_bytes: bytes.sum::<Option<u64>>().filter(|_| !backends.is_empty()),
        }
    }
}

/// Bytes of TCP payload on all open connections to the address of a node, in both directions; `None` if `ss` cannot
/// tell them.
fn bytes_with(site: &Site) -> Option<u64> {
    let mut command = std::process::Command::new("ss");
    command.args(["-tinH", "dst", &site.address.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let output = site.spawn(command).ok()?.wait_with_output().ok()?;
    output.status.success().then(|| bytes_in(&String::from_utf8_lossy(&output.stdout)))
}

fn bytes_in(ss: &str) -> u64 {
    let fields = ss.split_whitespace().filter_map(|field| {
        field.strip_prefix("bytes_sent:").or_else(|| field.strip_prefix("bytes_received:"))
    });
    fields.filter_map(|number| number.parse::<u64>().ok()).sum()
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
        let mut phases = Phases::before_users(Watched { servers: vec![own], ..Watched::default() });
        phases.note(&event("phase_began", "join", 0.0), Some(own));
        phases.note(&event("phase_ended", "join", 2.0), Some(own));
        phases.note(&event("phase_began", "stay", 2.0), Some(own));
        phases.note(&event("phase_ended", "stay", 3.5), Some(own));
        phases.note(&json!({ "event": "unknown" }), None);
        let times: Vec<_> =
            phases.done.iter().map(|phase| (phase.name.as_str(), phase.from, phase.to)).collect();
        assert_eq!(times, [("join", 0.0, 2.0), ("stay", 2.0, 3.5)]);
        assert!(
            phases.done.iter().all(|phase| phase.memory.server.is_some() && phase.used.is_some())
        );
    }

    #[test]
    fn a_server_on_another_host_has_no_use_here() {
        let mut phases = Phases::before_users(Watched::default());
        phases.note(&event("phase_began", "join", 0.0), None);
        phases.note(&event("phase_ended", "join", 2.0), None);
        assert!(phases.done[0].used.is_none() && phases.done[0].memory.server.is_none());
    }

    #[test]
    fn a_server_that_was_killed_keeps_its_cpu_time() {
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut phases =
            Phases::before_users(Watched { servers: vec![busy.id()], ..Watched::default() });
        let mut used = Duration::ZERO;
        while used.is_zero() {
            used = phases.totals(None).server;
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(phases.totals(None).server >= used);
    }

    #[test]
    fn bytes_of_connections_are_added() {
        let ss = "ESTAB 0 0 127.0.0.1:5 127.0.0.1:4222\n\t cubic rto:204 bytes_sent:100 \
                  bytes_acked:101 bytes_received:20 segs_out:3\nESTAB 0 0 a b\n\t bytes_sent:3\n";
        assert_eq!(bytes_in(ss), 123);
    }
}
