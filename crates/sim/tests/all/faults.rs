//! Small swarms with every kind of fault, one for each seed. In all of them:
//!
//! - Each peer that stays and can reach a copy gets all blocks.
//! - No exchange drops an honest peer.
//! - The state, reads and messages of an exchange stay within its limits, and messages fit into the
//!   send buffer. No block is reported twice. The simulation checks these itself.
//! - Duplicates stay within a bound, except for [`SEEDS_WITH_DUPLICATES`].
//!
//! `SIM_SEEDS` sets the number of seeds, and `SIM_SEED` runs a single one:
//! `SIM_SEED=7 cargo test -p watchfire-sim --test faults`.

use std::time::Duration;

use watchfire_bitswap::Limits;
use watchfire_sim::{
    Access, Attack, FileShape, NetworkLimits, Outcome, Path, PeerPlan, Plan, Strategy,
};
use watchfire_types::Rng;

/// Seeds that `cargo test` runs.
const SEEDS: u64 = 48;

/// The seeds of the first 1000 with more duplicates than the bound. On links as slow as 16 kB per
/// second, the exchange times out on blocks in flight and requests them again. The list should be
/// empty.
const SEEDS_WITH_DUPLICATES: [u64; 4] = [312, 453, 847, 990];

/// The seeds in which [`SEEDS_WITH_DUPLICATES`] is complete.
const KNOWN_SEEDS: u64 = 1000;

/// The random numbers of one swarm. A different order of draws changes the swarm of every seed.
struct Draws(Rng);

impl Draws {
    fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.0.index((max - min + 1) as usize) as u64
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.0.once_in(many as usize)
    }

    fn millis(&mut self, max: u64) -> Duration {
        Duration::from_millis(self.between(0, max))
    }
}

/// A swarm of two to twelve peers, drawn from a seed. At least one seeder stays.
fn plan(seed: u64) -> Plan {
    let mut draws = Draws(Rng::from_seed(seed));
    let block_bytes = 1 << draws.between(12, 20);
    let blocks = draws.between(1, 80);
    let file = FileShape {
        bytes: blocks * block_bytes - draws.between(0, block_bytes - 1),
        block_bytes: block_bytes as u32,
        links_max: draws.between(2, 40) as u32,
    };
    let regions = draws.between(1, 3) as usize;
    let path = |draws: &mut Draws| Path {
        delay: draws.millis(150),
        jitter: if draws.one_in(2) { draws.millis(30) } else { Duration::ZERO },
        loss: if draws.one_in(3) { draws.between(0, 30) as f64 / 1000.0 } else { 0.0 },
    };
    let ways: Vec<Path> = (0..regions * regions).map(|_| path(&mut draws)).collect();
    // A path is the same in both directions.
    let way = |a: usize, b: usize| ways[a.max(b) * regions + a.min(b)];
    let paths = (0..regions).map(|a| (0..regions).map(|b| way(a, b)).collect()).collect();
    let leechers = draws.between(1, 10);
    let seeders = draws.between(1, 2);
    let some_leave = draws.one_in(2);
    let some_attack = draws.one_in(3);
    let mut peers = Vec::new();
    for number in 0..seeders + leechers {
        let is_seeder = number < seeders;
        // From a bad telephone line to good fibre.
        let rate = |draws: &mut Draws| 16_000 << draws.between(0, 11);
        let access = Access { up: rate(&mut draws), down: rate(&mut draws) };
        let mut peer = PeerPlan {
            access,
            region: draws.between(0, regions as u64 - 1) as usize,
            is_seeder,
            held_bytes: 0,
            arrives_at: if draws.one_in(2) { draws.millis(5_000) } else { Duration::ZERO },
            leaves_at: None,
            returns_at: None,
            noticed_after: if draws.one_in(2) { draws.millis(10_000) } else { Duration::ZERO },
            leaves_when_done: !is_seeder && draws.one_in(4),
            attack: None,
        };
        if number > 0 && some_leave && draws.one_in(3) {
            let left = peer.arrives_at + draws.millis(20_000);
            peer.leaves_at = Some(left);
            if draws.one_in(2) {
                peer.returns_at = Some(left + Duration::from_millis(1) + draws.millis(20_000));
            }
        } else if !is_seeder && some_attack && draws.one_in(4) {
            peer.attack = Some(if draws.one_in(3) { Attack::Withhold } else { Attack::Forge });
        }
        peers.push(peer);
    }
    // The time limit depends on the slowest link.
    let slowest = peers.iter().map(|peer| peer.access.up.min(peer.access.down)).min();
    let slowest = slowest.expect("there are peers");
    let copies = file.bytes.saturating_mul(leechers + 1);
    let time_max = Duration::from_secs(900 + copies / slowest * 4);
    // A broken connection restarts its block. If only a seeder and a leecher stay, a whole block
    // must fit between two breaks.
    let is_staying = |peer: &&PeerPlan| peer.leaves_at.is_none() && !peer.leaves_when_done;
    let staying = peers.iter().filter(is_staying).count().max(2) as f64;
    let loss = ways.iter().map(|way| way.loss).fold(0.0, f64::max);
    let delay = ways.iter().map(|way| way.delay + way.jitter).max().unwrap_or_default();
    // The rate of TCP on a lossy path.
    let lossy = 1460.0 / (2.0 * delay.as_secs_f64() * loss.sqrt());
    let block_takes = block_bytes as f64 / lossy.min(slowest as f64) + 3.0;
    let breaks_max = staying * (staying - 1.0) / 2.0 / (2.0 * block_takes);
    let breaks = |draws: &mut Draws| {
        let breaks = if draws.one_in(3) { draws.between(1, 30) as f64 / 100.0 } else { 0.0 };
        breaks.min(breaks_max)
    };
    Plan {
        seed,
        file,
        strategy: Strategy::Watchfire,
        limits: Limits::default(),
        peers,
        paths,
        network: NetworkLimits {
            chunk_bytes_max: 1 << draws.between(11, 16),
            ..NetworkLimits::default()
        },
        neighbours: draws.one_in(3).then_some(4),
        read_delay: if draws.one_in(3) { draws.millis(50) } else { Duration::ZERO },
        breaks_per_second: breaks(&mut draws),
        time_max,
    }
}

