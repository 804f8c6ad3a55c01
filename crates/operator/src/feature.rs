//! The operator's view of a server, as a feature: [`Operator`].

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock, mpsc};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::StatusCode;
use parking_lot::Mutex;
use watchfire::feature::{
    ClusterPart, Feature, FeatureError, Foundation, Gate, MetricWriter, Part, PartName, Running,
    SectionType, Started, Verdict,
};
use watchfire::internal::{log_requests, refuse_call as refuse, state_file};
use watchfire::{LogSettings, Settings};
use watchfire_sockets::RequestHead;

use super::access::Access;
use super::denied_addresses::DeniedAddresses;
use super::listener::{AdminServer, check, open_listeners};
use super::machine_record::MachineRecord;
use super::metrics_page::{FreeBytes, MetricsPage};
use super::page;
use super::process_calls::{ProcessCalls, ServerParts};
use super::profiles::ProfileCalls;
use super::recorder::RecorderThread;
use super::settings::AdminSettings;
use super::troubles::{TroubleMetrics, Watch};

const NAME: &str = "operator";

const NOT_FOUND: &str =
    "Not found. The operator's listener has a page at /, /metrics, and calls under /admin.\n";

/// A hash of samples of all messages between the parts of this crate in several processes. A part with another
/// format is another part, which an older process does not have.
const FORMAT: u64 = 0xf1fb_b293_5f68_6d17;

/// The file of the operator's history, in the service's state folder.
const HISTORY_FILE: &str = "operator-history";

/// The operator's listener: the page, `/metrics`, the record of figures and troubles, calls about
/// connections and topics, profiles, and denied addresses.
///
/// ```
/// use watchfire::{Server, Settings};
/// use watchfire_operator::{AdminSettings, Operator};
///
/// let mut settings = Settings::default();
/// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
/// settings.section_mut::<AdminSettings>().listen = vec!["127.0.0.1:0".parse().unwrap()];
/// let server = Server::new(settings).with(Operator::new()).start().unwrap();
/// assert_eq!(server.addresses_of("operator").len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Operator {
    free_bytes: Option<FreeBytes>,
}

impl Operator {
    /// The feature, which reads the settings of the section `admin`.
    pub fn new() -> Self {
        Operator::default()
    }

    /// Sets the function that returns how many free bytes the allocator of the program keeps. With glibc it is
    /// `mallinfo2`. Without it, they count as memory that is not counted.
    pub fn with_free_bytes(mut self, free_bytes: fn() -> u64) -> Self {
        self.free_bytes = Some(free_bytes);
        self
    }
}

impl Feature for Operator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sections(&self) -> Vec<SectionType> {
        vec![SectionType::of::<AdminSettings>()]
    }

    fn addresses(&self, settings: &Settings) -> Vec<SocketAddr> {
        settings.section::<AdminSettings>().listen
    }

    fn serves_operator(&self, settings: &Settings) -> bool {
        !self.addresses(settings).is_empty()
    }

    fn check(&self, settings: &Settings) -> Result<Vec<String>, FeatureError> {
        check(&settings.section())?;
        Ok(Vec::new())
    }

    fn listen(
        &self,
        settings: &Settings,
        is_successor: bool,
    ) -> Result<Vec<TcpListener>, FeatureError> {
        Ok(open_listeners(&settings.section(), is_successor)?)
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        let settings = foundation.settings;
        let AdminSettings { token, profile_file, .. } = settings.section();
        let link = |name| foundation.link(PartName::new(name, FORMAT));
        let metrics_page = Arc::new(MetricsPage::new(link("metrics"), self.free_bytes));
        let denied = Arc::new(DeniedAddresses::new(link("denied_addresses")));
        let watch = Watch::new(foundation.troubles);
        let troubles = Arc::new(TroubleMetrics::new(&watch));
        let parts = ServerParts {
            endpoint: foundation.endpoint.clone(),
            metrics_page: metrics_page.clone(),
            troubles: troubles.clone(),
            denied_addresses: denied.clone(),
            limits: settings.limits.clone(),
            history_bytes_max: settings.channels.history_bytes_max,
        };
        let record = MachineRecord::new(foundation.figures, foundation.tables, watch);
        let calls = ProcessCalls::new(link(NAME), parts, record, foundation.is_successor);
        Ok(vec![Arc::new(OperatorPart {
            metrics_page,
            denied,
            troubles,
            calls: Arc::new(calls),
            profiles: Arc::new(ProfileCalls::new(link("profiles"), profile_file)),
            access: Arc::new(Access::new(&token, foundation.metrics)),
            log: settings.log.clone(),
            listeners: Mutex::new(foundation.take_listeners()),
            routes: OnceLock::new(),
        })])
    }
}

