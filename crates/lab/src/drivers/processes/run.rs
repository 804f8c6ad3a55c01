//! One run: its nodes, and the clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use watchfire_types::Rng;

use super::super::bound_seconds;
use super::load::Users;
use super::network::{Network, Site};
use super::noise::Noise;
use super::objects::{Content, content};
use super::programs::{Node, Program, Status, Ticket, Totals, Usage};
use super::records::Records;
use super::workspace::Workspace;
use super::{DriverError, NodeProgress, NodeState, Progress};
use crate::definition::{NatKind, NodePlan, TrialPlan};
use crate::memory_filler::{MemoryFiller, MemoryRelease};
use crate::results::spans::{Listening, Receiver, RunTrace, trace_id};
use crate::results::{NodeResult, RunResult, Transfer};

/// The interval in which the nodes are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
/// The number that divides the choice of neighbours from other random numbers of the same seed.
const NEIGHBOURS_PURPOSE: u64 = 0xd1a1;

/// A node of the run, in the order of the plan.
struct Live<'a> {
    plan: &'a NodePlan,
    site: Site,
    /// Where the lab receives its spans, if it is in a namespace.
    _spans: Option<Listening>,
    node: Option<Box<dyn Node>>,
    /// The objects that it fetches.
    tickets: Vec<Ticket>,
    /// The objects that it has from the start.
    stored: Vec<Ticket>,
    dials: Vec<usize>,
    has_arrived: bool,
    has_left: bool,
    /// Changes of its link that have happened.
    link_changes: usize,
    /// CPU time before the clock started.
    cpu_before: Duration,
    /// When it was prepared, from and to.
    prepared: Option<(Instant, Instant)>,
    result: NodeResult,
}

/// Where a run happens.
pub struct World<'a> {
    /// The name of the driver.
    pub driver: &'static str,
    /// The program of each node, in the order of the plan.
    pub programs: &'a [Box<dyn Program>],
    pub network: Network,
    /// The program that makes the users of a load.
    pub watchfire: &'a Path,
    /// The folder of the objects.
    pub workspace: &'a Workspace,
    pub records: Records<'a>,
}

pub fn run(
    plan: &TrialPlan,
    World { driver, programs, mut network, watchfire, workspace, records }: World<'_>,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<RunResult, DriverError> {
    let awaited = plan.nodes.iter().filter(|node| node.is_awaited()).count();
    let mut phase = |phase: &str| {
        watch(Progress { phase, now: Duration::ZERO, part: 0.0, finished: 0, awaited, nodes: &[] });
    };
    // A run that failed may have left some.
    let _ = records.spans.map(Receiver::take);
    phase("writes objects");
    let objects = workspace.folder.join("objects");
    let folder = |source| DriverError::Folder { path: objects.clone(), source };
    fs::create_dir(&objects).map_err(folder)?;
    let contents = plan.objects.iter().map(|object| content(object, plan.seed, &objects));
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    phase("starts nodes with content");
    let mut nodes = sites(plan, workspace, &network, records)?;
    let tickets = start_seeders(&mut nodes, programs, &contents);
    phase("prepares nodes that fetch");
    prepare_fetchers(&mut nodes, programs, &tickets);
    let order = choose_dials(plan, &mut nodes);
    start_servers(&mut nodes, programs);
    let _release = fill_memory(plan, workspace, &mut phase)?;
    network.start_clock();
    let clock = Clock::start(plan, order, &mut nodes);
    let mut load =
        plan.load.as_ref().map(|file| Load::start(plan, file, &nodes, &network, watchfire));
    let took = clock.run(&mut nodes, programs, &network, load.as_mut(), watch);
    let noise = clock.noise.share();
    let on_wire = network.figures(nodes.len());
    let mut result = RunResult { noise, ..finish(plan, nodes, &contents, took, &clock) };
    if let Some((figures, bytes)) = on_wire {
        for (node, (sent, received)) in result.nodes.iter_mut().zip(bytes) {
            (node.sent_bytes, node.received_bytes) = (Some(sent), Some(received));
        }
        result.wire = Some(figures);
    }
    result.driver = driver.to_owned();
    let (exported, cut) = records.spans.map(Receiver::take).unwrap_or_default();
    let clock_started_at = Some(clock.started_at_unix);
    result.trace = RunTrace { id: trace_id(&workspace.id), clock_started_at, exported, cut };
    if let Some(load) = load {
        result.measures = load.measures;
        let serving = plan.nodes.iter().zip(&result.nodes).filter(|(node, _)| node.serves);
        for (node, measured) in serving {
            let mut add = |name: &str, value: Option<f64>| {
                let name = format!("{}: {name}", node.name);
                result.measures.extend(value.map(|value| (name, value)));
            };
            add("CPU-seconds", measured.cpu_seconds);
            add("peak memory, bytes", measured.peak_memory_bytes.map(|bytes| bytes as f64));
        }
        result.problems.extend(load.failure.map(|failure| format!("load: {failure}")));
    }
    Ok(result)
}

