//! A node of a run: what it does when, and what is measured of it.

use std::time::{Duration, Instant};

use crate::definition::NodePlan;
use crate::drivers::driver::{NodeProgress, NodeState, with_causes};
use crate::drivers::processes::host::{Network, NodeError, Site, Usage};
use crate::drivers::processes::program::{
    Node, Program, START_TIMEOUT, Status, Ticket, Totals, UsageByKind,
};
use crate::results::NodeResult;
use crate::results::spans::Listening;

/// The place of a node in its life. It leaves at most once, and then returns at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It can begin, and waits for its time.
    Ready,
    /// It fetches, or others fetch from it.
    Active,
    Left,
    /// It has returned, and cannot begin yet.
    Restarting,
}

/// A node of a run, in the order of the plan.
pub struct TrialNode<'a> {
    pub plan: &'a NodePlan,
    pub site: Site,
    /// Where the lab receives its spans, if it is in a namespace.
    _spans: Option<Listening>,
    pub node: Option<Box<dyn Node>>,
    /// The objects that it fetches.
    pub tickets: Vec<Ticket>,
    /// The objects that it has from the start.
    pub stored: Vec<Ticket>,
    /// The nodes that it dials, by their indices.
    pub dials: Vec<usize>,
    state: State,
    /// When it leaves; `None` once it has left.
    leaves_at: Option<Duration>,
    /// Changes of its link, and of its router, that have happened.
    link_changes: usize,
    router_changes: usize,
    /// The usage before the clock started, of all programs and of each kind.
    before: (Usage, UsageByKind),
    /// When it was prepared, from and to.
    pub prepared: Option<(Instant, Instant)>,
    pub result: NodeResult,
}

