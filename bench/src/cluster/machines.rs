//! Running machines and their engine, and their CPU time.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::Signal;

use super::system::{Programs, System, watchfire};
use crate::log::log_tail;
use crate::parent_death_guard::GuardedChild;
use crate::process::Watched;
use crate::scale::kernel;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Machines accept connections before all links to the others are open.
const LINK_PAUSE: Duration = Duration::from_secs(3);
const FIRST_PORT: u16 = 4_000;
/// The machines are quiet when they use less than this share of a core in [`QUIET_PAUSES`]
/// consecutive pauses.
const QUIET_SHARE: f64 = 0.1;
const QUIET_PAUSE: Duration = Duration::from_millis(200);
const QUIET_PAUSES: usize = 4;
const QUIET_TIMEOUT: Duration = Duration::from_secs(5);

/// CPU time of the machines and their engine since they started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub servers: Duration,
    pub engine: Duration,
}

impl Usage {
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            servers: self.servers.saturating_sub(before.servers),
            engine: self.engine.saturating_sub(before.engine),
        }
    }
}

/// Machines and the engine between them; all end when this is dropped.
pub struct Machines {
    roots: Vec<Option<GuardedChild>>,
    engine: Option<GuardedChild>,
    addresses: Vec<SocketAddr>,
    log: PathBuf,
}

impl Machines {
    /// Start that many machines of a system, and its engine.
    pub fn start(programs: &Programs, system: System, count: u16, more: &[&str]) -> Result<Self> {
        let mut machines = Machines::empty(programs, &system.key());
        let log = machines.log_file()?;
        let mut engine = system.engine().command(programs)?;
        let mut child = spawn(&mut engine, &log).context("cannot start the engine")?;
        let address = (Ipv4Addr::LOCALHOST, system.engine().port()).into();
        wait_for(&mut child, address).map_err(|error| machines.with_log(&error))?;
        machines.engine = Some(child);
        for number in 0..count {
            let address = (Ipv4Addr::LOCALHOST, FIRST_PORT + number).into();
            let mut command = system.command(programs, address)?;
            command.args(more);
            machines.add(address, &mut command, &log)?;
        }
        machines.wait_until_ready()?;
        thread::sleep(LINK_PAUSE);
        Ok(machines)
    }

    /// Start one Watchfire machine without an engine, with several processes.
    pub fn start_alone(programs: &Programs, processes: u16, more: &[&str]) -> Result<Self> {
        let mut machines = Machines::empty(programs, "watchfire-alone");
        let address = (Ipv4Addr::LOCALHOST, FIRST_PORT).into();
        let processes = processes.to_string();
        let mut command = watchfire(programs, address, &["--processes", &processes])?;
        command.args(more);
        let log = machines.log_file()?;
        machines.add(address, &mut command, &log)?;
        machines.wait_until_ready()?;
        thread::sleep(LINK_PAUSE);
        Ok(machines)
    }

    fn empty(programs: &Programs, name: &str) -> Self {
        let log = programs.out.join(format!("{name}.log"));
        Machines { roots: Vec::new(), engine: None, addresses: Vec::new(), log }
    }

    fn log_file(&self) -> Result<File> {
        File::create(&self.log).with_context(|| format!("cannot write {}", self.log.display()))
    }

    fn add(&mut self, address: SocketAddr, command: &mut Command, log: &File) -> Result<()> {
        self.roots.push(Some(spawn(command, log).context("cannot start a machine")?));
        self.addresses.push(address);
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut roots = self.roots.iter_mut().flatten().zip(&self.addresses);
        let ready = roots.try_for_each(|(root, address)| wait_for(root, *address));
        ready.map_err(|error| self.with_log(&error))
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses of all machines; that of `home` is first.
    pub fn addresses_from(&self, home: usize) -> Vec<SocketAddr> {
        let others = self.addresses.iter().enumerate().filter(|(number, _)| *number != home);
        std::iter::once(self.addresses[home]).chain(others.map(|(_, other)| *other)).collect()
    }

    fn server_ids(&self) -> Vec<u32> {
        let roots = self.roots.iter().flatten();
        roots.flat_map(|root| kernel::process_tree(root.id())).collect()
    }

    pub fn usage(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        for id in self.server_ids() {
            usage.servers += Watched::new(id).cpu()?;
        }
        if let Some(engine) = &self.engine {
            usage.engine = Watched::new(engine.id()).cpu()?;
        }
        Ok(usage)
    }

    /// Wait until machines and engine are nearly idle, at most for [`QUIET_TIMEOUT`].
    pub fn wait_until_quiet(&self) -> Result<()> {
        let started_at = Instant::now();
        let (mut quiet, mut before) = (0, self.usage()?);
        let mut read_at = Instant::now();
        while quiet < QUIET_PAUSES && started_at.elapsed() < QUIET_TIMEOUT {
            thread::sleep(QUIET_PAUSE);
            let (now, lasted) = (self.usage()?, read_at.elapsed());
            read_at = Instant::now();
            let used = now.since(before);
            let is_quiet = (used.servers + used.engine) < lasted.mul_f64(QUIET_SHARE);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    /// Kill one machine with SIGKILL, with all its processes.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        let root = self.roots[number].take().context("the machine was killed before")?;
        let ids = kernel::process_tree(root.id());
        ids.into_iter().for_each(|id| Watched::new(id).signal(Signal::KILL));
        drop(root);
        Ok(())
    }

    /// An error with the last lines of the log.
    pub fn with_log(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!("{error:#}{}", log_tail(&self.log))
    }
}

fn spawn(command: &mut Command, log: &File) -> Result<GuardedChild> {
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    Ok(GuardedChild::spawn(command)?)
}

/// Wait until a program accepts connections.
fn wait_for(child: &mut GuardedChild, address: SocketAddr) -> Result<()> {
    let started_at = Instant::now();
    while TcpStream::connect(address).is_err() {
        if let Some(status) = child.child().try_wait()? {
            bail!("the program for {address} ended with {status}");
        }
        ensure!(
            started_at.elapsed() < READY_TIMEOUT,
            "the program accepts no connections at {address} after {} s",
            READY_TIMEOUT.as_secs()
        );
        thread::sleep(PAUSE);
    }
    Ok(())
}
