//! The thread that asks the neighbours for their filters, and finds the pages that are watched here.
//!
//! There is a loop for each neighbour. It asks once a second, and more slowly while the filter has more than
//! 64 kB, there are more than 192 neighbours, or the neighbour fails. The pages of a neighbour count as gone
//! after three failures: 6 s if it refuses connections, 36 s if it does not answer. Clients that are there
//! already notice by themselves when a page is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};
use watchfire::feature::FeatureError;
use watchfire_https::{Connector, add_headers, https_connector, run_on_thread, with_causes};

use super::filter::{FILTER_BYTES_MAX, Filter, FilterError};
use super::servers::{self, SERVERS_MAX, is_near, is_private};
use super::{ELSEWHERE_MAX, Neighbours, Server, ServerState};
use crate::page::Changes;

const PAGES: &str = "/neighbours/pages";
/// The time from one request to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// The time from one question for the neighbours of a server to the next.
const LIMITS_PERIOD: Duration = Duration::from_secs(60);
/// Neighbours, those of the settings and those that they name. With 64, a server of 1,000 that name 10 each
/// would open only a third of the pages at two hops: it would not know the others, or they not it as the site of guests.
const KNOWN_MAX: usize = 512;
/// Servers that are asked in each period. If there are more, those that the settings do not name are asked less often,
/// but often enough that the connections to them stay open.
const ASKED_PER_PERIOD: usize = 192;
const _: () = assert!(KNOWN_MAX < ASKED_PER_PERIOD * IDLE_TIMEOUT.as_secs() as usize);
/// Pages in all filters, of 4 bytes each. When the limit is reached, a server that the settings do not name is ignored.
const FILTERED_PAGES_MAX: usize = 16 << 20;
/// Bytes of the filter of a server that the settings do not name, of some 90,000 pages: the 32 servers that one neighbour
/// names leave most of the room to those of the others.
const FURTHER_BYTES_MAX: usize = 192 << 10;
/// Bytes per second of one neighbour, on average.
const BYTES_PER_SECOND: u64 = 64 << 10;
/// The same, of a server that the settings do not name: together at most 4 MiB.
const FURTHER_BYTES_PER_SECOND: u64 = 8 << 10;
/// A server is asked again after this many times the time that it took to look its pages up.
const PAUSE_AFTER_LOOKING: u32 = 10;
const TIMEOUT: Duration = Duration::from_secs(10);
/// After so many failures in a row, the pages of a neighbour count as gone.
const FAILURES_MAX: u32 = 3;
/// Waiting pages that are compared with a new filter at a time, which takes less than a millisecond. The pages that
/// change meanwhile are looked up in between.
const PAGES_AT_A_TIME: usize = 1_000;
/// The longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The pause after a filter for which there is no room.
const FULL_RETRY: Duration = Duration::from_secs(60);
/// An idle connection is closed after this time, before common servers close it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) type Body = UnsyncBoxBody<Bytes, String>;

/// Sends requests to other servers: over HTTP, or in a simulation of many servers.
pub(super) trait Network: Send + Sync + 'static {
    fn request(
        &self,
        request: Request<Empty<Bytes>>,
    ) -> impl Future<Output = Result<Response<Body>, String>> + Send;
}

impl Network for Client<Connector, Empty<Bytes>> {
    async fn request(&self, request: Request<Empty<Bytes>>) -> Result<Response<Body>, String> {
        let response = Client::request(self, request).await.map_err(|error| with_causes(&error))?;
        Ok(response.map(|body| body.map_err(|error| with_causes(&error)).boxed_unsync()))
    }
}

/// Asks the neighbours.
pub(super) struct Fetcher<N> {
    neighbours: Arc<Neighbours>,
    network: N,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last filters, by origin.
    filters: BTreeMap<String, Filter>,
    /// The watched pages that nobody here has in full, and the origins of the servers that have them.
    wanted: BTreeMap<Box<str>, Vec<String>>,
    /// The servers that those of the settings name.
    further: BTreeMap<String, Vec<String>>,
}

