//! Many servers that name each other, on a simulated clock and network, from one seed: which pages are found, how
//! many servers a tab visits for it, and which of them learn a CID in vain.
//!
//! Filters, requests, states and the choice of the servers that a tab is told are the product's. Simulated are the
//! network, the tabs, and the hostile servers. `make sim-operators` runs the full size.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use watchfire::feature::{Part as _, PartLink, PartName};
use watchfire::internal::{Cluster, Seed};
use watchfire_tracker::Have;
use watchfire_types::{PeerId, Rng};

use super::fetch::{Body, Fetcher, Network};
use super::{FILTER_PERIOD, Neighbours, OwnFilter, filter};
use crate::fakes::NoClients;
use crate::page::Availability;

const TICK: Duration = Duration::from_millis(100);
const TICKS_PER_SECOND: usize = 10;
/// When all servers have found each other.
const WARM: usize = 15 * TICKS_PER_SECOND;
/// The longest time in which a tab waits for a page that is lit.
const WAIT_MAX: usize = 60 * TICKS_PER_SECOND;
/// The same for a page that nobody has. One that ends earlier was not there for long enough to be found.
const SHORT_WAIT: usize = 10 * TICKS_PER_SECOND;
/// The share of the servers that goes down in a minute.
const CHURN: f64 = 0.05;
/// The servers that a tab joins at a time, as `SERVERS_MAX` of the web client.
const VISITS_AT_ONCE: usize = 3;
const TAB: PeerId = PeerId(1);

struct Size {
    servers: usize,
    neighbours_max: usize,
    pages: usize,
    lookups: usize,
    seconds: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Honest,
    /// Its filter has every hash. It names servers that do not exist.
    ClaimsAll,
    /// Its filter claims as many other pages as a filter of its length can.
    Dense,
    /// As dense, and other pages each second.
    Random,
    Stalls,
    Redirects,
}

const HOSTILE: [Kind; 5] =
    [Kind::ClaimsAll, Kind::Dense, Kind::Random, Kind::Stalls, Kind::Redirects];

struct Site {
    kind: Kind,
    named: Vec<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The pages of its tabs, which come back with it.
    pages: BTreeSet<usize>,
    running: Option<Running>,
}

struct Running {
    neighbours: Arc<Neighbours>,
    filter: Option<(Instant, OwnFilter)>,
    /// Ends when it is dropped.
    _fetcher: JoinSet<()>,
}

struct World {
    sites: Vec<Site>,
    rng: Mutex<Rng>,
}

struct SimulatedNetwork(Arc<World>);
type Answer = Result<Response<Bytes>, String>;

/// An event at a server: it is up again, or a page there begins or ends.
type Event = (usize, Option<(usize, bool)>);

