//! Other servers, whose pages are found from here.
//!
//! A server tells its neighbours which pages are available on it ([`filter`]), and its first process asks each
//! of them for the same ([`fetch`]). A page that is watched here, and that nobody here has in full, may be
//! available at some of them. The clients of the page are told their origins, and go there by themselves, as any
//! visitor of that server does. Nothing else passes between the servers.
//!
//! Each process knows all pages of the server, so it answers `GET /neighbours/pages` by itself, and all
//! processes answer alike. The cost is a message to each process for a page that becomes available; a request
//! to the first process would need another one where that is gone. Only the first process of a machine
//! fetches. It sends the others what it found, by topic, and which servers it knows.

mod fetch;
mod filter;
mod guests;
mod servers;
#[cfg(test)]
mod simulation;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use watchfire::feature::{
    ClusterPart, Counter, FeatureError, MetricWriter, Part, PartLink, Running, Started,
};
use watchfire::internal::{ClientSender, Seed};
use watchfire_types::NodeId;

use crate::page::{Availability, Elsewhere, TOPIC_PREFIX, topic_of};

use filter::Salt;
#[doc(hidden)]
pub use filter::{Filter, FilterError};
pub(crate) use guests::GuestFeature;
pub use servers::NeighbourError;
pub(crate) use servers::{KnownServers, SERVER, origins};
use servers::{ServerCounters, by_server};

/// The filter of this server is made at most this often.
const FILTER_PERIOD: Duration = Duration::from_secs(1);
/// Servers that the clients of a page are told.
const ELSEWHERE_MAX: usize = 8;

/// The neighbours, as one process of the server knows them.
pub(crate) struct Neighbours {
    depth: u8,
    /// The origins of the settings.
    named: Vec<String>,
    salt: Salt,
    availability: Arc<Availability>,
    sender: Arc<dyn ClientSender>,
    link: PartLink,
    known: Arc<KnownServers>,
    servers: Mutex<Vec<Server>>,
    elsewhere: Arc<Elsewhere>,
    filter: tokio::sync::Mutex<Option<OwnFilter>>,
    found: Counter,
    failures: Counter,
    /// Of the first process, which fetches.
    filter_bytes: ServerCounters,
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Server {
    origin: String,
    state: ServerState,
    /// The pages in its last filter.
    pages: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ServerState {
    /// It has not been asked, or not for long enough.
    New,
    Answers,
    /// It does not answer.
    Silent,
    /// Its answer is not a filter.
    Invalid,
    /// Its filter says that it has almost every page.
    Dense,
    /// It is this server.
    Itself,
}

impl ServerState {
    /// Its name in `GET /limits` and in metrics.
    fn name(self) -> &'static str {
        match self {
            ServerState::New => "new",
            ServerState::Answers => "answers",
            ServerState::Silent => "silent",
            ServerState::Invalid => "invalid",
            ServerState::Dense => "dense",
            ServerState::Itself => "itself",
        }
    }
}

impl Server {
    fn new(origin: String) -> Self {
        Server { origin, state: ServerState::New, pages: 0 }
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Message<'a> {
    /// The servers that have a page.
    Elsewhere {
        page: &'a str,
        #[serde(borrow)]
        servers: Vec<&'a str>,
    },
    /// All servers that are neighbours.
    Servers(Vec<Server>),
}

/// The filter of this server's own pages.
#[derive(Clone)]
struct OwnFilter {
    made_at: Instant,
    bytes: Bytes,
    etag: HeaderValue,
}

impl Neighbours {
    /// `named` are the origins of the settings.
    pub fn new(
        depth: u8,
        named: Vec<String>,
        seed: Seed,
        availability: Arc<Availability>,
        elsewhere: Arc<Elsewhere>,
        sender: Arc<dyn ClientSender>,
        link: PartLink,
    ) -> Self {
        let numbers = ["neighbours 1", "neighbours 2"].map(|name| seed.of(name).to_be_bytes());
        let known = KnownServers::default();
        known.set(named.iter().cloned());
        let servers = named.iter().cloned().map(Server::new).collect();
        Neighbours {
            depth,
            filter_bytes: ServerCounters::new(&named),
            named,
            salt: numbers.concat().try_into().expect("two numbers have 16 bytes"),
            availability,
            sender,
            link,
            known: Arc::new(known),
            servers: Mutex::new(servers),
            elsewhere,
            filter: tokio::sync::Mutex::default(),
            found: Counter::default(),
            failures: Counter::default(),
        }
    }

    /// The origins of all neighbours, which change while the server runs.
    pub fn known(&self) -> &Arc<KnownServers> {
        &self.known
    }

