//! The place of a machine, and its links, over NATS.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use watchfire_cluster::LinkTotals;
use watchfire_cluster::bus::LocalBus;
use watchfire_cluster::nats::streams::{StreamLimits, StreamSettings, Streams};
use watchfire_cluster::nats::{Links, Machine as Claimed, NatsSettings, Process};
use watchfire_types::NodeId;

use super::{BoxFuture, Claim, ClusterError, Machine};
use crate::cluster::{FORMAT, FarLinks};
use crate::settings::{ClusterSettings, HistoryStorage, Settings};

/// How to reach NATS.
pub(super) fn nats_settings(settings: &ClusterSettings) -> Result<NatsSettings, ClusterError> {
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
    nats.check().map_err(ClusterError::Nats)?;
    Ok(nats)
}

/// Where NATS keeps the histories, and how.
pub(super) fn stream_settings(settings: &ClusterSettings) -> Result<StreamSettings, ClusterError> {
    Ok(StreamSettings {
        nats: nats_settings(settings)?,
        in_memory: settings.history_storage == HistoryStorage::Memory,
        replicas: settings.history_replicas,
        bytes_max: settings.history_bytes_max,
    })
}

/// Asks whether NATS can keep the histories that the rules name.
pub(super) async fn check_histories(
    settings: &Settings,
    may_make: bool,
) -> Result<(), ClusterError> {
    let histories = settings.channels.rules.iter().filter_map(|rule| rule.history.as_ref());
    let limits = histories
        .map(|history| StreamLimits { messages: history.messages as usize, age: history.age });
    let checked =
        Streams::check(stream_settings(&settings.cluster)?, limits.collect(), may_make).await;
    checked.map_err(ClusterError::Histories)
}

/// Joins the cluster with the processes of this machine.
pub(super) async fn join(
    settings: &ClusterSettings,
    processes: u16,
) -> Result<Machine, ClusterError> {
    let claimed = Claimed::join(&nats_settings(settings)?, processes, FORMAT).await;
    let claimed = claimed.map_err(ClusterError::Join)?;
    Ok(Machine {
        first: claimed.first(),
        secret: claimed.secret(),
        cluster: claimed.cluster(),
        claim: Box::new(claimed),
    })
}

impl Claim for Claimed {
    fn lost(&mut self) -> BoxFuture<'_, ClusterError> {
        Box::pin(async { ClusterError::Join(self.serve().await.into()) })
    }

    fn leave(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(Claimed::leave(*self))
    }
}

/// Links a process to the processes of the other machines.
pub(super) async fn link(
    settings: &ClusterSettings,
    me: NodeId,
    of_machine: Range<u16>,
    cluster: u64,
    bus: &Arc<LocalBus>,
) -> Result<Arc<dyn FarLinks>, ClusterError> {
    let process = Process { me, of_machine, cluster, format: FORMAT };
    let links = Links::start(nats_settings(settings)?, process, bus.clone()).await;
    Ok(Arc::new(links.map_err(ClusterError::Nats)?))
}

impl FarLinks for Links {
    fn totals(&self) -> LinkTotals {
        Links::totals(self)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(Links::settled(self))
    }
}
