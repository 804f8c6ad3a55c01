//! Scenarios: which nodes have and fetch objects, the users of a load, and the events of a run.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::{DurationText, Share};

use super::clusters::LinkFile;
use super::objects::{ObjectFile, check_objects, check_rules};
use super::values::texts;
use crate::definition::{Churn, DefinitionError, Fault, FaultKind, Load, Query, Scenario, Waves};

/// How long a run may take if its scenario does not say it.
const TIME_MAX: Duration = Duration::from_secs(1200);
const WAVES_MAX: u32 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    #[serde(default)]
    objects: BTreeMap<String, Spanned<ObjectFile>>,
    #[serde(default)]
    seed: BTreeMap<String, Spanned<String>>,
    load: Option<Spanned<LoadFile>>,
    serve: Option<Spanned<String>>,
    #[serde(default)]
    fetch: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    arrive_within: DurationText,
    #[serde(default)]
    waves: Vec<Spanned<WavesFile>>,
    #[serde(default)]
    churn: Vec<Spanned<ChurnFile>>,
    #[serde(default)]
    faults: Vec<Spanned<FaultFile>>,
    time_max: Option<DurationText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadFile {
    file: PathBuf,
    command: Option<String>,
    users: Option<NonZeroU32>,
    on: String,
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
    #[serde(default)]
    quick: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WavesFile {
    nodes: String,
    count: u32,
    interval: DurationText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChurnFile {
    nodes: String,
    part: Share,
    within: DurationText,
    returns_after: Option<DurationText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    at: DurationText,
    nodes: String,
    #[serde(default)]
    kill: bool,
    link: Option<LinkFile>,
    nat: Option<String>,
}

pub(super) fn check_scenario(
    scenario: Spanned<ScenarioFile>,
    source: &SourceText<'_>,
) -> Result<Scenario, DefinitionError> {
    let (at, file) = (scenario.span().start, scenario.into_inner());
    let objects = check_objects(file.objects, source)?;
    let seed = check_rules("seed", file.seed, &objects, source)?;
    let fetch = check_rules("fetch", file.fetch, &objects, source)?;
    if fetch.is_empty() && file.load.is_none() {
        return Err(source.error(at, "fetch", "the scenario needs fetch or load"));
    }
    let query =
        |at, text: &str| Query::parse(text).map_err(|problem| source.error(at, "nodes", problem));
    let load = file.load.map(|load| {
        let (at, load) = (load.span().start, load.into_inner());
        let (on, set, quick) = (query(at, &load.on)?, texts(load.set), texts(load.quick));
        if load.command.is_some() && !(set.is_empty() && quick.is_empty()) {
            return Err(source.error(
                at,
                "load",
                "set and quick are of `watchfire load`, not of a command",
            ));
        }
        if load.command.is_none() && load.users.is_some() {
            let problem = "users is of a command; the file of `watchfire load` has its own";
            return Err(source.error(at, "load", problem));
        }
        let (command, users) = (load.command, load.users.map(NonZeroU32::get));
        Ok(Load { file: load.file, command, users, on, set, quick })
    });
    let serve = file.serve.map(|text| query(text.span().start, text.get_ref()));
    let mut waves = Vec::new();
    for part in &file.waves {
        let (at, part) = (part.span().start, part.get_ref());
        if !(1..=WAVES_MAX).contains(&part.count) {
            let problem = format!("count must be between 1 and {WAVES_MAX}");
            return Err(source.error(at, "waves", problem));
        }
        let (nodes, interval) = (query(at, &part.nodes)?, part.interval.0);
        waves.push(Waves { nodes, count: part.count, interval });
    }
    let mut churn = Vec::new();
    for part in &file.churn {
        let (at, part) = (part.span().start, part.get_ref());
        churn.push(Churn {
            nodes: query(at, &part.nodes)?,
            part: part.part.0,
            within: part.within.0,
            returns_after: part.returns_after.map(|span| span.0),
        });
    }
    let mut faults = Vec::new();
    for fault in &file.faults {
        let (at, fault) = (fault.span().start, fault.get_ref());
        let kind = match (fault.kill, fault.link, &fault.nat) {
            (true, None, None) => FaultKind::Kill,
            (false, Some(link), None) => FaultKind::Link(link.link()),
            (false, None, Some(kind)) => {
                let kind = kind.parse();
                FaultKind::Router(kind.map_err(|problem| source.error(at, "nat", problem))?)
            }
            _ => {
                let problem = "needs one of kill = true, link and nat";
                return Err(source.error(at, "faults", problem));
            }
        };
        faults.push(Fault { at: fault.at.0, nodes: query(at, &fault.nodes)?, kind });
    }
    Ok(Scenario {
        objects,
        seed,
        fetch,
        arrive_within: file.arrive_within.0,
        waves,
        churn,
        faults,
        load: load.transpose()?,
        serve: serve.transpose()?,
        time_max: file.time_max.map_or(TIME_MAX, |span| span.0),
    })
}
