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

/// Processes that hold clients of one kind; they end when this is dropped.
pub struct ClientProcesses {
    processes: Vec<Process>,
    /// What failed in any of them.
    failures: Receiver<String>,
    reports: Receiver<BTreeMap<String, Snapshot>>,
}

struct Process {
    stdin: ChildStdin,
    status: Arc<Mutex<Status>>,
    child: GuardedChild,
}

impl ClientProcesses {
    /// Start so many processes; `first` tells their addresses from those of other crowds.
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

    /// Give one of them an order.
    pub fn send(&mut self, process: usize, order: &Order) -> Result<()> {
        let stdin = &mut self.processes[process].stdin;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stdin.write_all(&line).context("a process of clients has ended")
    }

    pub fn send_all(&mut self, order: &Order) -> Result<()> {
        (0..self.len()).try_for_each(|process| self.send(process, order))
    }

    /// What all of them have seen.
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

    /// How many clients of one of them are where they should be.
    pub fn present(&self, process: usize) -> u64 {
        self.processes[process].status.lock().present
    }

    /// Wait until what they have seen is enough; `look` sees every status on the way.
    pub fn wait(
        &self,
        patience: Duration,
        mut look: impl FnMut(&Status),
        is_enough: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let started_at = Instant::now();
        loop {
            let status = self.status()?;
            look(&status);
            if is_enough(&status) {
                return Ok(status);
            }
            ensure!(
                started_at.elapsed() < patience,
                "after {} s the clients had come no further than {status:?}",
                patience.as_secs()
            );
            thread::sleep(POLL_PAUSE);
        }
    }

    /// The durations since the last report, of all of them together, and a status as fresh.
    pub fn report(&mut self) -> Result<(BTreeMap<String, Histogram>, Status)> {
        self.send_all(&Order::Report)?;
        let mut sum: BTreeMap<String, Histogram> = BTreeMap::new();
        for _ in 0..self.len() {
            let report = self.reports.recv_timeout(REPORT_TIMEOUT);
            for (what, snapshot) in report.context("a process of clients is silent")? {
                sum.entry(what).or_default().merge(&snapshot);
            }
        }
        Ok((sum, self.status()?))
    }

    pub fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.child.id()).collect()
    }
}

/// Take in what a process tells, until it ends.
fn listen(
    stdout: ChildStdout,
    status: Arc<Mutex<Status>>,
    failure: Sender<String>,
    report: Sender<BTreeMap<String, Snapshot>>,
) {
    thread::spawn(move || {
        // Nobody listens to a channel any more when the clients is dropped; then all of this ends.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Line::Status(told)) => {
                    *status.lock() = *told;
                }
                Ok(Line::Report(told)) => drop(report.send(told)),
                Ok(Line::Failed(told)) => drop(failure.send(told)),
                Err(error) => drop(failure.send(format!("{error} in {line}"))),
            }
        }
    });
}
