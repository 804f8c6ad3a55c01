//! Scenarios: the arrivals and the sessions of simulated users. A scenario is checked before the
//! load.

mod answer;
mod audience;
mod compile;
mod file;
mod login;
mod pattern;
mod program;
mod relay;
mod rows;
mod source_groups;
mod target;
mod text;
mod tsung;
mod value;
mod xpath;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

use crate::tls::TlsSettings;

pub use target::Target;
pub use watchfire_report::scenario::ScenarioError;

pub(crate) use answer::{Action, Answer, Content, Found, Missing, Save};
pub(crate) use audience::Audiences;
pub(crate) use program::{
    ChangeProtocol, Condition, Connect, Each, Effect, Files as PageFiles, Headers, Http,
    LOOPS_NESTED_MAX, Message, Op, PageVisit, Poll, Rate, Send, Serializer, Set, SetTo, StepId,
    ThinkTime, Wanted,
};
pub(crate) use relay::{PEER_BYTES, Page, PageMessage, peer_id, relayed};
pub(crate) use rows::Rows;
pub(crate) use source_groups::SourceGroup;
pub(crate) use target::whole_url;
pub(crate) use text::{Mark, SentAt, Text, TextContext, Variables, sent_at};
pub(crate) use value::Value;

/// More workers than this take several users in a row.
const BLOCKED_FROM: usize = 16;
/// Users that one of many workers takes in a row.
const BLOCK_USERS: usize = 64;
/// The name of the step that measures recovered messages.
const RECOVERED: &str = "recovered";

/// Reads the other files that a scenario names, relative to its own folder.
pub(crate) type Files<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// The text of a file that the scenario names.
fn file_text(files: &mut Files<'_>, file: &str) -> Result<String, String> {
    let text = files(file).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
    });
    text.map_err(|cause| format!("cannot read {file}: {cause}"))
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// The servers, by weight.
    pub targets: Vec<Target>,
    /// The source addresses of users; empty lets the kernel choose.
    pub(crate) sources: Vec<SourceGroup>,
    /// The source ports of users that have a source address.
    pub ports: (u16, u16),
    /// Most users at the same time; further users are rejected.
    pub users_max: u64,
    /// Most connections that await their first answer at the same time; further users arrive later.
    pub opening_max: u64,
    pub step_timeout: Duration,
    /// Time that users may continue after the last phase.
    pub wind_down: Duration,
    /// The arrival phases, one after another.
    pub phases: Vec<Phase>,
    pub thresholds: Thresholds,
    pub(crate) sessions: Vec<Session>,
    pub(crate) steps: Vec<String>,
    pub(crate) variables: Variables,
    /// Whether some text contains `${now}`.
    pub(crate) is_timed: bool,
    /// The step that measures recovered messages, if receivers check the order of some.
    pub(crate) recovered: Option<StepId>,
    pub(crate) audiences: Audiences,
    pub(crate) rows: Vec<Rows>,
    /// The pages that users load from each other.
    pub(crate) pages: Vec<Page>,
    /// Users that arrive at a fixed time, with the index of their session, ordered by time.
    pub(crate) fixed_arrivals: Vec<(Duration, u16)>,
    /// The `User-Agent` of users, by weight.
    pub(crate) user_agents: Vec<(f64, String)>,
    /// How many users must wait at a [`Op::Meet`].
    pub(crate) meeting_size: u64,
    pub(crate) rate: Option<Rate>,
    pub(crate) tls: TlsSettings,
    /// Parts of the file that have no effect here.
    pub notes: Vec<String>,
}

/// A period in which users arrive at a constant or linearly changing rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    pub duration: Duration,
    /// Arrivals per second at its start.
    pub rate: f64,
    /// Arrivals per second at its end.
    pub rate_end: f64,
    pub spacing: Spacing,
    /// Most users that arrive in this phase.
    pub users_max: Option<u64>,
    /// The weights of the sessions in this phase; `None` uses the weights that the sessions name.
    pub weights: Option<Vec<f64>>,
    /// Whether the next phase begins only after all users have ended.
    pub waits_for_users: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// At equal distances.
    #[default]
    Even,
    /// Independently of each other (Poisson).
    Random,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) weight: f64,
    pub(crate) ops: Vec<Op>,
    /// The number of variables that it sets, and the text of one that it has not set.
    pub(crate) slots: usize,
    pub(crate) undefined: &'static str,
    /// Whether a user keeps the cookies of its server.
    pub(crate) keeps_cookies: bool,
    /// How a user connects again after its connection broke; `None` ends it.
    pub(crate) reconnect: Option<Reconnect>,
    /// The values that a user saves from each message that has them.
    pub(crate) keeps: Vec<Save>,
    /// The index of the server at which its users begin; `None` lets them take turns.
    pub(crate) server: Option<u16>,
}

