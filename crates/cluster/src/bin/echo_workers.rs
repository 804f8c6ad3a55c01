//! A minimal echo server in several processes: `echo-workers 4`.
//!
//! It prints an address for each worker, and all events. SIGTERM drains the workers, SIGINT kills
//! them. A client sends lines to a worker, and gets a line for each:
//!
//! - `who`: the worker's slot and process id
//! - `startup_data`: the length of the startup data, and the sum of its bytes
//! - `received`: the process ids received over the links, by worker
//! - `lost`: the number of links that ended, by worker
//! - `give 2 who`: hands the connection to worker 2, which continues with `who`
//! - `cut 2`: ends the link to worker 2 and requests a new one
//! - `unresponsive`: the workers that do not respond, as the supervisor announced them
//! - `block`: blocks the worker's event loop for ever
//! - `descriptors`: the number of open descriptors
//!
//! The second argument is the startup data. It may begin with `crash 1;`, `mute 1;` or `stubborn
//! 1;`. Then worker 1 ends before it is ready, never becomes ready, or ignores the drain. The third
//! argument is the period of heartbeats in milliseconds; a worker that misses four of them is hung.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use watchfire_cluster::workers::{
    Control, HandoffSocket, Link, Order, Plan, SupervisorLimits, WorkerSetup,
};
use watchfire_types::NodeId;

fn main() -> ExitCode {
    let outcome = match watchfire_cluster::workers::join_supervisor() {
        Ok(Some(setup)) => runtime().and_then(|runtime| runtime.block_on(run_worker(setup))),
        Ok(None) => runtime().and_then(|runtime| runtime.block_on(run_supervisor())),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn run_supervisor() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(4);
    let mut listeners = Vec::new();
    for slot in 0..workers {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        println!("listening {slot} {}", listener.local_addr()?);
        listeners.push(vec![listener.into()]);
    }
    let plan = Plan {
        workers,
        listeners,
        startup_data: arguments.next().unwrap_or_default().into(),
        command: Box::new(|_| Command::new("/proc/self/exe")),
        events: Box::new(|event| {
            println!("{event}");
            let _ = io::stdout().flush();
        }),
        links: None,
        limits: limits(arguments.next().and_then(|period| period.parse().ok())),
    };
    let (mut stops, mut kills) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ended = watchfire_cluster::workers::supervise(plan, stops.recv(), kills.recv()).await;
    println!("{:?}", ended.map_err(io::Error::other)?);
    Ok(ExitCode::SUCCESS)
}

fn limits(heartbeat_millis: Option<u64>) -> SupervisorLimits {
    let limits = SupervisorLimits::default();
    let Some(period) = heartbeat_millis.map(Duration::from_millis) else { return limits };
    SupervisorLimits {
        heartbeat_period: period,
        unresponsive_after: 2 * period,
        hung_after: 4 * period,
        ..limits
    }
}

struct Worker {
    slot: NodeId,
    startup_data: Vec<u8>,
    control: Control,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: BTreeMap<u16, String>,
    lost: BTreeMap<u16, u32>,
    unresponsive: Vec<NodeId>,
    links: BTreeMap<u16, (OwnedWriteHalf, Arc<HandoffSocket>)>,
}

async fn run_worker(setup: WorkerSetup) -> io::Result<ExitCode> {
    let WorkerSetup { slot, startup_data, listeners, links, control, heartbeat_period, .. } = setup;
    let worker = Arc::new(Worker { slot, startup_data, control, state: Mutex::default() });
    for link in links {
        worker.join(link).await?;
    }
    if worker.has_fault("crash") {
        return Ok(ExitCode::from(7));
    }
    for listener in listeners {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let worker = worker.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(worker.clone().serve(connection, Vec::new()));
            }
        });
    }
    if !worker.has_fault("mute") {
        worker.control.ready()?;
    }
    let mut heartbeats = tokio::time::interval(heartbeat_period);
    loop {
        let order = tokio::select! {
            order = worker.control.next_order() => order,
            _ = heartbeats.tick() => {
                // The supervisor's end arrives as an order.
                let _ = worker.control.heartbeat();
                continue;
            }
        };
        match order {
            Order::Link(link) => worker.join(link).await?,
            Order::Unresponsive(nodes) => worker.state().unresponsive = nodes,
            Order::Drain if worker.has_fault("stubborn") => {}
            Order::Drain => return Ok(ExitCode::SUCCESS),
        }
    }
}