/// Does all that is due for one node.
pub fn advance(nodes: &mut [TrialNode<'_>], index: usize, program: &dyn Program, now: Duration) {
    let node = &mut nodes[index];
    node.leave_or_return(program, now);
    if node.result.failure.is_some() {
        return;
    }
    if node.state == State::Restarting && node.is_ready() {
        node.state = State::Ready;
    }
    if node.state == State::Ready && node.is_due(now) {
        let others = nodes[index].dials.iter().map(|other| &nodes[*other]);
        let present = others.filter(|other| other.state != State::Left);
        let addresses = present.filter_map(|other| other.node.as_ref()?.address()).collect();
        nodes[index].begin(addresses);
    }
    nodes[index].poll(now);
}

impl<'a> TrialNode<'a> {
    pub fn new(plan: &'a NodePlan, site: Site, spans: Option<Listening>) -> Self {
        TrialNode {
            plan,
            site,
            _spans: spans,
            node: None,
            tickets: Vec::new(),
            stored: Vec::new(),
            dials: Vec::new(),
            state: State::Ready,
            leaves_at: plan.leaves_at,
            link_changes: 0,
            router_changes: 0,
            before: (Usage::default(), Vec::new()),
            prepared: None,
            result: NodeResult {
                name: plan.name.clone(),
                group: plan.group.clone(),
                is_seeder: !plan.seeds.is_empty(),
                is_awaited: plan.is_awaited(),
                arrived_at: plan.arrives_at.as_secs_f64(),
                ..NodeResult::default()
            },
        }
    }

    pub fn fail(&mut self, error: &dyn std::error::Error) {
        self.result.failure.get_or_insert_with(|| with_causes(error));
    }

    pub fn prepare(&mut self, program: &dyn Program) {
        match program.prepare(&self.site, &self.tickets, &self.stored) {
            Ok(node) => self.node = Some(node),
            Err(error) => self.fail(&error),
        }
    }

    pub fn wait_until_ready(&mut self) {
        let waited = self.node.as_mut().map(|node| node.wait_until_ready(START_TIMEOUT));
        if let Some(Err(error)) = waited {
            self.fail(&error);
        }
    }

    /// Whether it can fetch, as far as is known now. A node that returns starts while the others run, and the clock must
    /// not wait for it: it would see their progress late, and let them arrive and leave late. Such a node has until the end
    /// of the run to start.
    fn is_ready(&mut self) -> bool {
        match self.node.as_mut().map(|node| node.wait_until_ready(Duration::ZERO)) {
            Some(Ok(())) => true,
            None | Some(Err(NodeError::NotReady { .. })) => false,
            Some(Err(error)) => {
                self.fail(&error);
                false
            }
        }
    }

    fn leave_or_return(&mut self, program: &dyn Program, now: Duration) {
        if self.leaves_at.take_if(|at| *at <= now).is_some() {
            self.state = State::Left;
            self.result.left_at = Some(now.as_secs_f64());
            self.node.iter_mut().for_each(|node| node.kill());
        }
        // A busy machine may notice only now that it left and should be back, before it has begun.
        if self.state != State::Left || !self.returns_by(now) {
            return;
        }
        if self.tickets.is_empty() {
            // It has no program that could return. The next poll says so.
            self.state = State::Active;
        } else {
            self.state = State::Restarting;
            self.result.left_at = None;
            self.prepare(program);
        }
    }

    fn returns_by(&self, now: Duration) -> bool {
        self.plan.returns_at.is_some_and(|at| at <= now)
    }

    fn is_due(&self, now: Duration) -> bool {
        self.plan.arrives_at <= now || self.returns_by(now)
    }

    fn begin(&mut self, dials: Vec<String>) {
        self.state = State::Active;
        if let Some(Err(error)) = self.node.as_mut().map(|node| node.fetch(&dials)) {
            self.fail(&error);
        }
    }

    fn poll(&mut self, now: Duration) {
        if self.state != State::Active || self.result.failure.is_some() {
            return;
        }
        match self.node.as_mut().map(|node| node.poll()) {
            Some(Ok(status)) if !self.tickets.is_empty() => self.note_progress(now, status),
            Some(Err(error)) => self.fail(&error),
            _ => {}
        }
    }

    fn note_progress(&mut self, now: Duration, status: Status) {
        let now = now.as_secs_f64();
        let total_bytes: u64 = self.tickets.iter().map(|ticket| ticket.bytes).sum();
        let share = status.bytes as f64 / total_bytes.max(1) as f64;
        if status.bytes > 0 {
            self.result.first_byte_at.get_or_insert(now);
        }
        if share > self.part() {
            self.result.progress.push((now, share.min(1.0)));
        }
        if status.has_all {
            self.result.finished_at.get_or_insert(now);
        }
        if self.has_unpacked() == Some(true) {
            self.result.unpacked_at.get_or_insert(now);
        }
    }

    fn has_unpacked(&self) -> Option<bool> {
        self.node.as_ref()?.has_unpacked()
    }

    /// Changes its link and its router as often as it is due.
    pub fn change_link(&mut self, network: &Network, now: Duration) {
        let changes = self.plan.link_changes.iter().skip(self.link_changes);
        for (_, link) in changes.take_while(|(at, _)| *at <= now) {
            network.set_link(&self.plan.name, *link);
            self.link_changes += 1;
        }
        let changes = self.plan.router_changes.iter().skip(self.router_changes);
        for (_, kind) in changes.take_while(|(at, _)| *at <= now) {
            network.replace_router(&self.plan.name, *kind);
            self.router_changes += 1;
        }
    }

    /// Whether the run waits for this node.
    pub fn is_pending(&self) -> bool {
        let is_unpacking = || self.state != State::Left && self.has_unpacked() == Some(false);
        self.result.is_awaited
            && self.result.failure.is_none()
            && (self.result.finished_at.is_none() || is_unpacking())
    }

    /// The share of its objects that it has.
    pub fn part(&self) -> f64 {
        self.result.progress.last().map_or(0.0, |(_, share)| *share)
    }

    pub fn progress(&self) -> NodeProgress<'_> {
        let result = &self.result;
        let state = match self.state {
            _ if result.failure.is_some() => NodeState::Failed,
            State::Left => NodeState::Left,
            _ if self.tickets.is_empty() => NodeState::Shares,
            _ if result.finished_at.is_some() => NodeState::Done,
            State::Active => NodeState::Fetches,
            State::Ready | State::Restarting => NodeState::Waits,
        };
        let part = if state == NodeState::Shares { 1.0 } else { self.part() };
        NodeProgress { name: &result.name, state, part, failure: result.failure.as_deref() }
    }

    fn usage(&mut self) -> (Usage, UsageByKind) {
        let node = self.node.as_mut();
        node.map(|node| (node.usage(), node.usage_by_kind())).unwrap_or_default()
    }

    /// Counts its usage from now on.
    pub fn note_start(&mut self) {
        self.before = self.usage();
    }

    /// Reads its usage since the clock started, and returns that of each kind of program.
    pub fn read_usage(&mut self) -> UsageByKind {
        let (usage, by_kind) = self.usage();
        let cpu = usage.cpu.saturating_sub(self.before.0.cpu);
        self.result.cpu_seconds = Some(cpu.as_secs_f64());
        self.result.peak_memory_bytes = (usage.peak_memory > 0).then_some(usage.peak_memory);
        since(by_kind, &self.before.1)
    }

    /// Ends it, and returns its totals.
    pub fn end(&mut self) -> Totals {
        let NodePlan { seeds, fetches, serves, .. } = self.plan;
        let ended = match &mut self.node {
            Some(node) if self.state != State::Left => node.end(),
            // A node without a part in the trial sends and receives nothing.
            None if !serves && seeds.is_empty() && fetches.is_empty() => Ok(Totals::none()),
            _ => Ok(Totals::default()),
        };
        ended.unwrap_or_else(|error| {
            self.fail(&error);
            Totals::default()
        })
    }
}

