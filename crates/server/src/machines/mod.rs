//! The other machines of this server, over NATS.

#[cfg(feature = "cluster")]
mod over_nats;

use std::ops::Range;
use std::sync::Arc;

use watchfire_cluster::bus::LocalBus;
use watchfire_types::NodeId;

use crate::cluster::{BoxFuture, Cluster, FarLinks};
use crate::settings::{ClusterSettings, Settings};

/// A topic without messages, to which a process that starts subscribes for a moment.
const SETTLE_TOPIC: &str = "watchfire:settled";
/// A key that others could guess is no secret.
const KEY_BYTES_MIN: usize = 16;

/// Why a server cannot be part of a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The machine has no place in the cluster.
    #[cfg(feature = "cluster")]
    #[error("cluster: {0}")]
    Join(watchfire_cluster::nats::JoinError),
    /// NATS cannot be used.
    #[cfg(feature = "cluster")]
    #[error("cluster: {0}")]
    Nats(watchfire_cluster::nats::NatsError),
    /// NATS cannot keep the histories.
    #[cfg(feature = "cluster")]
    #[error("cluster: {0}")]
    Histories(watchfire_cluster::nats::streams::StartError),
    /// The supervisor, which keeps the histories, cannot be reached.
    #[error("cannot reach the histories of the supervisor: {0}")]
    Keeper(std::io::Error),
    /// `cluster.history_replicas` is not a number that JetStream knows.
    #[error("cannot use cluster.history_replicas {replicas}: it must be 1, 3 or 5")]
    Replicas {
        /// The number in the settings.
        replicas: u8,
    },
    /// The program was built without the feature `cluster`.
    #[cfg(not(feature = "cluster"))]
    #[error("cluster: {0}")]
    NotBuilt(crate::not_built::NotBuilt),
    /// `cluster.key` is too short.
    #[error("cannot use cluster.key: it must have at least {KEY_BYTES_MIN} bytes")]
    ShortKey,
    /// A client certificate without a key, or the other way round.
    #[error(
        "cannot use cluster.client_certificate: it needs cluster.client_key, and the other way round"
    )]
    ClientCertificate,
}

/// This machine's place in the cluster.
pub(crate) struct Machine {
    /// The node of its first process.
    pub first: NodeId,
    /// Known only to the processes of the cluster.
    pub secret: [u8; 32],
    /// The id of the cluster.
    pub cluster: u64,
    claim: Box<dyn Claim>,
}

impl Machine {
    /// Leaves the place to another machine.
    pub async fn leave(self) {
        self.claim.leave().await;
    }
}

/// The claim of a place among the machines.
trait Claim: Send {
    /// Returns when the place is lost.
    fn lost(&mut self) -> BoxFuture<'_, ClusterError>;

    fn leave(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Checks the settings without reaching for another machine.
pub(crate) fn check(settings: &ClusterSettings) -> Result<(), ClusterError> {
    if settings.nats.is_empty() {
        return Ok(());
    }
    if (1..KEY_BYTES_MIN).contains(&settings.key.len()) {
        return Err(ClusterError::ShortKey);
    }
    if ![1, 3, 5].contains(&settings.history_replicas) {
        return Err(ClusterError::Replicas { replicas: settings.history_replicas });
    }
    #[cfg(feature = "cluster")]
    return over_nats::nats_settings(settings).map(drop);
    #[cfg(not(feature = "cluster"))]
    Err(not_built())
}

#[cfg(not(feature = "cluster"))]
fn not_built() -> ClusterError {
    ClusterError::NotBuilt(crate::not_built::NotBuilt {
        setting: "cluster.nats",
        feature: "cluster",
    })
}

/// Joins the cluster with the processes of this machine; `None` for a server of one machine.
pub(crate) async fn join(
    settings: &ClusterSettings,
    processes: u16,
) -> Result<Option<Machine>, ClusterError> {
    check(settings)?;
    if settings.nats.is_empty() {
        return Ok(None);
    }
    #[cfg(feature = "cluster")]
    let machine = over_nats::join(settings, processes).await;
    #[cfg(not(feature = "cluster"))]
    let machine = Err::<Machine, _>(not_built());
    let machine = machine?;
    tracing::info!(first = %machine.first, processes, "joined the cluster");
    Ok(Some(machine))
}

/// Where NATS keeps the histories, and how.
#[cfg(feature = "cluster")]
pub(crate) fn stream_settings(
    settings: &ClusterSettings,
) -> Result<watchfire_cluster::nats::streams::StreamSettings, ClusterError> {
    over_nats::stream_settings(settings)
}

/// Connects to NATS, and asks whether it can keep the histories, if rules name some. It makes their streams if it
/// `may_make` them.
pub(crate) async fn check_histories(
    settings: &Settings,
    may_make: bool,
) -> Result<(), ClusterError> {
    if !settings.cluster.is_on() {
        return Ok(());
    }
    #[cfg(feature = "cluster")]
    return over_nats::check_histories(settings, may_make).await;
    #[cfg(not(feature = "cluster"))]
    {
        let _ = may_make;
        Err(not_built())
    }
}

/// Waits for the end of a machine's place in the cluster, for ever if there is none.
pub(crate) async fn place_lost(machine: &mut Option<Machine>) -> ClusterError {
    match machine {
        Some(machine) => machine.claim.lost().await,
        None => std::future::pending().await,
    }
}

/// Links a process to the processes of the other machines; `None` for a server of one machine.
pub(crate) async fn link(
    settings: &ClusterSettings,
    me: NodeId,
    of_machine: Range<u16>,
    cluster: u64,
    bus: &Arc<LocalBus>,
) -> Result<Option<Arc<dyn FarLinks>>, ClusterError> {
    if settings.nats.is_empty() {
        return Ok(None);
    }
    #[cfg(feature = "cluster")]
    return over_nats::link(settings, me, of_machine, cluster, bus).await.map(Some);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = (me, of_machine, cluster, bus);
        Err(not_built())
    }
}

/// Waits until this process exchanges messages with the machines that were there before it. Until
/// then it accepts no clients: they would miss the messages of the others.
pub(crate) async fn settle(cluster: &Cluster, links: Option<&Arc<dyn FarLinks>>) {
    let Some(links) = links else { return };
    cluster.set_links(links);
    links.settled().await;
    // Each process has sent the topics of its clients, and its state, before it acknowledges this.
    let acknowledged = cluster.subscribe(SETTLE_TOPIC);
    cluster.ready(acknowledged).await;
    cluster.unsubscribe(SETTLE_TOPIC);
}