/// Why a neighbour gave no filter.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Unreachable(String),
    #[error("the status is {0}")]
    Status(StatusCode),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("there are too many pages in the filters of all servers")]
    Full,
    #[error("the limits are not JSON")]
    Limits(#[from] serde_json::Error),
}

impl Failure {
    fn state(&self) -> ServerState {
        match self {
            Failure::Timeout | Failure::Unreachable(_) => ServerState::Silent,
            Failure::Status(status) if status.is_server_error() => ServerState::Silent,
            Failure::Status(_)
            | Failure::Filter(FilterError::Malformed)
            | Failure::Full
            | Failure::Limits(_) => ServerState::Invalid,
            Failure::Filter(FilterError::Dense) => ServerState::Dense,
        }
    }
}

/// An answer that differs from the last one.
struct Answer {
    bytes: Bytes,
    etag: Option<HeaderValue>,
}

/// Starts the thread that asks the neighbours, which ends when the result is dropped.
pub(super) fn start(neighbours: Arc<Neighbours>) -> Result<oneshot::Sender<()>, FeatureError> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(https_connector()?);
    let changes = neighbours.availability.changes();
    let fetcher = Fetcher::new(neighbours, client);
    Ok(run_on_thread("neighbours", async move { fetcher.run(&changes).await })?)
}

impl<N: Network> Fetcher<N> {
    pub fn new(neighbours: Arc<Neighbours>, network: N) -> Arc<Self> {
        Arc::new(Fetcher { neighbours, network, state: Mutex::default() })
    }

    pub async fn run(self: Arc<Self>, changes: &Changes) {
        let mut loops: JoinSet<()> = JoinSet::new();
        let mut followed: BTreeMap<String, AbortHandle> = BTreeMap::new();
        let mut published = Vec::new();
        let mut tick = interval(PERIOD);
        loop {
            tokio::select! {
                pages = changes.next() => {
                    for page in pages {
                        self.look_up(&page);
                        yield_now().await;
                    }
                }
                _ = tick.tick() => {
                    self.follow_all(&mut loops, &mut followed).await;
                    let servers = self.neighbours.servers.lock().clone();
                    if servers != published {
                        self.neighbours.publish_servers();
                        published = servers;
                    }
                }
            }
        }
    }

    /// Starts the loops of new servers, and ends those of servers that are neighbours no more.
    async fn follow_all(
        self: &Arc<Self>,
        loops: &mut JoinSet<()>,
        followed: &mut BTreeMap<String, AbortHandle>,
    ) {
        while loops.try_join_next().is_some() {}
        let origins = self.origins();
        for (origin, follow) in followed.extract_if(.., |origin, _| !origins.contains(origin)) {
            follow.abort();
            self.set_filter(&origin, None).await;
        }
        let mut servers = self.neighbours.servers.lock();
        servers.retain(|server| origins.contains(&server.origin));
        for origin in origins {
            if followed.contains_key(&origin) {
                continue;
            }
            let is_named = self.neighbours.named.contains(&origin);
            if !is_named {
                servers.push(Server::new(origin.clone()));
            } else if self.neighbours.depth == 2 {
                loops.spawn(self.clone().follow_neighbours_of(origin.clone()));
            }
            let follow = loops.spawn(self.clone().follow(origin.clone()));
            followed.insert(origin, follow);
        }
    }

    /// The origins of all neighbours. When the limit is reached, some that the settings do not name are missing.
    fn origins(&self) -> BTreeSet<String> {
        let state = self.state.lock();
        let mut origins: BTreeSet<String> = self.neighbours.named.iter().cloned().collect();
        for origin in state.further.values().flatten() {
            if origins.len() < KNOWN_MAX {
                origins.insert(origin.clone());
            }
        }
        origins
    }

    /// Asks a server of the settings for its neighbours, again and again. After a failure, those that it
    /// named before stay.
    async fn follow_neighbours_of(self: Arc<Self>, origin: String) {
        loop {
            match self.neighbours_of(&origin).await {
                Ok(servers) => drop(self.state.lock().further.insert(origin.clone(), servers)),
                Err(failure) => {
                    let failure = with_causes(&failure);
                    tracing::debug!(server = origin, failure, "cannot ask for its neighbours");
                }
            }
            sleep(LIMITS_PERIOD).await;
        }
    }

