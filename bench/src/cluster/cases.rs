//! The measurements of one system: each starts the machines, opens clients and reads the results.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::machines::{Machines, Usage};
use super::presence;
use super::system::{PLAIN, Programs, SEEN, System};
use super::{MACHINES, Sizes};
use crate::progress::Progress;
use crate::scale::client_processes::{ClientProcesses, sockets_each};
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status, Wire};

/// Sockets of one client process that connect or join at the same time.
const OPENING_MAX: u32 = 200;
const OPEN_TIMEOUT: Duration = Duration::from_secs(90);
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
const RETURN_TIMEOUT: Duration = Duration::from_secs(150);
/// Longer than Centrifugo keeps the presence of a machine that is gone.
const GHOST_TIMEOUT: Duration = Duration::from_secs(120);
const GHOST_PAUSE: Duration = Duration::from_millis(200);
const MEMORY_REST: Duration = Duration::from_secs(3);
/// Numbers of source addresses for the client processes of one machine.
const SOURCES: u8 = 20;
/// The first of them, unless other clients use it.
pub(super) const FIRST_SOURCE: u8 = 1;
/// Messages a second to many topics, one after the other.
const TOPIC_RATE: u32 = 4_000;
/// Interval of the messages to the subscribers of one topic.
const CROWD_EVERY: Duration = Duration::from_millis(125);
const BROADCAST_EVERY: Duration = Duration::from_secs(1);
/// Messages before a measurement. Linux acknowledges the first segments of a connection at once.
const SETTLING: u32 = 16;

/// Messages and their cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delivery {
    /// CPU time of the servers and of the engine for each delivery, in microseconds.
    pub server_micros: f64,
    pub engine_micros: f64,
    /// Bytes between machines and engine for each message.
    pub engine_bytes: f64,
}

impl Delivery {
    fn of(usage: Usage, messages: u32, deliveries: u64) -> Self {
        let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / deliveries as f64;
        Delivery {
            server_micros: micros(usage.servers),
            engine_micros: micros(usage.engine),
            engine_bytes: usage.engine_bytes as f64 / f64::from(messages),
        }
    }

    pub fn both(self) -> f64 {
        self.server_micros + self.engine_micros
    }
}

/// Memory growth in bytes for each topic that has a member on every machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TopicMemory {
    pub machine: f64,
    pub engine: f64,
}

/// The end of a machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Killed {
    /// Seconds until all its clients had joined on the other machines.
    pub joined_seconds: f64,
    /// Seconds until presence had all clients and no ghost; `None` without presence.
    pub exact_seconds: Option<f64>,
    /// CPU time of the servers and the engine for each client that came back, in microseconds.
    pub return_micros: f64,
}

/// The setting of a measurement.
pub struct Bench<'a> {
    pub programs: &'a Programs,
    pub sizes: Sizes,
    pub progress: &'a Progress,
}

