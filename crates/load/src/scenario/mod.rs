//! Scenarios: the arrivals and the sessions of simulated users. A scenario is checked before the
//! load.

mod audience;
mod compile;
mod file;
mod program;
mod sources;
mod target;
mod text;
mod tsung;

use std::net::IpAddr;
use std::time::Duration;

pub use target::Target;
pub use watchfire_report::scenario::ScenarioError;

pub(crate) use audience::Audiences;
pub(crate) use program::{
    Connect, Effect, Http, LOOPS_NESTED_MAX, Message, Op, Poll, Send, Serializer, StepId,
    ThinkTime, Wanted,
};
pub(crate) use text::{SentAt, SlotDraw, Text, TextContext, Variables, sent_at};

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// The servers, by weight.
    pub targets: Vec<Target>,
    /// The source addresses of users; empty lets the kernel choose.
    pub sources: Vec<IpAddr>,
    /// The source ports of users that have a source address.
    pub ports: (u16, u16),
    /// Most users at the same time; further users are rejected.
    pub users_max: u64,
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
    pub(crate) audiences: Audiences,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At equal distances.
    Even,
    /// Independently of each other (Poisson).
    Random,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) weight: f64,
    pub(crate) ops: Vec<Op>,
    /// The slots that variables are drawn into.
    pub(crate) slots: usize,
    /// Whether a user keeps the cookies of its server.
    pub(crate) keeps_cookies: bool,
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
    /// How late the generator may start users, 99th percentile.
    pub start_lateness_p99_max: Option<Duration>,
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
    /// Parse a scenario in TOML, or in the XML of Tsung. `name` is the file name for errors.
    ///
    /// ```
    /// let error = watchfire_load::Scenario::parse("lobby.toml", "[[targets]]\nurl =
    /// 'gopher://x'\n"); assert!(error.unwrap_err().to_string().starts_with("lobby.toml:"));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            return tsung::parse(name, text);
        }
        file::parse(name, text)
    }

    /// Resolve the servers, and check the number of users.
    pub(crate) fn prepare(&mut self, name: &str) -> Result<(), ScenarioError> {
        let error = |key, problem: &str| Err(ScenarioError::new(name, 0, key, problem));
        if self.targets.iter().all(|target| target.weight == 0.0) {
            return error("targets", "no target with a weight; add one here or with --target");
        }
        if self.users() > u64::from(u32::MAX) {
            return error("phases", "more than four billion users");
        }
        let sources = &self.sources;
        let found = self.targets.iter_mut().try_for_each(|target| target.resolve(sources));
        found.map_err(|problem| ScenarioError::new(name, 0, "targets", problem))
    }

    pub fn duration(&self) -> Duration {
        self.phases.iter().map(|phase| phase.duration).sum()
    }

    pub fn users(&self) -> u64 {
        self.phases.iter().map(Phase::users).sum()
    }

    /// The most users that can be active at the same time.
    pub fn users_at_once_max(&self) -> u64 {
        self.users().min(self.users_max)
    }

    /// Send all users to one server instead.
    pub fn set_target(&mut self, url: &str) -> Result<(), ScenarioError> {
        let target = Target::parse(url, 1.0);
        let target = target.map_err(|problem| ScenarioError::new("--target", 0, "", problem))?;
        self.targets = vec![target];
        Ok(())
    }
}

/// Whether some message contains `${now}`.
fn is_timed(sessions: &[Session]) -> bool {
    let is_timed = |op: &Op| match op {
        Op::Send(send) => send.message.is_timed(),
        Op::Http(http) => http.body.is_timed(),
        _ => false,
    };
    sessions.iter().any(|session| session.ops.iter().any(is_timed))
}

/// Check that each change of a good scenario is an error. A row has the text that is replaced, the
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
