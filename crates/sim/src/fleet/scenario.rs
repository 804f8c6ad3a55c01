//! A fleet to simulate, as one TOML file. docs/reference/swarm-scenarios.md describes the format.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::{ScenarioError, SourceText};
use watchfire_report::units::{ByteRateText, BytesText, DurationText, Share};
use watchfire_types::Rng;

use super::image::BLOCK_BYTES;
use super::outcome::FleetOutcome;
use super::plan::{FleetPlan, HostPlan};
use super::run::run_fleet;
use crate::network::{Access, NetworkLimits};
use crate::swarm::Progress;

/// Most hosts of all groups together.
const HOSTS_MAX: u32 = 100_000;
const BLOCKS_MAX: u64 = 100_000;
const WAVES_MAX: u32 = 1_000;

#[derive(Clone, Debug)]
pub struct FleetScenario {
    pub name: String,
    pub seed: u64,
    /// Bytes of layers that hosts have already. They are not fetched.
    pub present_bytes: u64,
    groups: Vec<HostsFile>,
    plan: FleetPlan,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetFile {
    name: Option<String>,
    #[serde(default)]
    seed: u64,
    time_max: Option<DurationText>,
    image: Spanned<ImageFile>,
    registry: RegistryFile,
    #[serde(default)]
    network: NetworkFile,
    #[serde(default)]
    mirror: MirrorFile,
    hosts: Vec<Spanned<HostsFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageFile {
    layers: Vec<BytesText>,
    #[serde(default)]
    present: Vec<BytesText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryFile {
    up: ByteRateText,
    wait: Option<DurationText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkFile {
    latency: Option<DurationText>,
    latency_between_regions: Option<DurationText>,
    chunk: Option<BytesText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MirrorFile {
    connections_max: Option<usize>,
    handshakes_max: Option<usize>,
    leases_per_layer: Option<usize>,
    layers_at_once: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    #[serde(default = "one")]
    count: u32,
    up: ByteRateText,
    down: ByteRateText,
    #[serde(default)]
    region: String,
    waves: Option<WavesFile>,
    churn: Option<ChurnFile>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WavesFile {
    count: u32,
    interval: DurationText,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChurnFile {
    part_per_minute: Share,
    time: DurationText,
}

const fn one() -> u32 {
    1
}

#[derive(Clone, Debug)]
pub struct FleetReport {
    pub scenario: FleetScenario,
    pub outcome: FleetOutcome,
}

impl FleetScenario {
    /// Parses a scenario. `name` is the file's name, for errors.
    pub fn parse(name: &str, text: &str) -> Result<FleetScenario, ScenarioError> {
        let source = SourceText { name, text };
        let file: FleetFile = source.parse()?;
        file.check(&source)
    }

    /// Simulates the fleet, and passes its progress to `watch`.
    pub fn simulate(&self, watch: &mut dyn FnMut(Progress)) -> FleetReport {
        let outcome = run_fleet(&self.plan(), watch);
        FleetReport { scenario: self.clone(), outcome }
    }

    /// The plan. The seed decides which hosts leave.
    pub fn plan(&self) -> FleetPlan {
        let mut rng = Rng::for_purpose(self.seed, 0xf1ee7);
        let mut regions: Vec<&str> = Vec::new();
        let mut hosts = Vec::new();
        for group in &self.groups {
            let region = regions.iter().position(|region| *region == group.region);
            let region = region.unwrap_or_else(|| {
                regions.push(&group.region);
                regions.len() - 1
            });
            hosts.extend(group.plan(region, &mut rng));
        }
        FleetPlan { seed: self.seed, hosts, regions: regions.len(), ..self.plan.clone() }
    }
}

impl HostsFile {
    fn plan(&self, region: usize, rng: &mut Rng) -> Vec<HostPlan> {
        let access = Access { up: self.up.0, down: self.down.0 };
        let waves = self.waves.map_or(1, |waves| waves.count);
        let wave_of = |host: u32| u64::from(host) * u64::from(waves) / u64::from(self.count);
        let start = |host| {
            self.waves.map_or(Duration::ZERO, |waves| waves.interval.0 * wave_of(host) as u32)
        };
        let mut hosts: Vec<HostPlan> = (0..self.count)
            .map(|host| HostPlan {
                access,
                region,
                joins_at: Duration::ZERO,
                starts_at: start(host),
                leaves_at: None,
            })
            .collect();
        if let Some(churn) = self.churn {
            let minutes = churn.time.0.as_secs_f64() / 60.0;
            let changes = f64::from(self.count) * churn.part_per_minute.0 * minutes;
            let changes = (changes.round() as usize).min(hosts.len());
            rng.shuffle(&mut hosts);
            for host in hosts.iter_mut().take(changes) {
                host.leaves_at = Some(churn.time.0.mul_f64(rng.fraction()));
            }
            for _ in 0..changes {
                let at = churn.time.0.mul_f64(rng.fraction());
                hosts.push(HostPlan {
                    access,
                    region,
                    joins_at: at,
                    starts_at: at,
                    leaves_at: None,
                });
            }
        }
        hosts
    }
}

impl FleetFile {
    fn check(self, source: &SourceText<'_>) -> Result<FleetScenario, ScenarioError> {
        let (at, image) = (self.image.span().start, self.image.get_ref());
        let layers: Vec<u64> = image.layers.iter().map(|layer| layer.0).collect();
        if layers.is_empty() || layers.contains(&0) {
            return Err(source.error(at, "layers", "must name layers that are not empty"));
        }
        if layers.iter().map(|layer| layer.div_ceil(BLOCK_BYTES)).sum::<u64>() > BLOCKS_MAX {
            let problem = format!("must be at most {BLOCKS_MAX} MiB together");
            return Err(source.error(at, "layers", problem));
        }
        check_hosts(&self.hosts, source)?;
        let usual = NetworkLimits::default();
        let mirror = self.mirror;
        for (key, value) in [
            ("connections_max", mirror.connections_max),
            ("handshakes_max", mirror.handshakes_max),
            ("leases_per_layer", mirror.leases_per_layer),
            ("layers_at_once", mirror.layers_at_once),
        ] {
            if value == Some(0) {
                return Err(source.error_in_file(key, "must be at least 1"));
            }
        }
        let or = |time: Option<DurationText>, usual| time.map_or(usual, |time| time.0);
        let delay = or(self.network.latency, Duration::from_millis(1));
        Ok(FleetScenario {
            name: self.name.unwrap_or_else(|| source.name.to_owned()),
            seed: self.seed,
            present_bytes: image.present.iter().map(|layer| layer.0).sum(),
            groups: self.hosts.into_iter().map(Spanned::into_inner).collect(),
            plan: FleetPlan {
                seed: self.seed,
                layers,
                layers_at_once: mirror.layers_at_once.unwrap_or(3),
                registry: Access { up: self.registry.up.0, down: self.registry.up.0 },
                registry_wait: or(self.registry.wait, Duration::from_millis(20)),
                hosts: Vec::new(),
                regions: 0,
                delay,
                delay_between_regions: or(self.network.latency_between_regions, delay),
                network: NetworkLimits {
                    chunk_bytes_max: self
                        .network
                        .chunk
                        .map_or(usual.chunk_bytes_max, |chunk| chunk.0.clamp(1460, BLOCK_BYTES)),
                    ..usual
                },
                connections_max: mirror.connections_max.unwrap_or(4096),
                handshakes_max: mirror.handshakes_max.unwrap_or(256),
                leases_per_layer: mirror.leases_per_layer.unwrap_or(4),
                noticed_after: Duration::from_secs(10),
                time_max: or(self.time_max, Duration::from_secs(3600)),
            },
        })
    }
}

fn check_hosts(hosts: &[Spanned<HostsFile>], source: &SourceText<'_>) -> Result<(), ScenarioError> {
    let mut count: u32 = 0;
    for group in hosts {
        let (at, hosts) = (group.span().start, group.get_ref());
        count = count.saturating_add(hosts.count);
        if hosts.count == 0 || count > HOSTS_MAX {
            let problem = format!("must be at least 1, and at most {HOSTS_MAX} in all groups");
            return Err(source.error(at, "count", problem));
        }
        if hosts.waves.is_some_and(|waves| !(1..=WAVES_MAX).contains(&waves.count)) {
            let problem = format!("waves.count must be between 1 and {WAVES_MAX}");
            return Err(source.error(at, "waves", problem));
        }
        if hosts.waves.is_some() && hosts.churn.is_some() {
            return Err(source.error(at, "churn", "cannot be used together with waves"));
        }
    }
    if count == 0 {
        return Err(source.error_in_file("hosts", "must name hosts"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
seed = 3
[image]
layers = ['60MiB', '30MiB']
[registry]
up = '1Gbit'
[[hosts]]
count = 20
up = '1Gbit'
down = '1Gbit'
region = 'eu'
waves = { count = 10, interval = '30s' }
[[hosts]]
count = 20
up = '1Gbit'
down = '1Gbit'
region = 'us'
churn = { part_per_minute = 0.1, time = '1m' }
";

    #[test]
    fn a_scenario_becomes_a_plan() {
        let plan = FleetScenario::parse("good.toml", GOOD).unwrap().plan();
        assert_eq!((plan.regions, plan.hosts.len()), (2, 42));
        let starts = plan.hosts.iter().map(|host| host.starts_at.as_secs());
        assert_eq!(starts.take(20).filter(|start| *start == 270).count(), 2);
        assert_eq!(plan.hosts.iter().filter(|host| host.leaves_at.is_some()).count(), 2);
    }

    #[test]
    fn an_error_names_its_line_and_key() {
        for (old, new, line, key) in [
            ("'60MiB', '30MiB'", "", 3, "layers"),
            ("'60MiB'", "'900GB'", 3, "layers"),
            ("count = 20\n", "count = 0\n", 7, "count"),
            ("count = 20\n", "count = 200000\n", 7, "count"),
            ("count = 10", "count = 0", 7, "waves"),
            ("[registry]", "[mirror]\nhandshakes_max = 0\n[registry]", 0, "handshakes_max"),
            ("region = 'eu'", "regoin = 'eu'", 11, "regoin"),
        ] {
            let error =
                FleetScenario::parse("bad.toml", &GOOD.replacen(old, new, 1)).expect_err(new);
            assert_eq!((error.line(), error.key()), (line, key), "{new}: {error}");
        }
    }
}