impl Bench<'_> {
    /// Messages to many topics with one member on each machine, then to one topic with many.
    pub fn deliveries(&self, system: System) -> Result<(Delivery, Delivery)> {
        let machines = Machines::start(self.programs, system, MACHINES as u16, &[])?;
        let (sizes, name) = (self.sizes, system.to_string());
        let measured = (|| {
            let mut clients =
                self.enter(&machines, system.wire(), PLAIN, sizes.topics, sizes.topics)?;
            let rounds = |count: u32| Order::Publish {
                slots: sizes.topics,
                messages: sizes.topics * count,
                every_ns: 1_000_000_000 / u64::from(TOPIC_RATE),
            };
            self.progress.show(&format!("{name}: messages to {} topics", sizes.topics));
            let messages = sizes.topics;
            clients.publish(&machines, &rounds(1), messages, MACHINES as u64)?;
            let usage = clients.publish(&machines, &rounds(2), messages * 2, MACHINES as u64)?;
            let deliveries = u64::from(messages) * 2 * MACHINES as u64;
            let topics = Delivery::of(usage, messages * 2, deliveries);
            clients.close()?;
            machines.wait_until_quiet()?;

            let mut clients = self.enter(&machines, system.wire(), PLAIN, sizes.crowd, 1)?;
            self.progress.show(&format!("{name}: messages to one topic"));
            let crowd = clients.broadcasts(
                &machines,
                CROWD_EVERY,
                sizes.crowd_messages,
                u64::from(sizes.crowd) * MACHINES as u64,
            )?;
            Ok((topics, crowd))
        })();
        measured.map_err(|error: anyhow::Error| machines.with_log(&error))
    }

    /// One topic with many sockets on three machines, or on one machine with as many processes.
    pub fn broadcast(&self, is_alone: bool) -> Result<Delivery> {
        // One event loop for each process in both cases.
        let more = ["--set", "server.shards=1"];
        let (count, each) = (MACHINES as u16, self.sizes.broadcast);
        let all = u64::from(each) * MACHINES as u64;
        let (machines, each) = if is_alone {
            (Machines::start_alone(self.programs, count, &more)?, each * MACHINES as u32)
        } else {
            (Machines::start(self.programs, System::Watchfire, count, &more)?, each)
        };
        let measured = (|| {
            let mut clients = self.enter(&machines, Wire::Phoenix, PLAIN, each, 1)?;
            self.progress.show(&format!("a message to {all} sockets"));
            clients.broadcasts(&machines, BROADCAST_EVERY, self.sizes.broadcast_messages, all)
        })();
        measured.map_err(|error: anyhow::Error| machines.with_log(&error))
    }

    /// Memory of topics that have one member on each machine, without or with presence.
    pub fn memory(&self, system: System, with_presence: bool) -> Result<TopicMemory> {
        let machines = Machines::start(self.programs, system, MACHINES as u16, &[])?;
        let measured = (|| {
            let Sizes { memory_sockets, memory_topics_each, .. } = self.sizes;
            let mut clients =
                self.enter(&machines, system.wire(), PLAIN, memory_sockets, memory_sockets)?;
            machines.wait_until_quiet()?;
            thread::sleep(MEMORY_REST);
            let before = machines.memory()?;
            let kind = if with_presence { SEEN } else { PLAIN };
            let prefix = format!("{kind}:more");
            clients.send_all(&Order::JoinMore { prefix, each: memory_topics_each })?;
            let topics = u64::from(memory_sockets) * u64::from(memory_topics_each);
            let all = (topics + u64::from(memory_sockets)) * MACHINES as u64;
            let name = system.to_string();
            clients.wait(OPEN_TIMEOUT, |status| {
                self.progress.show(&format!("{name}: {} of {all} joins", status.joins));
                status.joins == all
            })?;
            machines.wait_until_quiet()?;
            thread::sleep(MEMORY_REST);
            let after = machines.memory()?;
            let growth = |now: u64, then: u64| (now as f64 - then as f64) / topics as f64;
            Ok(TopicMemory {
                machine: growth(after.0, before.0) / MACHINES as f64,
                engine: growth(after.1, before.1),
            })
        })();
        measured.map_err(|error: anyhow::Error| machines.with_log(&error))
    }

    /// A machine with many clients is killed; a few clients of the others are in the same rooms.
    pub fn kill(&self, system: System) -> Result<Killed> {
        let mut machines = Machines::start(self.programs, system, MACHINES as u16, &[])?;
        let killed = self.kill_first(&mut machines, system);
        killed.map_err(|error| machines.with_log(&error))
    }

    fn kill_first(&self, machines: &mut Machines, system: System) -> Result<Killed> {
        let (clients_count, rooms) = (self.sizes.killed, self.sizes.rooms());
        let kind = if system.has_presence() { SEEN } else { PLAIN };
        let prefix = &format!("{kind}:");
        let counts: [u32; MACHINES] = std::array::from_fn(|number| match number {
            0 => clients_count,
            _ => rooms,
        });
        let clients =
            self.enter_each(machines, system.wire(), kind, counts, rooms, FIRST_SOURCE)?;
        let everyone = u64::from(counts.iter().sum::<u32>());
        machines.wait_until_quiet()?;
        let observer = machines.addresses()[1];
        if system.has_presence() {
            let entries = presence::entries(system, observer, prefix, rooms)?;
            ensure!(entries == Some(everyone), "presence has {entries:?} of {everyone} clients");
        }
        let (joins, killed_at) = (clients.status()?.joins, Instant::now());
        let killed_at_ns = now_ns();
        machines.kill(0)?;
        let before = machines.usage()?;
        let name = system.to_string();
        let status = clients.wait_for(RETURN_TIMEOUT, |status| {
            self.progress.show(&format!("{name}: {} of {everyone} are joined", status.present));
            status.joins == joins + u64::from(clients_count) && status.present == everyone
        })?;
        let cpu = machines.usage()?.since(before);
        let joined_seconds = (status.present_at_ns - killed_at_ns) as f64 / 1e9;
        let mut exact_seconds = None;
        while system.has_presence() && exact_seconds.is_none() {
            let entries = presence::entries(system, observer, prefix, rooms)?;
            let seconds = killed_at.elapsed().as_secs_f64();
            self.progress.show(&format!("{name}: presence has {entries:?} of {everyone}"));
            if entries == Some(everyone) {
                exact_seconds = Some(seconds);
            }
            ensure!(
                killed_at.elapsed() < GHOST_TIMEOUT,
                "after {seconds:.0} s presence has {entries:?} entries of {everyone} clients"
            );
            thread::sleep(GHOST_PAUSE);
        }
        let returned = f64::from(clients_count);
        let return_micros = (cpu.servers + cpu.engine).as_secs_f64() * 1e6 / returned;
        Ok(Killed { joined_seconds, exact_seconds, return_micros })
    }

    /// Open the same number of sockets on each machine; socket `i` joins the topic `i % topics` of
    /// this kind.
    fn enter(
        &self,
        machines: &Machines,
        wire: Wire,
        kind: &str,
        each: u32,
        topics: u32,
    ) -> Result<Clients> {
        self.enter_each(machines, wire, kind, [each; MACHINES], topics, FIRST_SOURCE)
    }

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

    /// A socket of the first machine sends broadcasts to all; the first ones are not measured.
    fn broadcasts(
        &mut self,
        machines: &Machines,
        every: Duration,
        messages: u32,
        receivers: u64,
    ) -> Result<Delivery> {
        let order =
            |messages| Order::Publish { slots: 1, messages, every_ns: every.as_nanos() as u64 };
        let settling = SETTLING.min(messages);
        self.publish(machines, &order(settling), settling, receivers)?;
        let usage = self.publish(machines, &order(messages), messages, receivers)?;
        Ok(Delivery::of(usage, messages, u64::from(messages) * receivers))
    }

    /// The first machine's clients publish; wait until each receiver has all messages once.
    fn publish(
        &mut self,
        machines: &Machines,
        order: &Order,
        messages: u32,
        receivers: u64,
    ) -> Result<Usage> {
        let start = self.status()?;
        let before = machines.usage()?;
        self.0[0].send(0, order)?;
        let deliveries = u64::from(messages) * receivers;
        let timeout = DELIVERY_TIMEOUT;
        let status = self.wait(timeout, |status| status.received - start.received >= deliveries)?;
        let usage = machines.usage()?.since(before);
        ensure!(
            status.received - start.received == deliveries
                && status.duplicates + status.missed == 0,
            "{} of {deliveries} deliveries, {} twice, {} missing",
            status.received - start.received,
            status.duplicates,
            status.missed
        );
        machines.wait_until_quiet()?;
        Ok(usage)
    }
}
