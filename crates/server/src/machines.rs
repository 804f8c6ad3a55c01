//! The other machines of this server, over NATS.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use watchfire_cluster::bus::LocalBus;
use watchfire_types::NodeId;

use crate::cluster::{Cluster, FORMAT};
use crate::nats::{JoinError, Links, Machine, NatsError, NatsSettings, Process};
use crate::settings::ClusterSettings;

/// A key that others could guess is no secret.
const KEY_BYTES_MIN: usize = 16;

/// Why a server cannot be part of a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The machine has no place in the cluster.
    #[error("cluster: {0}")]
    Join(#[from] JoinError),
    /// NATS cannot be used.
    #[error("cluster: {0}")]
    Nats(#[from] NatsError),
    /// `cluster.key` is too short.
    #[error("cannot use cluster.key: it must have at least {KEY_BYTES_MIN} bytes")]
    ShortKey,
    /// A client certificate without a key, or the other way round.
    #[error(
        "cannot use cluster.client_certificate: it needs cluster.client_key, and the other way round"
    )]
    ClientCertificate,
}

/// How to reach the other machines; `None` for a server of one machine.
pub(crate) fn nats_settings(
    settings: &ClusterSettings,
) -> Result<Option<NatsSettings>, ClusterError> {
    if settings.nats.is_empty() {
        return Ok(None);
    }
    if (1..KEY_BYTES_MIN).contains(&settings.key.len()) {
        return Err(ClusterError::ShortKey);
    }
    let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
    let client_certificate =
        match (given(&settings.client_certificate), given(&settings.client_key)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(ClusterError::ClientCertificate),
        };
    let nats = NatsSettings {
        urls: settings.nats.clone(),
        credentials_file: given(&settings.credentials_file),
        root_certificates: given(&settings.root_certificates),
        client_certificate,
        prefix: settings.prefix.clone(),
        key: (!settings.key.is_empty()).then(|| settings.key.clone()),
    };
    nats.check()?;
    Ok(Some(nats))
}

/// Joins the cluster with the processes of this machine; `None` for a server of one machine.
pub(crate) async fn join(
    settings: &ClusterSettings,
    processes: u16,
) -> Result<Option<Machine>, ClusterError> {
    let Some(nats) = nats_settings(settings)? else { return Ok(None) };
    let machine = Machine::join(&nats, processes, FORMAT).await?;
    tracing::info!(first = %machine.first(), processes, "joined the cluster");
    Ok(Some(machine))
}

/// Waits for the end of a machine's place in the cluster, for ever if there is none.
pub(crate) async fn place_lost(machine: &mut Option<Machine>) -> ClusterError {
    match machine {
        Some(machine) => ClusterError::Join(machine.serve().await.into()),
        None => std::future::pending().await,
    }
}

/// Links a process to the processes of the other machines.
pub(crate) async fn link(
    settings: &ClusterSettings,
    me: NodeId,
    of_machine: Range<u16>,
    cluster: u64,
    bus: &Arc<LocalBus>,
) -> Result<Option<Arc<Links>>, ClusterError> {
    let Some(nats) = nats_settings(settings)? else { return Ok(None) };
    let process = Process { me, of_machine, cluster, format: FORMAT };
    Ok(Some(Arc::new(Links::start(nats, process, bus.clone()).await?)))
}

/// Waits until this process exchanges messages with the machines that were there before it. Until
/// then it is not ready: its clients would miss the messages of the others.
pub(crate) async fn settle(cluster: &Cluster, links: Option<&Arc<Links>>) {
    if let Some(links) = links {
        cluster.set_links(links);
        links.settled().await;
    }
}