/// The rules that a simulation violated.
fn violations(outcome: &Outcome) -> Vec<String> {
    let mut violations = outcome.violations.clone();
    if outcome.unfinished() > 0 {
        let at = outcome.ended_at.as_secs_f64();
        violations.push(format!("{} peers are unfinished after {at:.3} s", outcome.unfinished()));
    }
    violations
}

/// The duplicates of a simulation, if they exceed the bound.
fn duplicates(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let leave = plan.peers.iter().any(|peer| peer.leaves_at.is_some());
    // In a calm swarm only the endgame causes duplicates. If connections break, blocks in flight
    // are requested again.
    let is_calm = !leave && plan.breaks_per_second == 0.0;
    let part = if is_calm { 0.1 } else { 0.5 };
    let few = 8 * u64::from(plan.file.block_bytes) * plan.peers.len() as u64;
    let useful = outcome.sum(|totals| totals.bytes_in);
    let duplicate = outcome.sum(|totals| totals.duplicate_bytes);
    (duplicate > few + (useful as f64 * part) as u64)
        .then(|| format!("{duplicate} duplicate bytes beside {useful} useful ones"))
}

/// Seeds that found a bug. `cargo test` runs them too.
///
/// - 194: idle peers waited for one that never sent anything, because the endgame had no requests
///   left.
/// - 213: a peer with a slow downlink measured its speed from two blocks that ended together, and
///   dropped a queued peer as stalled.
/// - 278: a peer whose downlink takes a minute for a block dropped five queued peers.
/// - 330, 331, 527: the plan was wrong. Connections broke before a block could arrive.
/// - 411: reads for peers with broken connections were not counted.
/// - 717, 757: the last block was requested for ever, in turn, from two peers that sent nothing.
const FOUND: [u64; 9] = [194, 213, 278, 330, 331, 411, 527, 717, 757];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_peer_that_stays_finishes_in_spite_of_faults() {
    let seeds: Vec<u64> = match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
            (0..seeds).chain(FOUND.into_iter().filter(|found| *found >= seeds)).collect()
        }
    };
    let count = seeds.len();
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", plan(seed));
    }
    let (mut failed, mut with_duplicates) = (Vec::new(), Vec::new());
    for &seed in &seeds {
        let plan = plan(seed);
        let outcome = watchfire_sim::run(&plan, &mut |_| {});
        let (violations, duplicates) = (violations(&outcome), duplicates(&plan, &outcome));
        for problem in violations.iter().chain(&duplicates) {
            println!("SIM_SEED={seed}: {problem}");
        }
        failed.extend((!violations.is_empty()).then_some(seed));
        with_duplicates.extend(duplicates.map(|_| seed));
    }
    assert!(failed.is_empty(), "of {count} seeds, these failed: {failed:?}");
    // The list of seeds with duplicates ends at the known seeds.
    with_duplicates.retain(|seed| *seed < KNOWN_SEEDS);
    let expected = SEEDS_WITH_DUPLICATES.into_iter().filter(|seed| seeds.contains(seed));
    assert_eq!(with_duplicates, expected.collect::<Vec<u64>>(), "seeds with too many duplicates");
}

#[test]
fn connections_between_the_last_two_peers_outlast_a_block() {
    let mut plans_with_breaks = 0;
    for plan in (0..1000).map(plan).filter(|plan| plan.breaks_per_second > 0.0) {
        plans_with_breaks += 1;
        let stays = |peer: &&PeerPlan| peer.leaves_at.is_none() && !peer.leaves_when_done;
        if plan.peers.iter().filter(stays).count() > 2 {
            continue;
        }
        let rates = plan.peers.iter().map(|peer| peer.access.up.min(peer.access.down));
        let slowest = rates.min().expect("there are peers");
        let block_takes = f64::from(plan.file.block_bytes) / slowest as f64;
        let lasts = 1.0 / plan.breaks_per_second;
        assert!(lasts > 2.0 * block_takes, "SIM_SEED={}: {lasts} s, {block_takes} s", plan.seed);
    }
    assert!(plans_with_breaks > 200, "{plans_with_breaks}");
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    for seed in 0..8 {
        let plan = plan(seed);
        let mut seen = Vec::new();
        let first = watchfire_sim::run(&plan, &mut |progress| seen.push(progress));
        let mut seen_again = Vec::new();
        let second = watchfire_sim::run(&plan, &mut |progress| seen_again.push(progress));
        assert_eq!(first, second);
        assert_eq!(seen, seen_again);
    }
}
