//! The driver: a network between namespaces of this machine, with a thread that forwards.

mod forwarder;

use crate::figures::Figures;
use crate::namespace::{Namespace, OpenError, Step};
use crate::network::Network;
use crate::plan::{Link, NatKind, PeerAddresses, PlanError, WirePlan};
use crate::processes::{NETWORK_VARIABLE, Watchdog, own_id, remove_leftovers};
use forwarder::Forwarder;
use nix::sched::CloneFlags;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const TUN_PATH: &str = "/dev/net/tun";

/// A running network. Dropping it ends the programs of its peers and removes all namespaces and devices.
pub struct Wire {
    plan: WirePlan,
    id: String,
    // Dropped in this order: the programs end before the network does.
    _watchdog: Watchdog,
    namespaces: Vec<Namespace>,
    forwarder: Forwarder,
    network: Arc<Mutex<Network>>,
}

/// No network was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The machine cannot simulate a network, or this user may not.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error("cannot give {peer:?} its device and addresses: {cause}")]
    Peer { peer: String, cause: io::Error },
    #[error("cannot start the network: {0}")]
    Io(io::Error),
}

impl From<io::Error> for StartError {
    fn from(cause: io::Error) -> Self {
        StartError::Io(cause)
    }
}

/// A privilege or a part of the kernel that a network needs is missing. Without it, programs can still run on plain
/// loopback: see [`Unsupported::NOT_SIMULATED`].
#[derive(Debug, thiserror::Error)]
pub enum Unsupported {
    #[error("cannot make network namespaces: {0}; run as root, or call enter_user_namespace first")]
    Namespaces(io::Error),
    #[error(
        "cannot open {TUN_PATH}: it does not exist; load the kernel's module tun, or give the container the device"
    )]
    NoTun,
    #[error("cannot open a TUN device: {0}; the user needs read and write access to {TUN_PATH}")]
    Tun(io::Error),
    #[error(
        "cannot make a user namespace: {0}; run as root, or permit user namespaces (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    UserNamespace(io::Error),
}

impl Unsupported {
    /// The conditions that programs on plain loopback do not meet.
    pub const NOT_SIMULATED: &str =
        "on plain loopback, rates, delays, jitter, loss, queues and NAT are not simulated";
}

impl Wire {
    /// Makes the namespaces and starts to forward. First it ends what killed runs left (see [`remove_leftovers`]).
    ///
    /// It needs root, or [`enter_user_namespace`] at the start of the program.
    pub fn start(plan: WirePlan) -> Result<Wire, StartError> {
        let network = Arc::new(Mutex::new(Network::new(&plan)?));
        if !Path::new(TUN_PATH).exists() {
            return Err(Unsupported::NoTun.into());
        }
        remove_leftovers()?;
        let mut watchdog = Watchdog::start()?;
        let (mut namespaces, mut devices) = (Vec::new(), Vec::new());
        for (index, peer) in plan.peers.iter().enumerate() {
            let opened = Namespace::open(&plan.addresses(index), plan.mtu);
            let (namespace, device) = opened.map_err(|error| start_error(&peer.name, error))?;
            watchdog.watch(&namespace.name()?)?;
            namespaces.push(namespace);
            devices.push(device);
        }
        let forwarder = Forwarder::start(network.clone(), devices)?;
        Ok(Wire { id: own_id()?, plan, _watchdog: watchdog, namespaces, forwarder, network })
    }

    /// The peer of this name.
    pub fn peer(&self, name: &str) -> Result<Peer<'_>, PlanError> {
        Ok(Peer { wire: self, index: self.plan.index_of(name)? })
    }

    /// All peers, in the plan's order.
    pub fn peers(&self) -> impl Iterator<Item = Peer<'_>> {
        (0..self.plan.peers.len()).map(|index| Peer { wire: self, index })
    }

    /// Gives a peer another link, from the next packet on. Packets that wait keep their times.
    pub fn set_link(&self, name: &str, link: Link) -> Result<(), PlanError> {
        link.validate(name)?;
        let index = self.plan.index_of(name)?;
        lock(&self.network).set_link(index, link);
        Ok(())
    }

    /// Gives a peer another router, with another public address, from the next packet on: all its connections to others
    /// break, and [`Peer::addresses`] stays that of the start. Both routers must have a public address of their own.
    pub fn replace_router(&self, name: &str, to: NatKind) -> Result<(), PlanError> {
        let index = self.plan.index_of(name)?;
        let from = self.plan.peers[index].nat;
        if !from.has_own_router() || !to.has_own_router() {
            return Err(PlanError::Router { name: name.into(), from, to });
        }
        lock(&self.network).replace_router(&self.plan, index, to);
        Ok(())
    }

    /// The counts since the start.
    pub fn figures(&self) -> Figures {
        let cpu_time = self.forwarder.cpu_time();
        Figures { cpu_time, ..lock(&self.network).figures().clone() }
    }

    /// Packets that the network has never seen: the kernel dropped them because this machine was too busy to forward
    /// them. When there are any, the machine is too small for the experiment.
    pub fn overruns(&self) -> io::Result<u64> {
        self.namespaces.iter().map(Namespace::overruns).sum()
    }
}

/// A peer of a running network.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    wire: &'a Wire,
    index: usize,
}

impl Peer<'_> {
    pub fn name(&self) -> &str {
        &self.wire.plan.peers[self.index].name
    }

    /// Its place in the plan, which names it in [`Figures`].
    pub fn index(&self) -> usize {
        self.index
    }

    pub fn addresses(&self) -> PeerAddresses {
        self.wire.plan.addresses(self.index)
    }

    /// Starts a program in the peer's namespace. It ends with the network at the latest.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.env(NETWORK_VARIABLE, &self.wire.id);
        self.enter(|| command.spawn())?
    }

    /// Runs `work` in a thread that is in the peer's namespace. Sockets that it opens stay in the namespace, wherever they
    /// are used, and so do threads and programs that it starts.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.wire.namespaces[self.index].enter(work)
    }
}

/// Makes this process the root of a user namespace of its own, so that it may make network namespaces without being root.
///
/// Call it at the start of the program: the kernel refuses it when the process has more than one thread. Files that belong
/// to other users then appear to belong to `nobody`, and the process keeps its access to its own.
pub fn enter_user_namespace() -> Result<(), Unsupported> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let enter = || {
        nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?;
        // The kernel demands that a user gives up setgroups before the group is mapped.
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
        std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))
    };
    enter().map_err(Unsupported::UserNamespace)
}

fn start_error(peer: &str, OpenError { step, cause }: OpenError) -> StartError {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match (step, cause.kind()) {
        (Step::Namespace, _) => Unsupported::Namespaces(cause).into(),
        (Step::Device, PermissionDenied | NotFound) => Unsupported::Tun(cause).into(),
        (Step::Device | Step::Addresses, _) => StartError::Peer { peer: peer.into(), cause },
    }
}

/// A thread that panicked while it held the lock has broken no promise of the network's: counts may be off by one packet.
fn lock(network: &Mutex<Network>) -> MutexGuard<'_, Network> {
    network.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// CPU time that the calling thread has used.
fn thread_cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
