//! The TOML format, described in docs/reference/load-scenarios.md.

mod pages;
mod phases;
mod rows;
mod steps;
mod thresholds;
mod values;
mod variables;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use super::source_groups::{PORTS, SourceGroup, add_addresses, ports};
use super::text::{Draw, Variables};
use super::{Audiences, Files, Scenario, ScenarioError, Target, file_text};
use crate::tls::TlsSettings;

use pages::{PageFile, pages};
use phases::PhaseFile;
use rows::{RowsFile, read_rows};
use steps::{Names, SessionFile};
use thresholds::ThresholdsFile;
use variables::{VariableFile, drawn_variables};
use watchfire_report::units::DurationText;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(default)]
    seed: u64,
    users_max: Option<u64>,
    opening_max: Option<NonZeroU64>,
    #[serde(default)]
    step_timeout: Option<DurationText>,
    #[serde(default)]
    wind_down: Option<DurationText>,
    #[serde(default)]
    targets: Vec<TargetFile>,
    #[serde(default)]
    sources: SourcesFile,
    phases: Vec<Spanned<PhaseFile>>,
    #[serde(default)]
    variables: BTreeMap<String, Spanned<VariableFile>>,
    #[serde(default)]
    rows: BTreeMap<String, Spanned<RowsFile>>,
    #[serde(default)]
    pages: BTreeMap<String, Spanned<PageFile>>,
    #[serde(default)]
    tls: TlsFile,
    sessions: Vec<Spanned<SessionFile>>,
    #[serde(default)]
    thresholds: ThresholdsFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    url: Spanned<String>,
    #[serde(default = "one")]
    weight: f64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourcesFile {
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    ports: Option<Spanned<[u16; 2]>>,
}

/// How servers with TLS are verified.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsFile {
    verify: bool,
    /// A file with certificates in PEM, which are trusted instead of the system's.
    ca: Option<Spanned<String>>,
    /// Whether a user may resume a session of another one.
    resume: bool,
}

impl Default for TlsFile {
    fn default() -> TlsFile {
        TlsFile { verify: true, ca: None, resume: true }
    }
}

/// The variables that every text can name.
const BUILT_IN: [&str; 3] = ["user", "id", "now"];

fn one() -> f64 {
    1.0
}

pub(super) fn parse(
    name: &str,
    text: &str,
    files: &mut Files<'_>,
) -> Result<Scenario, ScenarioError> {
    let source = SourceText { name, text };
    let file: ScenarioFile = source.parse()?;
    file.check(&source, files)
}

impl ScenarioFile {
    fn check(
        self,
        source: &SourceText<'_>,
        files: &mut Files<'_>,
    ) -> Result<Scenario, ScenarioError> {
        let targets = self.targets.iter().map(|target| target.check(source));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let phases = self.phases.iter().enumerate();
        let phases = phases.map(|(index, phase)| {
            phase.get_ref().check(index, phase.span().start, &self.sessions, source)
        });
        let phases = phases.collect::<Result<Vec<_>, _>>()?;
        if phases.is_empty() {
            return Err(source.error_in_file("phases", "at least one phase is needed"));
        }
        let mut variables = Variables { drawn: drawn_variables(&self.variables, source)? };
        let pages = pages(&self.pages, self.seed, &variables, source)?;
        let cids = self.pages.keys().zip(&pages);
        variables
            .drawn
            .extend(cids.map(|(name, page)| (name.clone(), Draw::Choice(vec![page.cid.clone()]))));
        let rows = read_rows(&self.rows, source, files)?;
        let page_names = self.pages.keys().zip(&pages);
        let page_names = page_names.map(|(name, page)| (name.clone(), page.topic.clone()));
        let names = Names::collect(&self.sessions, &self.rows, page_names.collect());
        let mut steps = Vec::new();
        let sessions = self.sessions.iter().map(|session| {
            let at = session.span().start;
            session.get_ref().check(at, &mut steps, &variables, &names, source)
        });
        let mut sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        let is_weighed = phases.iter().any(|phase| phase.weights.is_none());
        if is_weighed && sessions.iter().all(|session| session.weight == 0.0) {
            return Err(source
                .error_in_file("sessions", "at least one session needs a probability above 0"));
        }
        let audiences = Audiences::find(&mut sessions)
            .map_err(|problem| source.error_in_file("sessions", problem))?;
        let thresholds = self.thresholds.check(&steps, source)?;
        let sources = self.sources.addresses(source)?;
        let ports = self.sources.ports(source)?;
        Ok(Scenario {
            seed: self.seed,
            targets,
            sources,
            ports,
            users_max: self.users_max.unwrap_or(u64::MAX),
            opening_max: self.opening_max.map_or(u64::MAX, NonZeroU64::get),
            step_timeout: self.step_timeout.map_or(Duration::from_secs(30), |span| span.0),
            wind_down: self.wind_down.map_or(Duration::from_secs(30), |span| span.0),
            phases,
            thresholds,
            is_timed: super::is_timed(&sessions),
            recovered: super::recovered(&sessions, &steps),
            audiences,
            sessions,
            steps,
            variables,
            rows,
            pages,
            fixed_arrivals: Vec::new(),
            user_agents: Vec::new(),
            meeting_size: 1,
            rate: None,
            tls: self.tls.check(source, files)?,
            notes: Vec::new(),
        })
    }
}