/// Fills the free memory, and releases it as programs need it until the end of the run.
fn fill_memory(
    plan: &TrialPlan,
    workspace: &Workspace,
    phase: &mut dyn FnMut(&str),
) -> Result<Option<MemoryRelease>, DriverError> {
    if !plan.fill_memory {
        return Ok(None);
    }
    phase("fills the memory");
    let filler = MemoryFiller::in_folder(&workspace.folder);
    let release = filler.and_then(|filler| filler.fill());
    release
        .map(Some)
        .map_err(|source| DriverError::Folder { path: workspace.folder.clone(), source })
}

fn sites<'a>(
    plan: &'a TrialPlan,
    workspace: &Workspace,
    network: &Network,
    records: Records<'_>,
) -> Result<Vec<Live<'a>>, DriverError> {
    let live = |(index, node): (usize, &'a NodePlan)| {
        let folder = workspace.folder.join(&node.name);
        if !matches!(network, Network::Given(_)) {
            fs::create_dir(&folder)
                .map_err(|source| DriverError::Folder { path: folder.clone(), source })?;
        }
        let mut site = network.site(index, &node.name, &workspace.id, folder);
        let spans = records.receive_spans(&mut site, index, node);
        let spans =
            spans.map_err(|source| DriverError::Spans { node: node.name.clone(), source })?;
        site.flame = records.flame(plan, node);
        Ok(Live {
            plan: node,
            site,
            _spans: spans,
            node: None,
            tickets: Vec::new(),
            stored: Vec::new(),
            dials: Vec::new(),
            has_arrived: false,
            has_left: false,
            link_changes: 0,
            cpu_before: Duration::ZERO,
            prepared: None,
            result: NodeResult {
                name: node.name.clone(),
                group: node.group.clone(),
                is_seeder: !node.seeds.is_empty(),
                is_awaited: node.is_awaited(),
                arrived_at: node.arrives_at.as_secs_f64(),
                ..NodeResult::default()
            },
        })
    };
    plan.nodes.iter().enumerate().map(live).collect()
}

