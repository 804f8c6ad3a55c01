//! Opens the listeners, and starts the event loops and threads of a process.

use std::sync::Arc;

use watchfire_hooks::HookThread;

use super::assembly::Assembly;
use super::definition::Definition;
use super::plan::Plan;
use super::process_role::ProcessRole;
use super::running::RunningServer;
use super::start_error::StartError;
use crate::feature::{Running, Started};
use crate::http;
use crate::shard::{ProcessState, ServerShard};

/// Starts a process whose parts are built.
pub(super) fn start(
    definition: Definition,
    plan: Plan,
    role: ProcessRole,
    assembly: Assembly,
) -> Result<RunningServer, StartError> {
    let Definition { settings, routes, on_start, .. } = definition;
    let Assembly { shared, processes, feature_addresses } = assembly;
    let Plan { auth, hooks, tls, mut sockets, random_seed, .. } = plan;
    let is_shared = role.inherited.is_some();
    sockets.inherited = role.inherited;
    sockets.is_paused = role.is_paused;
    // Receives from the other processes before the first client connects.
    let parts = shared.parts.iter().flat_map(|part| part.clone().cluster_parts());
    (role.on_parts)(&shared.cluster, parts.collect());
    let router = http::router(&shared, &settings, auth.clone(), routes);
    let of_shards = shared.clone();
    let sockets = watchfire_sockets::start(sockets, router, move |id, shards| {
        of_shards.endpoint.connect(shards);
        ServerShard::new(id, of_shards.clone(), random_seed ^ u64::from(id.0))
    })?;
    let sockets_max = sockets.limits().sockets_max as u64;
    shared.metrics.sockets.set(shared.cluster.me().0, sockets.counters(), sockets_max);
    let is_first = shared.cluster.is_first_of_machine();
    let started = Started {
        settings: &settings,
        addresses: sockets.local_addrs(),
        adopter: sockets.adopter(),
        websocket_path: &shared.websocket_path,
        processes,
        is_first,
        is_shared,
        is_successor: role.is_successor,
    };
    let running = start_parts(&shared, &started)?;
    // One process orders certificates, like the gateway.
    let tls = tls.map(|tls| tls.start(sockets.local_addr(), is_first)).transpose()?;
    let jwks = auth.as_ref().map(|auth| auth.start_fetching()).transpose();
    let jwks = jwks.map_err(StartError::Auth)?.flatten();
    let hooks =
        hooks.map(|hooks| HookThread::start(&hooks)).transpose().map_err(StartError::Hooks)?;
    on_start.into_iter().for_each(|act| act(&shared.endpoint));
    Ok(RunningServer {
        running,
        sockets,
        endpoint: shared.endpoint.clone(),
        cluster: shared.cluster.clone(),
        metrics: shared.metrics.clone(),
        drain_period: settings.server.drain_period,
        feature_addresses,
        auth,
        _jwks: jwks,
        hooks,
        tls,
        #[cfg(test)]
        shared,
    })
}

fn start_parts(
    shared: &Arc<ProcessState>,
    started: &Started<'_>,
) -> Result<Vec<Box<dyn Running>>, StartError> {
    let mut running = Vec::new();
    for part in &shared.parts {
        running.extend(part.clone().start(started).map_err(StartError::Feature)?);
    }
    Ok(running)
}
