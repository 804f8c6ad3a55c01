//! The users of a load: `watchfire load` as a process, and the figures in its results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::live::Live;
use super::network::{Network, Site};
use super::process::{NodeError, Process};
use crate::definition::TrialPlan;
use crate::drivers::with_causes;

/// The exit code with which `watchfire load` says that a threshold of its scenario was broken.
const THRESHOLD_BROKEN: i32 = 3;

/// The users of a run, and how they ended.
#[derive(Default)]
pub struct Load {
    users: Option<Users>,
    pub measures: BTreeMap<String, f64>,
    pub failure: Option<String>,
}

impl Load {
    /// Starts the users at the first server. Their process has the folder of that node.
    pub fn start(
        plan: &TrialPlan,
        file: &Path,
        nodes: &[Live<'_>],
        network: &Network,
        watchfire: &Path,
    ) -> Load {
        let mut load = Load::default();
        let server = nodes.iter().find(|live| live.plan.serves);
        let target = server.and_then(|live| Some((live, live.node.as_ref()?.address()?)));
        let Some((live, target)) = target else {
            load.failure = Some("no server started".to_owned());
            return load;
        };
        let site = network.users_site(&live.site);
        match Users::start(watchfire, &site, file, &target, plan.seed) {
            Ok(users) => load.users = Some(users),
            Err(error) => load.failure = Some(with_causes(&error)),
        }
        load
    }

    /// Whether users still run.
    pub fn is_pending(&mut self) -> bool {
        match self.users.as_mut().map(Users::poll) {
            Some(Ok(None)) => return true,
            Some(Ok(Some(measures))) => self.measures = measures,
            Some(Err(error)) => self.failure = Some(with_causes(&error)),
            None => {}
        }
        self.users = None;
        false
    }
}

/// The process of the users.
struct Users {
    process: Process,
    json: PathBuf,
}

impl Users {
    /// Starts the users of a scenario at a server.
    fn start(
        program: &Path,
        site: &Site,
        file: &Path,
        target: &str,
        seed: u64,
    ) -> Result<Users, NodeError> {
        let json = site.folder.join("load.json");
        let mut command = Command::new(program);
        command.arg("load").arg(file).args(["--target", target, "--seed", &seed.to_string()]);
        command.arg("--json").arg(&json);
        Ok(Users { process: Process::start(site, command, "load")?, json })
    }

    /// The figures, once all users have ended.
    fn poll(&mut self) -> Result<Option<BTreeMap<String, f64>>, NodeError> {
        let Some(status) = self.process.has_ended()? else { return Ok(None) };
        if !status.success() && status.code() != Some(THRESHOLD_BROKEN) {
            return Err(self.process.ended_with(status));
        }
        let text = fs::read_to_string(&self.json).map_err(NodeError::file(&self.json))?;
        let results: Value =
            serde_json::from_str(&text).map_err(|error| NodeError::Unexpected {
                program: self.process.program().to_owned(),
                problem: error.to_string(),
            })?;
        Ok(Some(measures(&results, self.process.usage().cpu)))
    }
}

/// The figures in the results of a load. Of each, less is better.
fn measures(results: &Value, cpu: Duration) -> BTreeMap<String, f64> {
    let mut measures = BTreeMap::new();
    let mut add = |name: String, value: &Value| {
        if let Some(value) = value.as_f64() {
            measures.insert(name, value);
        }
    };
    add("load: start lateness, p99, s".to_owned(), &results["start_lateness"]["p99"]);
    add("load: delivery, median, s".to_owned(), &results["delivery"]["p50"]);
    add("load: delivery, p99, s".to_owned(), &results["delivery"]["p99"]);
    for step in results["steps"].as_array().into_iter().flatten() {
        let name = step["name"].as_str().unwrap_or_default();
        add(format!("load: {name}, median, s"), &step["since_due"]["p50"]);
        add(format!("load: {name}, p99, s"), &step["since_due"]["p99"]);
        add(format!("load: {name}, unanswered"), &step["unanswered"]);
    }
    let errors = results["errors"].as_array().into_iter().flatten();
    let errors: u64 = errors.filter_map(|error| error["count"].as_u64()).sum();
    add("load: errors".to_owned(), &errors.into());
    add("load: CPU-seconds of the users".to_owned(), &cpu.as_secs_f64().into());
    measures
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_figures_of_a_load_have_names() {
        let times = json!({ "p50": 0.5, "p99": 0.9 });
        let results = json!({
            "start_lateness": times, "delivery": times,
            "steps": [{ "name": "join", "since_due": times, "unanswered": 2 }],
            "errors": [{ "count": 3 }, { "count": 4 }],
        });
        let measures = measures(&results, Duration::from_secs(2));
        assert_eq!(measures["load: join, p99, s"], 0.9);
        assert_eq!(measures["load: join, unanswered"], 2.0);
        assert_eq!(measures["load: errors"], 7.0);
        assert_eq!(measures["load: CPU-seconds of the users"], 2.0);
    }
}