/// The pauses before each attempt to connect again, of which the last is repeated.
#[derive(Clone, Debug)]
pub(crate) struct Reconnect {
    /// At least one.
    pub(crate) pauses: Vec<Duration>,
    /// The step that measures the time until the user is back.
    pub(crate) step: StepId,
}

/// The thresholds that a load must keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    pub errors_max: Option<u64>,
    /// Errors per hundred started users.
    pub errors_percent_max: Option<f64>,
    /// Users connected at the same time.
    pub connected_min: Option<u64>,
    /// Planned users that were not started.
    pub missing_users_max: Option<u64>,
    /// Messages for one user that nobody has received.
    pub lost_max: Option<u64>,
    /// How late the generator may start users, 99th percentile.
    pub start_lateness_p99_max: Option<Duration>,
    /// Numbers that receivers of messages with `in_order` did not see, and those that they saw again.
    pub in_order_missing_max: Option<u64>,
    pub in_order_repeated_max: Option<u64>,
    /// The least number of received messages with `in_order`, of all receivers.
    pub in_order_received_min: Option<u64>,
    /// Receivers that did not receive a broadcast, in total.
    pub broadcasts_missing_max: Option<u64>,
    /// The longest delay of a broadcast to its last receiver.
    pub broadcasts_last_max: Option<Duration>,
    /// The thresholds of single steps, by name.
    pub steps: Vec<(String, StepThresholds)>,
}

/// The thresholds of one step. All times count from when it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepThresholds {
    pub p50_max: Option<Duration>,
    pub p95_max: Option<Duration>,
    pub p99_max: Option<Duration>,
    pub p999_max: Option<Duration>,
    pub max: Option<Duration>,
    /// The least number of times that the step is done.
    pub count_min: Option<u64>,
}

impl Phase {
    /// The most arrivals per second.
    const RATE_MAX: f64 = 10_000_000.0;
}

