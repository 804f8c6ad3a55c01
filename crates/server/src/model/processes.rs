//! The processes of one server. All run in the process of the test: each has its own event loops, bus and
//! listener, and they are linked as the supervisor links real ones.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use watchfire_cluster::bus::{Bus, BusLimits, LocalBus};
use watchfire_cluster::workers::HandoffSocket;
use watchfire_types::NodeId;

use super::application::Application;
use crate::cluster::{Cluster, ProcessStarts, Receiver, receive_connections};
use crate::history::{KeeperLink, LogKeeper};
use crate::server::{ProcessRole, RunningServer, Server};
use crate::settings::Settings;

/// A started process.
pub(super) struct Process {
    pub server: RunningServer,
    /// `None` on a server of one process.
    bus: Option<StoppedBus>,
}

/// A bus that stops when it is dropped. Its handler would keep it alive.
struct StoppedBus(Arc<LocalBus>);

impl Drop for StoppedBus {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The processes of one server, some of which may be down.
pub(super) struct Processes {
    settings: Settings,
    secret: [u8; 32],
    /// The histories of several processes.
    keeper: LogKeeper,
    running: Vec<Option<Process>>,
}

impl Processes {
    pub fn start(mut settings: Settings, count: usize, secret: [u8; 32]) -> Processes {
        settings.server.processes = count as u16;
        let running = (0..count).map(|_| None).collect();
        let keeper = LogKeeper::start(settings.channels.history_bytes_max, None, None);
        let keeper = keeper.expect("the keeper of histories starts");
        let mut processes = Processes { settings, secret, keeper, running };
        (0..count).for_each(|at| processes.start_one(at));
        processes
    }

    pub fn len(&self) -> usize {
        self.running.len()
    }

    pub fn get(&self, at: usize) -> Option<&Process> {
        self.running[at].as_ref()
    }

    pub fn servers(&self) -> impl Iterator<Item = &RunningServer> {
        self.running.iter().flatten().map(|process| &process.server)
    }

    /// The address of a process, or of the first one that runs.
    pub fn address(&self, at: usize) -> SocketAddr {
        let all = self.running.iter().cycle().skip(at).take(self.len());
        all.flatten().next().expect("a process runs").server.address()
    }

    /// Starts a process that is down, and links it with the others.
    pub fn start_one(&mut self, at: usize) {
        let server = Server::new(self.settings.clone()).channel("app:*", Application);
        if self.len() == 1 {
            let server = server.start().expect("the server starts");
            self.running[at] = Some(Process { server, bus: None });
            return;
        }
        let me = NodeId(at as u16);
        let bus = Arc::new(LocalBus::start(me, BusLimits::default()).expect("the bus starts"));
        let mut links = Vec::new();
        for (other, process) in self.running.iter().enumerate() {
            if let Some(process) = process {
                let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
                links.push((NodeId(other as u16), ours));
                let of_other = process.bus.as_ref().expect("one of several processes has a bus");
                of_other.0.link(me, theirs).expect("the bus of the other process runs");
            }
        }
        let role = self.role(&bus, links);
        let server = server.start_as(role).expect("the process starts");
        runtime().block_on(server.start_histories()).expect("the keeper is linked");
        for (other, process) in self.running.iter().enumerate() {
            if let Some(process) = process {
                let (ours, theirs) = HandoffSocket::pair().expect("a pair of sockets");
                hand_off(&server, NodeId(other as u16), ours);
                hand_off(&process.server, me, theirs);
            }
        }
        self.running[at] = Some(Process { server, bus: Some(StoppedBus(bus)) });
    }

    fn role(&self, bus: &Arc<LocalBus>, links: Vec<(NodeId, UnixStream)>) -> ProcessRole {
        let receiving = bus.clone();
        let connections_max = 1_000;
        let of_machine = 0..self.len() as u16;
        let starts = ProcessStarts::default();
        // Nobody replaces a lost link: the model starts the process again.
        let (lost, _) = mpsc::unbounded_channel();
        let (stream, of_keeper) = UnixStream::pair().expect("a pair of sockets");
        self.keeper.link(bus.me(), of_keeper);
        ProcessRole {
            cluster: Cluster::among(bus.clone(), of_machine, connections_max, None, starts),
            secret: self.secret,
            inherited: None,
            listeners: None,
            is_successor: false,
            is_paused: false,
            taken: None,
            keeper: Some(KeeperLink { slot: bus.me(), stream, lost: lost.clone() }),
            on_parts: Box::new(move |cluster, parts| {
                receiving.attach(Arc::new(Receiver::new(cluster.clone(), parts, lost)));
                for (to, stream) in links {
                    receiving.link(to, stream).expect("the bus runs");
                }
            }),
        }
    }

    /// Ends a process at once, as a crash does.
    pub fn kill(&mut self, at: usize) {
        self.running[at] = None;
    }

    /// Drains a process, as a restart does. Its clients are told. `None`: it is down.
    pub fn drain(&mut self, at: usize) -> Option<JoinHandle<()>> {
        let Process { server, bus } = self.running[at].take()?;
        Some(runtime().spawn(async move {
            server.drain().await;
            drop(bus);
        }))
    }
}

/// The counts of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub clients: u64,
    pub channels: u64,
    pub topics: u64,
    pub presences: u64,
    pub queued_bytes: u64,
    /// Polls that wait.
    pub parked: u64,
}

impl Counts {
    pub fn of(server: &RunningServer) -> Counts {
        let shared = &server.shared;
        let sockets = server.sockets.counters().totals();
        Counts {
            clients: server.clients(),
            channels: shared.metrics.joined(),
            topics: shared.metrics.topics(),
            presences: shared.presence.len() as u64,
            queued_bytes: sockets.queued_bytes_now,
            parked: sockets.parked_now,
        }
    }

    pub fn are_zero(&self) -> bool {
        let Counts { clients, channels, topics, presences, queued_bytes, parked } = self;
        [clients, channels, topics, presences, queued_bytes, parked]
            .iter()
            .all(|count| **count == 0)
    }
}

fn hand_off(server: &RunningServer, to: NodeId, socket: HandoffSocket) {
    let socket = Arc::new(socket);
    let cluster = server.cluster().clone();
    cluster.hand_off_through(to, socket.clone());
    let adopter = server.adopter();
    runtime().spawn(async move {
        receive_connections(socket.clone(), adopter).await;
        cluster.close_handoff(to, &socket);
    });
}

/// The runtime of all processes' tasks, on a thread of its own.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    })
}
