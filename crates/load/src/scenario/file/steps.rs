//! `[[sessions]]` and their steps.

mod requests;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use watchfire_report::scenario::SourceText;
use watchfire_report::units::DurationText;

use self::requests::{HttpFile, PollFile, VisitFile};
use super::rows::RowsFile;
use super::values::{PayloadFile, SaveFile, ThinkFile};
use super::{BUILT_IN, check_weight, one};
use crate::scenario::answer::{Answer, Missing, Save};
use crate::scenario::compile::Compiler;
use crate::scenario::program::{Serializer, SetTo, Wanted};
use crate::scenario::text::{Place, Slots, Variables};
use crate::scenario::{ScenarioError, Session};

/// The heartbeat interval of a Phoenix client.
const HEARTBEAT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionFile {
    #[serde(default)]
    name: Option<String>,
    #[serde(default = "one")]
    pub(super) probability: f64,
    /// Keep the cookies of the server, and send them.
    #[serde(default)]
    cookies: bool,
    /// Connect again after these pauses when the connection breaks.
    #[serde(default)]
    reconnect_after: Vec<DurationText>,
    /// Save these values from each message that has them.
    #[serde(default)]
    keep: BTreeMap<String, SaveFile>,
    /// The number of the server at which its users begin, from 1.
    server: Option<NonZeroU16>,
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
    Group(GroupFile),
    /// Take a row of this file.
    Row(String),
    Http(HttpFile),
    Longpoll(PollFile),
    Page(VisitFile),
    Disconnect(DisconnectFile),
    Stay(StayFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectFile {
    path: String,
    name: Option<String>,
    serializer: Option<Serializer>,
    heartbeat: Option<DurationText>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinFile {
    topic: String,
    name: Option<String>,
    payload: Option<PayloadFile>,
    #[serde(default)]
    save: BTreeMap<String, SaveFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PushFile {
    topic: String,
    event: String,
    name: Option<String>,
    payload: Option<PayloadFile>,
    /// Wait for a message that contains this text instead of for the reply.
    expect: Option<String>,
    #[serde(default = "yes")]
    reply: bool,
    /// All users on the topic should receive it.
    #[serde(default)]
    broadcast: bool,
    /// Exactly one other user receives the `${now}` in the payload.
    #[serde(default)]
    delivered: bool,
    /// All receivers should see its messages once and in order.
    #[serde(default)]
    in_order: bool,
    #[serde(default)]
    save: BTreeMap<String, SaveFile>,
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
    /// Wait for a message that contains this text.
    expect: Option<String>,
    /// Wait for any message.
    #[serde(default)]
    reply: bool,
    /// All connected users should receive it.
    #[serde(default)]
    broadcast: bool,
    /// All receivers should see its messages once and in order.
    #[serde(default)]
    in_order: bool,
    #[serde(default)]
    save: BTreeMap<String, SaveFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectFile {
    text: Option<String>,
    name: Option<String>,
    #[serde(default)]
    save: BTreeMap<String, SaveFile>,
}

/// Steps that are measured as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    name: String,
    steps: Vec<Spanned<StepFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopFile {
    times: Option<u32>,
    steps: Vec<Spanned<StepFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisconnectFile {
    name: Option<String>,
    /// Close the connection without a close frame.
    #[serde(default)]
    abrupt: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StayFile {
    #[serde(rename = "for")]
    period: Option<DurationText>,
}

/// The variables that sessions set: values of answers, and columns of rows.
pub(super) struct Names<'a> {
    slots: Slots,
    /// The pages and their topics.
    pages: Vec<(String, String)>,
    rows: &'a BTreeMap<String, Spanned<RowsFile>>,
}

impl<'a> Names<'a> {
    pub(super) fn collect(
        sessions: &[Spanned<SessionFile>],
        rows: &'a BTreeMap<String, Spanned<RowsFile>>,
        pages: Vec<(String, String)>,
    ) -> Names<'a> {
        let mut names = Vec::new();
        for session in sessions {
            collect(&session.get_ref().steps, &mut names);
            names.extend(session.get_ref().keep.keys().cloned());
        }
        names.extend(rows.values().flat_map(|rows| &rows.get_ref().columns).cloned());
        names.sort();
        names.dedup();
        Names { slots: Slots { names, is_tsung: false }, pages, rows }
    }
}

fn collect(steps: &[Spanned<StepFile>], names: &mut Vec<String>) {
    for step in steps {
        let saved = match step.get_ref() {
            StepFile::Http(http) => &http.save,
            StepFile::Join(join) => &join.save,
            StepFile::Push(push) => &push.save,
            StepFile::Send(send) => &send.save,
            StepFile::Expect(expect) => &expect.save,
            StepFile::Loop(LoopFile { steps, .. }) | StepFile::Group(GroupFile { steps, .. }) => {
                collect(steps, names);
                continue;
            }
            _ => continue,
        };
        names.extend(saved.keys().cloned());
    }
}

/// Saves these values from the answer that the next step waits for.
fn save(
    saved: &BTreeMap<String, SaveFile>,
    wanted: &Wanted,
    compiler: &mut Compiler<'_>,
) -> Result<(), String> {
    if matches!(wanted, Wanted::Nothing) && !saved.is_empty() {
        return Err("save needs an answer: add reply = true or expect".to_owned());
    }
    let answer = answer(saved, compiler)?;
    compiler.use_answer(answer);
    Ok(())
}

/// Compiles the values that a step saves.
fn answer(saved: &BTreeMap<String, SaveFile>, compiler: &Compiler<'_>) -> Result<Answer, String> {
    Ok(Answer { saves: saves(saved, compiler)?, checks: Vec::new() })
}

fn saves(saved: &BTreeMap<String, SaveFile>, compiler: &Compiler<'_>) -> Result<Vec<Save>, String> {
    let saves = saved.iter().map(|(name, save)| {
        if BUILT_IN.contains(&name.as_str()) {
            return Err(format!("save: the name {name} is built in"));
        }
        let find = save.find().map_err(|problem| format!("save: {problem}"))?;
        Ok(Save { slot: compiler.slot(name)?, find, missing: Missing::Fails })
    });
    saves.collect()
}

impl SessionFile {
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    pub(super) fn check(
        &self,
        at: usize,
        steps: &mut Vec<String>,
        variables: &Variables,
        names: &Names<'_>,
        source: &SourceText<'_>,
    ) -> Result<Session, ScenarioError> {
        check_weight(self.probability)
            .map_err(|problem| source.error(at, "probability", problem))?;
        let mut compiler = Compiler::new(steps, variables, names.slots.clone());
        self.steps.iter().try_for_each(|step| compile(step, &mut compiler, names, source))?;
        if !self.reconnect_after.is_empty() {
            let pauses = self.reconnect_after.iter().map(|span| span.0).collect();
            let reconnects = compiler.reconnect(pauses);
            reconnects.map_err(|problem| source.error(at, "reconnect_after", problem))?;
        }
        let keeps = saves(&self.keep, &compiler);
        let keeps = keeps.map_err(|problem| source.error(at, "keep", problem))?;
        let name = self.name.as_deref().unwrap_or("steps");
        let server = self.server.map(|server| server.get() - 1);
        let session = compiler.finish(self.probability, self.cookies);
        let session = Session { keeps, server, ..session };
        if session.ops.is_empty() {
            return Err(source.error(at, name, "a session needs steps"));
        }
        Ok(session)
    }
}

fn compile(
    step: &Spanned<StepFile>,
    compiler: &mut Compiler<'_>,
    names: &Names<'_>,
    source: &SourceText<'_>,
) -> Result<(), ScenarioError> {
    let at = step.span().start;
    let error = |key| move |problem: String| source.error(at, key, problem);
    if let StepFile::Loop(inner) = step.get_ref() {
        compiler.loop_begin().map_err(error("loop"))?;
        inner.steps.iter().try_for_each(|step| compile(step, compiler, names, source))?;
        return compiler.loop_end(inner.times).map_err(error("loop"));
    }
    if let StepFile::Group(inner) = step.get_ref() {
        compiler.group_begin().map_err(error("group"))?;
        inner.steps.iter().try_for_each(|step| compile(step, compiler, names, source))?;
        return compiler.group_end(&inner.name).map_err(error("group"));
    }
    let (key, result) = step.get_ref().compile(compiler, names);
    result.map_err(error(key))
}

fn payload(payload: &Option<PayloadFile>) -> &str {
    payload.as_ref().map_or("{}", |payload| &payload.0)
}

fn pairs(headers: &BTreeMap<String, String>) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl StepFile {
    /// The key of the step, and the result of compiling it.
    fn compile(
        &self,
        compiler: &mut Compiler<'_>,
        names: &Names<'_>,
    ) -> (&'static str, Result<(), String>) {
        match self {
            StepFile::Connect(connect) => ("connect", connect.compile(compiler)),
            StepFile::Join(join) => ("join", join.compile(compiler)),
            StepFile::Push(push) => ("push", push.compile(compiler)),
            StepFile::Leave(leave) => {
                ("leave", compiler.leave(leave.name.as_deref(), &leave.topic))
            }
            StepFile::Send(send) => ("send", send.compile(compiler)),
            StepFile::Expect(expect) => ("expect", expect.compile(compiler)),
            StepFile::Think(think) => ("think", compiler.think(think.0.clone())),
            StepFile::Http(http) => ("http", http.compile(compiler)),
            StepFile::Longpoll(poll) => ("longpoll", poll.compile(compiler)),
            StepFile::Page(page) => ("page", page.compile(compiler, names)),
            StepFile::Disconnect(disconnect) => {
                let name = disconnect.name.as_deref();
                ("disconnect", compiler.disconnect(name, disconnect.abrupt))
            }
            StepFile::Stay(stay) => ("stay", compiler.stay(stay.period.map(|span| span.0))),
            StepFile::Row(name) => ("row", take_row(name, compiler, names)),
            StepFile::Loop(_) | StepFile::Group(_) => unreachable!("the caller compiles these"),
        }
    }
}

/// Takes a row, and sets the variables of its columns.
fn take_row(name: &str, compiler: &mut Compiler<'_>, names: &Names<'_>) -> Result<(), String> {
    let file = names.rows.keys().position(|known| known == name);
    let (file, rows) = file.zip(names.rows.get(name)).ok_or_else(|| {
        let known: Vec<&str> = names.rows.keys().map(String::as_str).collect();
        format!("unknown rows {name}; known rows: {}", known.join(", "))
    })?;
    let slots = rows.get_ref().columns.iter().map(|column| compiler.slot(column));
    let slots = slots.collect::<Result<_, _>>()?;
    compiler.set(slots, SetTo::Row(rows.get_ref().columns(file)))
}

impl JoinFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        save(&self.save, &Wanted::Reply, compiler)?;
        compiler.join(self.name.as_deref(), &self.topic, payload(&self.payload))
    }
}

impl ConnectFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let serializer = match self.serializer {
            Some(serializer) => serializer,
            None if self.path.contains("vsn=2") => Serializer::V2,
            None if self.path.contains("vsn=1") => Serializer::V1,
            None => Serializer::Raw,
        };
        let heartbeat = match (self.heartbeat, serializer) {
            (Some(_), Serializer::Raw | Serializer::Events) => {
                return Err("heartbeat needs a Phoenix serializer".into());
            }
            (Some(DurationText(period)), _) if period.is_zero() => None,
            (Some(DurationText(period)), _) => Some(period),
            (None, Serializer::Raw | Serializer::Events) => None,
            (None, _) => Some(HEARTBEAT),
        };
        let headers = pairs(&self.headers);
        compiler.connect(self.name.as_deref(), &self.path, &headers, serializer, heartbeat)
    }
}

impl PushFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match (&self.expect, self.reply) {
            (Some(text), _) => Wanted::Containing(compiler.text(text, Place::Plain)?),
            (None, true) => Wanted::Reply,
            (None, false) => Wanted::Nothing,
        };
        let name = self.name.as_deref();
        let payload = payload(&self.payload);
        save(&self.save, &wanted, compiler)?;
        compiler.note_delivered(self.delivered);
        compiler.note_in_order(self.in_order);
        compiler.push(name, &self.topic, &self.event, payload, wanted, self.broadcast)
    }
}

impl SendFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match (&self.expect, self.reply) {
            (Some(text), _) => Wanted::Containing(compiler.text(text, Place::Plain)?),
            (None, true) => Wanted::Any,
            (None, false) => Wanted::Nothing,
        };
        save(&self.save, &wanted, compiler)?;
        compiler.note_in_order(self.in_order);
        compiler.send(self.name.as_deref(), &self.text, self.binary, wanted, self.broadcast)
    }
}

impl ExpectFile {
    fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let wanted = match &self.text {
            Some(text) => Wanted::Containing(compiler.text(text, Place::Plain)?),
            None => Wanted::Any,
        };
        save(&self.save, &wanted, compiler)?;
        compiler.expect(self.name.as_deref(), wanted)
    }
}
