//! Builds the parts of a process, and collects what they have.

use std::cell::RefCell;
use std::sync::Arc;

use watchfire_channels::longpoll::LongPollLimits;

use super::base_parts::{BuildInfo, OfSource};
use super::definition::{Definition, FeatureAddresses};
use super::plan::Plan;
use super::process_role::{ProcessRole, SharedListeners, random_secret};
use super::start_error::StartError;
use crate::addresses::Addresses;
use crate::channel_api::{Endpoint, Registry};
use crate::cluster::{Cluster, PartLink, PartName, ReportWaker, ReportWakes};
use crate::feature::{Foundation, Part};
use crate::history::History;
use crate::memory::MemoryReturn;
use crate::metrics::Metrics;
use crate::own_client::OwnClientKey;
use crate::presence::ReplicatedPresence;
use crate::rules::RuleFeature;
use crate::seed::Seed;
use crate::settings::Settings;
use crate::shard::{ConnectHook, ConnectRules, ProcessState, RefusedOrigins};
use crate::token::TokenKey;

/// The parts of one process, before it has event loops.
pub(super) struct Assembly {
    pub shared: Arc<ProcessState>,
    pub processes: u32,
    /// The listeners of each feature, by its name.
    pub feature_addresses: FeatureAddresses,
}

/// The parts that every server has, on which the others are built.
struct Base {
    cluster: Arc<Cluster>,
    endpoint: Endpoint,
    presence: Arc<ReplicatedPresence>,
    history: Option<Arc<History>>,
    metrics: Arc<Metrics>,
    addresses: Arc<Addresses>,
    own_client_key: OwnClientKey,
    seed: Seed,
    report_waker: ReportWaker,
    processes: u32,
}

impl Base {
    fn build(
        settings: &Settings,
        plan: &Plan,
        role: &mut ProcessRole,
    ) -> Result<(Self, ReportWakes), StartError> {
        let cluster = Arc::new(std::mem::replace(&mut role.cluster, Cluster::alone()));
        let link = |name| PartLink::new(&cluster, PartName::own(name));
        let has_history = settings.channels.rules.iter().any(|rule| rule.history.is_some());
        // Another machine may have other rules, and topics whose messages this one has to write.
        let history = (has_history || settings.cluster.is_on()).then(|| {
            let (keeper, taken) = (role.keeper.take(), role.taken.take());
            History::new(link("history"), settings, keeper, taken).map(Arc::new)
        });
        let history = history.transpose()?;
        let seed = Seed::from(&role.secret);
        let metrics = Arc::new(Metrics::default());
        let (report_waker, report_wakes) = ReportWaker::new();
        let processes = match cluster.is_alone() {
            true => 1,
            false => u32::from(settings.server.processes.max(1)),
        };
        let waker = report_waker.clone();
        let base = Base {
            endpoint: Endpoint::unconnected(settings, link("endpoint"), history.clone()),
            presence: Arc::new(ReplicatedPresence::new(
                plan.random_seed,
                link("presence"),
                metrics.clone(),
            )),
            addresses: Arc::new(Addresses::new(
                &settings.limits,
                processes,
                seed,
                link("addresses"),
                waker,
            )),
            own_client_key: OwnClientKey::new(&role.secret),
            history,
            metrics,
            seed,
            report_waker,
            processes,
            cluster,
        };
        Ok((base, report_wakes))
    }

    /// The parts themselves, for everything that they have in common with those of features.
    fn parts(&self) -> Vec<Arc<dyn Part>> {
        let mut parts: Vec<Arc<dyn Part>> = vec![
            Arc::new(BuildInfo),
            self.metrics.clone(),
            self.cluster.clone(),
            Arc::new(self.endpoint.clone()),
            self.presence.clone(),
            self.addresses.clone(),
        ];
        parts.extend(self.history.clone().map(|history| history as Arc<dyn Part>));
        parts
    }
}

