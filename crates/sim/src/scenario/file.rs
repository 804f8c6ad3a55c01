//! The format of a scenario file, and its checks.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::{PathText, SourceText};
use watchfire_report::units::{ByteRateText, BytesText, DurationText, Share};

use super::{Group, Published, Run, Scenario, ScenarioError};
use crate::dag::FileShape;
use crate::network::{Access, NetworkLimits, Path, Processors};
use crate::plan::Attack;
use crate::strategies::Strategy;

/// Most peers of all groups together.
const PEERS_MAX: u32 = 100_000;
/// Most blocks of the shared file.
const BLOCKS_MAX: u64 = 1_000_000;
/// Largest leaf, which every Bitswap peer accepts.
const BLOCK_BYTES_MAX: u64 = watchfire_content::BLOCK_BYTES_MAX as u64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    name: Option<String>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    notes: Vec<String>,
    time_max: Option<DurationText>,
    file: Spanned<FileFile>,
    #[serde(default)]
    network: NetworkFile,
    processors: Option<ProcessorsFile>,
    peers: Vec<Spanned<PeersFile>>,
    #[serde(default)]
    runs: Vec<RunFile>,
    #[serde(default)]
    published: Vec<PublishedFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFile {
    size: BytesText,
    block: Option<BytesText>,
    links_max: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkFile {
    latency: Option<DurationText>,
    jitter: DurationText,
    loss: Share,
    neighbours: Option<u32>,
    queue_max: Option<DurationText>,
    window_max: Option<BytesText>,
    paths: Vec<Spanned<PathText>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessorsFile {
    #[serde(default = "one")]
    cores: u32,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    message: DurationText,
    send: ByteRateText,
    receive: ByteRateText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeersFile {
    name: Option<String>,
    #[serde(default = "one")]
    count: u32,
    role: Role,
    up: ByteRateText,
    down: ByteRateText,
    #[serde(default)]
    region: String,
    #[serde(default)]
    arrive_within: DurationText,
    leave: Option<LeaveFile>,
    #[serde(default)]
    leaves_when_done: bool,
    attack: Option<AttackFile>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Role {
    Seeder,
    Leecher,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaveFile {
    part: Share,
    within: DurationText,
    #[serde(default)]
    noticed_after: DurationText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackFile {
    part: Share,
    how: AttackKind,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AttackKind {
    Forge,
    Withhold,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    name: Option<String>,
    strategy: Strategy,
    processors: Option<ProcessorsFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFile {
    name: String,
    time: DurationText,
}

const fn one() -> u32 {
    1
}

pub(super) fn parse(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let source = SourceText { name, text };
    let file: ScenarioFile = source.parse()?;
    file.check(&source)
}

impl ScenarioFile {
    fn check(self, source: &SourceText<'_>) -> Result<Scenario, ScenarioError> {
        let file = self.file.get_ref().check(self.file.span().start, source)?;
        let mut regions: Vec<String> = Vec::new();
        let mut groups = Vec::new();
        let mut count: u32 = 0;
        for peers in &self.peers {
            let at = peers.span().start;
            let group = peers.get_ref().check(at, &mut regions, source)?;
            count = count.saturating_add(group.count);
            if count > PEERS_MAX {
                let problem = format!("must be at most {PEERS_MAX} in all groups together");
                return Err(source.error(at, "count", problem));
            }
            groups.push(group);
        }
        let is_honest_seeder = |group: &Group| group.is_seeder && group.malicious < 1.0;
        if !groups.iter().any(is_honest_seeder) {
            return Err(source.error_in_file("peers", "must contain an honest seeder"));
        }
        let is_awaited = |group: &Group| !group.is_seeder && group.malicious + group.leaving < 1.0;
        if !groups.iter().any(is_awaited) {
            return Err(source.error_in_file("peers", "must contain an honest leecher that stays"));
        }
        let paths = self.network.paths(&regions, source)?;
        let neighbours = self.network.neighbours;
        if neighbours == Some(0) {
            return Err(source.error_in_file("neighbours", "must be at least 1"));
        }
        let mut all = self.processors.iter();
        let mut each = self.runs.iter().filter_map(|run| run.processors.as_ref());
        let has_no_cores = |one: &ProcessorsFile| one.cores == 0;
        if all.any(has_no_cores) || each.any(has_no_cores) {
            return Err(source.error_in_file("cores", "must be at least 1"));
        }
        let usual = self.processors;
        let mut runs: Vec<Run> = self.runs.iter().map(|run| run.check(usual)).collect();
        if runs.is_empty() {
            runs.push(
                RunFile { name: None, strategy: Strategy::Watchfire, processors: None }
                    .check(usual),
            );
        }
        let published = self.published.into_iter();
        let published = published.map(|one| Published { name: one.name, time: one.time.0 });
        Ok(Scenario {
            name: self.name.unwrap_or_else(|| source.name.to_owned()),
            seed: self.seed,
            notes: self.notes,
            file,
            runs,
            published: published.collect(),
            groups,
            paths,
            network: self.network.limits(),
            neighbours,
            time_max: self.time_max.map_or(Duration::from_secs(3600), |span| span.0),
        })
    }
}

impl FileFile {
    fn check(&self, at: usize, source: &SourceText<'_>) -> Result<FileShape, ScenarioError> {
        let bytes = self.size.0;
        let block_bytes = self.block.map_or(1 << 20, |block| block.0);
        if bytes == 0 {
            return Err(source.error(at, "size", "must not be empty"));
        }
        if !(1024..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(source.error(at, "block", "must be between 1KiB and 2MiB"));
        }
        if bytes.div_ceil(block_bytes) > BLOCKS_MAX {
            let problem = format!("must be at most {BLOCKS_MAX} blocks");
            return Err(source.error(at, "size", problem));
        }
        let links_max = self.links_max.unwrap_or(1024);
        if !(2..=8192).contains(&links_max) {
            return Err(source.error(at, "links_max", "must be between 2 and 8192"));
        }
        Ok(FileShape { bytes, block_bytes: block_bytes as u32, links_max })
    }
}

impl NetworkFile {
    fn limits(&self) -> NetworkLimits {
        let usual = NetworkLimits::default();
        NetworkLimits {
            queue_max: self.queue_max.map_or(usual.queue_max, |span| span.0),
            window_bytes_max: self.window_max.map_or(usual.window_bytes_max, |size| size.0),
            ..usual
        }
    }

    fn paths(
        &self,
        regions: &[String],
        source: &SourceText<'_>,
    ) -> Result<Vec<Vec<Path>>, ScenarioError> {
        let usual = Path {
            delay: self.latency.map_or(Duration::from_millis(10), |span| span.0),
            jitter: self.jitter.0,
            loss: self.loss.0,
        };
        source.paths(usual, &self.paths, regions, "no peers are")
    }
}

impl PeersFile {
    fn check(
        &self,
        at: usize,
        regions: &mut Vec<String>,
        source: &SourceText<'_>,
    ) -> Result<Group, ScenarioError> {
        let error = |key, problem: &str| Err(source.error(at, key, problem));
        let (leaving, malicious) = (
            self.leave.as_ref().map_or(0.0, |leave| leave.part.0),
            self.attack.as_ref().map_or(0.0, |attack| attack.part.0),
        );
        if self.count == 0 {
            return error("count", "must be at least 1");
        }
        if leaving + malicious > 1.0 {
            return error("leave", "leave.part and attack.part together are more than 1");
        }
        let region = regions.iter().position(|known| *known == self.region).unwrap_or_else(|| {
            regions.push(self.region.clone());
            regions.len() - 1
        });
        let is_seeder = self.role == Role::Seeder;
        let name = || if is_seeder { "seeder".to_owned() } else { "leecher".to_owned() };
        Ok(Group {
            name: self.name.clone().unwrap_or_else(name),
            count: self.count,
            is_seeder,
            access: Access { up: self.up.0, down: self.down.0 },
            region,
            arrive_within: self.arrive_within.0,
            leaving,
            leave_within: self.leave.as_ref().map_or(Duration::ZERO, |leave| leave.within.0),
            noticed_after: self.leave.as_ref().map_or(Duration::ZERO, |l| l.noticed_after.0),
            leaves_when_done: self.leaves_when_done,
            malicious,
            attack: match self.attack.as_ref().map(|attack| attack.how) {
                Some(AttackKind::Withhold) => Attack::Withhold,
                Some(AttackKind::Forge) | None => Attack::Forge,
            },
        })
    }
}

impl RunFile {
    fn check(&self, usual: Option<ProcessorsFile>) -> Run {
        let name = match self.strategy {
            Strategy::Watchfire => "Watchfire",
            Strategy::Boxo => "Bitswap 1.2, as in kubo",
            Strategy::GoBitswap => "Bitswap 1.1, before HAVE",
        };
        let processors = self.processors.or(usual).map(|one| Processors {
            cores: one.cores,
            are_shared: one.shared,
            message: one.message.0,
            send: one.send.0,
            receive: one.receive.0,
        });
        let name = self.name.clone().unwrap_or_else(|| name.to_owned());
        Run { name, strategy: self.strategy, processors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
seed = 3
[file]
size = "10MiB"
block = "256KiB"

[network]
latency = "5ms"
paths = [
  { between = ["eu", "us"], latency = "45ms" },
]

[[peers]]
role = "seeder"
up = "100Mbit"
down = "1Gbit"
region = "eu"

[[peers]]
count = 30
role = "leecher"
up = "10Mbit"
down = "12MB"
region = "us"
leave = { part = 0.2, within = "10s" }
attack = { part = 0.1, how = "forge" }

[[runs]]
strategy = "boxo"
"#;

    #[test]
    fn a_scenario_becomes_a_plan() {
        let scenario = Scenario::parse("good.toml", GOOD).unwrap();
        let plan = scenario.plan(&scenario.runs[0]);
        assert_eq!(plan.strategy, Strategy::Boxo);
        assert_eq!(plan.peers.len(), 31);
        assert_eq!(plan.peers[0].access, Access { up: 12_500_000, down: 125_000_000 });
        assert_eq!(plan.peers.iter().filter(|peer| peer.attack.is_some()).count(), 3);
        assert_eq!(plan.peers.iter().filter(|peer| peer.leaves_at.is_some()).count(), 6);
        assert_eq!(plan.paths[0][1].delay, Duration::from_millis(45));
        assert_eq!(plan.paths[0][0].delay, Duration::from_millis(5));
        assert_eq!(plan.peers, scenario.plan(&scenario.runs[0]).peers);
    }

    #[test]
    fn an_error_names_its_line_and_key() {
        let cases: &[(&str, &str, usize, &str, &str)] = &[
            ("10MiB", "10 bananas", 4, "size", "invalid size"),
            ("10MiB", "0B", 3, "size", "empty"),
            ("10MiB", "1000GB", 3, "size", "blocks"),
            ("256KiB", "3MiB", 3, "block", "2MiB"),
            ("latency = \"5ms\"", "latncy = \"5ms\"", 8, "latncy", "did you mean `latency`?"),
            ("\"us\"]", "\"uss\"]", 10, "between", "uss"),
            ("role = \"seeder\"", "role = \"sower\"", 14, "role", "unknown variant"),
            ("role = \"seeder\"", "role = \"leecher\"", 0, "peers", "an honest seeder"),
            ("100Mbit", "100", 15, "up", "invalid rate"),
            ("count = 30", "count = 0", 19, "count", "at least 1"),
            ("count = 30", "count = 200000", 19, "count", "at most 100000"),
            ("part = 0.2", "part = 1.2", 25, "part", "between 0 and 1"),
            ("part = 0.2", "part = 0.95", 19, "leave", "more than 1"),
            ("latency = \"5ms\"", "loss = 0.9", 0, "loss", "at most 0.5"),
            ("\"boxo\"", "\"kubo\"", 29, "strategy", "unknown variant"),
        ];
        for (old, new, line, key, problem) in cases {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old} is there");
            let error = Scenario::parse("bad.toml", &text).expect_err(new);
            let text = error.to_string();
            assert!(text.contains(problem), "{new}: {text}");
            assert_eq!((error.line(), error.key()), (*line, *key), "{new}: {text}");
        }
    }
}
