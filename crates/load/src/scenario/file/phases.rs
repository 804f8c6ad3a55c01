//! `[[phases]]`: the arrivals of users.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::steps::SessionFile;
use crate::scenario::{Phase, ScenarioError, Spacing};
use watchfire_report::scenario::SourceText;
use watchfire_report::units::DurationText;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseFile {
    name: Option<String>,
    duration: DurationText,
    rate: Option<f64>,
    rate_end: Option<f64>,
    interval: Option<DurationText>,
    #[serde(default)]
    spacing: Spacing,
    users_max: Option<u64>,
    /// The sessions of its users; `None` allows all.
    sessions: Option<Vec<String>>,
}

impl PhaseFile {
    pub(super) fn check(
        &self,
        index: usize,
        at: usize,
        sessions: &[Spanned<SessionFile>],
        source: &SourceText<'_>,
    ) -> Result<Phase, ScenarioError> {
        let error = |key, problem: &str| source.error(at, key, problem);
        let rate = match (self.rate, self.interval) {
            (Some(rate), None) => rate,
            (None, Some(DurationText(interval))) if !interval.is_zero() => {
                1.0 / interval.as_secs_f64()
            }
            (None, Some(_)) => return Err(error("interval", "must not be zero")),
            (Some(_), Some(_)) => {
                return Err(error("interval", "use only one of rate and interval"));
            }
            (None, None) => return Err(error("rate", "a phase needs a rate or an interval")),
        };
        let rate_end = self.rate_end.unwrap_or(rate);
        for (key, rate) in [("rate", rate), ("rate_end", rate_end)] {
            if !(0.0..=Phase::RATE_MAX).contains(&rate) {
                return Err(error(key, "must be between 0 and ten million arrivals per second"));
            }
        }
        if self.duration.0 < Duration::from_millis(1) {
            return Err(error("duration", "must be at least 1 ms"));
        }
        let name = self.name.clone().unwrap_or_else(|| format!("phase {}", index + 1));
        let (duration, users_max) = (self.duration.0, self.users_max);
        let weights = self.weights(sessions);
        let weights = weights.map_err(|problem| source.error(at, "sessions", problem))?;
        Ok(Phase {
            name,
            duration,
            rate,
            rate_end,
            spacing: self.spacing,
            users_max,
            weights,
            waits_for_users: false,
        })
    }

    /// The weight of each session, if the phase names its sessions.
    fn weights(&self, sessions: &[Spanned<SessionFile>]) -> Result<Option<Vec<f64>>, String> {
        let Some(named) = &self.sessions else { return Ok(None) };
        let known =
            |name: &String| sessions.iter().any(|session| session.get_ref().is_called(name));
        if let Some(unknown) = named.iter().find(|name| !known(name)) {
            return Err(format!("unknown session {unknown:?}"));
        }
        let is_named = |session: &SessionFile| named.iter().any(|name| session.is_called(name));
        let weights = sessions.iter().map(|session| match session.get_ref() {
            session if is_named(session) => session.probability,
            _ => 0.0,
        });
        let weights: Vec<f64> = weights.collect();
        if weights.iter().any(|weight| *weight > 0.0) {
            return Ok(Some(weights));
        }
        // If all named sessions have probability 0, they get equal weights.
        let equal = |session: &Spanned<SessionFile>| f64::from(is_named(session.get_ref()));
        match named.is_empty() {
            true => Err("at least one session is needed".into()),
            false => Ok(Some(sessions.iter().map(equal).collect())),
        }
    }
}
