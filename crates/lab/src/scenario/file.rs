//! Our own format: one TOML file. See docs/load.md for all of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::compile::Compiler;
use super::program::{Poll, Serializer, Think, ThinkTime, Wanted};
use super::text::{Draw, Variables};
use super::{Gates, Phase, Scenario, ScenarioError, Spacing, StepGate, Target};

/// Source addresses of one scenario.
const SOURCES_MAX: usize = 65_536;
/// How often a Phoenix client says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(default)]
    seed: u64,
    users_max: Option<u64>,
    #[serde(default)]
    step_timeout: Option<Span>,
    #[serde(default)]
    wind_down: Option<Span>,
    #[serde(default)]
    targets: Vec<TargetFile>,
    #[serde(default)]
    sources: SourcesFile,
    phases: Vec<Spanned<PhaseFile>>,
    #[serde(default)]
    variables: BTreeMap<String, Spanned<VariableFile>>,
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

fn one() -> f64 {
    1.0
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourcesFile {
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    ports: Option<Spanned<[u16; 2]>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseFile {
    name: Option<String>,
    duration: Span,
    rate: Option<f64>,
    rate_end: Option<f64>,
    interval: Option<Span>,
    #[serde(default)]
    spacing: SpacingFile,
    users_max: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SpacingFile {
    #[default]
    Even,
    Random,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum VariableFile {
    /// A whole number between two.
    Number([u64; 2]),
    /// So many letters.
    Letters(usize),
    /// One of these.
    Choice(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionFile {
    #[serde(default)]
    name: Option<String>,
    #[serde(default = "one")]
    probability: f64,
    steps: Vec<Spanned<StepFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepFile {
    Connect(ConnectFile),
    Join(JoinFile),
    Push(PushFile),
    Leave(LeaveFile),
    Send(SendFile),
    Expect(ExpectFile),
    Think(ThinkFile),
    Loop(LoopFile),
    Http(HttpFile),
    Longpoll(PollFile),
    Disconnect(DisconnectFile),
    Stay(StayFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectFile {
    path: String,
    name: Option<String>,
    serializer: Option<SerializerFile>,
    heartbeat: Option<Span>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SerializerFile {
    Raw,
    V1,
    V2,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinFile {
    topic: String,
    name: Option<String>,
    payload: Option<PayloadFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PushFile {
    topic: String,
    event: String,
    name: Option<String>,
    payload: Option<PayloadFile>,
    /// Wait for a message with this in it, rather than for the reply.
    expect: Option<String>,
    #[serde(default = "yes")]
    reply: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaveFile {
    topic: String,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendFile {
    text: String,
    name: Option<String>,
    #[serde(default)]
    binary: bool,
    /// Wait for a message with this in it.
    expect: Option<String>,
    /// Wait for any message.
    #[serde(default)]
    reply: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectFile {
    text: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopFile {
    times: Option<u32>,
    steps: Vec<Spanned<StepFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpFile {
    path: String,
    method: Option<String>,
    name: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<PayloadFile>,
    status: Option<u16>,
    contains: Option<String>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    timeout: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PollFile {
    path: String,
    name: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    status: Option<u16>,
    until: Option<String>,
    #[serde(rename = "for")]
    period: Option<Span>,
    timeout: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisconnectFile {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StayFile {
    #[serde(rename = "for")]
    period: Option<Span>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdsFile {
    errors_max: Option<u64>,
    errors_percent_max: Option<f64>,
    connected_min: Option<u64>,
    missing_users_max: Option<u64>,
    start_lateness_p99_max: Option<Span>,
    #[serde(default)]
    steps: BTreeMap<Spanned<String>, StepGateFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepGateFile {
    p50_max: Option<Span>,
    p95_max: Option<Span>,
    p99_max: Option<Span>,
    p999_max: Option<Span>,
    max: Option<Span>,
    count_min: Option<u64>,
}

/// A time such as "1s 500ms".
#[derive(Clone, Copy)]
struct Span(Duration);

/// Longer than any load; so sums of a few cannot overflow.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        match humantime::parse_duration(&text) {
            Ok(duration) if duration <= SPAN_MAX => Ok(Span(duration)),
            Ok(_) => Err(D::Error::custom(format!("{text:?} is longer than a year"))),
            Err(error) => {
                Err(D::Error::custom(format!("{text:?} is no time such as \"10s\": {error}")))
            }
        }
    }
}

/// A payload as a table, or JSON in a text just as it is to be sent.
struct PayloadFile(String);

impl<'de> Deserialize<'de> for PayloadFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PayloadFile, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(PayloadFile(text)),
            value => serde_json::to_string(&value).map(PayloadFile).map_err(D::Error::custom),
        }
    }
}

/// `"1s"`, or a table with one kind of draw and `from = "answer"`.
struct ThinkFile(Think);

impl<'de> Deserialize<'de> for ThinkFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ThinkFile, D::Error> {
        deserializer.deserialize_any(ThinkVisitor)
    }
}

struct ThinkVisitor;

impl<'de> Visitor<'de> for ThinkVisitor {
    type Value = ThinkFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time, or a table with fixed, uniform or exponential")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ThinkFile, E> {
        let Span(time) = Span::deserialize(serde::de::value::StrDeserializer::new(text))?;
        Ok(ThinkFile(Think { time: ThinkTime::Fixed(time), is_after_answer: false }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ThinkFile, A::Error> {
        let mut time = None;
        let mut is_after_answer = false;
        while let Some(key) = map.next_key::<String>()? {
            let drawn = match key.as_str() {
                "fixed" => ThinkTime::Fixed(map.next_value::<Span>()?.0),
                "uniform" => {
                    let [min, max] = map.next_value::<[Span; 2]>()?;
                    if min.0 > max.0 {
                        return Err(A::Error::custom(
                            "uniform goes from the shorter to the longer time",
                        ));
                    }
                    ThinkTime::Uniform(min.0, max.0)
                }
                "exponential" => ThinkTime::Exponential(map.next_value::<Span>()?.0),
                "from" => {
                    is_after_answer = match map.next_value::<String>()?.as_str() {
                        "schedule" => false,
                        "answer" => true,
                        other => {
                            let known = &["schedule", "answer"];
                            return Err(A::Error::unknown_variant(other, known));
                        }
                    };
                    continue;
                }
                other => {
                    let known = &["fixed", "uniform", "exponential", "from"];
                    return Err(A::Error::unknown_field(other, known));
                }
            };
            if time.replace(drawn).is_some() {
                return Err(A::Error::custom("one of fixed, uniform and exponential is enough"));
            }
        }
        let time = time.ok_or_else(|| A::Error::custom("needs fixed, uniform or exponential"))?;
        Ok(ThinkFile(Think { time, is_after_answer }))
    }
}

pub(super) fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let place = Place { name, text };
    let file: ScenarioFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = if error.span().is_some() { place.line(at) } else { 0 };
        ScenarioError::new(name, line, &place.key(at), error.message())
    })?;
    file.check(&place)
}

/// Where in the text an error is.
struct Place<'a> {
    name: &'a str,
    text: &'a str,
}

impl Place<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    /// The key that is closest before this place, or at it.
    fn key(&self, at: usize) -> String {
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default().trim_end();
        let key = line.strip_suffix('=').map(|line| line.trim_end());
        let key = key.and_then(|line| line.rsplit(|c| !is_key(c)).next()).unwrap_or_default();
        if !key.is_empty() {
            return key.to_owned();
        }
        let after = self.text.get(at..).unwrap_or_default().trim_start_matches(['[', '{', ' ']);
        after.split(|c| !is_key(c)).next().unwrap_or_default().to_owned()
    }

    fn error(&self, at: usize, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, self.line(at), key, problem)
    }

    fn whole(&self, key: &str, problem: impl fmt::Display) -> ScenarioError {
        ScenarioError::new(self.name, 0, key, problem)
    }
}

impl ScenarioFile {
    fn check(self, place: &Place<'_>) -> Result<Scenario, ScenarioError> {
        let targets = self.targets.iter().map(|target| target.check(place));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let phases = self.phases.iter().enumerate();
        let phases =
            phases.map(|(index, phase)| phase.get_ref().check(index, phase.span().start, place));
        let phases = phases.collect::<Result<Vec<_>, _>>()?;
        if phases.is_empty() {
            return Err(place.whole("phases", "there must be one at least"));
        }
        let variables = Variables {
            drawn: drawn_variables(&self.variables, place)?,
            saved: saved_names(&self.sessions),
        };
        let mut steps = Vec::new();
        let mut sessions = Vec::new();
        for session in &self.sessions {
            sessions.push(session.get_ref().check(
                session.span().start,
                &mut steps,
                &variables,
                place,
            )?);
        }
        if sessions.iter().all(|session| session.weight == 0.0) {
            return Err(place.whole("sessions", "there must be one at least with a probability"));
        }
        let gates = self.thresholds.check(&steps, place)?;
        let sources = self.sources.addresses(place)?;
        let ports = self.sources.ports(place)?;
        Ok(Scenario {
            seed: self.seed,
            targets,
            sources,
            ports,
            users_max: self.users_max.unwrap_or(u64::MAX),
            step_timeout: self.step_timeout.map_or(Duration::from_secs(30), |span| span.0),
            wind_down: self.wind_down.map_or(Duration::from_secs(30), |span| span.0),
            phases,
            gates,
            is_timed: super::is_timed(&sessions),
            sessions,
            steps,
            variables,
        })
    }
}

impl TargetFile {
    fn check(&self, place: &Place<'_>) -> Result<Target, ScenarioError> {
        let at = self.url.span().start;
        check_weight(self.weight).map_err(|problem| place.error(at, "weight", problem))?;
        Target::parse(self.url.get_ref(), self.weight)
            .map_err(|problem| place.error(at, "url", problem))
    }
}

fn check_weight(weight: f64) -> Result<(), &'static str> {
    let is_fine = weight.is_finite() && (0.0..=1e9).contains(&weight);
    if is_fine { Ok(()) } else { Err("not between 0 and a billion") }
}

impl PhaseFile {
    fn check(&self, index: usize, at: usize, place: &Place<'_>) -> Result<Phase, ScenarioError> {
        let error = |key, problem: &str| place.error(at, key, problem);
        let rate = match (self.rate, self.interval) {
            (Some(rate), None) => rate,
            (None, Some(Span(interval))) if !interval.is_zero() => 1.0 / interval.as_secs_f64(),
            (None, Some(_)) => return Err(error("interval", "must not be zero")),
            (Some(_), Some(_)) => {
                return Err(error("interval", "rate says the same; one is enough"));
            }
            (None, None) => return Err(error("rate", "a phase needs a rate or an interval")),
        };
        let rate_end = self.rate_end.unwrap_or(rate);
        for (key, rate) in [("rate", rate), ("rate_end", rate_end)] {
            if !(0.0..=10_000_000.0).contains(&rate) {
                return Err(error(key, "is not between 0 and ten million arrivals a second"));
            }
        }
        if self.duration.0 < Duration::from_millis(1) {
            return Err(error("duration", "must be a millisecond at least"));
        }
        let spacing = match self.spacing {
            SpacingFile::Even => Spacing::Even,
            SpacingFile::Random => Spacing::Random,
        };
        let name = self.name.clone().unwrap_or_else(|| format!("phase {}", index + 1));
        let (duration, users_max) = (self.duration.0, self.users_max);
        Ok(Phase { name, duration, rate, rate_end, spacing, users_max })
    }
}

fn drawn_variables(
    variables: &BTreeMap<String, Spanned<VariableFile>>,
    place: &Place<'_>,
) -> Result<Vec<(String, Draw)>, ScenarioError> {
    let mut drawn = Vec::new();
    for (name, variable) in variables {
        let error = |problem: &str| place.error(variable.span().start, name, problem);
        if ["user", "id", "now"].contains(&name.as_str()) {
            return Err(error("is built in"));
        }
        let draw = match variable.get_ref() {
            VariableFile::Number([min, max]) if min > max => {
                return Err(error("number goes from the smaller to the larger"));
            }
            VariableFile::Number([min, max]) => Draw::Number { min: *min, max: *max },
            VariableFile::Letters(len) if *len > 1_000_000 => {
                return Err(error("has a million letters at most"));
            }
            VariableFile::Letters(len) => Draw::Letters(*len),
            VariableFile::Choice(choices) if choices.is_empty() => {
                return Err(error("needs something to choose from"));
            }
            VariableFile::Choice(choices) => Draw::Choice(choices.clone()),
        };
        drawn.push((name.clone(), draw));
    }
    Ok(drawn)
}

/// The names that answers are saved under, in all sessions.
fn saved_names(sessions: &[Spanned<SessionFile>]) -> Vec<String> {
    fn collect(steps: &[Spanned<StepFile>], names: &mut Vec<String>) {
        for step in steps {
            match step.get_ref() {
                StepFile::Http(http) => names.extend(http.save.keys().cloned()),
                StepFile::Loop(inner) => collect(&inner.steps, names),
                _ => {}
            }
        }
    }
    let mut names = Vec::new();
    sessions.iter().for_each(|session| collect(&session.get_ref().steps, &mut names));
    names.sort();
    names.dedup();
    names
}

impl SessionFile {
    fn check(
        &self,
        at: usize,
        steps: &mut Vec<String>,
        variables: &Variables,
        place: &Place<'_>,
    ) -> Result<super::Session, ScenarioError> {
        check_weight(self.probability)
            .map_err(|problem| place.error(at, "probability", problem))?;
        let mut compiler = Compiler::new(steps, variables);
        self.steps.iter().try_for_each(|step| compile(step, &mut compiler, variables, place))?;
        let ops = compiler.finish();
        let name = self.name.as_deref().unwrap_or("steps");
        if ops.is_empty() {
            return Err(place.error(at, name, "a session needs steps"));
        }
        Ok(super::Session { weight: self.probability, ops })
    }
}

fn compile(
    step: &Spanned<StepFile>,
    compiler: &mut Compiler<'_>,
    variables: &Variables,
    place: &Place<'_>,
) -> Result<(), ScenarioError> {
    let at = step.span().start;
    if let StepFile::Loop(inner) = step.get_ref() {
        compiler.loop_begin().map_err(|problem| place.error(at, "loop", problem))?;
        inner.steps.iter().try_for_each(|step| compile(step, compiler, variables, place))?;
        return compiler.loop_end(inner.times).map_err(|problem| place.error(at, "loop", problem));
    }
    let (key, result) = step.get_ref().compile(compiler, variables);
    result.map_err(|problem| place.error(at, key, problem))
}

fn payload(payload: &Option<PayloadFile>) -> &str {
    payload.as_ref().map_or("{}", |payload| &payload.0)
}

fn pairs(headers: &BTreeMap<String, String>) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl StepFile {
    /// The step's key, and what is wrong with it.
    fn compile(
        &self,
        compiler: &mut Compiler<'_>,
        variables: &Variables,
    ) -> (&'static str, Result<(), String>) {
        match self {
            StepFile::Connect(connect) => ("connect", connect.compile(compiler)),
            StepFile::Join(join) => {
                let payload = payload(&join.payload);
                ("join", compiler.join(join.name.as_deref(), &join.topic, payload))
            }
            StepFile::Push(push) => ("push", push.compile(compiler)),
            StepFile::Leave(leave) => {
                ("leave", compiler.leave(leave.name.as_deref(), &leave.topic))
            }
            StepFile::Send(send) => ("send", send.compile(compiler)),
            StepFile::Expect(expect) => ("expect", expect.compile(compiler)),
            StepFile::Think(think) => ("think", compiler.think(think.0.clone())),
            StepFile::Http(http) => ("http", http.compile(compiler, variables)),
            StepFile::Longpoll(poll) => ("longpoll", poll.compile(compiler)),
            StepFile::Disconnect(disconnect) => {
                ("disconnect", compiler.disconnect(disconnect.name.as_deref()))
            }
            StepFile::Stay(stay) => ("stay", compiler.stay(stay.period.map(|span| span.0))),
            StepFile::Loop(_) => unreachable!("loops are taken apart by their caller"),
        }
    }
}

impl ConnectFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let serializer = match self.serializer {
            Some(SerializerFile::Raw) => Serializer::Raw,
            Some(SerializerFile::V1) => Serializer::V1,
            Some(SerializerFile::V2) => Serializer::V2,
            None if self.path.contains("vsn=2") => Serializer::V2,
            None if self.path.contains("vsn=1") => Serializer::V1,
            None => Serializer::Raw,
        };
        let heartbeat = match (self.heartbeat, serializer) {
            (Some(_), Serializer::Raw) => return Err("heartbeat needs a Phoenix serializer".into()),
            (Some(Span(period)), _) if period.is_zero() => None,
            (Some(Span(period)), _) => Some(period),
            (None, Serializer::Raw) => None,
            (None, _) => Some(HEARTBEAT),
        };
        let headers = pairs(&self.headers);
        compiler.connect(self.name.as_deref(), &self.path, &headers, serializer, heartbeat)
    }
}

impl PushFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match (&self.expect, self.reply) {
            (Some(text), _) => Wanted::Containing(compiler.text(text)?),
            (None, true) => Wanted::Reply,
            (None, false) => Wanted::Nothing,
        };
        let name = self.name.as_deref();
        compiler.push(name, &self.topic, &self.event, payload(&self.payload), wanted)
    }
}

impl SendFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match (&self.expect, self.reply) {
            (Some(text), _) => Wanted::Containing(compiler.text(text)?),
            (None, true) => Wanted::Any,
            (None, false) => Wanted::Nothing,
        };
        compiler.send(self.name.as_deref(), &self.text, self.binary, wanted)
    }
}

impl ExpectFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match &self.text {
            Some(text) => Wanted::Containing(compiler.text(text)?),
            None => Wanted::Any,
        };
        compiler.expect(self.name.as_deref(), wanted)
    }
}

impl HttpFile {
    fn compile(&self, compiler: &mut Compiler<'_>, variables: &Variables) -> Result<(), String> {
        let default = if self.body.is_some() { "POST" } else { "GET" };
        let method = self.method.as_deref().unwrap_or(default);
        let mut request = compiler.request(self.name.as_deref(), method, &self.path)?;
        let mut headers = pairs(&self.headers);
        if self.body.is_some()
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        request.headers = compiler.headers(&headers)?;
        request.body = compiler.text(self.body.as_ref().map_or("", |body| &body.0))?;
        request.status = self.status;
        request.contains = self.contains.as_deref().map(|text| compiler.text(text)).transpose()?;
        request.timeout = self.timeout.map(|span| span.0);
        for (name, pointer) in &self.save {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(format!("save: {pointer:?} is no JSON pointer such as \"/token\""));
            }
            let place = variables.saved.iter().position(|known| known == name);
            request.save.push((pointer.clone(), place.expect("all saved names were collected")));
        }
        compiler.http(request)
    }
}

impl PollFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let default = format!("longpoll {}", self.path);
        let name = self.name.as_deref().unwrap_or(&default);
        let mut request = compiler.request(Some(name), "GET", &self.path)?;
        request.headers = compiler.headers(&pairs(&self.headers))?;
        request.status = self.status;
        request.timeout = self.timeout.map(|span| span.0);
        let until = self.until.as_deref().map(|text| compiler.text(text)).transpose()?;
        compiler.poll(Poll { request, until, period: self.period.map(|span| span.0) })
    }
}

