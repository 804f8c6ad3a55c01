//! The clients of several machines.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::MACHINES;
use super::machines::Machines;
use super::system::Programs;
use crate::progress::Progress;
use crate::scale::client_processes::{ClientProcesses, sockets_each};
use crate::scale::orders::{Order, Status, Wire};

/// Sockets of one client process that connect or join at the same time.
const OPENING_MAX: u32 = 200;
const OPEN_TIMEOUT: Duration = Duration::from_secs(90);
/// Numbers of source addresses for the client processes of one machine.
const SOURCES: u8 = 20;
/// The first of them, unless other clients use it.
pub(super) const FIRST_SOURCE: u8 = 1;

/// The setting of a measurement.
pub struct Bench<'a> {
    pub programs: &'a Programs,
    pub progress: &'a Progress,
}

impl Bench<'_> {
    /// Open sockets on each machine. `first_source` is the first number of the source addresses of
    /// each machine's clients; others that are open at the same time need other numbers.
    pub(super) fn enter_each(
        &self,
        machines: &Machines,
        wire: Wire,
        kind: &str,
        counts: [u32; MACHINES],
        topics: u32,
        first_source: u8,
    ) -> Result<Clients> {
        let mut clients = Clients(Vec::new());
        let homes = machines.addresses().len();
        for (home, count) in counts.into_iter().enumerate().take(homes) {
            let count = u64::from(count);
            let processes = count.div_ceil(sockets_each());
            let sources = SOURCES * home as u8 + first_source;
            let servers = machines.addresses_from(home);
            let mut of_machine = ClientProcesses::start(processes as usize, sources, &servers)?;
            for process in 0..processes {
                let (first, next) =
                    (count * process / processes, count * (process + 1) / processes);
                let order = Order::Enter {
                    wire,
                    prefix: format!("{kind}:"),
                    first: first as u32,
                    count: (next - first) as u32,
                    topics,
                    opening_max: OPENING_MAX,
                };
                of_machine.send(process as usize, &order)?;
            }
            clients.0.push(of_machine);
        }
        let all = u64::from(counts.iter().take(homes).sum::<u32>());
        clients.wait(OPEN_TIMEOUT, |status| {
            self.progress.show(&format!("{} of {all} joined", status.present));
            status.present == all
        })?;
        machines.wait_until_quiet()?;
        Ok(clients)
    }
}

pub(super) struct Clients(Vec<ClientProcesses>);

impl Clients {
    pub fn status(&self) -> Result<Status> {
        let mut sum = Status::default();
        for clients in &self.0 {
            sum += &clients.status()?;
        }
        Ok(sum)
    }

    pub fn send_all(&mut self, order: &Order) -> Result<()> {
        self.0.iter_mut().try_for_each(|clients| clients.send_all(order))
    }

    pub fn close(mut self) -> Result<()> {
        self.send_all(&Order::Close)
    }

    /// Wait for a status; no connection may fail meanwhile.
    fn wait(&self, timeout: Duration, is_done: impl FnMut(&Status) -> bool) -> Result<Status> {
        let status = self.wait_for(timeout, is_done)?;
        ensure!(status.failures() == 0, "connections failed: {status:?}");
        Ok(status)
    }

    pub fn wait_for(
        &self,
        timeout: Duration,
        mut is_done: impl FnMut(&Status) -> bool,
    ) -> Result<Status> {
        let started_at = Instant::now();
        loop {
            let status = self.status()?;
            ensure!(status.wrong == 0, "a server sent an error: {status:?}");
            if is_done(&status) {
                return Ok(status);
            }
            ensure!(
                started_at.elapsed() < timeout,
                "the clients timed out after {} s with {status:?}",
                timeout.as_secs()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}
