//! `--dashboard`: a live page of a run that a browser shows, wherever the run is.
//!
//! A command publishes its [`State`] once or twice a second. Every viewer receives the newest state as a server-sent event, and
//! a viewer that is slow misses states in between: nothing waits for it, and nothing is queued for it. A state
//! contains the history of its charts, so a page that is opened late, or again, shows the whole run.
//!
//! The bounds: 32 viewers, 100 bars, 20 errors, and 240 points of each line. A line that is full keeps every second
//! point, so a run of a day has one point in six minutes.

#[cfg(feature = "lab")]
mod of_lab;
mod of_load;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::sync::watch;

#[cfg(feature = "lab")]
pub use of_lab::LabDashboard;
pub use of_load::LoadDashboard;

const ERRORS_MAX: usize = 20;
const POINTS_MAX: usize = 240;
/// The time in which the last state must reach the viewers.
const LAST_STATE_TIMEOUT: Duration = Duration::from_secs(1);

/// The figures on the page.
#[derive(Clone, Debug, Default, Serialize)]
struct State {
    title: String,
    /// The present step.
    phase: String,
    /// The share of the work that is done.
    part: f64,
    tiles: Vec<Tile>,
    charts: Vec<Chart>,
    bars: Vec<Bar>,
    /// Nodes for which the page has no room.
    bars_left_out: usize,
    errors: Vec<String>,
    is_over: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    name: &'static str,
    value: String,
}

/// Lines over the time of the run.
#[derive(Clone, Debug, Serialize)]
struct Chart {
    title: String,
    /// How a value is written: "seconds", "number" or "share".
    format: &'static str,
    lines: Vec<Line>,
}

impl Chart {
    fn new(title: &str, format: &'static str, lines: &[&Line]) -> Chart {
        let lines = lines.iter().map(|line| (*line).clone()).collect();
        Chart { title: title.to_owned(), format, lines }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Line {
    const fn new(name: &'static str) -> Line {
        Line { name, points: Vec::new() }
    }

    fn push(&mut self, seconds: f64, value: f64) {
        if self.points.len() >= POINTS_MAX {
            let mut keeps = false;
            self.points.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        self.points.push((seconds, value));
    }
}

/// The progress of a node.
#[derive(Clone, Debug, Serialize)]
struct Bar {
    name: String,
    part: f64,
    /// "waits", "shares", "fetches", "done", "failed" or "left".
    state: &'static str,
    note: String,
}

/// A page that is served until this is dropped.
struct Dashboard {
    states: Option<watch::Sender<Arc<str>>>,
    server: Option<std::thread::JoinHandle<()>>,
}

impl Dashboard {
    fn start(address: SocketAddr) -> anyhow::Result<Dashboard> {
        let cannot = || format!("cannot listen on {address} for the dashboard");
        let listener = TcpListener::bind(address).with_context(cannot)?;
        listener.set_nonblocking(true).with_context(cannot)?;
        let address = listener.local_addr().with_context(cannot)?;
        let (states, newest) = watch::channel(Arc::from("{}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).with_context(cannot)?
        };
        let server = std::thread::Builder::new()
            .name("dashboard".into())
            .spawn(move || runtime.block_on(server::serve(listener, newest)))?;
        eprintln!("The dashboard is at http://{address}/");
        Ok(Dashboard { states: Some(states), server: Some(server) })
    }

    fn publish(&self, state: &State) {
        if let (Some(states), Ok(text)) = (&self.states, serde_json::to_string(state)) {
            states.send_replace(text.into());
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // The server ends once each viewer has the last state.
        self.states = None;
        let _ = self.server.take().map(std::thread::JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_full_keeps_every_second_point() {
        let mut line = Line::new("rate");
        for second in 0..1000 {
            line.push(f64::from(second), 1.0);
        }
        assert!(line.points.len() <= POINTS_MAX, "{}", line.points.len());
        assert_eq!(line.points.first(), Some(&(0.0, 1.0)));
        assert_eq!(line.points.last(), Some(&(999.0, 1.0)));
        assert!(line.points.is_sorted_by(|a, b| a.0 < b.0));
    }
}