impl TlsFile {
    fn check(
        &self,
        source: &SourceText<'_>,
        files: &mut Files<'_>,
    ) -> Result<TlsSettings, ScenarioError> {
        let roots = self.ca.as_ref().map(|file| {
            file_text(files, file.get_ref())
                .map_err(|problem| source.error(file.span().start, "ca", problem))
        });
        let roots = roots.transpose()?;
        Ok(TlsSettings { is_verified: self.verify, roots, resumes: self.resume })
    }
}

impl TargetFile {
    fn check(&self, source: &SourceText<'_>) -> Result<Target, ScenarioError> {
        let at = self.url.span().start;
        check_weight(self.weight).map_err(|problem| source.error(at, "weight", problem))?;
        Target::parse(self.url.get_ref(), self.weight)
            .map_err(|problem| source.error(at, "url", problem))
    }
}

impl SourcesFile {
    fn addresses(&self, source: &SourceText<'_>) -> Result<Vec<SourceGroup>, ScenarioError> {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for text in &self.addresses {
            add_addresses(&mut addresses, text.get_ref())
                .map_err(|problem| source.error(text.span().start, "addresses", problem))?;
        }
        let is_empty = addresses.is_empty();
        Ok((!is_empty).then_some(SourceGroup { addresses, weight: 1.0 }).into_iter().collect())
    }

    fn ports(&self, source: &SourceText<'_>) -> Result<(u16, u16), ScenarioError> {
        let Some(named) = &self.ports else { return Ok(PORTS) };
        let [min, max] = named.get_ref().map(u64::from);
        ports(min, max).map_err(|problem| source.error(named.span().start, "ports", problem))
    }
}