impl Assembly {
    /// Builds all parts of a process: those of every server, those of the features that it was given,
    /// and the rules of the settings.
    pub fn build(
        definition: &mut Definition,
        plan: &Plan,
        role: &mut ProcessRole,
        listeners: SharedListeners,
    ) -> Result<Self, StartError> {
        let feature_addresses = definition.addresses_of(&listeners);
        let Definition { settings, features, registry, .. } = definition;
        let (base, report_wakes) = Base::build(settings, plan, role)?;
        let figures: Vec<_> = features.iter().flat_map(|each| each.figures()).copied().collect();
        let tables: Vec<_> = features.iter().flat_map(|each| each.tables()).copied().collect();
        let troubles: Vec<_> = features.iter().flat_map(|each| each.troubles()).copied().collect();
        let mut of_features: Vec<Arc<dyn Part>> = Vec::new();
        for (feature, listeners) in features.iter().zip(listeners.0) {
            let foundation = Foundation {
                settings,
                secret: role.secret,
                seed: base.seed,
                endpoint: &base.endpoint,
                cluster: &base.cluster,
                addresses: &base.addresses,
                metrics: &base.metrics,
                own_client_key: &base.own_client_key,
                report_waker: &base.report_waker,
                presence: &base.presence,
                history: base.history.as_ref(),
                figures: &figures,
                tables: &tables,
                troubles: &troubles,
                is_successor: role.is_successor,
                listeners: RefCell::new(listeners),
            };
            of_features.extend(feature.build(&foundation).map_err(StartError::Feature)?);
        }
        let of_settings = parts_of_settings(settings, plan, &base);
        let parts: Vec<Arc<dyn Part>> =
            base.parts().into_iter().chain(of_features).chain(of_settings).collect();
        for part in &parts {
            part.clone().register_channels(registry);
        }
        if let Some(history) = &base.history {
            history.set_topics(registry.histories());
        }
        parts.iter().for_each(|part| part.see_all(&parts));
        if !base.cluster.is_alone() {
            let reporters: Vec<_> =
                parts.iter().filter_map(|part| part.clone().reporter()).collect();
            report_wakes.start(&reporters).map_err(StartError::Thread)?;
        }
        let processes = base.processes;
        let return_memory = MemoryReturn::new(definition.return_memory.take());
        let registry = std::mem::take(&mut definition.registry);
        let shared = share(&definition.settings, plan, base, registry, parts, return_memory)?;
        Ok(Assembly { shared: Arc::new(shared), processes, feature_addresses })
    }
}

/// The parts that the settings demand. Rules come last, so that a topic of an application or of a
/// feature stays theirs.
fn parts_of_settings(settings: &Settings, plan: &Plan, base: &Base) -> Vec<Arc<dyn Part>> {
    let sender = Arc::new(base.endpoint.clone());
    let rules = settings.channels.rules.clone();
    let rules = RuleFeature::new(rules, plan.auth.clone(), plan.hooks.clone(), sender);
    let mut parts: Vec<Arc<dyn Part>> = vec![Arc::new(rules)];
    if let Some(tls) = &plan.tls {
        parts.push(Arc::new(OfSource(tls.metrics(base.cluster.is_first_of_machine()))));
    }
    parts
}

/// The state that the shards of the process share.
fn share(
    settings: &Settings,
    plan: &Plan,
    base: Base,
    registry: Registry,
    parts: Vec<Arc<dyn Part>>,
    memory: MemoryReturn,
) -> Result<ProcessState, StartError> {
    let Base { cluster, endpoint, presence, history, metrics, addresses, own_client_key, .. } =
        base;
    let hook = plan.hooks.clone().filter(|hooks| hooks.settings().connect);
    Ok(ProcessState {
        limits: settings.limits.clone(),
        longpoll: LongPollLimits {
            window: settings.socket.longpoll_window,
            queued_messages_max: settings.limits.longpoll_frames_max,
            queued_bytes_max: settings.limits.longpoll_bytes_max,
            leeway: 1,
        },
        connect_rules: ConnectRules {
            origins: plan.origins.clone(),
            public_host: plan.public_host.clone(),
            has_proxy_protocol: !settings.server.proxy_protocol.is_empty(),
            refused_origins: RefusedOrigins::default(),
            parts: parts.clone(),
            on_connect: registry.on_connect.clone(),
            hook: hook.map(|hooks| ConnectHook {
                hooks,
                endpoint: endpoint.clone(),
                own_client_key,
            }),
            addresses: addresses.clone(),
            metrics: metrics.clone(),
        },
        proxies: plan.proxies.clone(),
        registry,
        cluster,
        endpoint,
        presence,
        history,
        metrics,
        addresses,
        memory,
        sessions: TokenKey::new(random_secret().map_err(StartError::NoRandomness)?),
        websocket_path: plan.websocket_path.clone(),
        longpoll_path: plan.longpoll_path.clone(),
        gates: parts.iter().filter_map(|part| part.clone().gate()).collect(),
        parking: parts.iter().find_map(|part| part.parking()),
        logged_paths: settings.log.request_paths.clone().into(),
        parts,
    })
}