/// A tab that looks for a page, which one other server has, or nobody.
struct Lookup {
    site: usize,
    page: String,
    at: Option<(usize, usize)>,
    began: usize,
    visited: BTreeSet<String>,
    is_in_vain: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Figures {
    /// Of the lookups of a page that is within two hops: after how many ticks each found it.
    found_after: Vec<usize>,
    missed: usize,
    /// The servers that each lookup visited that found its page.
    visits: Vec<usize>,
    /// Lookups that visited a server without the page.
    in_vain: usize,
    /// The same of lookups of pages that nobody has.
    absent: usize,
    absent_in_vain: usize,
    downs: usize,
    followed_max: usize,
}

/// The address of a server: a number, because a name would be looked up.
fn origin(site: usize) -> String {
    format!("https://11.{}.{}.{}", site >> 16, site >> 8 & 255, site & 255)
}

fn index_of(origin: &str) -> usize {
    let numbers: Vec<usize> = origin.rsplit(['.', '/']).flat_map(str::parse).take(3).collect();
    numbers[2] << 16 | numbers[1] << 8 | numbers[0]
}

/// The limits of a server that names these.
fn limits_of(servers: impl Iterator<Item = usize>) -> Vec<u8> {
    let rows: Value = servers.map(|server| json!({ "server": origin(server) })).collect();
    json!({ "neighbours": rows }).to_string().into()
}

fn page_name(page: usize) -> String {
    format!("page {page}")
}

/// The filter of a server that claims pages at random.
fn random_filter(salt: u64) -> Vec<u8> {
    let salt = [salt.to_be_bytes(); 2].concat().try_into().expect("a salt has 16 bytes");
    let pages: Vec<String> = (0..127).map(|page| format!("claimed {page}")).collect();
    filter::encode(&salt, pages.iter().map(String::as_str))
}

impl Network for SimulatedNetwork {
    async fn request(&self, request: Request<Empty<Bytes>>) -> Result<Response<Body>, String> {
        let one_way = 10 + self.0.rng.lock().below(50);
        sleep(Duration::from_millis(2 * one_way)).await;
        let index = index_of(&format!("/{}", request.uri().host().expect("an origin has a host")));
        let Some(site) = self.0.sites.get(index) else { return Err("no such server".to_owned()) };
        if site.kind == Kind::Stalls {
            pending::<()>().await;
        }
        let random = self.0.rng.lock().next_u64();
        let response = site.answer(index, random, &request)?;
        Ok(response.map(|bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
    }
}

impl Site {
    fn answer(&self, index: usize, random: u64, request: &Request<Empty<Bytes>>) -> Answer {
        let is_for_limits = request.uri().path() == "/limits";
        let invented = || 40_000 + index * 32..40_032 + index * 32;
        let bytes = match self.kind {
            Kind::Honest => return self.answer_honestly(is_for_limits, request),
            Kind::Redirects | Kind::Stalls => {
                let response = Response::builder().status(StatusCode::FOUND).body(Bytes::new());
                return Ok(response.expect("a status is valid"));
            }
            Kind::ClaimsAll if is_for_limits => limits_of(invented()),
            Kind::Dense | Kind::Random if is_for_limits => limits_of(self.named.iter().copied()),
            Kind::ClaimsAll => [&[1; 17][..], &[16, 0, 0, 0xff, 0xff], &[0; 99]].concat(),
            Kind::Dense => random_filter(index as u64),
            Kind::Random => random_filter(random),
        };
        Ok(Response::new(bytes.into()))
    }

    fn answer_honestly(&self, is_for_limits: bool, request: &Request<Empty<Bytes>>) -> Answer {
        let mut state = self.state.lock();
        let Running { neighbours, filter, .. } =
            state.running.as_mut().ok_or("connection refused")?;
        if is_for_limits {
            let mut limits = Map::new();
            neighbours.describe_limits(None, &mut limits);
            return Ok(Response::new(Value::from(limits).to_string().into()));
        }
        if filter.as_ref().is_none_or(|(made_at, _)| made_at.elapsed() >= FILTER_PERIOD) {
            *filter = Some((Instant::now(), neighbours.make_filter()));
        }
        let (_, OwnFilter { bytes, etag, .. }) = filter.as_ref().expect("it was just made");
        let is_known = request.headers().get(header::IF_NONE_MATCH) == Some(etag);
        let (status, bytes) = match is_known {
            true => (StatusCode::NOT_MODIFIED, Bytes::new()),
            false => (StatusCode::OK, bytes.clone()),
        };
        let response = Response::builder().status(status).header(header::ETAG, etag);
        Ok(response.body(bytes).expect("a valid response"))
    }

    /// Calls a function with the neighbours as this server knows them, while it runs.
    fn with<T>(&self, call: impl FnOnce(&Neighbours) -> T) -> Option<T> {
        self.state.lock().running.as_ref().map(|running| call(&running.neighbours))
    }

    fn is_up(&self) -> bool {
        self.with(|_| ()).is_some()
    }
}

impl World {
    fn new(size: &Size, mut rng: Rng) -> World {
        let n = size.servers;
        let mut named = vec![Vec::new(); n];
        let mut ends: Vec<usize> = Vec::new();
        for site in 0..n {
            ends.extend(vec![site; 1 + rng.index(size.neighbours_max)]);
        }
        for at in (1..ends.len()).rev() {
            ends.swap(at, rng.index(at + 1));
        }
        let ring = (0..n).map(|site| [site, (site + 1) % n]);
        for (at, [a, b]) in ends.as_chunks().0.iter().copied().chain(ring).enumerate() {
            // The ring gives those a neighbour that have none.
            let is_needed = at < ends.len() / 2 || named[a].is_empty();
            if is_needed && a != b && !named[a].contains(&b) {
                named[a].push(b);
                named[b].push(a);
            }
        }
        let kind = |site: usize| match site % 10 {
            0 => HOSTILE[site / 10 % HOSTILE.len()],
            _ => Kind::Honest,
        };
        let site = |(site, named)| Site { kind: kind(site), named, state: Mutex::default() };
        let sites = named.into_iter().enumerate().map(site).collect();
        World { sites, rng: Mutex::new(rng) }
    }

    /// Starts a server, whose tabs come back.
    fn start(self: &Arc<Self>, site: usize) {
        let link = || PartLink::new(&Arc::new(Cluster::alone()), PartName::new("neighbours", 1));
        let availability = Arc::new(Availability::new(link(), true));
        let named = self.sites[site].named.iter().copied().map(origin).collect();
        let seed = Seed(self.rng.lock().next_u64());
        let neighbours = Arc::new(Neighbours::new(
            2,
            named,
            seed,
            availability.clone(),
            Arc::default(),
            Arc::new(NoClients),
            link(),
        ));
        let mut state = self.sites[site].state.lock();
        for page in &state.pages {
            availability.peer_joined(&page_name(*page), TAB, Have::All, false);
        }
        let changes = availability.changes();
        let fetcher = Fetcher::new(neighbours.clone(), SimulatedNetwork(self.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { fetcher.run(&changes).await });
        state.running = Some(Running { neighbours, filter: None, _fetcher: tasks });
    }

    fn handle(self: &Arc<Self>, (site, change): Event) {
        let Some((page, is_lit)) = change else { return self.start(site) };
        let name = page_name(page);
        let State { pages, running } = &mut *self.sites[site].state.lock();
        let availability = running.as_ref().map(|running| &running.neighbours.availability);
        if is_lit {
            pages.insert(page);
            availability.inspect(|all| all.peer_joined(&name, TAB, Have::All, false));
        } else {
            pages.remove(&page);
            availability.inspect(|all| all.peer_left(&name, TAB, Have::All));
        }
    }

    /// The honest servers that run within two hops of one.
    fn near(&self, site: usize) -> Vec<usize> {
        let up = |named: &[usize]| {
            named.iter().copied().filter(|site| self.sites[*site].is_up()).collect()
        };
        let first: Vec<usize> = up(&self.sites[site].named);
        let second = first.iter().flat_map(|site| -> Vec<usize> { up(&self.sites[*site].named) });
        let near: BTreeSet<usize> = second.chain(first.iter().copied()).collect();
        near.into_iter().filter(|other| *other != site).collect()
    }

    /// A tab opens a page of a server within two hops, or one that nobody has.
    fn look(&self, began: usize, is_absent: bool) -> Option<Lookup> {
        let rng = || self.rng.lock().next_u64() as usize;
        let site = rng() % self.sites.len();
        let at = if is_absent {
            None
        } else {
            let near = self.near(site);
            let other = *near.get(rng() % near.len().max(1))?;
            let state = self.sites[other].state.lock();
            Some((other, *state.pages.iter().nth(rng() % state.pages.len().max(1))?))
        };
        let page = at.map_or_else(|| format!("nobody has {}", rng()), |(_, page)| page_name(page));
        let join =
            |all: &Neighbours| all.availability.peer_joined(&page, TAB, Have::Nothing, false);
        self.sites[site].with(join)?;
        Some(Lookup { site, page, at, began, visited: BTreeSet::new(), is_in_vain: false })
    }

    /// Goes on with a lookup, as a tab does. Returns whether it goes on further.
    fn step(&self, now: usize, lookup: &mut Lookup, figures: &mut Figures) -> bool {
        let Lookup { site, ref page, at, began, .. } = *lookup;
        let here = &self.sites[site];
        let Some(named) = here.with(|all| all.elsewhere.lock().get(&**page).cloned()) else {
            return false;
        };
        let is_lit = |(other, page): (usize, usize)| {
            let other = &self.sites[other];
            other.is_up() && other.state.lock().pages.contains(&page)
        };
        let is_over = at.is_some_and(|at| !is_lit(at));
        let named = named.unwrap_or_default();
        let named: Vec<_> = named.iter().filter(|name| !lookup.visited.contains(*name)).collect();
        let mut is_found = false;
        for names in named.chunks(VISITS_AT_ONCE) {
            if is_found || is_over {
                break;
            }
            for name in names {
                let index = index_of(name);
                let other = &self.sites[index];
                lookup.visited.insert(name.to_string());
                // A server that is down, or does not admit the tab, does not learn the page.
                let admits = other.kind != Kind::Honest
                    || other.with(|all| all.known().contains(&origin(site))) == Some(true);
                let has_page = at.is_some_and(|(at, _)| at == index);
                is_found |= admits && has_page;
                lookup.is_in_vain |= admits && !has_page;
            }
        }
        let waited = now - began;
        let wait_max = if at.is_some() { WAIT_MAX } else { SHORT_WAIT };
        if !is_found && !is_over && waited < wait_max {
            return true;
        }
        here.with(|all| all.availability.peer_left(page, TAB, Have::Nothing));
        if is_over && waited < SHORT_WAIT {
            return false;
        }
        let in_vain = usize::from(lookup.is_in_vain);
        if at.is_none() {
            figures.absent += 1;
            figures.absent_in_vain += in_vain;
            return false;
        }
        figures.in_vain += in_vain;
        if is_found {
            figures.found_after.push(waited);
            figures.visits.push(lookup.visited.len());
        } else {
            figures.missed += 1;
        }
        false
    }
}

async fn simulate(size: &Size, seed: u64) -> Figures {
    let mut rng = Rng::from_seed(seed);
    let world = Arc::new(World::new(size, Rng::from_seed(rng.next_u64())));
    let honest = |site: &usize| world.sites[*site].kind == Kind::Honest;
    let honest: Vec<usize> = (0..size.servers).filter(honest).collect();
    let ticks = size.seconds * TICKS_PER_SECOND;
    let mut events: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
    for page in 0..size.pages {
        let (site, lit) = (honest[rng.index(honest.len())], 1 + rng.index(ticks));
        let out = lit + 10 * TICKS_PER_SECOND + rng.index(ticks / 2);
        events.entry(lit).or_default().push((site, Some((page, true))));
        events.entry(out).or_default().push((site, Some((page, false))));
    }
    honest.iter().for_each(|site| world.start(*site));
    let mut figures = Figures::default();
    let (mut lookups, mut started, mut started_absent): (Vec<Lookup>, _, _) = (Vec::new(), 0, 0);
    let mut now = 0;
    while now < ticks || !lookups.is_empty() {
        now += 1;
        sleep(TICK).await;
        events.remove(&now).iter().flatten().for_each(|event| world.handle(*event));
        for site in &honest {
            if rng.fraction() < CHURN / (60 * TICKS_PER_SECOND) as f64 && world.sites[*site].is_up()
            {
                world.sites[*site].state.lock().running = None;
                let up = now + 5 * TICKS_PER_SECOND + rng.index(30 * TICKS_PER_SECOND);
                events.entry(up).or_default().push((*site, None));
                figures.downs += 1;
            }
        }
        let due = size.lookups * now.saturating_sub(WARM).min(ticks - WARM) / (ticks - WARM);
        for (count, is_absent) in [(&mut started, false), (&mut started_absent, true)] {
            while *count < due {
                if let Some(lookup) = world.look(now, is_absent) {
                    lookups.push(lookup);
                    *count += 1;
                }
            }
        }
        lookups.retain_mut(|lookup| world.step(now, lookup, &mut figures));
    }
    let followed = |site: &Site| site.with(|all| all.servers.lock().len()).unwrap_or_default();
    figures.followed_max = world.sites.iter().map(followed).max().unwrap_or_default();
    figures.found_after.sort_unstable();
    figures.visits.sort_unstable();
    figures
}

fn run(size: &Size, seed: u64) -> Figures {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(simulate(size, seed))
}

/// The entry below which a share of the sorted numbers is.
fn quantile(sorted: &[usize], share: f64) -> usize {
    sorted[(sorted.len() as f64 * share) as usize]
}

#[test]
fn operators_find_each_others_pages_and_hardly_any_server_learns_a_cid_in_vain() {
    let seed = std::env::var("OPERATORS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let size = match std::env::var("OPERATORS").as_deref() {
        Ok(servers) => {
            let servers = servers.parse().expect("a number");
            Size {
                servers,
                neighbours_max: 20,
                pages: servers * 100,
                lookups: servers * 10,
                seconds: 90,
            }
        }
        Err(_) => Size { servers: 100, neighbours_max: 4, pages: 2_000, lookups: 300, seconds: 30 },
    };
    let figures = run(&size, seed);
    let Figures { found_after, visits, in_vain, absent, absent_in_vain, .. } = &figures;
    let found = found_after.len();
    let lookups = found + figures.missed;
    let seconds = |share| quantile(found_after, share) as f64 / TICKS_PER_SECOND as f64;
    println!("seed {seed}: {} went down, one knows {}", figures.downs, figures.followed_max);
    println!("found {found} of {lookups}: {} s (median), {} s (99 %)", seconds(0.5), seconds(0.99));
    println!("visits: {} (median), {} (99 %)", quantile(visits, 0.5), quantile(visits, 0.99));
    println!("a server without the page learned the CID: in {in_vain} of these lookups,");
    println!("and in {absent_in_vain} of {absent} lookups of a page that nobody has");
    assert!(found * 1_000 >= lookups * 995, "{found} of {lookups} were found");
    assert!(quantile(visits, 0.5) <= 2);
    assert!((in_vain + absent_in_vain) * 200 <= lookups + absent);
}

#[test]
fn a_seed_gives_the_same_figures_again() {
    let size = Size { servers: 20, neighbours_max: 4, pages: 200, lookups: 50, seconds: 20 };
    assert_eq!(run(&size, 1), run(&size, 1));
}