/// The operator's view of one process.
struct OperatorPart {
    metrics_page: Arc<MetricsPage>,
    denied: Arc<DeniedAddresses>,
    troubles: Arc<TroubleMetrics>,
    calls: Arc<ProcessCalls>,
    profiles: Arc<ProfileCalls>,
    access: Arc<Access>,
    log: LogSettings,
    /// Until the start.
    listeners: Mutex<Vec<TcpListener>>,
    routes: OnceLock<Routes>,
}

/// The routes of the operator's listener.
struct Routes {
    router: Router,
    /// Whether those of the HTTP API are among them.
    serves_api: bool,
}

impl OperatorPart {
    /// The routes of this feature, and those that other parts have for the operator.
    fn routes(&self, parts: &[Arc<dyn Part>]) -> Routes {
        // Without a token, the parts have no calls.
        let of_parts = parts.iter().filter(|_| self.access.has_token());
        let of_parts = of_parts.map(|part| part.clone().operator_routes());
        let calls = of_parts
            .fold(self.calls.clone().routes(), Router::merge)
            .merge(self.profiles.clone().routes())
            .route_layer(middleware::from_fn_with_state(self.access.clone(), authorize));
        let keyed: Vec<Router> =
            parts.iter().filter_map(|part| part.clone().keyed_operator_routes()).collect();
        let serves_api = !keyed.is_empty();
        let router = page::routes().merge(self.metrics_page.clone().routes()).merge(calls);
        let router = router.fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND));
        let router = keyed.into_iter().fold(router, Router::merge);
        Routes { router: log_requests(router, &self.log), serves_api }
    }
}

/// Refuses requests without the token. If there is no token, requests may only read.
async fn authorize(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if access.has_token() {
        return match access.permits(request.headers()) {
            true => next.run(request).await,
            false => access.deny().await,
        };
    }
    match request.method().is_safe() {
        true => next.run(request).await,
        false => refuse(
            StatusCode::FORBIDDEN,
            "no token",
            "Set admin.token to allow changes; without it the listener only reads.",
        ),
    }
}

impl Part for OperatorPart {
    fn gate(self: Arc<Self>) -> Option<Arc<dyn Gate>> {
        Some(self.denied.clone())
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![
            self.metrics_page.clone(),
            self.denied.clone(),
            self.calls.clone(),
            self.profiles.clone(),
        ]
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        self.troubles.write_metrics(writer);
    }

    fn see_all(&self, parts: &[Arc<dyn Part>]) {
        self.metrics_page.set_parts(parts);
        self.routes.set(self.routes(parts)).ok();
    }

    fn start(
        self: Arc<Self>,
        started: &Started<'_>,
    ) -> Result<Option<Box<dyn Running>>, FeatureError> {
        let listeners = std::mem::take(&mut *self.listeners.lock());
        let records = self.calls.records() && !listeners.is_empty();
        let Routes { router, serves_api } = self.routes.get().expect("it has seen all parts");
        let server = AdminServer::start(listeners, router.clone(), &self.access, *serves_api)?;
        let recorder = match records {
            true => {
                let AdminSettings { history_file, .. } = started.settings.section();
                let file = state_file(&history_file, HISTORY_FILE);
                let started = RecorderThread::start(self.calls.clone(), file);
                Some(started.map_err(|error| format!("cannot start a thread: {error}"))?)
            }
            false => None,
        };
        let profiles = records.then(|| self.profiles.keep()).flatten();
        Ok(Some(Box::new(RunningOperator { server, _recorder: recorder, _profiles: profiles })))
    }
}

/// The threads of the operator's view.
struct RunningOperator {
    server: AdminServer,
    _recorder: Option<RecorderThread>,
    /// Dropping it ends the thread that keeps profiles.
    _profiles: Option<mpsc::Sender<()>>,
}

impl Running for RunningOperator {
    /// The address is free for the next server immediately, as those of the public listeners are.
    fn drain(&mut self) {
        self.server.stop();
    }
}

impl Gate for DeniedAddresses {
    fn judge(&self, _: &RequestHead<'_>, client: &dyn Fn() -> IpAddr) -> Verdict {
        match !self.is_empty() && self.has(client()) {
            true => Verdict::Refuse {
                status: 403,
                body: "the operator denies this address\n",
                reason: "address_denied",
            },
            false => Verdict::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use watchfire::internal::format_of;

    use super::FORMAT;
    use crate::{denied_addresses, metrics_page, process_calls, profiles};

    /// Counted up when a message has another meaning, and its bytes are the same.
    const MEANING: u64 = 1;

    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        let mut samples = denied_addresses::message_samples();
        samples.extend(metrics_page::message_samples());
        samples.extend(process_calls::message_samples());
        samples.extend(profiles::message_samples());
        let format = format!("{:#018x}", format_of(MEANING, &samples));
        assert_eq!(format, format!("{FORMAT:#018x}"), "set FORMAT to the first value");
    }
}
