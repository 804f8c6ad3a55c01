use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::kernel;
use crate::parent_death_guard::{GuardedChild, guarded_command};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const LOG_LINES_SHOWN: usize = 8;
/// Ports to listen on, below the source ports of the clients.
const PORT_FIRST: u16 = 4_000;
const PORT_END: u16 = 9_999;

pub struct ServerPlan<'a> {
    pub program: Program<'a>,
    /// Processes behind one port; 1 is plain `serve`.
    pub processes: usize,
    /// Start that many separate servers instead, each with its own port.
    pub is_separate: bool,
    /// Event loops of one process; 0 is one per core.
    pub shards: usize,
    /// Other settings, each as `key=value`.
    pub settings: &'a [&'a str],
    pub log: PathBuf,
}

#[derive(Clone, Copy)]
pub enum Program<'a> {
    Watchfire(&'a Path),
}

pub struct Server {
    roots: Vec<GuardedChild>,
    addresses: Vec<SocketAddr>,
    log: PathBuf,
}

impl Server {
    /// Start it, and wait until it accepts connections and all its processes run.
    pub fn start(plan: &ServerPlan<'_>) -> Result<Self> {
        let copies = if plan.is_separate { plan.processes } else { 1 };
        let mut server = Server { roots: Vec::new(), addresses: Vec::new(), log: plan.log.clone() };
        let log = File::create(&plan.log)
            .with_context(|| format!("cannot write {}", plan.log.display()))?;
        for number in 0..copies {
            let address = free_address(PORT_FIRST + number as u16)?;
            let mut command = plan.command(address)?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
            server.roots.push(GuardedChild::spawn(&mut command)?);
            server.addresses.push(address);
        }
        let expected = if copies == 1 && plan.processes > 1 { plan.processes + 1 } else { copies };
        server.wait_until_ready(expected)?;
        Ok(server)
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn ids(&self) -> Vec<u32> {
        self.roots.iter().flat_map(|root| kernel::process_tree(root.id())).collect()
    }

    fn wait_until_ready(&mut self, processes: usize) -> Result<()> {
        let started_at = Instant::now();
        let addresses = self.addresses.clone();
        loop {
            for root in &mut self.roots {
                if let Some(status) = root.child().try_wait()? {
                    bail!("the server ended with {status}{}", self.log_tail());
                }
            }
            let accepts = |address: &SocketAddr| TcpStream::connect(address).is_ok();
            if self.ids().len() >= processes && addresses.iter().all(accepts) {
                return Ok(());
            }
            ensure!(
                started_at.elapsed() < READY_TIMEOUT,
                "the server has {} of {processes} processes after {} s, or accepts no \
                 connections{}",
                self.ids().len(),
                READY_TIMEOUT.as_secs(),
                self.log_tail()
            );
            thread::sleep(PAUSE);
        }
    }

    /// Stop it, and wait until all its processes have ended.
    pub fn stop(mut self) -> Result<()> {
        let processes = self.ids();
        for root in &self.roots {
            signal(root.id(), Signal::TERM);
        }
        let started_at = Instant::now();
        while !self.has_ended()? && started_at.elapsed() < STOP_TIMEOUT {
            thread::sleep(PAUSE);
        }
        // Kill the processes that did not end in time.
        for id in processes.iter().filter(|id| is_running(**id)) {
            signal(*id, Signal::KILL);
        }
        while processes.iter().any(|id| is_running(*id)) {
            ensure!(
                started_at.elapsed() < 2 * STOP_TIMEOUT,
                "processes of the server do not end{}",
                self.log_tail()
            );
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool> {
        let mut all_ended = true;
        for root in &mut self.roots {
            all_ended &= root.child().try_wait()?.is_some();
        }
        Ok(all_ended)
    }

    /// The last lines of its log, to append to an error.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        let heading = if shown.is_empty() { "" } else { "; last lines of the log:" };
        shown.iter().fold(heading.to_owned(), |text, line| text + "\n    " + line)
    }
}

impl ServerPlan<'_> {
    fn command(&self, address: SocketAddr) -> Result<Command> {
        match self.program {
            Program::Watchfire(program) => {
                let mut command = guarded_command(program)?;
                command.args(["serve", "--listen", &address.to_string()]);
                command.args(["--set", &format!("server.shards={}", self.shards)]);
                // All clients have left when it stops, so it need not spread their reconnects.
                command.args(["--set", "server.drain_period=1s"]);
                command.args(["--set", "channels.open_rooms=true", "--set", "admin.listen=[]"]);
                for setting in self.settings {
                    command.args(["--set", setting]);
                }
                if self.processes > 1 && !self.is_separate {
                    command.args(["--processes", &self.processes.to_string()]);
                }
                Ok(command)
            }
        }
    }
}

/// Whether the program supports several processes behind one port.
pub fn supports_processes(program: &Path) -> Result<bool> {
    let output = Command::new(program)
        .args(["serve", "--help"])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("--processes"))
}

/// A port that is free now.
fn free_address(first: u16) -> Result<SocketAddr> {
    let free =
        (first..PORT_END).find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let port = free.with_context(|| format!("no port from {first} to {PORT_END} is free"))?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

fn signal(id: u32, signal: Signal) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, signal); // fails only if it has already ended
    }
}

/// Whether a process exists and is not a zombie.
fn is_running(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
