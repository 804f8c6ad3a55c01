//! The dashboard of `watchfire load`.

use std::net::SocketAddr;

use watchfire_load::{Results, Second, Times};
use watchfire_report::units::number;

use super::{Chart, Dashboard, ERRORS_MAX, Line, State, Tile};

/// Shows the users of a load.
pub struct LoadDashboard {
    dashboard: Dashboard,
    /// Seconds that the lines have.
    seconds: usize,
    users: Line,
    connected: Line,
    started: Line,
    answered: Line,
    delivered: Line,
    errors: Line,
    median: Line,
    p99: Line,
}

impl LoadDashboard {
    pub fn start(address: SocketAddr) -> anyhow::Result<LoadDashboard> {
        Ok(LoadDashboard {
            dashboard: Dashboard::start(address)?,
            seconds: 0,
            users: Line::new("users"),
            connected: Line::new("websockets"),
            started: Line::new("users started"),
            answered: Line::new("steps answered"),
            delivered: Line::new("messages delivered"),
            errors: Line::new("errors"),
            median: Line::new("median"),
            p99: Line::new("p99"),
        })
    }

    /// Shows the results so far, if another second is complete.
    pub fn show(&mut self, results: &Results) {
        let seconds = results.seconds_whole();
        if seconds <= self.seconds {
            return;
        }
        for at in self.seconds..seconds {
            if let Some(second) = results.seconds.get(at) {
                // An interval has all its times when the next one begins.
                let begun = (at + 1).saturating_sub(results.interval);
                self.note(at, second, results.times_from(begun), results.interval);
            }
        }
        self.seconds = seconds;
        let state = self.state(results, false);
        self.dashboard.publish(&state);
    }

    /// Shows that the load has ended.
    pub fn end(self, results: &Results) {
        let state = self.state(results, true);
        self.dashboard.publish(&state);
    }

    fn note(&mut self, at: usize, second: &Second, interval: Option<&Times>, seconds: usize) {
        let mut times = watchfire_report::Histogram::default();
        let steps = interval.into_iter().flat_map(|times| times.steps.values());
        steps.for_each(|step| times.merge(step));
        let at = (at + 1) as f64;
        if interval.is_some() {
            self.answered.push(at, times.len() as f64 / seconds as f64);
        }
        for (line, value) in [
            (&mut self.users, second.users),
            (&mut self.connected, second.connected),
            (&mut self.started, second.counts.started),
            (&mut self.delivered, second.counts.deliveries),
            (&mut self.errors, second.errors),
        ] {
            line.push(at, value as f64);
        }
        if !times.is_empty() {
            self.median.push(at, times.quantile(0.5).as_secs_f64());
            self.p99.push(at, times.quantile(0.99).as_secs_f64());
        }
    }

    fn state(&self, results: &Results, is_over: bool) -> State {
        let at = results.seconds_whole().saturating_sub(1);
        let second = results.seconds.get(at);
        let (users, connected) = second.map_or((0, 0), |second| (second.users, second.connected));
        let total = results.duration.as_secs_f64().max(1.0);
        let tile = |name, value: u64| Tile { name, value: number(value as f64, 0) };
        let errors = results.errors.iter().take(ERRORS_MAX);
        State {
            title: results.name.clone(),
            phase: match is_over {
                true => "the load has ended".to_owned(),
                false => format!("second {} of {total:.0}", self.seconds),
            },
            part: if is_over { 1.0 } else { (self.seconds as f64 / total).min(1.0) },
            tiles: vec![
                tile("users", users),
                tile("websockets", connected),
                tile("users started, in all", results.counts.started),
                tile("errors, in all", results.errors.values().sum()),
            ],
            charts: vec![
                Chart::new("Users and open websockets", "number", &[&self.users, &self.connected]),
                Chart::new(
                    "In a second",
                    "number",
                    &[&self.started, &self.answered, &self.delivered],
                ),
                Chart::new(
                    "Time of a step, since it was due",
                    "seconds",
                    &[&self.median, &self.p99],
                ),
                Chart::new("Errors in a second", "number", &[&self.errors]),
            ],
            errors: errors
                .map(|((step, kind), count)| format!("{step}: {kind}: {count} times"))
                .collect(),
            is_over,
            ..State::default()
        }
    }
}
