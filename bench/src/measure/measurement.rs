//! The measurement of one server in one round.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::client_driver::Driver;
use super::figure::{Figure, Figures};
use super::plan::Plan;
use crate::client::{Command, Transport};
use crate::process::{Memory, Watched};
use crate::progress::Progress;
use crate::report::median;
use crate::servers::{Running, Server, ServerPaths};

/// A server is idle if it uses less than this in [`QUIET_PAUSES`] consecutive pauses.
const QUIET_CPU: Duration = Duration::from_micros(500);
const QUIET_PAUSE: Duration = Duration::from_millis(50);
const QUIET_PAUSES: usize = 3;
const QUIET_TIMEOUT: Duration = Duration::from_secs(5);
/// Linux acknowledges the first 16 segments of a connection at once, and the sender pays about 2 us
/// for each. Later segments do not have this cost.
const SETTLING_BROADCASTS: usize = 16;
/// Longer than a retransmission timeout, after which Linux acknowledges at once again.
const RARE_PAUSE: Duration = Duration::from_secs(1);
/// Files, beyond those of the idle server, that may stay open after the last socket has closed.
const FILES_LEFT_MAX: u64 = 16;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

pub struct Measurement<'a> {
    server: Server,
    plan: &'a Plan,
    running: Running,
    driver: Driver,
    progress: &'a Progress,
    round: usize,
    idle: Memory,
    idle_files: u64,
    figures: Figures,
}

impl<'a> Measurement<'a> {
    /// Measures websockets: they join, receive broadcasts, close and reconnect.
    pub fn websockets(
        server: Server,
        round: usize,
        plan: &'a Plan,
        paths: &ServerPaths,
        progress: &'a Progress,
    ) -> Result<Figures> {
        let mut measurement = Measurement::begin(server, round, plan, paths, progress)?;
        let result = measurement.measure_websockets();
        measurement.end(result)
    }

    /// Measures long polls: they join, wait, are answered, and wait again.
    pub fn long_polls(
        server: Server,
        round: usize,
        plan: &'a Plan,
        paths: &ServerPaths,
        progress: &'a Progress,
    ) -> Result<Figures> {
        let mut measurement = Measurement::begin(server, round, plan, paths, progress)?;
        let result = measurement.measure_long_polls();
        measurement.end(result)
    }

    fn begin(
        server: Server,
        round: usize,
        plan: &'a Plan,
        paths: &ServerPaths,
        progress: &'a Progress,
    ) -> Result<Self> {
        progress.show(&format!("round {round}, {server}: starting"));
        let running = Running::start(server, paths).context("cannot start the server")?;
        let driver = Driver::start()?;
        let watched = running.watched();
        wait_until_quiet(watched)?;
        let (idle, idle_files) = (watched.memory()?, watched.open_files()?);
        let figures = Figures::from([(Figure::IdleServerBytes, idle.resident_bytes as f64)]);
        Ok(Measurement {
            server,
            plan,
            running,
            driver,
            progress,
            round,
            idle,
            idle_files,
            figures,
        })
    }

    fn end(mut self, result: Result<()>) -> Result<Figures> {
        match result {
            Ok(()) => Ok(std::mem::take(&mut self.figures)),
            Err(error) => bail!("{error:#}{}", self.running.log_tail()),
        }
    }

    fn measure_websockets(&mut self) -> Result<()> {
        let open = self.open_command(self.server.transport());
        self.show("joining");
        let setup = self.cpu_of(&open)?;
        self.put_micros(Figure::SetupMicros, setup, self.plan.sockets);
        self.put_memory(Figure::SocketBytes, Some(Figure::SocketOwnBytes))?;

        self.show("settling");
        for _ in 0..SETTLING_BROADCASTS {
            self.driver.execute(&Command::Broadcast)?;
        }
        let (mut delivery, mut last_millis) = (Duration::ZERO, Vec::new());
        for broadcast in 1..=self.plan.broadcasts {
            self.show(&format!("broadcast {broadcast} of {}", self.plan.broadcasts));
            let (cpu, last) = self.broadcast()?;
            delivery += cpu;
            last_millis.push(last.as_secs_f64() * 1e3);
        }
        self.put_micros(Figure::DeliveryMicros, delivery, self.plan.broadcasts * self.plan.sockets);
        if !last_millis.is_empty() {
            self.figures.insert(Figure::LastSocketMillis, median(last_millis));
        }

        let mut rare = Duration::ZERO;
        for broadcast in 1..=self.plan.rare_broadcasts {
            self.show(&format!("rare broadcast {broadcast} of {}", self.plan.rare_broadcasts));
            thread::sleep(RARE_PAUSE);
            rare += self.broadcast()?.0;
        }
        let deliveries = self.plan.rare_broadcasts * self.plan.sockets;
        self.put_micros(Figure::RareDeliveryMicros, rare, deliveries);
        self.put_memory(
            Figure::SocketBytesAfterBroadcasts,
            Some(Figure::SocketOwnBytesAfterBroadcasts),
        )?;

        if self.server.answers_heartbeats() {
            self.show("heartbeats");
            let heartbeat = self.cpu_of(&Command::Heartbeat)?;
            self.put_micros(Figure::HeartbeatMicros, heartbeat, self.plan.sockets);
        }

        for reconnect in 1..=self.plan.reconnects {
            self.show(&format!("reconnecting, {reconnect} of {}", self.plan.reconnects));
            self.driver.execute(&Command::Close)?;
            self.wait_until_closed()?;
            self.driver.execute(&open)?;
        }
        self.put_memory(
            Figure::SocketBytesAfterReconnects,
            Some(Figure::SocketOwnBytesAfterReconnects),
        )?;

        self.show("leaving");
        self.driver.execute(&Command::Close)?;
        self.wait_until_closed()?;
        self.put_memory(Figure::LeftBytes, None)
    }