    async fn neighbours_of(&self, origin: &str) -> Result<Vec<String>, Failure> {
        let Some(Answer { bytes, .. }) = self.fetch(origin, "/limits", None).await? else {
            return Ok(Vec::new());
        };
        let named = named_in(&bytes)?;
        let is_near = is_near(origin).await;
        let mut servers = Vec::new();
        for server in named {
            // A server elsewhere must not make this one send requests into its own network.
            if is_near || !is_private(&server).await {
                servers.push(server);
            }
        }
        Ok(servers)
    }

    /// Looks a page up that changed here.
    fn look_up(&self, page: &str) {
        let here = self.neighbours.availability.of(page);
        let State { filters, wanted, .. } = &mut *self.state.lock();
        let mut servers = Vec::new();
        if here.is_watched && !here.is_available {
            let having = filters.iter().filter(|(_, filter)| filter.contains(page));
            servers.extend(having.map(|(origin, _)| origin.clone()));
            wanted.insert(page.into(), servers.clone());
        } else {
            wanted.remove(page);
        }
        self.publish(page, &servers);
    }

    /// Replaces the filter of a server, and looks the wanted pages up in it.
    async fn set_filter(&self, origin: &str, filter: Option<Filter>) {
        // Before the pages are looked up, so that one that changes meanwhile is looked up in this filter.
        match filter {
            Some(filter) => drop(self.state.lock().filters.insert(origin.to_owned(), filter)),
            None if self.state.lock().filters.remove(origin).is_none() => return,
            None => {}
        }
        let mut last = None;
        while let Some(page) = self.look_up_some(origin, last.as_deref()) {
            last = Some(page);
            yield_now().await;
        }
    }

    /// Looks the next wanted pages after a page up in the filter of a server. Returns the last of them.
    fn look_up_some(&self, origin: &str, after: Option<&str>) -> Option<Box<str>> {
        let State { filters, wanted, .. } = &mut *self.state.lock();
        let filter = filters.get(origin);
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        let pages = wanted.range_mut::<str, _>((after, Bound::Unbounded)).take(PAGES_AT_A_TIME);
        for (page, servers) in pages {
            last = Some(page);
            let has_page = filter.is_some_and(|filter| filter.contains(page));
            match servers.iter().position(|server| server == origin) {
                Some(at) if !has_page => drop(servers.remove(at)),
                None if has_page => servers.push(origin.to_owned()),
                _ => continue,
            }
            self.publish(page, servers);
        }
        last.cloned()
    }

    fn publish(&self, page: &str, servers: &[String]) {
        let told = told_of(servers, &self.neighbours.named);
        self.neighbours.publish_elsewhere(page, &told);
    }

    /// Asks one server, again and again.
    async fn follow(self: Arc<Self>, origin: String) {
        let (mut failures, mut etag) = (0, None);
        loop {
            let asked_at = Instant::now();
            match self.ask(&origin, &mut etag).await {
                Ok(pause) => {
                    failures = 0;
                    sleep_until(asked_at + pause.max(self.period(&origin))).await;
                }
                Err(failure) => {
                    failures += 1;
                    etag = None;
                    self.fail(&origin, &failure, failures).await;
                    let pause = match failure {
                        // It costs the bytes of a whole filter.
                        Failure::Full => FULL_RETRY,
                        _ => (PERIOD * (1 << failures.min(5))).min(RETRY_MAX),
                    };
                    sleep(pause).await;
                }
            }
        }
    }

    /// The least time from one request to a server to the next.
    fn period(&self, origin: &str) -> Duration {
        let servers = match self.is_named(origin) {
            true => 1,
            false => self.neighbours.servers.lock().len(),
        };
        PERIOD.max(PERIOD * servers as u32 / ASKED_PER_PERIOD as u32)
    }

