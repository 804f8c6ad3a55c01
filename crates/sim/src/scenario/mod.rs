//! A swarm to simulate, as one TOML file. docs/reference/swarm-scenarios.md describes the format.

mod file;

use std::time::Duration;

use watchfire_bitswap::Limits;

use crate::dag::FileShape;
use crate::network::{Access, NetworkLimits, Path, Processors};
use crate::plan::{Attack, PeerPlan, Plan};
use crate::strategies::Strategy;
use crate::swarm::{self, Outcome, Progress};
use watchfire_types::Rng;

pub use watchfire_report::scenario::ScenarioError;

/// A swarm, and the request strategies that are compared on it.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub seed: u64,
    pub notes: Vec<String>,
    pub file: FileShape,
    pub runs: Vec<Run>,
    /// Times of published results, shown beside ours.
    pub published: Vec<Published>,
    groups: Vec<Group>,
    paths: Vec<Vec<Path>>,
    network: NetworkLimits,
    neighbours: Option<u32>,
    time_max: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub name: String,
    /// How every node requests blocks.
    pub strategy: Strategy,
    /// The CPU time of messages; `None` if they take none.
    pub processors: Option<Processors>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub name: String,
    /// The time until all peers had the file.
    pub time: Duration,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub scenario: Scenario,
    pub runs: Vec<(Run, Outcome)>,
}

/// Peers with the same settings.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    count: u32,
    is_seeder: bool,
    access: Access,
    region: usize,
    arrive_within: Duration,
    leaving: f64,
    leave_within: Duration,
    noticed_after: Duration,
    leaves_when_done: bool,
    malicious: f64,
    attack: Attack,
}

impl Scenario {
    /// Parses a scenario. `name` is the file's name, for errors.
    ///
    /// ```
    /// let error = watchfire_sim::Scenario::parse("swarm.toml", "[file]\nsize = '300 bananas'\n");
    /// assert!(error.unwrap_err().to_string().starts_with("swarm.toml:2: size: "));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        file::parse(name, text)
    }

    /// Simulates each run, one after another, and passes its progress to `watch`.
    pub fn simulate(&self, watch: &mut dyn FnMut(&Run, Progress)) -> Report {
        let runs = self.runs.iter().map(|run| {
            let outcome = swarm::run(&self.plan(run), &mut |progress| watch(run, progress));
            (run.clone(), outcome)
        });
        Report { runs: runs.collect(), scenario: self.clone() }
    }

    pub fn group(&self, group: usize) -> &str {
        &self.groups[group].name
    }

    /// The plan of a run. The seed decides which peers leave or attack, the same ones in all runs.
    pub fn plan(&self, run: &Run) -> Plan {
        let mut rng = Rng::for_purpose(self.seed, 0x5ce);
        let mut peers = Vec::new();
        for (group, shape) in self.groups.iter().enumerate() {
            let mut peers_of_group: Vec<PeerPlan> =
                (0..shape.count).map(|_| shape.peer(group, &mut rng)).collect();
            let some = |part: f64| (part * f64::from(shape.count)).round() as usize;
            // The first ones become malicious or leave; the shuffle below mixes them.
            let attackers = some(shape.malicious);
            peers_of_group
                .iter_mut()
                .take(attackers)
                .for_each(|peer| peer.attack = Some(shape.attack));
            let leaving = peers_of_group.iter_mut().skip(attackers).take(some(shape.leaving));
            for peer in leaving {
                let after = shape.leave_within.mul_f64(rng.fraction());
                peer.leaves_at = Some(peer.arrives_at + after);
            }
            rng.shuffle(&mut peers_of_group);
            peers.append(&mut peers_of_group);
        }
        Plan {
            seed: self.seed,
            file: self.file,
            strategy: run.strategy,
            limits: Limits::default(),
            peers,
            paths: self.paths.clone(),
            network: NetworkLimits { processors: run.processors, ..self.network },
            neighbours: self.neighbours,
            read_delay: Duration::ZERO,
            breaks_per_second: 0.0,
            time_max: self.time_max,
        }
    }
}

impl Group {
    fn peer(&self, group: usize, rng: &mut Rng) -> PeerPlan {
        PeerPlan {
            group,
            access: self.access,
            region: self.region,
            is_seeder: self.is_seeder,
            held_bytes: 0,
            arrives_at: self.arrive_within.mul_f64(rng.fraction()),
            leaves_at: None,
            returns_at: None,
            noticed_after: self.noticed_after,
            leaves_when_done: self.leaves_when_done,
            attack: None,
        }
    }
}