    fn measure_long_polls(&mut self) -> Result<()> {
        let open = self.open_command(Transport::LongPoll);
        self.show("parking long polls");
        let setup = self.cpu_of(&open)?;
        self.put_micros(Figure::PollSetupMicros, setup, self.plan.sockets);
        self.put_memory(Figure::PollBytes, Some(Figure::PollOwnBytes))?;

        let mut cycles = Duration::ZERO;
        for cycle in 1..=self.plan.poll_cycles {
            self.show(&format!("long polls, cycle {cycle} of {}", self.plan.poll_cycles));
            cycles += self.cpu_of(&Command::Broadcast)?;
        }
        let times = self.plan.poll_cycles * self.plan.sockets;
        self.put_micros(Figure::PollCycleMicros, cycles, times);
        self.put_memory(Figure::PollBytesAfterCycles, Some(Figure::PollOwnBytesAfterCycles))
    }

    fn show(&self, what: &str) {
        self.progress.show(&format!("round {}, {}: {what}", self.round, self.server));
    }

    fn open_command(&self, transport: Transport) -> Command {
        let (server, sockets) = (self.running.address(), self.plan.sockets);
        Command::Open { server, transport, sockets }
    }

    /// The server's CPU time for one message to all sockets, and the time until the last has it.
    fn broadcast(&mut self) -> Result<(Duration, Duration)> {
        let before = self.running.watched().cpu()?;
        let done = self.driver.execute(&Command::Broadcast)?;
        Ok((self.running.watched().cpu()? - before, done.last))
    }

    /// The server's CPU time for a command, until it is quiet again.
    fn cpu_of(&mut self, command: &Command) -> Result<Duration> {
        let watched = self.running.watched();
        let before = watched.cpu()?;
        self.driver.execute(command)?;
        wait_until_quiet(watched)?;
        Ok(watched.cpu()? - before)
    }

    fn put_micros(&mut self, figure: Figure, cpu: Duration, times: usize) {
        self.figures.insert(figure, cpu.as_secs_f64() * 1e6 / times as f64);
    }

    fn put_memory(&mut self, resident: Figure, own: Option<Figure>) -> Result<()> {
        let watched = self.running.watched();
        wait_until_quiet(watched)?;
        let memory = watched.memory()?;
        let each = |now: u64, idle: u64| (now as f64 - idle as f64) / self.plan.sockets as f64;
        self.figures.insert(resident, each(memory.resident_bytes, self.idle.resident_bytes));
        let own = own.map(|own| (own, each(memory.anonymous_bytes, self.idle.anonymous_bytes)));
        self.figures.extend(own);
        Ok(())
    }

    fn wait_until_closed(&self) -> Result<()> {
        let watched = self.running.watched();
        let started_at = Instant::now();
        while watched.open_files()? > self.idle_files + FILES_LEFT_MAX {
            if started_at.elapsed() > CLOSE_TIMEOUT {
                let left = watched.open_files()? - self.idle_files;
                bail!("{left} sockets are still open {CLOSE_TIMEOUT:?} after their clients closed");
            }
            thread::sleep(QUIET_PAUSE);
        }
        Ok(())
    }
}

/// Wait until the server is idle, at most for [`QUIET_TIMEOUT`].
fn wait_until_quiet(watched: Watched) -> Result<()> {
    let started_at = Instant::now();
    let (mut quiet, mut before) = (0, watched.cpu()?);
    while quiet < QUIET_PAUSES && started_at.elapsed() < QUIET_TIMEOUT {
        thread::sleep(QUIET_PAUSE);
        let now = watched.cpu()?;
        quiet = if now.saturating_sub(before) < QUIET_CPU { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