/// The usage after an earlier one. A peak is that of the whole life.
fn since(now: UsageByKind, before: &UsageByKind) -> UsageByKind {
    let one = |(kind, usage): (&'static str, Usage)| {
        let earlier = before.iter().find(|(known, _)| *known == kind);
        let cpu = earlier.map_or(Duration::ZERO, |(_, earlier)| earlier.cpu);
        (kind, Usage { cpu: usage.cpu.saturating_sub(cpu), ..usage })
    };
    now.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::definition::TrialPlan;
    use crate::drivers::processes::program::{Content, Started};

    const PLAN: &str = "
        [clusters.c]
        groups = [{ name = 'a' }, { name = 'b' }]
        [scenarios.s]
        objects.file = { random = '1KiB' }
        seed = { a = 'file' }
        fetch = { b = 'file' }
    ";

    /// A program whose nodes are ready when they are allowed to be, and have all when they began for the second time.
    #[derive(Clone, Default)]
    struct Fake {
        is_ready: Rc<Cell<bool>>,
        starts: Rc<Cell<u32>>,
    }

    impl Program for Fake {
        fn seed(&self, _: &Site, _: &[Content]) -> Started {
            unreachable!("it only fetches")
        }

        fn prepare(&self, _: &Site, _: &[Ticket], _: &[Ticket]) -> Started {
            self.starts.set(self.starts.get() + 1);
            Ok(Box::new(self.clone()))
        }
    }

    impl Node for Fake {
        fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), NodeError> {
            assert_eq!(timeout, Duration::ZERO, "a node that returns holds up no other");
            let (program, log) = (String::new(), String::new());
            let not_ready = NodeError::NotReady { program, seconds: 0, log };
            if self.is_ready.get() { Ok(()) } else { Err(not_ready) }
        }

        fn poll(&mut self) -> Result<Status, NodeError> {
            Ok(Status { bytes: 1, has_all: self.starts.get() == 2 })
        }

        fn end(&mut self) -> Result<Totals, NodeError> {
            Ok(Totals::default())
        }
    }

    /// The states of a node at some seconds. It is allowed to start again at the second 4.
    fn states(program: &Fake, times: [u64; 3], at: &[u64]) -> Vec<NodeState> {
        let mut plan = TrialPlan::first_of(PLAN).nodes.remove(1);
        let [arrives_at, leaves_at, returns_at] = times.map(Duration::from_secs);
        plan.arrives_at = arrives_at;
        (plan.leaves_at, plan.returns_at) = (Some(leaves_at), Some(returns_at));
        let (site, _folder) = Site::for_test();
        let mut nodes = [TrialNode::new(&plan, site, None)];
        nodes[0].tickets = vec![Ticket { object: 0, name: "it".to_owned(), bytes: 1 }];
        nodes[0].prepare(program);
        let state = |second: &u64| {
            program.is_ready.set(*second >= 4);
            advance(&mut nodes, 0, program, Duration::from_secs(*second));
            nodes[0].progress().state
        };
        at.iter().map(state).collect()
    }

    #[test]
    fn a_node_that_left_returns_once_and_is_not_waited_for() {
        use NodeState::{Done, Fetches, Left, Waits};
        let program = Fake::default();
        let states = states(&program, [1, 2, 3], &[0, 1, 2, 3, 4, 9]);
        assert_eq!(states, [Waits, Fetches, Left, Waits, Done, Done]);
        assert_eq!(program.starts.get(), 2);
    }

    #[test]
    fn a_node_that_leaves_before_it_arrives_returns_too() {
        let program = Fake::default();
        assert_eq!(states(&program, [50, 1, 1], &[5]), [NodeState::Done]);
        assert_eq!(program.starts.get(), 2);
    }

    #[test]
    fn cpu_time_counts_from_the_start_of_the_clock_and_a_peak_of_the_whole_life() {
        let usage = |seconds, peak_memory| Usage { cpu: Duration::from_secs(seconds), peak_memory };
        let after = vec![("client", usage(5, 10)), ("mirror", usage(2, 30))];
        let used = since(after, &vec![("client", usage(1, 10))]);
        assert_eq!(used, [("client", usage(4, 10)), ("mirror", usage(2, 30))]);
    }
}
