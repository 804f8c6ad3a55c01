use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::{Resource, getrlimit};

use anyhow::{Context, Result, bail};

use super::orders::{Line, Order, Setup, Status};
use crate::parent_death_guard::{GuardedChild, guarded_command};

/// Open files of a process that are not client sockets, such as links to other processes.
const OTHER_FILES: u64 = 500;
/// Most sockets of a process.
const SOCKETS_EACH_MAX: u64 = 18_200;

/// Sockets for each process, according to its open-file limit.
pub fn sockets_each() -> u64 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_FILES).clamp(1, SOCKETS_EACH_MAX)
}

/// Client processes; they end when this is dropped.
pub struct ClientProcesses {
    processes: Vec<Process>,
    /// Failures of the processes.
    failures: Receiver<String>,
}

struct Process {
    stdin: ChildStdin,
    status: Arc<Mutex<Status>>,
    /// Ends the process when this is dropped.
    _child: GuardedChild,
}

impl ClientProcesses {
    /// Start client processes. Their source addresses begin at `first`, so that those of other
    /// client processes differ.
    pub fn start(processes: usize, first: u8, servers: &[SocketAddr]) -> Result<Self> {
        let (failure, failures) = channel();
        let mut clients = ClientProcesses { processes: Vec::new(), failures };
        for number in 0..processes {
            let mut command = guarded_command(std::env::current_exe()?)?;
            command.arg("members").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = GuardedChild::spawn(&mut command)?;
            let stdin = child.child().stdin.take().context("no stdin")?;
            let stdout = child.child().stdout.take().context("no stdout")?;
            let status = Arc::new(Mutex::new(Status::default()));
            listen(stdout, status.clone(), failure.clone());
            clients.processes.push(Process { stdin, status, _child: child });
            let process = u8::try_from(number).ok().and_then(|number| number.checked_add(first));
            let process = process.context("more client processes than addresses")?;
            clients.send(number, &Order::Setup(Setup { servers: servers.to_vec(), process }))?;
        }
        Ok(clients)
    }

    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Send an order to one process.
    pub fn send(&mut self, process: usize, order: &Order) -> Result<()> {
        let stdin = &mut self.processes[process].stdin;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stdin.write_all(&line).context("a client process has ended")
    }

    pub fn send_all(&mut self, order: &Order) -> Result<()> {
        (0..self.len()).try_for_each(|process| self.send(process, order))
    }

    /// The sum of their statuses.
    pub fn status(&self) -> Result<Status> {
        if let Ok(failure) = self.failures.try_recv() {
            bail!("a client process failed: {failure}");
        }
        let mut sum = Status::default();
        for process in &self.processes {
            sum += &*process.status.lock();
        }
        Ok(sum)
    }
}

/// Receive the lines of a process until it ends.
fn listen(stdout: ChildStdout, status: Arc<Mutex<Status>>, failure: Sender<String>) {
    thread::spawn(move || {
        // A failed send means that `ClientProcesses` was dropped; the process then ends too.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Line::Status(new)) => *status.lock() = *new,
                Ok(Line::Failed(error)) => drop(failure.send(error)),
                Err(error) => drop(failure.send(format!("{error} in {line}"))),
            }
        }
    });
}