    /// Notes which servers have a page. The first process of the machine calls this.
    fn publish_elsewhere(&self, page: &str, servers: &[String]) {
        let mut elsewhere = self.elsewhere.lock();
        let was_found = elsewhere.contains_key(page);
        if !note(&mut elsewhere, page, servers) {
            return;
        }
        // Under the lock, so that another process gets the states of a page in their order.
        self.link.publish_state(&topic_of(page), || elsewhere_message(page, servers));
        drop(elsewhere);
        if !was_found && !servers.is_empty() {
            self.found.inc();
        }
        self.tell_clients(page, servers);
    }

    /// Called after the change was noted: a client whose join did not see the change gets this after its reply.
    fn tell_clients(&self, page: &str, servers: &[String]) {
        let body = json!({ "servers": servers });
        self.sender.broadcast_here(&topic_of(page), "elsewhere", body.into());
    }

    /// Tells the other processes the servers. The first process of the machine calls this.
    fn publish_servers(&self) {
        let servers = self.servers.lock();
        self.known.set(servers.iter().map(|server| server.origin.clone()));
        self.link.send_state_all(&Message::Servers(servers.clone()));
    }

    /// Whether a process is the one whose messages count here.
    fn is_first_near(&self, node: NodeId) -> bool {
        self.link.cluster().of_machine().start == node.0
    }

    fn is_first(&self) -> bool {
        self.link.cluster().is_first_of_machine()
    }

    async fn own_filter(self: &Arc<Self>) -> OwnFilter {
        let mut filter = self.filter.lock().await;
        if let Some(filter) = filter.as_ref().filter(|one| one.made_at.elapsed() < FILTER_PERIOD) {
            return filter.clone();
        }
        let neighbours = self.clone();
        // A million pages take half a second.
        let made = tokio::task::spawn_blocking(move || neighbours.make_filter()).await;
        filter.insert(made.expect("making a filter does not fail")).clone()
    }

    fn make_filter(&self) -> OwnFilter {
        let made_at = Instant::now();
        let mut pages: Vec<Box<str>> = Vec::new();
        self.availability.for_each_available(|page| pages.push(page.into()));
        let bytes = filter::encode(&self.salt, pages.iter().map(|page| &**page));
        let hash = Sha256::digest(&bytes);
        let number = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"));
        let etag = HeaderValue::try_from(format!("\"{number:016x}\"")).expect("digits are valid");
        OwnFilter { made_at, bytes: bytes.into(), etag }
    }
}

/// Notes which servers have a page. Returns whether that is new.
fn note(elsewhere: &mut HashMap<Box<str>, Vec<String>>, page: &str, servers: &[String]) -> bool {
    if elsewhere.get(page).map_or(&[][..], |known| known) == servers {
        return false;
    }
    match servers.is_empty() {
        true => drop(elsewhere.remove(page)),
        false => drop(elsewhere.insert(page.into(), servers.to_vec())),
    }
    true
}

fn elsewhere_message<'a>(page: &'a str, servers: &'a [String]) -> Message<'a> {
    Message::Elsewhere { page, servers: servers.iter().map(String::as_str).collect() }
}

async fn get_pages(State(neighbours): State<Arc<Neighbours>>, headers: HeaderMap) -> Response {
    let OwnFilter { bytes, etag, .. } = neighbours.own_filter().await;
    let is_known = headers.get(header::IF_NONE_MATCH) == Some(&etag);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, etag),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, bytes).into_response(),
    }
}

impl Part for Neighbours {
    fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/neighbours/pages", get(get_pages)).with_state(self)
    }

    /// The neighbours of the settings only, so that a server that asks for them gets no neighbours of theirs.
    fn describe_limits(&self, _: Option<&str>, response: &mut Map<String, Value>) {
        let servers = self.servers.lock();
        let named = servers.iter().filter(|server| self.named.contains(&server.origin));
        let rows = named.map(|Server { origin, state, pages }| {
            json!({ "server": origin, "state": state.name(), "pages": pages })
        });
        response.insert("neighbours".to_owned(), rows.collect());
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        if !self.is_first() {
            return;
        }
        let servers = self.servers.lock();
        let is_failing = |server: &&Server| {
            use ServerState::{Dense, Invalid, Silent};
            // The operator can do nothing about the neighbours of a neighbour.
            self.named.contains(&server.origin) && matches!(server.state, Silent | Invalid | Dense)
        };
        let failing = servers.iter().filter(is_failing).count() as u64;
        let answering = servers.iter().filter(|server| server.state == ServerState::Answers);
        let answering = answering.count() as u64;
        let named = || servers.iter().filter(|server| self.named.contains(&server.origin));
        let states = named().map(|Server { origin, state, .. }| {
            [(SERVER, origin.as_str()), ("state", state.name())]
        });
        let states: Vec<_> = states.collect();
        writer.info("neighbours_state", "The state of a neighbour of the settings", &states);
        let all = servers.iter().map(|server| u64::from(server.pages)).sum();
        let of = |origin: &str| {
            let server = named().find(|server| server.origin == origin);
            server.map_or(0, |server| server.pages.into())
        };
        let help = "Pages that are available at neighbours";
        writer.gauges("neighbours_pages", help, SERVER, &by_server(&self.named, of, all));
        let help = "Bytes of filters that neighbours answered";
        self.filter_bytes.write(writer, "neighbours_filter_bytes", help);
        for (name, help, value) in [
            ("answering", "Neighbours that tell their pages", answering),
            ("silent", "Neighbours of the settings without a valid answer", failing),
        ] {
            writer.gauge(&format!("neighbours_{name}"), help, value);
        }
        let help = "Watched pages that were found at neighbours";
        writer.counter("neighbours_found", help, self.found.get());
        let help = "Requests to neighbours without a valid answer";
        writer.counter("neighbours_failures", help, self.failures.get());
    }

    fn start(
        self: Arc<Self>,
        started: &Started<'_>,
    ) -> Result<Option<Box<dyn Running>>, FeatureError> {
        self.availability.subscribe();
        if !started.is_first {
            return Ok(None);
        }
        Ok(Some(Box::new(RunningFetcher { _stop: fetch::start(self)? })))
    }
}