impl Worker {
    fn has_fault(&self, fault: &str) -> bool {
        self.startup_data.starts_with(format!("{fault} {};", self.slot.0).as_bytes())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sends the process id over a new link, and receives from it.
    async fn join(self: &Arc<Self>, link: Link) -> io::Result<()> {
        let (reader, mut writer) = UnixStream::from_std(link.bus)?.into_split();
        let name = format!("{}\n", std::process::id());
        // The worker at the other end may have ended already.
        let _ = writer.write_all(name.as_bytes()).await;
        let handoff = Arc::new(link.handoff);
        self.state().links.insert(link.to.0, (writer, handoff.clone()));

        let (worker, from) = (self.clone(), link.to.0);
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(pid)) = lines.next_line().await {
                worker.state().received.insert(from, pid);
            }
            *worker.state().lost.entry(from).or_default() += 1;
        });
        let worker = self.clone();
        tokio::spawn(async move {
            while let Ok(Some((connection, bytes))) = handoff.recv().await {
                let connection = std::net::TcpStream::from(connection);
                if let Ok(connection) = TcpStream::from_std(connection) {
                    tokio::spawn(worker.clone().serve(connection, bytes));
                }
            }
        });
        Ok(())
    }

    /// Replies to each line; `bytes` were read from the connection before.
    async fn serve(self: Arc<Self>, mut connection: TcpStream, bytes: Vec<u8>) {
        let (reader, mut writer) = connection.split();
        let mut reader = BufReader::new(bytes.chain(reader));
        let mut line = String::new();
        while matches!(reader.read_line(&mut line).await, Ok(1..)) {
            let request = std::mem::take(&mut line);
            if let Some((to, rest)) = parse_give(&request) {
                // Bytes buffered after this line move with the connection.
                let bytes = [rest.as_bytes(), reader.buffer()].concat();
                let (before, reader) = reader.into_inner().into_inner();
                let bytes = [&bytes, before].concat();
                let handoff = self.state().links.get(&to).map(|(_, it)| it.clone());
                let outcome = handoff.map(|it| it.send(reader.as_ref().as_fd(), &bytes));
                if !matches!(outcome, Some(Ok(()))) {
                    let reply = format!("not handed over: {outcome:?}\n");
                    let _ = writer.write_all(reply.as_bytes()).await;
                }
                return;
            }
            let reply = format!("{}\n", self.reply(request.trim()));
            if writer.write_all(reply.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn reply(&self, request: &str) -> String {
        match request.split_once(' ').unwrap_or((request, "")) {
            ("who", _) => format!("{} {}", self.slot.0, std::process::id()),
            ("startup_data", _) => {
                let sum: u64 = self.startup_data.iter().map(|&byte| u64::from(byte)).sum();
                format!("{} {sum}", self.startup_data.len())
            }
            ("received", _) => format_entries(&self.state().received),
            ("lost", _) => format_entries(&self.state().lost),
            ("cut", to) => {
                let to = to.parse().unwrap_or_default();
                self.state().links.remove(&to);
                format!("{:?}", self.control.link_lost(NodeId(to)))
            }
            ("unresponsive", _) => {
                let slots: Vec<_> =
                    self.state().unresponsive.iter().map(|node| node.0.to_string()).collect();
                slots.join(" ")
            }
            ("block", _) => loop {
                std::thread::park();
            },
            ("descriptors", _) => match std::fs::read_dir("/proc/self/fd") {
                Ok(open) => open.count().to_string(),
                Err(error) => error.to_string(),
            },
            _ => request.to_owned(),
        }
    }
}

/// Parses `give 2 who` into worker 2 and the rest of the line.
fn parse_give(line: &str) -> Option<(u16, &str)> {
    let (to, rest) = line.strip_prefix("give ")?.split_once(' ')?;
    Some((to.parse().ok()?, rest))
}

fn format_entries<T: std::fmt::Display>(map: &BTreeMap<u16, T>) -> String {
    let entries: Vec<_> = map.iter().map(|(slot, value)| format!("{slot}:{value}")).collect();
    entries.join(" ")
}