impl Scenario {
    /// Parses a scenario in TOML, or in the XML of Tsung. `name` is the file name for errors.
    ///
    /// ```
    /// let error = watchfire_load::Scenario::parse("lobby.toml", "[[targets]]\nurl =
    /// 'gopher://x'\n"); assert!(error.unwrap_err().to_string().starts_with("lobby.toml:"));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(name, text, &mut |_| Err("the scenario has no folder".to_owned()))
    }

    /// Parses a scenario that may name other files.
    pub(crate) fn parse_with(
        name: &str,
        text: &str,
        files: &mut Files<'_>,
    ) -> Result<Scenario, ScenarioError> {
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            return tsung::parse(name, text, files);
        }
        file::parse(name, text, files)
    }

    /// The indexes of the steps that are groups of other steps.
    pub(crate) fn groups(&self) -> BTreeSet<usize> {
        let ops = self.sessions.iter().flat_map(|session| &session.ops);
        ops.filter_map(|op| match op {
            Op::GroupEnd { step, .. } => Some(usize::from(step.0)),
            _ => None,
        })
        .collect()
    }

    /// Resolves the servers, and checks the number of users.
    pub(crate) fn prepare(&mut self, name: &str) -> Result<(), ScenarioError> {
        let error = |key, problem: &str| Err(ScenarioError::new(name, 0, key, problem));
        if self.targets.iter().all(|target| target.weight == 0.0) {
            return error("targets", "no target with a weight; add one here or with --to");
        }
        if self.targets.iter().any(|target| target.is_tls) {
            self.tls.client().map_err(|problem| ScenarioError::new(name, 0, "tls", problem))?;
        }
        if self.users() == 0 {
            return error("phases", "no user arrives; give a phase a rate above 0");
        }
        if self.users() > u64::from(u32::MAX) {
            return error("phases", "more than four billion users");
        }
        let sources: Vec<IpAddr> = self.source_addresses().collect();
        let found = self.targets.iter_mut().try_for_each(|target| target.resolve(&sources));
        found.map_err(|problem| ScenarioError::new(name, 0, "targets", problem))
    }

    /// The index of a server, such as `http://localhost:4000`.
    pub(crate) fn target_of(&self, server: &str) -> Option<u16> {
        let wanted = Target::parse(server, 0.0).ok()?;
        let found = self.targets.iter().position(|target| target.is_same_server(&wanted));
        found.map(|index| index as u16)
    }

    pub fn duration(&self) -> Duration {
        self.phases.iter().map(|phase| phase.duration).sum()
    }

    pub fn users(&self) -> u64 {
        let fixed = self.fixed_arrivals.len() as u64;
        self.phases.iter().map(Phase::users).sum::<u64>() + fixed
    }

    /// The source addresses of users; none lets the kernel choose.
    pub fn source_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.sources.iter().flat_map(|group| &group.addresses).copied()
    }

    /// How many users in a row each of these workers takes. If users may be turned away, each worker must have
    /// its share of them at every moment.
    pub(crate) fn block(&self, workers: usize) -> usize {
        let has_all = self.users_max >= self.users();
        let are_many = self.users() / workers.max(1) as u64 >= 16 * BLOCK_USERS as u64;
        if workers > BLOCKED_FROM && has_all && are_many { BLOCK_USERS } else { 1 }
    }

    /// The most users that can be active at the same time.
    pub fn users_at_once_max(&self) -> u64 {
        self.users().min(self.users_max)
    }

    /// The most open files of users at the same time: a user that polls beside its other steps has
    /// two connections if one of these steps needs one.
    pub(crate) fn files_at_once_max(&self) -> u64 {
        let has_two = |session: &Session| {
            let beside = session.ops.iter().position(|op| matches!(op, Op::BackgroundPoll(_)));
            let needs = |op: &Op| matches!(op, Op::Http(_) | Op::Poll(_) | Op::Connect(_));
            beside.is_some_and(|at| session.ops[at..].iter().any(needs))
        };
        let each = if self.sessions.iter().any(has_two) { 2 } else { 1 };
        self.users_at_once_max().saturating_mul(each)
    }

    /// Sends all users to these servers instead.
    pub fn set_targets(&mut self, urls: &[String]) -> Result<(), ScenarioError> {
        let targets = urls.iter().map(|url| Target::parse(url, 1.0));
        let targets = targets.collect::<Result<Vec<_>, _>>();
        let mut targets = targets.map_err(|problem| ScenarioError::new("--to", 0, "", problem))?;
        let Some(first) = targets.first() else { return Ok(()) };
        // Requests may name a server by its index.
        let mut unchosen = first.clone();
        unchosen.weight = 0.0;
        targets.resize(targets.len().max(self.targets.len()), unchosen);
        self.targets = targets;
        Ok(())
    }
}

/// Whether some message contains `${now}`.
fn is_timed(sessions: &[Session]) -> bool {
    let is_timed = |op: &Op| match op {
        Op::Send(send) => send.message.times() > 0,
        Op::Http(http) => http.body.is_timed(),
        _ => false,
    };
    sessions.iter().any(|session| session.ops.iter().any(is_timed))
}

/// The step of recovered messages, if the order of some messages is checked.
fn recovered(sessions: &[Session], steps: &[String]) -> Option<StepId> {
    let is_checked = |op: &Op| matches!(op, Op::Send(send) if send.is_in_order);
    let mut ops = sessions.iter().flat_map(|session| &session.ops);
    let step = steps.iter().position(|step| step == RECOVERED).filter(|_| ops.any(is_checked));
    step.map(|step| StepId(step as u16))
}

/// A scenario with one user, which connects and then does these steps.
#[cfg(test)]
pub(crate) fn connecting(steps: &str) -> Scenario {
    let text = format!(
        "targets = [{{ url = 'ws://127.0.0.1:1' }}]\nphases = [{{ duration = '1s', rate = 1 }}]\n\
         sessions = [{{ steps = [{{ connect = {{ path = '/' }} }}, {steps}] }}]"
    );
    Scenario::parse("connecting.toml", &text).unwrap()
}

/// Checks that each change of a good scenario is an error. A row has the text that is replaced, the
/// new text, and the line, the key and a part of the error.
#[cfg(test)]
fn assert_errors(file: &str, good: &str, rows: &str) {
    for row in rows.trim().lines() {
        let columns: Vec<String> =
            row.split(" | ").map(|column| column.trim().replace("\\n", "\n")).collect();
        let [old, new, line, key, problem] = &columns[..] else { panic!("five columns: {row}") };
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good, "{old} is there");
        let error = Scenario::parse(file, &text).expect_err(new);
        let message = error.to_string();
        assert!(message.contains(problem), "{new}: {message}");
        assert_eq!((&error.line().to_string(), error.key()), (line, &**key), "{new}: {message}");
    }
}