/// The thread that asks the neighbours, which ends when this is dropped.
struct RunningFetcher {
    _stop: oneshot::Sender<()>,
}

impl Running for RunningFetcher {}

impl ClusterPart for Neighbours {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let message: Message<'_> = postcard::from_bytes(message)?;
        // Another machine may have other neighbours, and asks them itself.
        if !self.is_first_near(from) {
            return Ok(());
        }
        match message {
            Message::Elsewhere { page, servers } => {
                let servers: Vec<String> = servers.into_iter().map(str::to_owned).collect();
                // The subscription may have ended while the message was on its way.
                if self.link.cluster().is_subscribed(&topic_of(page))
                    && note(&mut self.elsewhere.lock(), page, &servers)
                {
                    self.tell_clients(page, &servers);
                }
            }
            Message::Servers(servers) => {
                self.known.set(servers.iter().map(|server| server.origin.clone()));
                *self.servers.lock() = servers;
            }
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX).filter(|_| self.is_first()) else {
            return;
        };
        if let Some(servers) = self.elsewhere.lock().get(page) {
            self.link.send_state(node, &elsewhere_message(page, servers));
        }
    }

    /// The process may subscribe again, and then get what was sent before; so this follows it.
    fn unsubscribed(&self, node: NodeId, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX).filter(|_| self.is_first()) else {
            return;
        };
        if self.elsewhere.lock().contains_key(page) {
            self.link.send_state(node, &elsewhere_message(page, &[]));
        }
    }

    fn forget(&self, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX).filter(|_| !self.is_first()) else {
            return;
        };
        self.elsewhere.lock().remove(page);
    }

    fn node_up(&self, node: NodeId) {
        if self.is_first() {
            let servers = self.servers.lock();
            self.link.send_state(node, &Message::Servers(servers.clone()));
        }
    }

    fn node_down(&self, node: NodeId) {
        if self.is_first() || !self.is_first_near(node) {
            return;
        }
        let pages = std::mem::take(&mut *self.elsewhere.lock());
        pages.keys().for_each(|page| self.tell_clients(page, &[]));
    }
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    let server = Server::new("https://a.example".to_owned());
    vec![
        samples!(enum Message<'_>:
            Message::Elsewhere { page: "p", servers: vec!["https://a.example"] },
            Message::Servers(vec![server]),
        ),
        samples!(enum ServerState:
            ServerState::New,
            ServerState::Answers,
            ServerState::Silent,
            ServerState::Invalid,
            ServerState::Dense,
            ServerState::Itself,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use watchfire::feature::{PartName, SendError};
    use watchfire::internal::{Cluster, ParkedRequest, ProcessStarts};
    use watchfire::{Body, ChannelAddress};

    use super::*;
    use crate::fakes::FakeBus;

    const PAGE: &str = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
    const A: &str = "https://a.example";

    /// Clients that note what they are told.
    #[derive(Default)]
    pub struct Told(Mutex<Vec<(String, usize)>>);

    impl ClientSender for Told {
        fn broadcast_here(&self, topic: &str, event: &str, body: Body) {
            self.0.lock().push((format!("{topic} {event}"), body.len()));
        }

        fn push(&self, _: ChannelAddress, _: &str, _: Body) -> Result<(), SendError> {
            Ok(())
        }

        fn wake(&self, _: ParkedRequest) -> Result<(), SendError> {
            Ok(())
        }
    }

    impl Told {
        /// The lengths of the events about the page since the last call.
        fn take(&self) -> Vec<usize> {
            let told = std::mem::take(&mut *self.0.lock());
            assert!(told.iter().all(|(event, _)| *event == format!("page:{PAGE} elsewhere")));
            told.into_iter().map(|(_, bytes)| bytes).collect()
        }
    }

    fn elsewhere(neighbours: &Neighbours) -> Vec<String> {
        neighbours.elsewhere.lock().get(PAGE).cloned().unwrap_or_default()
    }

    /// The process 0 of a machine whose first process is this.
    pub fn neighbours(first: u16) -> (Arc<FakeBus>, Arc<Told>, Neighbours) {
        let (bus, told) = (Arc::new(FakeBus::default()), Arc::new(Told::default()));
        let starts = ProcessStarts::default();
        let cluster = Cluster::among(bus.clone(), first..first + 3, 10, None, starts);
        let link = PartLink::new(&Arc::new(cluster), PartName::new("neighbours", 1));
        let availability = Arc::new(Availability::new(link.clone(), true));
        let named = vec![A.to_owned()];
        let neighbours =
            Neighbours::new(1, named, Seed(7), availability, Arc::default(), told.clone(), link);
        (bus, told, neighbours)
    }

    fn receive(neighbours: &Neighbours, from: u16, message: &Message<'_>) {
        let bytes = postcard::to_stdvec(message).unwrap();
        neighbours.receive(NodeId(from), &bytes).unwrap();
    }

    #[test]
    fn another_process_knows_what_the_first_of_its_machine_has_found() {
        let (_, told, neighbours) = neighbours(5);
        let servers = [A.to_owned()];
        let found = elsewhere_message(PAGE, &servers);
        receive(&neighbours, 9, &found);
        assert!(elsewhere(&neighbours).is_empty(), "of another machine");
        receive(&neighbours, 5, &found);
        receive(&neighbours, 5, &found);
        assert_eq!(elsewhere(&neighbours), [A]);
        assert_eq!(told.take().len(), 1, "nothing new is not told");
        neighbours.forget(&topic_of(PAGE));
        assert!(elsewhere(&neighbours).is_empty());
        receive(&neighbours, 5, &found);
        neighbours.node_down(NodeId(6));
        assert_eq!(elsewhere(&neighbours), [A]);
        neighbours.node_down(NodeId(5));
        assert!(elsewhere(&neighbours).is_empty());
        let lengths = [r#"{"servers":["https://a.example"]}"#, r#"{"servers":[]}"#].map(str::len);
        assert_eq!(told.take(), lengths);
        let more = ["https://a.example", "https://b.example"];
        let more = more.map(|origin| Server::new(origin.to_owned())).to_vec();
        receive(&neighbours, 5, &Message::Servers(more));
        assert!(neighbours.known().contains("https://b.example"));
    }

    #[test]
    fn a_process_that_subscribes_to_a_page_is_told_where_it_is() {
        let (bus, told, neighbours) = neighbours(0);
        let (two, topic) = (NodeId(2), topic_of(PAGE));
        neighbours.introduce_to(two, &topic);
        neighbours.unsubscribed(two, &topic);
        assert!(bus.take_sent().is_empty(), "it is nowhere");
        neighbours.publish_elsewhere(PAGE, &[A.to_owned()]);
        neighbours.forget(&topic);
        neighbours.introduce_to(two, &topic);
        neighbours.unsubscribed(two, &topic);
        let sent = bus.take_sent();
        assert!(sent.iter().all(|(to, _)| *to == two));
        let ends_with = |at: usize, end: &[u8]| sent[at].1.ends_with(end);
        assert!(ends_with(0, A.as_bytes()) && ends_with(1, &[b'u', 0]), "{sent:?}");
        assert_eq!(told.take().len(), 1);
    }

    #[test]
    fn a_page_is_found_once_however_many_servers_have_it() {
        let (_, _, neighbours) = neighbours(0);
        let servers = ["https://a.example", "https://b.example"].map(str::to_owned);
        for (had, found) in [(1, 1), (2, 1), (1, 1), (0, 1), (2, 2)] {
            neighbours.publish_elsewhere(PAGE, &servers[..had]);
            assert_eq!(neighbours.found.get(), found, "{had}");
        }
    }

    #[tokio::test]
    async fn the_filter_is_made_at_most_once_a_second_and_its_etag_is_its_content() {
        let (_, _, neighbours) = neighbours(0);
        let neighbours = Arc::new(neighbours);
        let empty = neighbours.own_filter().await;
        let alice = watchfire_types::PeerId(1);
        neighbours.availability.peer_joined(PAGE, alice, watchfire_tracker::Have::All, false);
        assert_eq!(neighbours.own_filter().await.etag, empty.etag, "within the second");
        let full = neighbours.make_filter();
        assert_ne!(full.etag, empty.etag);
        assert_eq!(neighbours.make_filter().etag, full.etag);
        assert!(filter::Filter::decode(&full.bytes).unwrap().contains(PAGE));
    }
}
