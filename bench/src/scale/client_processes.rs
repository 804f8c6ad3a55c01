use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use super::orders::{Kind, Line, Order, Setup, Status};
use crate::parent_death_guard::{GuardedChild, guarded_command};
use watchfire_report::{Histogram, Snapshot};

const POLL_PAUSE: Duration = Duration::from_millis(20);
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// Client processes of one kind; they end when this is dropped.
pub struct ClientProcesses {
    processes: Vec<Process>,
    /// Failures of the processes.
    failures: Receiver<String>,
    reports: Receiver<BTreeMap<String, Snapshot>>,
}

struct Process {
    stdin: ChildStdin,
    status: Arc<Mutex<Status>>,
    child: GuardedChild,
}

impl ClientProcesses {
    /// Start client processes. Their source addresses begin at `first`, so that those of other
    /// client processes differ.
    pub fn start(kind: Kind, processes: usize, first: u8, servers: &[SocketAddr]) -> Result<Self> {
        let (failure, failures) = channel();
        let (report, reports) = channel();
        let mut clients = ClientProcesses { processes: Vec::new(), failures, reports };
        for number in 0..processes {
            let name = kind.to_possible_value().expect("no kind is hidden");
            let mut command = guarded_command(std::env::current_exe()?)?;
            command.args(["scale", "--clients", name.get_name()]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = GuardedChild::spawn(&mut command)?;
            let stdin = child.child().stdin.take().context("no stdin")?;
            let stdout = child.child().stdout.take().context("no stdout")?;
            let status = Arc::new(Mutex::new(Status::default()));
            listen(stdout, status.clone(), failure.clone(), report.clone());
            clients.processes.push(Process { stdin, status, child });
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

    /// Number of present clients of one process.
    pub fn present(&self, process: usize) -> u64 {
        self.processes[process].status.lock().present
    }

    /// Wait until `is_done` accepts the status; `on_status` receives every status before.
    pub fn wait(
        &self,
        timeout: Duration,
        mut on_status: impl FnMut(&Status),
        is_done: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let started_at = Instant::now();
        loop {
            let status = self.status()?;
            on_status(&status);
            if is_done(&status) {
                return Ok(status);
            }
            ensure!(
                started_at.elapsed() < timeout,
                "the clients timed out after {} s with {status:?}",
                timeout.as_secs()
            );
            thread::sleep(POLL_PAUSE);
        }
    }

    /// The durations of all processes since the last report, and the current status.
    pub fn report(&mut self) -> Result<(BTreeMap<String, Histogram>, Status)> {
        self.send_all(&Order::Report)?;
        let mut sum: BTreeMap<String, Histogram> = BTreeMap::new();
        for _ in 0..self.len() {
            let report = self.reports.recv_timeout(REPORT_TIMEOUT);
            for (name, snapshot) in report.context("a client process does not respond")? {
                sum.entry(name).or_default().merge(&snapshot);
            }
        }
        Ok((sum, self.status()?))
    }

    pub fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }
}

/// Receive the lines of a process until it ends.
fn listen(
    stdout: ChildStdout,
    status: Arc<Mutex<Status>>,
    failure: Sender<String>,
    report: Sender<BTreeMap<String, Snapshot>>,
) {
    thread::spawn(move || {
        // A failed send means that `ClientProcesses` was dropped; the process then ends too.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Line::Status(new)) => *status.lock() = *new,
                Ok(Line::Report(durations)) => drop(report.send(durations)),
                Ok(Line::Failed(error)) => drop(failure.send(error)),
                Err(error) => drop(failure.send(format!("{error} in {line}"))),
            }
        }
    });
}
