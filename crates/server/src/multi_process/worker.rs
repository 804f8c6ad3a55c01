//! A worker: serves clients as one of several processes.

use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Interval;
use watchfire_cluster::bus::{BusLimits, LocalBus};
use watchfire_cluster::workers::{Control, HandoffSocket, Link, Order, SUPERVISOR, WorkerSetup};
use watchfire_settings::Sections;
use watchfire_sockets::Listeners;
use watchfire_types::NodeId;

use super::{RunError, StartupData};
use crate::cluster::{Balancer, Cluster, ProcessStarts, Receiver, receive_connections};
use crate::history::KeeperLink;
use crate::machines;
use crate::process::outlived_signals;
use crate::server::{Panicked, ProcessRole, RunningServer, Server, SharedListeners, cores};
use crate::settings::Settings;

/// The signals that a worker ignores: a terminal sends Ctrl-C to all processes, and a service manager may
/// send SIGUSR2 to all. The supervisor stops them.
fn ignored_signals() -> io::Result<Vec<Signal>> {
    let mut ignored = outlived_signals()?;
    ignored.extend([signal(SignalKind::interrupt())?, signal(SignalKind::user_defined2())?]);
    Ok(ignored)
}

/// A worker's place among the processes of the server, and its links to them.
struct Place {
    first: u16,
    me: NodeId,
    of_machine: Range<u16>,
    bus: Arc<LocalBus>,
    /// Connections from these processes arrive through these sockets.
    receivers: JoinSet<()>,
}

impl Place {
    fn node(&self, slot: NodeId) -> NodeId {
        NodeId(self.first + slot.0)
    }

    /// Links the process to another one of the machine.
    fn link(&mut self, server: &RunningServer, link: Link) {
        let to = self.node(link.to);
        link_bus(&self.bus, to, link.bus);
        self.receive_from(server, to, Arc::new(link.handoff));
    }

    /// Starts to receive connections from another process.
    fn receive_from(&mut self, server: &RunningServer, to: NodeId, handoff: Arc<HandoffSocket>) {
        let cluster = server.cluster().clone();
        cluster.hand_off_through(to, handoff.clone());
        let adopter = server.adopter();
        self.receivers.spawn(async move {
            receive_connections(handoff.clone(), adopter).await;
            cluster.close_handoff(to, &handoff);
        });
        // Drops the tasks that have ended.
        while self.receivers.try_join_next().is_some() {}
    }
}

/// Serves clients as one of several processes, until the supervisor stops it.
pub(crate) async fn serve_as_worker(
    mut server: Server,
    setup: WorkerSetup,
) -> Result<(), RunError> {
    let WorkerSetup { slot, startup_data, listeners, links, control, heartbeat_period, .. } = setup;
    let starts = ProcessStarts { restarts: setup.restarts, hangs: setup.hangs };
    let startup_data: StartupData = serde_json::from_slice(&startup_data).map_err(|error| {
        RunError::JoinSupervisor(io::Error::new(io::ErrorKind::InvalidData, error))
    })?;
    let _ignored = ignored_signals()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (first, cluster) = (startup_data.first, startup_data.cluster);
    let bus = Arc::new(LocalBus::start(NodeId(first + slot.0), BusLimits::default())?);
    let mut place = Place {
        first,
        me: NodeId(first + slot.0),
        of_machine: first..first + startup_data.settings.server.processes,
        bus,
        receivers: JoinSet::new(),
    };
    let (lost, mut lost_links) = mpsc::unbounded_channel();
    let (keepers, links): (Vec<_>, Vec<_>) =
        links.into_iter().partition(|link| link.to == SUPERVISOR);
    let keeper = keepers.into_iter().next();
    let keeper = keeper.map(|link| KeeperLink { slot, stream: link.bus, lost: lost.clone() });
    let (buses, handoffs): (Vec<_>, Vec<_>) = links
        .into_iter()
        .map(|Link { to, bus, handoff }| ((place.node(to), bus), (place.node(to), handoff)))
        .unzip();
    let cluster_settings = startup_data.settings.cluster.clone();
    let role = role(&mut server, startup_data, &place, listeners, starts, buses, lost)?;
    let role = ProcessRole { keeper, ..role };
    let server = server.start_as(role)?;
    for (to, handoff) in handoffs {
        place.receive_from(&server, to, Arc::new(handoff));
    }
    // Ends after the drain, so that clients hear of each other until then.
    let of_machine = place.of_machine.clone();
    let links =
        machines::link(&cluster_settings, place.me, of_machine, cluster, &place.bus).await?;
    server.start_histories().await?;
    machines::settle(server.cluster(), links.as_ref()).await;
    server.accept_clients();
    server.prepared().await;
    control.ready()?;
    let mut heartbeats = tokio::time::interval(heartbeat_period);
    let panic = tokio::select! {
        panic = serve(&server, &control, &mut place, &mut heartbeats, &mut lost_links) => panic,
        _ = terminated.recv() => None,
    };
    end(server, panic, &control, &mut heartbeats).await
}