    fn is_named(&self, origin: &str) -> bool {
        self.neighbours.named.iter().any(|named| named == origin)
    }

    /// Whether there is room for the pages of a server.
    fn has_room(&self, origin: &str, pages: usize) -> bool {
        let state = self.state.lock();
        let others = state.filters.iter().filter(|(other, _)| *other != origin);
        let known: usize = others.map(|(_, filter)| filter.len()).sum();
        known + pages <= FILTERED_PAGES_MAX || self.is_named(origin)
    }

    /// Asks a server for its filter. Returns the time until the next request.
    async fn ask(&self, origin: &str, etag: &mut Option<HeaderValue>) -> Result<Duration, Failure> {
        let Some(Answer { bytes, etag: new }) = self.fetch(origin, PAGES, etag.as_ref()).await?
        else {
            return Ok(PERIOD);
        };
        self.neighbours.filter_bytes.add(origin, bytes.len());
        let filter = Filter::decode(&bytes)?;
        if *filter.salt() == self.neighbours.salt {
            self.set_filter(origin, None).await;
            *etag = None;
            self.note(origin, ServerState::Itself, 0);
            return Ok(RETRY_MAX);
        }
        if !self.has_room(origin, filter.len()) {
            return Err(Failure::Full);
        }
        if self.note(origin, ServerState::Answers, filter.len() as u32) {
            tracing::info!(server = origin, "a neighbour answers");
        }
        let begun = Instant::now();
        self.set_filter(origin, Some(filter)).await;
        *etag = new;
        let rate = if self.is_named(origin) { BYTES_PER_SECOND } else { FURTHER_BYTES_PER_SECOND };
        let of_bytes = Duration::from_millis(bytes.len() as u64 * 1_000 / rate);
        Ok(PERIOD.max(of_bytes).max(begun.elapsed() * PAUSE_AFTER_LOOKING))
    }

    /// Notes that a server gave no filter, for this number of times in a row.
    async fn fail(&self, origin: &str, failure: &Failure, failures: u32) {
        self.neighbours.failures.inc();
        let state = failure.state();
        if failures < FAILURES_MAX && state != ServerState::Dense {
            return;
        }
        self.set_filter(origin, None).await;
        if self.note(origin, state, 0) {
            tracing::warn!(server = origin, %failure, "a neighbour fails, so its pages are not found");
        }
    }

    /// Notes the state of a server. Returns whether it is new.
    fn note(&self, origin: &str, state: ServerState, pages: u32) -> bool {
        let mut servers = self.neighbours.servers.lock();
        let Some(server) = servers.iter_mut().find(|server| server.origin == origin) else {
            return false;
        };
        let is_new = server.state != state;
        (server.state, server.pages) = (state, pages);
        is_new
    }

    /// Requests a path of a server. `None`: the answer is the one with this etag.
    async fn fetch(
        &self,
        origin: &str,
        path: &str,
        etag: Option<&HeaderValue>,
    ) -> Result<Option<Answer>, Failure> {
        timeout(TIMEOUT, self.send(origin, path, etag)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn send(
        &self,
        origin: &str,
        path: &str,
        etag: Option<&HeaderValue>,
    ) -> Result<Option<Answer>, Failure> {
        let request = Request::get(format!("{origin}{path}")).body(Empty::new());
        let mut request = request.expect("an origin and a path are a URL");
        add_headers(request.headers_mut(), "*/*");
        if let Some(etag) = etag {
            request.headers_mut().insert(header::IF_NONE_MATCH, etag.clone());
        }
        let response = self.network.request(request).await.map_err(Failure::Unreachable)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(None),
            // A redirect too: the server of the settings is meant, and no other.
            status => return Err(Failure::Status(status)),
        }
        let etag = response.headers().get(header::ETAG).cloned();
        let bytes_max = if self.is_named(origin) { FILTER_BYTES_MAX } else { FURTHER_BYTES_MAX };
        match Limited::new(response.into_body(), bytes_max).collect().await {
            Ok(body) => Ok(Some(Answer { bytes: body.to_bytes(), etag })),
            Err(error) if error.is::<LengthLimitError>() => Err(FilterError::Malformed.into()),
            Err(error) => Err(Failure::Unreachable(with_causes(&*error))),
        }
    }
}

/// The servers of these that the clients of a page are told. Those that the settings name are the first, so that
/// a neighbour that invents others cannot take their places.
fn told_of(servers: &[String], named: &[String]) -> Vec<String> {
    let mut servers = servers.to_vec();
    servers.sort_by_key(|origin| !named.contains(origin));
    servers.truncate(ELSEWHERE_MAX);
    servers
}

/// The origins of the neighbours in a response to `GET /limits`.
fn named_in(limits: &[u8]) -> Result<Vec<String>, serde_json::Error> {
    let limits: Value = serde_json::from_slice(limits)?;
    let rows = limits["neighbours"].as_array().map_or(&[][..], |rows| rows);
    let rows = rows.iter().take(SERVERS_MAX);
    Ok(rows.filter_map(|row| row["server"].as_str().and_then(servers::origin)).collect())
}

#[cfg(test)]
mod tests {
    use watchfire_tracker::Have;
    use watchfire_types::PeerId;

