//! Loads of the web client, and estimates of the visitors and sessions behind them, without cookies and without identity.
//!
//! A process hashes the address and the user agent of a load with a secret of the server, and forgets both. The first
//! process of the machine gets these hashes from all, so that a visitor of several processes counts once. It hashes them
//! again with random keys, which it has for one day and in memory only. After a restart, the day begins again.

mod crowd;
mod sketches;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Uri, header};
use parking_lot::Mutex;
use watchfire::feature::{ClusterPart, Counter, MetricWriter, Part, PartLink};
use watchfire::internal::now_ms;
use watchfire_types::{Instant, NodeId};

use self::crowd::Crowd;
use self::sketches::{Recent, Sketch};

/// Visits that wait for the next tick, of which there are ten a second. The visitors of further loads are not counted.
const VISITS_MAX: usize = 4_096;
/// Names under which the loads of a day are counted by the host of the referrer.
const HOSTS_MAX: usize = 32;
const HOST_BYTES_MAX: usize = 80;
/// The names for loads without a referrer, and for those with later hosts.
const NO_HOSTS: [&str; 2] = ["none", "other"];
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The hash of a visitor, and the host of the referrer; "none" while they are not counted.
type Visit = (u64, String);

/// The counts of one process.
pub(crate) struct PageLoads {
    link: PartLink,
    /// Known only to the processes of the server.
    secret: [u8; 32],
    counts_referrers: bool,
    loads: Counter,
    sessions: Counter,
    visits: Mutex<Vec<Visit>>,
    estimates: Mutex<Estimates>,
}

/// The estimates of the first process of a machine.
#[derive(Default)]
struct Estimates {
    /// The number of the day in UTC.
    day: u64,
    /// The keys of the day.
    salt: RandomState,
    visitors: Sketch,
    recent: Recent,
    /// The loads of the day by the host of the referrer.
    hosts: BTreeMap<String, u64>,
    crowd: Crowd,
    event: Option<String>,
}

impl PageLoads {
    pub fn new(link: PartLink, secret: [u8; 32], counts_referrers: bool) -> Self {
        let (loads, sessions, visits, estimates) = Default::default();
        PageLoads { link, secret, counts_referrers, loads, sessions, visits, estimates }
    }

    /// Counts a load by a client.
    pub fn count(&self, client: IpAddr, headers: &HeaderMap) {
        self.loads.inc();
        let agent = headers.get(header::USER_AGENT).map(|agent| agent.as_bytes());
        let mut hasher = DefaultHasher::new();
        (self.secret, client.to_canonical(), agent).hash(&mut hasher);
        let host = Some(headers).filter(|_| self.counts_referrers).and_then(referrer);
        self.add([(hasher.finish(), host.unwrap_or(NO_HOSTS[0].to_owned()))]);
    }

    fn add(&self, visits: impl IntoIterator<Item = Visit>) {
        let mut waiting = self.visits.lock();
        let room = VISITS_MAX.saturating_sub(waiting.len());
        waiting.extend(visits.into_iter().take(room));
    }

    fn estimate(&self, visits: Vec<Visit>, minute: u64, day: u64) {
        let mut estimates = self.estimates.lock();
        if estimates.day != day {
            let crowd = std::mem::take(&mut estimates.crowd);
            *estimates = Estimates { day, crowd, ..Estimates::default() };
        }
        let Estimates { salt, visitors, recent, crowd, event, hosts, .. } = &mut *estimates;
        recent.turn(minute);
        *event = crowd.turn(minute).or(event.take());
        for (visitor, host) in visits {
            let hash = salt.hash_one(visitor);
            visitors.insert(hash);
            if recent.begins_session(hash) {
                self.sessions.inc();
            }
            let has_name = host == NO_HOSTS[0] || hosts.contains_key(&host);
            let is_named = has_name || hosts.len() < HOSTS_MAX;
            let name = if is_named { host } else { NO_HOSTS[1].to_owned() };
            crowd.add(&name);
            *hosts.entry(name).or_default() += 1;
        }
    }
}

impl Part for PageLoads {
    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }

    fn handle_tick(&self, now: Instant) {
        let visits = std::mem::take(&mut *self.visits.lock());
        let cluster = self.link.cluster();
        if cluster.is_first_of_machine() {
            self.estimate(visits, now.as_secs() / 60, now_ms() / DAY_MS);
        } else if !visits.is_empty() {
            // While the first process is gone, these loads count without their visitors.
            self.link.send(NodeId(cluster.of_machine().start), &visits).ok();
        }
    }

    fn take_events(&self) -> Vec<(&'static str, String)> {
        self.estimates.lock().event.take().map(|text| ("crowd", text)).into_iter().collect()
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        let Estimates { visitors, hosts, .. } = &*self.estimates.lock();
        writer.counter("page_loads", "Loads of the web client", self.loads.get());
        writer.counter("page_sessions", "Sessions that began, estimated", self.sessions.get());
        let visitors = visitors.estimate().round() as u64;
        writer.gauge("page_visitors", "Visitors of this day (UTC), estimated", visitors);
        if self.counts_referrers {
            let hosts: Vec<_> = hosts.iter().map(|(host, loads)| (&**host, *loads)).collect();
            let help = "Loads of this day by the host of the page with the link";
            writer.counters_by("page_referrers", help, "host", &hosts);
        }
    }
}

impl ClusterPart for PageLoads {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        self.add(postcard::from_bytes::<Vec<Visit>>(message)?);
        Ok(())
    }
}

/// The host of the page with the link to this one.
fn referrer(headers: &HeaderMap) -> Option<String> {
    let uri = headers.get(header::REFERER)?.to_str().ok()?.parse::<Uri>().ok()?;
    let host = uri.host().filter(|host| host.len() <= HOST_BYTES_MAX)?;
    Some(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use watchfire::feature::PartName;

    use super::*;
    use crate::fakes::FakeBus;

    #[test]
    fn a_visitor_of_two_processes_counts_once_and_a_day_begins_with_nobody() {
        let bus = Arc::new(FakeBus::default());
        let link = || PartLink::new(&bus.cluster(), PartName::new("page_loads", 1));
        let [first, other] = [(); 2].map(|()| PageLoads::new(link(), [7; 32], true));
        let load = |loads: &PageLoads, host: String| {
            let referrer = HeaderValue::try_from(format!("https://{host}:8000/a?b=c")).unwrap();
            let headers = HeaderMap::from_iter([(header::REFERER, referrer)]);
            loads.count(IpAddr::from([192, 0, 2, 1]), &headers);
        };
        (0..40).for_each(|number| load(&first, format!("host-{number}.example")));
        load(&other, "Host-3.example".to_owned());
        let sent = postcard::to_stdvec(&*other.visits.lock()).unwrap();
        first.receive(NodeId(1), &sent).unwrap();
        first.estimate(std::mem::take(&mut *first.visits.lock()), 0, 20_000);
        let hosts = first.estimates.lock().hosts.clone();
        assert_eq!((hosts["other"], hosts["host-3.example"]), (8, 2), "{hosts:?}");
        let visitors = || first.estimates.lock().visitors.estimate().round();
        assert_eq!((first.sessions.get(), visitors()), (1, 1.0));
        first.estimate(Vec::new(), 1, 20_001);
        assert_eq!(visitors(), 0.0);
    }
}
