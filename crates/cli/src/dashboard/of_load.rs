//! The dashboard of `watchfire load`: the page, the calls of `watchfire top`, and the controls.
//!
//! The calls under `/admin` have the form of a server's operator's listener, as far as a load has such figures, so that
//! `watchfire top` shows the generator like a server. `POST /control/...` changes the load, with the token of its agents.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde_json::{Value, json};
use watchfire_load::{Control, Results, Second, is_same};
use watchfire_operator::answers::{
    Event, Events, FoundConnections, FoundTopics, Process, State, Trouble,
};
use watchfire_page_client::ServerUrl;
use watchfire_report::units::binary_bytes;

use super::{Dashboard, growing};
use crate::operator::Operator;

/// Seconds of the history, as a server keeps them.
const HISTORY_SECONDS: usize = 900;
/// The time between two questions to the tested server.
const SERVER_INTERVAL: Duration = Duration::from_secs(1);
/// The p99 of the start lateness from which the generator is in trouble: a chart of a second would show it.
const LATE: Duration = Duration::from_millis(50);

/// A column of the history, as a server names it, and its value in a second.
type Column = (&'static str, fn(&Second) -> f64);

const COLUMNS: [Column; 5] = [
    ("clients_websocket", |second| second.connected as f64),
    ("joins", |second| second.counts.started as f64),
    ("deliveries", |second| second.counts.deliveries as f64),
    ("sent_bytes", |second| second.counts.bytes_out as f64),
    ("cpu", |second| second.cores),
];

pub struct LoadDashboard {
    dashboard: Dashboard,
    calls: Arc<Calls>,
    /// One line about the tested server.
    server: Option<Arc<Mutex<String>>>,
}

impl LoadDashboard {
    /// `operator` is the operator's listener of the tested server.
    pub fn start(
        address: SocketAddr,
        name: &str,
        token: Option<String>,
        controls: Sender<Control>,
        operator: Option<&ServerUrl>,
    ) -> anyhow::Result<LoadDashboard> {
        let shown = Shown { started_ms: now_ms(), ..Shown::default() };
        let calls = Arc::new(Calls { token, controls, shown: Mutex::new(shown) });
        let dashboard = Dashboard::start(address, name, Some(Arc::clone(&calls)))?;
        let server = operator.map(|operator| {
            let line = Arc::new(Mutex::new(String::new()));
            let (operator, kept) = (operator.clone(), Arc::downgrade(&line));
            std::thread::spawn(move || watch_server(&operator, &kept));
            line
        });
        Ok(LoadDashboard { dashboard, calls, server })
    }

    /// Shows the results of a load so far.
    pub fn show(&mut self, results: &Results) {
        let LoadDashboard { dashboard, calls, server } = self;
        dashboard.show(|| {
            calls.show(results);
            let (part, mut lines) = watchfire_load::status(results);
            let line = server.as_deref().map(|line| lock(line).clone());
            lines.extend(line.filter(|line| !line.is_empty()));
            growing(&watchfire_load::html(results, &[]), part, lines.join("\n").trim_start())
        });
    }

    pub fn end(self, report: String) {
        self.dashboard.end(report);
    }
}

/// Asks the tested server for its figures, until nobody needs them.
fn watch_server(operator: &ServerUrl, line: &Weak<Mutex<String>>) {
    let asked = Operator::new(operator, None);
    while let Some(line) = line.upgrade() {
        let state = match &asked {
            Ok(operator) => operator.call_blocking::<State>("GET", "/admin/state"),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        *lock(&line) = match state {
            Ok(state) => server_line(&state),
            Err(error) => format!("server: {error:#}"),
        };
        drop(line);
        std::thread::sleep(SERVER_INTERVAL);
    }
}

/// A server in one line.
fn server_line(state: &State) -> String {
    let sum = |of: fn(&Process) -> f64| state.processes.iter().map(of).sum::<f64>();
    let busy = state.processes.iter().flat_map(|process| &process.busy).fold(0.0, |a, b| b.max(a));
    let mut line = format!(
        "server {}: clients {}, CPU {:.2}, {}, busiest loop {:.0} %",
        state.machine,
        sum(|process| process.clients),
        sum(|process| process.cpu),
        binary_bytes(sum(|process| process.resident_bytes) as u64),
        busy * 100.0,
    );
    for trouble in &state.troubles {
        line += &format!("\n  ! {}", trouble.summary);
    }
    line
}

/// Answers the calls about one load.
pub struct Calls {
    /// The token of controls. `None`: there are none.
    token: Option<String>,
    controls: Sender<Control>,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    started_ms: u64,
    state: State,
    /// Each has a time, and a value for each column.
    history: Vec<Vec<f64>>,
    events: Vec<Event>,
}

impl Calls {
    fn show(&self, results: &Results) {
        let shown = &mut *lock(&self.shown);
        let now_ms = now_ms();
        let whole = results.seconds_whole().min(results.seconds.len());
        // The clock of the load has no date.
        let begun_ms = now_ms.saturating_sub(whole as u64 * 1_000);
        if shown.history.is_empty() {
            shown.started_ms = begun_ms;
        }
        let started_ms = shown.started_ms;
        let first = whole.saturating_sub(HISTORY_SECONDS);
        let row = |(at, second): (usize, &Second)| {
            let time = (started_ms + (first + at + 1) as u64 * 1_000) as f64;
            std::iter::once(time).chain(COLUMNS.iter().map(|(_, value)| value(second))).collect()
        };
        shown.history = results.seconds[first..whole].iter().enumerate().map(row).collect();
        let event = |event: &watchfire_load::LoadEvent| Event {
            time_ms: started_ms + (event.at * 1_000.0) as u64,
            kind: event.kind.to_owned(),
            text: event.text.clone(),
            ..Event::default()
        };
        shown.events = results.events.iter().map(event).collect();
        shown.state = state(results, started_ms, now_ms);
    }

    /// The answer to a request, as JSON.
    pub fn answer(
        &self,
        method: &str,
        path: &str,
        query: &str,
        bearer: &str,
    ) -> (StatusCode, Value) {
        let shown = lock(&self.shown);
        let value = |name: &str| {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            parts.find(|(own, _)| *own == name).map(|(_, value)| value)
        };
        let number = |name| value(name).and_then(|value| value.parse::<u64>().ok());
        let (after, until) = (number("after").unwrap_or(0), number("until").unwrap_or(u64::MAX));
        let is_between = |time_ms: u64| time_ms > after && time_ms <= until;
        let found = match (method, path) {
            ("GET", "/admin/state") => json!(shown.state),
            ("GET", "/admin/events") => {
                let events = shown.events.iter().filter(|event| is_between(event.time_ms));
                json!(Events { events: events.cloned().collect() })
            }
            ("GET", "/admin/connections") => json!(FoundConnections::default()),
            ("GET", "/admin/topics") => json!(FoundTopics::default()),
            ("GET", "/admin/history") => {
                // A load has rows of seconds only.
                let is_second = value("step").is_none_or(|step| step == "second");
                let is_asked = |row: &&Vec<f64>| is_second && is_between(row[0] as u64);
                let rows: Vec<_> = shown.history.iter().filter(is_asked).collect();
                json!({ "columns": COLUMNS.map(|(name, _)| name), "rows": rows })
            }
            ("POST", _) if path.starts_with("/control/") => {
                return self.control(&path["/control/".len()..], bearer);
            }
            _ => {
                return refusal(StatusCode::NOT_FOUND, "The dashboard of a load has no such call.");
            }
        };
        (StatusCode::OK, found)
    }

    fn control(&self, text: &str, bearer: &str) -> (StatusCode, Value) {
        let Some(token) = &self.token else {
            let message = "This load has no token: start it with --token-file.";
            return refusal(StatusCode::FORBIDDEN, message);
        };
        if !is_same(token, bearer) {
            return refusal(StatusCode::UNAUTHORIZED, "The token of the load is another one.");
        }
        match text.replace('/', " ").parse::<Control>() {
            Err(message) => refusal(StatusCode::BAD_REQUEST, &message),
            // A load that has ended takes no more.
            Ok(control) => match self.controls.send(control) {
                Ok(()) => (StatusCode::OK, json!({ "control": control.to_string() })),
                Err(_) => refusal(StatusCode::CONFLICT, "The load has ended."),
            },
        }
    }
}

fn refusal(status: StatusCode, message: &str) -> (StatusCode, Value) {
    (status, json!({ "message": message }))
}

/// The generator in the form of a server: each worker is a process, its users are the clients.
fn state(results: &Results, started_ms: u64, now_ms: u64) -> State {
    let workers = results.by_worker.iter().enumerate();
    let workers = workers.filter(|(_, worker)| worker.state.is_active());
    let processes = workers.map(|(index, worker)| Process {
        process: u16::try_from(index).unwrap_or(u16::MAX),
        uptime_seconds: (now_ms.saturating_sub(started_ms) / 1_000) as f64,
        clients: worker.users as f64,
        connections: worker.connected as f64,
        resident_bytes: worker.resident_bytes as f64,
        cpu: worker.cores,
        // A worker has one event loop.
        busy: vec![worker.cores.min(1.0)],
        ..Process::default()
    });
    let processes = processes.collect();
    let trouble = |kind: &str, since_ms, summary, fix: &str| Trouble {
        kind: kind.to_owned(),
        since_ms,
        summary,
        fix: fix.to_owned(),
        page: String::new(),
    };
    let late =
        results.by_worker.iter().filter(|worker| worker.state.is_active() && worker.late > LATE);
    let late = late.map(|worker| {
        let millis = worker.late.as_millis();
        let summary = format!("{} starts users late: p99 {millis} ms", worker.name);
        trouble("generator_late", now_ms, summary, "Let more agents join, or use lower rates.")
    });
    let lost = results.events.iter().rev().find(|event| event.kind == "agent_lost");
    let lost = lost.map(|event| {
        let since_ms = started_ms + (event.at * 1_000.0) as u64;
        trouble("agent_lost", since_ms, event.text.clone(), "Look at its machine.")
    });
    let machine = format!("load {}", results.name);
    State {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now_ms,
        started_ms,
        machines: vec![machine.clone()],
        machine,
        processes,
        troubles: late.chain(lost).collect(),
        ..State::default()
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