    use super::super::{filter, tests};
    use super::*;

    #[tokio::test]
    async fn pages_that_change_while_others_are_compared_with_a_filter_are_found_in_it() {
        const A: &str = "https://a.example";
        let (_, _, neighbours) = tests::neighbours(0);
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).build(https_connector().unwrap());
        let neighbours = Arc::new(neighbours);
        let fetcher = Fetcher::new(neighbours.clone(), client);
        let watch = |number: usize| {
            let page = format!("page {number}");
            neighbours.availability.peer_joined(&page, PeerId(1), Have::Nothing, false);
            fetcher.look_up(&page);
            page
        };
        let pages: Vec<String> = (0..2_500).map(watch).collect();
        let having: Vec<&str> = pages.iter().step_by(2).map(String::as_str).collect();
        let having = [&having[..], &["page 9999"]].concat();
        let filter = Filter::decode(&filter::encode(&[9; 16], having.into_iter())).unwrap();
        let expected = pages.iter().filter(|page| filter.contains(page)).count() + 1;
        let found = || neighbours.elsewhere.lock().len();

        let mut turns = Vec::new();
        let others = async {
            watch(9_999);
            loop {
                turns.push(found());
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = fetcher.set_filter(A, Some(filter)) => {}
            () = others => {}
        }
        assert_eq!(turns.len(), 3, "the others had their turn after each thousand: {turns:?}");
        assert!(turns[0] > 400 && turns[0] < turns[1], "{turns:?}");
        assert_eq!(found(), expected);
        assert!(neighbours.elsewhere.lock().contains_key("page 9999"));
        fetcher.set_filter(A, None).await;
        assert_eq!(found(), 0);
    }

    #[test]
    fn the_servers_of_the_settings_are_told_before_those_that_they_name() {
        let origins = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("https://{name}.example")).collect()
        };
        let servers = origins(&["0", "1", "2", "3", "4", "5", "6", "b", "7", "a"]);
        let told = told_of(&servers, &origins(&["a", "b", "c"]));
        assert_eq!(told, origins(&["b", "a", "0", "1", "2", "3", "4", "5"]));
        assert!(told_of(&[], &origins(&["a"])).is_empty());
    }

    #[test]
    fn the_limits_of_a_server_name_its_neighbours_unless_they_are_not_json() {
        let rows = r#"[{"server": "https://A.example/"}, {"server": 7}, {"server": "x"}, 7]"#;
        let limits = format!(r#"{{"neighbours": {rows}}}"#);
        assert_eq!(named_in(limits.as_bytes()).unwrap(), ["https://a.example"]);
        for none in ["{}", r#"{"neighbours": null}"#] {
            assert!(named_in(none.as_bytes()).unwrap().is_empty(), "{none}");
        }
        for invalid in ["", "<!doctype html>", r#"{"neighbours": ["#] {
            assert!(named_in(invalid.as_bytes()).is_err(), "{invalid}");
        }
    }
}