/// Starts the nodes with content. Returns how each object is requested, by its index.
fn start_seeders(
    nodes: &mut [Live<'_>],
    programs: &[Box<dyn Program>],
    contents: &[Content],
) -> BTreeMap<usize, Ticket> {
    let mut tickets = BTreeMap::new();
    for (live, program) in
        nodes.iter_mut().zip(programs).filter(|(live, _)| !live.plan.seeds.is_empty())
    {
        let began = Instant::now();
        let seeds: Vec<usize> = live.plan.seeds.iter().copied().collect();
        let own = seeds.iter().map(|object| live.site.content(&contents[*object]));
        let own: Vec<Content> = match own.collect() {
            Ok(own) => own,
            Err(error) => {
                live.fail(&error);
                continue;
            }
        };
        let started = if live.plan.fetches.is_empty() {
            program.seed(&live.site, &own).map(|node| {
                live.stored = node.tickets().to_vec();
                live.node = Some(node);
            })
        } else {
            program.store(&live.site, &own).map(|stored| live.stored = stored)
        };
        if let Err(error) = started {
            live.fail(&error);
        }
        live.prepared = Some((began, Instant::now()));
        for (ticket, object) in live.stored.iter().zip(&seeds) {
            tickets.entry(*object).or_insert(Ticket { object: *object, ..ticket.clone() });
        }
    }
    tickets
}

fn prepare_fetchers(
    nodes: &mut [Live<'_>],
    programs: &[Box<dyn Program>],
    tickets: &BTreeMap<usize, Ticket>,
) {
    for (live, program) in nodes.iter_mut().zip(programs) {
        if live.plan.fetches.is_empty() || live.result.failure.is_some() {
            continue;
        }
        let wanted = live.plan.fetches.iter().filter_map(|object| tickets.get(object).cloned());
        live.tickets = wanted.collect();
        if live.tickets.len() < live.plan.fetches.len() {
            live.result.failure = Some("no node has its objects".to_owned());
            continue;
        }
        let began = live.prepared.map_or_else(Instant::now, |(began, _)| began);
        live.prepare(program.as_ref());
        live.prepared = Some((began, Instant::now()));
    }
    nodes.iter_mut().filter(|live| !live.plan.fetches.is_empty()).for_each(Live::wait_until_ready);
}

fn start_servers(nodes: &mut [Live<'_>], programs: &[Box<dyn Program>]) {
    for (live, program) in nodes.iter_mut().zip(programs).filter(|(live, _)| live.plan.serves) {
        let began = Instant::now();
        match program.serve(&live.site) {
            Ok(node) => live.node = Some(node),
            Err(error) => live.fail(&error),
        }
        live.prepared = Some((began, Instant::now()));
    }
}

/// The users of a run, and how they ended.
#[derive(Default)]
struct Load {
    users: Option<Users>,
    measures: BTreeMap<String, f64>,
    failure: Option<String>,
}

impl Load {
    /// Starts the users at the first server. Their process has the folder of that node.
    fn start(
        plan: &TrialPlan,
        file: &Path,
        nodes: &[Live<'_>],
        network: &Network,
        watchfire: &Path,
    ) -> Load {
        let mut load = Load::default();
        let server = nodes.iter().find(|live| live.plan.serves);
        let target = server.and_then(|live| Some((live, live.node.as_ref()?.address()?)));
        let Some((live, target)) = target else {
            load.failure = Some("no server started".to_owned());
            return load;
        };
        let site = network.users_site(&live.site);
        match Users::start(watchfire, &site, file, &target, plan.seed) {
            Ok(users) => load.users = Some(users),
            Err(error) => load.failure = Some(with_causes(&error)),
        }
        load
    }

    /// Whether users still run.
    fn is_pending(&mut self) -> bool {
        match self.users.as_mut().map(Users::poll) {
            Some(Ok(None)) => return true,
            Some(Ok(Some(measures))) => self.measures = measures,
            Some(Err(error)) => self.failure = Some(with_causes(&error)),
            None => {}
        }
        self.users = None;
        false
    }
}

/// An error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Chooses which earlier nodes each node dials; nodes that only have content are the first. All dial every earlier
/// node, unless the plan bounds the number of neighbours: then half of a node's neighbours are chosen here, and
/// the others are those that choose it. With 0 neighbours, a node dials only those that have content and fetch none. A
/// node behind a NAT dials others, and nobody dials it; of nodes that arrive together, those behind a NAT are the last.
/// Returns the order in which nodes begin.
fn choose_dials(plan: &TrialPlan, nodes: &mut [Live<'_>]) -> Vec<usize> {
    let mut rng = Rng::for_purpose(plan.seed, NEIGHBOURS_PURPOSE);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| {
        let node = nodes[*index].plan;
        (!node.fetches.is_empty(), node.arrives_at, node.nat != NatKind::Open)
    });
    for (place, own) in order.iter().enumerate() {
        let is_open = |other: &usize| nodes[*other].plan.nat == NatKind::Open;
        let mut earlier: Vec<usize> = order[..place].iter().copied().filter(is_open).collect();
        if plan.neighbours == Some(0) {
            earlier.retain(|other| nodes[*other].plan.fetches.is_empty());
        } else if let Some(neighbours) = plan.neighbours {
            rng.shuffle(&mut earlier);
            earlier.truncate((neighbours as usize / 2).max(1));
        }
        nodes[*own].dials = earlier;
    }
    order
}

impl Live<'_> {
    fn fail(&mut self, error: &dyn std::error::Error) {
        self.result.failure.get_or_insert_with(|| with_causes(error));
    }

    fn prepare(&mut self, program: &dyn Program) {
        match program.prepare(&self.site, &self.tickets, &self.stored) {
            Ok(node) => self.node = Some(node),
            Err(error) => self.fail(&error),
        }
    }

    fn wait_until_ready(&mut self) {
        if let Some(Err(error)) = self.node.as_mut().map(|node| node.wait_until_ready()) {
            self.fail(&error);
        }
    }

    /// Changes its link as often as it is due.
    fn change_link(&mut self, network: &Network, now: Duration) {
        let changes = self.plan.link_changes.iter().skip(self.link_changes);
        for (_, link) in changes.take_while(|(at, _)| *at <= now) {
            network.set_link(&self.plan.name, *link);
            self.link_changes += 1;
        }
    }

    /// Whether it does anything in the trial.
    fn has_part(&self) -> bool {
        let NodePlan { seeds, fetches, serves, .. } = self.plan;
        *serves || !seeds.is_empty() || !fetches.is_empty()
    }

    /// Whether the run waits for this node.
    fn is_pending(&self) -> bool {
        self.result.is_awaited && self.result.finished_at.is_none() && self.result.failure.is_none()
    }

    fn progress(&self) -> NodeProgress<'_> {
        let result = &self.result;
        let state = if result.failure.is_some() {
            NodeState::Failed
        } else if self.has_left {
            NodeState::Left
        } else if self.tickets.is_empty() {
            NodeState::Shares
        } else if result.finished_at.is_some() {
            NodeState::Done
        } else if self.has_arrived {
            NodeState::Fetches
        } else {
            NodeState::Waits
        };
        let part = match state {
            NodeState::Shares => 1.0,
            _ => result.progress.last().map_or(0.0, |(_, share)| *share),
        };
        NodeProgress { name: &result.name, state, part, failure: result.failure.as_deref() }
    }

    fn usage(&mut self) -> Usage {
        self.node.as_mut().map(|node| node.usage()).unwrap_or_default()
    }

    fn note_progress(&mut self, now: Duration, status: Status, total_bytes: u64) {
        let now = now.as_secs_f64();
        let share = status.bytes as f64 / total_bytes.max(1) as f64;
        let known = self.result.progress.last().map_or(0.0, |(_, share)| *share);
        if status.bytes > 0 {
            self.result.first_byte_at.get_or_insert(now);
        }
        if share > known {
            self.result.progress.push((now, share.min(1.0)));
        }
        if status.has_all {
            self.result.finished_at.get_or_insert(now);
        }
    }
}

/// The clock of a run.
struct Clock {
    /// The order in which nodes begin.
    order: Vec<usize>,
    started_at: Instant,
    started_at_unix: SystemTime,
    noise: Noise,
    time_max: Duration,
}

impl Clock {
    fn start(plan: &TrialPlan, order: Vec<usize>, nodes: &mut [Live<'_>]) -> Clock {
        for live in nodes.iter_mut() {
            live.cpu_before = live.usage().cpu;
        }
        let noise = Noise::start();
        let (started_at, started_at_unix) = (Instant::now(), SystemTime::now());
        Clock { order, started_at, started_at_unix, noise, time_max: plan.time_max }
    }

    /// Times before the clock started, in its seconds.
    fn before(&self, (from, to): (Instant, Instant)) -> [f64; 2] {
        [from, to].map(|at| -self.started_at.saturating_duration_since(at).as_secs_f64())
    }

    /// Runs until no awaited node is pending, or until the time limit. Returns the time that it took.
    fn run(
        &self,
        nodes: &mut [Live<'_>],
        programs: &[Box<dyn Program>],
        network: &Network,
        mut load: Option<&mut Load>,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Duration {
        let phase = if load.is_some() { "runs users" } else { "fetches" };
        loop {
            let now = self.started_at.elapsed();
            for index in &self.order {
                nodes[*index].change_link(network, now);
                step(nodes, *index, programs[*index].as_ref(), now);
            }
            let awaited = nodes.iter().filter(|live| live.result.is_awaited);
            let (mut part, mut finished, mut count) = (0.0, 0, 0);
            for live in awaited {
                count += 1;
                finished += usize::from(live.result.finished_at.is_some());
                part += live.result.progress.last().map_or(0.0, |(_, share)| *share);
            }
            let part = part / count.max(1) as f64;
            let each: Vec<NodeProgress<'_>> = nodes.iter().map(Live::progress).collect();
            watch(Progress { phase, now, part, finished, awaited: count, nodes: &each });
            let has_users = load.as_mut().is_some_and(|load| load.is_pending());
            if now >= self.time_max || !(has_users || nodes.iter().any(Live::is_pending)) {
                return now;
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Does all that is due for one node.
fn step(nodes: &mut [Live<'_>], index: usize, program: &dyn Program, now: Duration) {
    let live = &mut nodes[index];
    let leaves = live.plan.leaves_at.is_some_and(|at| at <= now);
    if leaves && !live.has_left {
        live.has_left = true;
        live.result.left_at = Some(now.as_secs_f64());
        if let Some(node) = &mut live.node {
            node.kill();
        }
    }
    let returns = live.plan.returns_at.is_some_and(|at| at <= now);
    if live.has_left && returns && live.has_arrived && !live.tickets.is_empty() {
        live.has_left = false;
        live.result.left_at = None;
        live.has_arrived = false;
        live.prepare(program);
        live.wait_until_ready();
    }
    if live.has_left && !returns {
        return;
    }
    let is_due = live.plan.arrives_at <= now || live.plan.returns_at.is_some_and(|at| at <= now);
    if !live.has_arrived && is_due {
        live.has_arrived = true;
        let dials: Vec<String> = nodes[index]
            .dials
            .iter()
            .filter(|other| !nodes[**other].has_left)
            .filter_map(|other| nodes[*other].node.as_ref()?.address())
            .collect();
        let live = &mut nodes[index];
        if let Some(Err(error)) = live.node.as_mut().map(|node| node.fetch(&dials)) {
            live.fail(&error);
        }
    }
    let live = &mut nodes[index];
    if live.result.failure.is_some() || (live.result.finished_at.is_some() && live.has_left) {
        return;
    }
    let total_bytes = live.tickets.iter().map(|ticket| ticket.bytes).sum();
    match live.node.as_mut().filter(|_| live.has_arrived).map(|node| node.poll()) {
        Some(Ok(status)) if !live.tickets.is_empty() => {
            live.note_progress(now, status, total_bytes)
        }
        Some(Err(error)) => live.fail(&error),
        _ => {}
    }
}

/// Reads the figures of all nodes, and ends them one after another. So of each pair that exchanged content, the
/// first one to end still has the other as a peer, and tells the bytes of both directions.
fn finish(
    plan: &TrialPlan,
    mut nodes: Vec<Live<'_>>,
    contents: &[Content],
    took: Duration,
    clock: &Clock,
) -> RunResult {
    for live in &mut nodes {
        live.result.prepared = live.prepared.map(|times| clock.before(times));
        let usage = live.usage();
        let cpu = usage.cpu.saturating_sub(live.cpu_before);
        live.result.cpu_seconds = Some(cpu.as_secs_f64());
        live.result.peak_memory_bytes = (usage.peak_memory > 0).then_some(usage.peak_memory);
    }
    let mut totals: Vec<Totals> = Vec::new();
    let mut problems = Vec::new();
    for live in &mut nodes {
        let has_part = live.has_part();
        let ended = match &mut live.node {
            Some(node) if !live.has_left => node.end(),
            // A node without a part in the trial sends and receives nothing.
            None if !has_part => Ok(Totals::NONE),
            _ => Ok(Totals::default()),
        };
        totals.push(ended.unwrap_or_else(|error| {
            live.fail(&error);
            Totals::default()
        }));
        if let Some(failure) = &live.result.failure {
            problems.push(format!("{}: {failure}", live.plan.name));
        }
    }
    let transfers = transfers(&totals);
    let fetched = plan.nodes.iter().flat_map(|node| &node.fetches);
    let mut fetched: Vec<usize> = fetched.copied().collect();
    fetched.sort_unstable();
    fetched.dedup();
    let results = nodes.into_iter().zip(totals).map(|(live, totals)| NodeResult {
        content_sent_bytes: totals.content_sent_bytes,
        sent_bytes: totals.sent_bytes,
        received_bytes: totals.received_bytes,
        duplicate_bytes: totals.duplicate_bytes,
        messages: totals.messages,
        ..live.result
    });
    let object_bytes = fetched.iter().map(|object| contents[*object].bytes).sum();
    RunResult {
        trial: plan.name.clone(),
        driver: String::new(),
        seed: plan.seed,
        object_bytes,
        bound_seconds: bound_seconds(plan, object_bytes),
        took_seconds: took.as_secs_f64(),
        nodes: results.collect(),
        transfers,
        problems,
        ..RunResult::default()
    }
}

/// The content that went between nodes, where their programs tell it.
fn transfers(totals: &[Totals]) -> Vec<Transfer> {
    let by_identity: BTreeMap<&str, usize> = totals
        .iter()
        .enumerate()
        .filter_map(|(index, totals)| Some((totals.identity.as_deref()?, index)))
        .collect();
    let mut bytes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (own, totals) in totals.iter().enumerate() {
        for (other, sent, received) in &totals.with {
            let Some(other) = by_identity.get(other.as_str()) else { continue };
            for (pair, count) in [((own, *other), *sent), ((*other, own), *received)] {
                let known = bytes.entry(pair).or_insert(0);
                *known = (*known).max(count);
            }
        }
    }
    let is_used = |(_, bytes): &((usize, usize), u64)| *bytes > 0;
    let transfer = |((from, to), bytes)| Transfer { from, to, bytes };
    bytes.into_iter().filter(is_used).map(transfer).collect()
}