/// The role of a worker, which takes over the listeners of the supervisor.
fn role(
    server: &mut Server,
    startup_data: StartupData,
    place: &Place,
    mut listeners: Vec<std::os::fd::OwnedFd>,
    starts: ProcessStarts,
    buses: Vec<(NodeId, UnixStream)>,
    lost: mpsc::UnboundedSender<NodeId>,
) -> Result<ProcessRole, RunError> {
    let StartupData { mut settings, sections, addresses, feature_listeners, .. } = startup_data;
    let StartupData { sockets_per_shard, numbered, is_successor, secret, .. } = startup_data;
    settings.of_features = Sections::from_json(sections, &server.section_types())
        .map_err(|error| RunError::JoinSupervisor(io::Error::other(error)))?;
    let public = listeners.len().saturating_sub(feature_listeners.iter().sum());
    let of_features = listeners.split_off(public);
    let inherited = Listeners::from_parts(addresses, sockets_per_shard, listeners)
        .map_err(|error| RunError::JoinSupervisor(io::Error::other(error)))?;
    let balancer = balancer(&settings, NodeId(place.first), &inherited, numbered);
    let connections_max = settings.limits.sockets_max.into();
    let is_paused = !settings.cluster.nats.is_empty();
    server.set_settings(settings);
    let (bus, receiving_bus) = (place.bus.clone(), place.bus.clone());
    Ok(ProcessRole {
        cluster: Cluster::among(bus, place.of_machine.clone(), connections_max, balancer, starts),
        is_successor,
        is_paused,
        keeper: None,
        taken: None,
        secret,
        inherited: Some(inherited),
        listeners: Some(SharedListeners::from_descriptors(&feature_listeners, of_features)),
        on_parts: Box::new(move |cluster, parts| {
            receiving_bus.attach(Arc::new(Receiver::new(cluster.clone(), parts, lost)));
            for (to, stream) in buses {
                link_bus(&receiving_bus, to, stream);
            }
        }),
    })
}

/// Serves until the supervisor orders the end, or an event loop or another thread panics.
async fn serve(
    server: &RunningServer,
    control: &Control,
    place: &mut Place,
    heartbeats: &mut Interval,
    lost_links: &mut mpsc::UnboundedReceiver<NodeId>,
) -> Option<Panicked> {
    let mut loops = server.loop_watch();
    let mut panicked = pin!(server.panicked());
    loop {
        tokio::select! {
            // The supervisor starts another process, as after any other end.
            ended = &mut panicked => return Some(ended),
            _ = heartbeats.tick() => match &loops.stalled()[..] {
                // The end of the supervisor arrives as an order.
                [] => drop(control.heartbeat()),
                stalled => tracing::error!(?stalled, "event loops do not run"),
            },
            order = control.next_order() => match order {
                Order::Link(link) if link.to == SUPERVISOR => server.link_keeper(link.bus),
                Order::Link(link) => place.link(server, link),
                Order::Unresponsive(nodes) => server.cluster().note_unresponsive(&nodes),
                Order::Drain => return None,
            },
            Some(lost) = lost_links.recv() => {
                // Links to other machines are opened again without the supervisor. And a process that was restarted may be
                // linked already: its new link is not lost.
                let is_near = place.of_machine.contains(&lost.0) && !place.bus.has_link(lost);
                if lost != SUPERVISOR && !is_near {
                    continue;
                }
                let slot = if lost == SUPERVISOR { lost } else { NodeId(lost.0 - place.first) };
                if let Err(error) = control.link_lost(slot) {
                    tracing::warn!(%error, "cannot report a lost link to the supervisor");
                }
            }
        }
    }
}

/// Drains the process. Meanwhile it sends heartbeats: a process that was stopped alone is still
/// supervised.
async fn end(
    server: RunningServer,
    panic: Option<Panicked>,
    control: &Control,
    heartbeats: &mut Interval,
) -> Result<(), RunError> {
    let beat = async {
        loop {
            heartbeats.tick().await;
            drop(control.heartbeat());
        }
    };
    let end = async {
        match panic {
            None => {
                server.drain().await;
                Ok(())
            }
            Some(panic) => {
                server.end_after_panic().await;
                Err(panic.into())
            }
        }
    };
    tokio::select! {
        end = end => end,
        () = beat => unreachable!("heartbeats are sent for ever"),
    }
}

fn link_bus(bus: &LocalBus, to: NodeId, stream: UnixStream) {
    if let Err(error) = bus.link(to, stream) {
        tracing::error!(%to, %error, "cannot link to another process");
    }
}

/// The balancer of new connections. `None`: the kernel spreads them over all listeners.
fn balancer(
    settings: &Settings,
    first: NodeId,
    listeners: &Listeners,
    numbered: Option<usize>,
) -> Option<Balancer> {
    let Some(sockets) = numbered else {
        tracing::info!("all processes share the inherited sockets; connections are not balanced");
        return None;
    };
    let kernel = listeners
        .connection_balancer()
        .inspect_err(|error| tracing::warn!(%error, "connection balancing unavailable; falling back to SO_REUSEPORT"))
        .ok()?;
    Some(Balancer {
        kernel,
        processes: settings.server.processes,
        first,
        shards: settings.server.shards,
        sockets: u32::try_from(sockets).unwrap_or(u32::MAX),
        cores: cores(),
        chosen: Vec::new(),
        ticks: 0,
    })
}