fn check_weight(weight: f64) -> Result<(), &'static str> {
    let is_valid = weight.is_finite() && (0.0..=1e9).contains(&weight);
    if is_valid { Ok(()) } else { Err("must be between 0 and a billion") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::assert_errors;

    const GOOD: &str = r#"
[[targets]]
url = "ws://127.0.0.1:4000"

[[phases]]
duration = "10s"
rate = 5

[variables]
room = { number = [1, 9] }

[[sessions]]
steps = [
  { connect = { path = "/socket/websocket?vsn=2.0.0" } },
  { join = { topic = "rooms:${room}", payload = { user = "${id}" } } },
  { loop = { times = 2, steps = [
    { push = { topic = "rooms:${room}", event = "new_msg", payload = '{"n": ${user}}' } },
    { think = { exponential = "1s" } },
  ] } },
  { think = "1s" },
  { stay = {} },
]

[thresholds]
errors_max = 0
steps.join.p99_max = "200ms"
"#;

    #[test]
    fn a_scenario_is_parsed() {
        let scenario = Scenario::parse("good.toml", GOOD).unwrap();
        assert_eq!(scenario.users(), 50);
        assert_eq!(scenario.steps, ["connect", "join", "push new_msg"]);
        assert_eq!(scenario.sessions[0].ops.len(), 9);
        assert_eq!(scenario.thresholds.steps[0].1.p99_max, Some(Duration::from_millis(200)));
    }

    #[test]
    fn a_session_that_connects_again_needs_a_connect() {
        let text = "targets = [{ url = 'http://127.0.0.1:1' }]\nphases = [{ duration = '1s', rate = 1 }]\n\
            sessions = [{ reconnect_after = ['1s'], steps = [{ http = { path = '/' } }] }]\n";
        let error = Scenario::parse("http.toml", text).unwrap_err();
        assert_eq!((error.line(), error.key()), (3, "reconnect_after"));
    }

    #[test]
    fn a_load_has_at_most_a_thousand_pages() {
        let page = |index: u32| format!("[pages.p{index:04}]\nrandom = '1B'\n");
        let parse = |count: u32| {
            let text = "targets = [{ url = 'http://127.0.0.1:1' }]\nphases = [{ duration = '1s', rate = 1 }]\n\
                sessions = [{ steps = [{ http = { path = '/' } }] }]\n";
            Scenario::parse(
                "pages.toml",
                &(text.to_owned() + &(0..count).map(page).collect::<String>()),
            )
        };
        assert_eq!(parse(1_000).unwrap().pages.len(), 1_000);
        let error = parse(1_001).unwrap_err();
        assert_eq!((error.key(), error.line()), ("p1000", 2_004));
    }

    #[test]
    fn an_error_has_its_line_and_key() {
        let rows = r#"
rate = 5 | rat = 5 | 7 | rat | did you mean `rate`?
rate = 5 | rate = 'x' | 7 | rate | invalid type
rate = 5 | rate = -1 | 5 | rate | between 0
rate = 5 | rate = nan | 5 | rate | between 0
rate = 5 | rate = 5\ninterval = '1s' | 5 | interval | only one of rate and interval
rate = 5 |  | 5 | rate | a phase needs
"10s" | "10 bananas" | 6 | duration | invalid duration
"10s" | "0s" | 5 | duration | at least 1 ms
"10s" | "9999 years" | 6 | duration | longer than a year
ws://127.0.0.1:4000 | ftp://127.0.0.1 | 3 | url | ftp is not supported
[variables] | [rows.x]\nfile='x'\ncolumns=['a']\n[variables] | 10 | file | cannot read x
[variables] | [tls]\nca='x'\n[variables] | 10 | ca | cannot read x
[variables] | [rows.x]\nfile='x'\ncolumns=['id']\n[variables] | 10 | x | built in
{ think = "1s" } | { row = 'x' } | 20 | row | unknown rows x
{ think = "1s" } | { expect = { save = { id = '/x' } } } | 20 | expect | built in
{ think = "1s" } | { expect = { save = { x = { regex = '(' } } } } | 20 | expect | invalid regular expression
{ think = "1s" } | { send = { text = 'x', save = { x = '/x' } } } | 20 | send | needs an answer
[1, 9] | [9, 1] | 10 | room | in order
room = | now = | 10 | now | built in
${id} | ${idd} | 15 | join | unknown variable ${idd}
{ think = "1s" } | { thin = "1s" } | 20 | thin | unknown variant
{ exponential = "1s" } | { gauss = "1s" } | 18 | think | unknown field
"rooms:${room}", event | "rooms:x", event | 17 | push | not joined before
{ connect | { longpoll = { path = '/', beside = true, for = '1s' } }, { connect | 14 | longpoll | neither until nor for
{ connect | { longpoll = { path = '/', beside = true } }, { longpoll = { path = '/', beside = true } }, { connect | 14 | longpoll | at most one
{ connect | { loop = { steps = [{ longpoll = { path = '/', beside = true } }] } }, { connect | 14 | longpoll | in a loop
{ connect | { http = { path = '/', body = '{}', delivered = true } }, { connect | 14 | http | ${now}
steps = [ | reconnect_after = ['1 banana']\nsteps = [ | 13 | reconnect_after | invalid duration
steps = [ | reconnect_after = ['1s']\nsteps = [ { longpoll = { path = '/', beside = true } }, | 12 | reconnect_after | cannot reconnect
[variables] | [pages.x]\nrandom = '1MB'\n[variables] | 9 | random | one block
[variables] | [pages.now]\nrandom = '1kB'\n[variables] | 9 | now | built in
[variables] | [pages.room]\nrandom = '1kB'\n[variables] | 9 | room | a variable has this name
{ think = "1s" } | { page = { of = 'x' } } | 20 | page | unknown page x
'{"n": ${user}}' } | {}, delivered = true } | 17 | push | delivered needs
times = 2 | times = 0 | 16 | loop | at least 1
{ connect = { path = "/socket/websocket?vsn=2.0.0" } },\n |  | 14 | join | a connect
?vsn=2.0.0 |  | 15 | join | Phoenix serializer
steps.join | steps.jion | 26 | jion | unknown step
{ stay = {} } | { http = { path = '/' } } | 21 | http | one connection
{ think = "1s" } | { loop = { steps = [{ disconnect = {} }] } } | 20 | loop | in the same state
rate = 5 | rate = 5\nsessions = ['x'] | 5 | sessions | unknown session
'{"n": ${user}}' } | {}, broadcast = true } | 17 | push | the same for all users
{ think = "1s" } | { send = { text = 'x', broadcast = true } } | 20 | send | ${now}
?vsn=2.0.0" } },\n | ", serializer = 'events' } },\n | 15 | join | Phoenix serializer
{ think = "1s" } | { disconnect = {} }, { connect = { path = '/', serializer = 'events' } }, { send = { text = 'x' } } | 20 | send | no messages
{ think = "1s" } | { send = { text = 'x', in_order = true } } | 20 | send | in_order needs ${now}
{ think = "1s" } | { send = { text = '${now}', broadcast = true, in_order = true } } | 20 | send | neither broadcast
steps = [ | keep = { now = '/x' }\nsteps = [ | 12 | keep | built in
steps = [ | server = 0\nsteps = [ | 13 | server | nonzero
[[phases]] | [sources]\naddresses=['10.0.0.0-11.0.0.0']\n[[phases]] | 6 | addresses | more than
[thresholds] | [thresholds | 24 |  | unclosed
"#;
        assert_errors("bad.toml", GOOD, rows);
    }
}