impl SourcesFile {
    fn addresses(&self, place: &Place<'_>) -> Result<Vec<IpAddr>, ScenarioError> {
        let mut addresses = Vec::new();
        for text in &self.addresses {
            let error = |problem: &str| place.error(text.span().start, "addresses", problem);
            let range = address_range(text.get_ref());
            let range = range.ok_or_else(|| error("neither an address nor a range of them"))?;
            for address in range {
                if addresses.len() == SOURCES_MAX {
                    return Err(error("more addresses than 65,536"));
                }
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    fn ports(&self, place: &Place<'_>) -> Result<(u16, u16), ScenarioError> {
        match &self.ports {
            None => Ok((1024, 65_535)),
            Some(ports) => match ports.get_ref() {
                [min, max] if *min > 0 && min <= max => Ok((*min, *max)),
                _ => Err(place.error(
                    ports.span().start,
                    "ports",
                    "goes from the lower to the higher port",
                )),
            },
        }
    }
}

/// `127.0.1.1` or `127.0.1.1-127.0.1.50`.
pub(super) fn address_range(text: &str) -> Option<Box<dyn Iterator<Item = IpAddr>>> {
    match text.split_once('-') {
        None => {
            text.trim().parse::<IpAddr>().ok().map(|address| Box::new([address].into_iter()) as _)
        }
        Some((first, last)) => {
            let first = u32::from(first.trim().parse::<Ipv4Addr>().ok()?);
            let last = u32::from(last.trim().parse::<Ipv4Addr>().ok()?);
            let range = (first..=last).map(|bits| IpAddr::from(Ipv4Addr::from(bits)));
            (first <= last).then(|| Box::new(range) as _)
        }
    }
}

impl ThresholdsFile {
    fn check(&self, steps: &[String], place: &Place<'_>) -> Result<Gates, ScenarioError> {
        let span = |span: Option<Span>| span.map(|span| span.0);
        let mut gates = Gates {
            errors_max: self.errors_max,
            errors_percent_max: self.errors_percent_max,
            connected_min: self.connected_min,
            missing_users_max: self.missing_users_max,
            start_lateness_p99_max: span(self.start_lateness_p99_max),
            steps: Vec::new(),
        };
        for (name, gate) in &self.steps {
            if !steps.contains(name.get_ref()) {
                let problem = format!("no such step; there is {}", steps.join(", "));
                return Err(place.error(name.span().start, name.get_ref(), problem));
            }
            let gate = StepGate {
                p50_max: span(gate.p50_max),
                p95_max: span(gate.p95_max),
                p99_max: span(gate.p99_max),
                p999_max: span(gate.p999_max),
                max: span(gate.max),
                count_min: gate.count_min,
            };
            gates.steps.push((name.get_ref().clone(), gate));
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_scenario_is_read() {
        let scenario = Scenario::parse("good.toml", GOOD).unwrap();
        assert_eq!(scenario.users(), 50);
        assert_eq!(scenario.steps, ["connect", "join", "push new_msg"]);
        assert_eq!(scenario.sessions[0].ops.len(), 9);
        assert_eq!(scenario.gates.steps[0].1.p99_max, Some(Duration::from_millis(200)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_key() {
        let cases: &[(&str, &str, usize, &str, &str)] = &[
            ("rate = 5", "rat = 5", 7, "rat", "unknown field"),
            ("rate = 5", "rate = 'x'", 7, "rate", "invalid type"),
            ("rate = 5", "rate = -1", 5, "rate", "between 0"),
            ("rate = 5", "rate = nan", 5, "rate", "between 0"),
            ("rate = 5", "rate = 5\ninterval = '1s'", 5, "interval", "one is enough"),
            ("rate = 5", "", 5, "rate", "a phase needs"),
            ("\"10s\"", "\"10 bananas\"", 6, "duration", "no time"),
            ("\"10s\"", "\"0s\"", 5, "duration", "a millisecond"),
            ("\"10s\"", "\"9999 years\"", 6, "duration", "longer than a year"),
            ("ws://127.0.0.1:4000", "wss://127.0.0.1", 3, "url", "wss is not spoken"),
            ("[1, 9]", "[9, 1]", 10, "room", "smaller"),
            ("room =", "now =", 10, "now", "built in"),
            ("${id}", "${idd}", 15, "join", "unknown variable ${idd}"),
            ("{ think = \"1s\" }", "{ thin = \"1s\" }", 20, "thin", "unknown variant"),
            ("{ exponential = \"1s\" }", "{ gauss = \"1s\" }", 18, "think", "unknown field"),
            ("\"rooms:${room}\", event", "\"rooms:x\", event", 17, "push", "not joined before"),
            ("times = 2", "times = 0", 16, "loop", "once at least"),
            (
                "  { connect = { path = \"/socket/websocket?vsn=2.0.0\" } },\n",
                "",
                14,
                "join",
                "a connect",
            ),
            ("?vsn=2.0.0", "", 15, "join", "speaks Phoenix"),
            ("steps.join", "steps.jion", 26, "jion", "no such step"),
            ("{ stay = {} }", "{ http = { path = '/' } }", 21, "http", "one connection"),
            (
                "{ think = \"1s\" }",
                "{ loop = { steps = [{ disconnect = {} }] } }",
                20,
                "loop",
                "as it found it",
            ),
            ("[thresholds]", "[thresholds", 24, "", "unclosed"),
        ];
        for (old, new, line, key, problem) in cases {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old} is there");
            let error = Scenario::parse("bad.toml", &text).expect_err(new);
            let said = error.to_string();
            assert!(said.contains(problem), "{new}: {said}");
            assert_eq!((error.line(), error.key()), (*line, *key), "{new}: {said}");
        }
    }

    #[test]
    fn source_addresses_may_be_ranges() {
        let all: Vec<_> = address_range("127.0.1.254-127.0.2.1").unwrap().collect();
        assert_eq!(all.len(), 4);
        assert_eq!(address_range("::1").unwrap().count(), 1);
        assert!(address_range("127.0.1.9-127.0.1.1").is_none());
        assert!(address_range("127.0.1").is_none());
        let many = GOOD.replacen(
            "[[phases]]",
            "[sources]\naddresses=['10.0.0.0-11.0.0.0']\n[[phases]]",
            1,
        );
        assert_eq!(Scenario::parse("many.toml", &many).unwrap_err().line(), 6);
    }
}
