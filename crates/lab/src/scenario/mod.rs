//! What simulated users do, and when they come: checked once, then only followed.

mod audience;
mod compile;
mod error;
mod file;
mod program;
mod target;
mod text;
mod tsung;

use std::net::IpAddr;
use std::time::Duration;

pub use error::ScenarioError;
pub use target::Target;

pub(crate) use audience::Audiences;
pub(crate) use program::{
    Connect, Effect, Http, LOOPS_NESTED_MAX, Message, Op, Poll, Send, Serializer, StepId,
    ThinkTime, Wanted,
};
pub(crate) use text::{SentAt, Speaker, Text, Variables, sent_at};

/// A load, ready to be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Decides every draw.
    pub seed: u64,
    /// The servers, by weight.
    pub targets: Vec<Target>,
    /// The addresses that users come from; none leaves it to the system.
    pub sources: Vec<IpAddr>,
    /// The ports that users come from when they have a source address.
    pub ports: (u16, u16),
    /// Users at one time; who arrives when so many are there is turned away.
    pub users_max: u64,
    /// How long any step may take.
    pub step_timeout: Duration,
    /// How long users may take to finish when the last phase is over.
    pub wind_down: Duration,
    /// The arrival phases, one after another.
    pub phases: Vec<Phase>,
    /// What the gates are.
    pub gates: Gates,
    pub(crate) sessions: Vec<Session>,
    /// The names that steps are measured under.
    pub(crate) steps: Vec<String>,
    pub(crate) variables: Variables,
    /// Some text carries the time it was written at.
    pub(crate) is_timed: bool,
    /// Who broadcasts are to be heard by.
    pub(crate) audiences: Audiences,
}

/// Some time in which users arrive at a rate that stays or changes evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What it is called in reports.
    pub name: String,
    /// How long it lasts.
    pub duration: Duration,
    /// Arrivals per second at its begin.
    pub rate: f64,
    /// Arrivals per second at its end.
    pub rate_end: f64,
    /// How arrivals lie in time.
    pub spacing: Spacing,
    /// No more users than this arrive in it.
    pub users_max: Option<u64>,
    /// How often its users take each session, if not as the sessions themselves say.
    pub weights: Option<Vec<f64>>,
}

/// How arrivals lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At even distances.
    Even,
    /// Independently of each other (Poisson).
    Random,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) weight: f64,
    pub(crate) ops: Vec<Op>,
}

/// What must hold for the load to have passed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    /// Errors of all kinds.
    pub errors_max: Option<u64>,
    /// Errors in a hundred users that started.
    pub errors_percent_max: Option<f64>,
    /// Users connected at one time.
    pub connected_min: Option<u64>,
    /// Users that were asked for and turned away or not started.
    pub missing_users_max: Option<u64>,
    /// How late 99 of 100 users may be started by the generator itself.
    pub start_lateness_p99_max: Option<Duration>,
    /// Receivers who did not hear a broadcast, in all.
    pub broadcasts_missing_max: Option<u64>,
    /// How long the last receiver of any broadcast may wait.
    pub broadcasts_last_max: Option<Duration>,
    /// What holds for single steps, by name.
    pub steps: Vec<(String, StepGate)>,
}

/// What must hold for one step. All times are from when it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepGate {
    /// Half of all may take longer.
    pub p50_max: Option<Duration>,
    /// 5 of 100 may take longer.
    pub p95_max: Option<Duration>,
    /// 1 of 100 may take longer.
    pub p99_max: Option<Duration>,
    /// 1 of 1000 may take longer.
    pub p999_max: Option<Duration>,
    /// None may take longer.
    pub max: Option<Duration>,
    /// So many must be done.
    pub count_min: Option<u64>,
}

impl Scenario {
    /// Read a scenario in our own format, or in Tsung's when it begins as XML does. `name` is the
    /// file's, for errors.
    ///
    /// ```
    /// let error = lab::Scenario::parse("lobby.toml", "[[targets]]\nurl = 'gopher://x'\n");
    /// assert!(error.unwrap_err().to_string().starts_with("lobby.toml:"));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            return tsung::parse(name, text);
        }
        file::parse(name, text)
    }

    /// Make it ready to be run: it needs servers that are found, and a number of users that fits.
    pub(crate) fn prepare(&mut self, name: &str) -> Result<(), ScenarioError> {
        let error = |key, problem: &str| Err(ScenarioError::new(name, 0, key, problem));
        if self.targets.iter().all(|target| target.weight == 0.0) {
            return error("targets", "none with a weight; give one there or with --target");
        }
        if self.users() > u64::from(u32::MAX) {
            return error("phases", "ask for more than four billion users");
        }
        let found = self.targets.iter_mut().try_for_each(Target::resolve);
        found.map_err(|problem| ScenarioError::new(name, 0, "targets", problem))
    }

    /// How long the phases last in all.
    pub fn duration(&self) -> Duration {
        self.phases.iter().map(|phase| phase.duration).sum()
    }

    /// How many users the phases ask for in all.
    pub fn users(&self) -> u64 {
        self.phases.iter().map(Phase::users).sum()
    }

    /// The most users that can be there at one time.
    pub fn users_at_once_max(&self) -> u64 {
        self.users().min(self.users_max)
    }

    /// Send everyone to one server instead.
    pub fn aim_at(&mut self, url: &str) -> Result<(), ScenarioError> {
        let target = Target::parse(url, 1.0);
        let target = target.map_err(|problem| ScenarioError::new("--target", 0, "", problem))?;
        self.targets = vec![target];
        Ok(())
    }
}

/// Whether some message carries the time it was written at.
fn is_timed(sessions: &[Session]) -> bool {
    let is_timed = |op: &Op| match op {
        Op::Send(send) => send.message.is_timed(),
        Op::Http(http) => http.body.is_timed(),
        _ => false,
    };
    sessions.iter().any(|session| session.ops.iter().any(is_timed))
}
