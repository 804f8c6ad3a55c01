//! Small swarms in which everything goes wrong that can, one for each seed, and what must hold in all of
//! them:
//!
//! - whoever stays, and can reach a live copy, has everything in the end;
//! - no healthy peer is dropped by another;
//! - what an exchange remembers, reads and sends stays within its limits, and its messages fit the room
//!   that the pipe to their receiver has (the simulation looks after that itself, and after a block being put
//!   out once).
//!
//! And what should hold, and does not yet in all of them ([`SHORT_PERCENT_MAX`]):
//!
//! - blocks that come twice stay within a bound.
//!
//! `SIM_SEEDS` says how many, `SIM_SEED` runs a single one: `SIM_SEED=7 cargo test -p watchfire-sim --test
//! faults`.

use std::time::Duration;

use bitswap::{Behaviour, Limits};
use sim::{Access, FileShape, Lie, NetworkLimits, Outcome, Path, PeerPlan, Plan};

/// How many of them `cargo test` runs.
const SEEDS: u64 = 48;

/// How many of a hundred seeds may fall short. Right would be none: links as slow as 16 kB a second make
/// the exchange lose patience with what is on its way, ask elsewhere, and get blocks twice.
const SHORT_PERCENT_MAX: u64 = 5;

/// Dice of our own (SplitMix64): the simulation's are its business.
struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.word() % (max - min + 1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.word().is_multiple_of(many)
    }

    fn millis(&mut self, max: u64) -> Duration {
        Duration::from_millis(self.between(0, max))
    }
}

/// A swarm of two to twelve peers that a seed decides. At least one seeder stays.
fn plan(seed: u64) -> Plan {
    let mut dice = Dice(seed);
    let block_bytes = 1 << dice.between(12, 20);
    let blocks = dice.between(1, 80);
    let file = FileShape {
        bytes: blocks * block_bytes - dice.between(0, block_bytes - 1),
        block_bytes: block_bytes as u32,
        links_max: dice.between(2, 40) as u32,
    };
    let regions = dice.between(1, 3) as usize;
    let path = |dice: &mut Dice| Path {
        delay: dice.millis(150),
        jitter: if dice.one_in(2) { dice.millis(30) } else { Duration::ZERO },
        loss: if dice.one_in(3) { dice.between(0, 30) as f64 / 1000.0 } else { 0.0 },
    };
    let ways: Vec<Path> = (0..regions * regions).map(|_| path(&mut dice)).collect();
    // There and back it is the same.
    let way = |a: usize, b: usize| ways[a.max(b) * regions + a.min(b)];
    let paths = (0..regions).map(|a| (0..regions).map(|b| way(a, b)).collect()).collect();
    let leechers = dice.between(1, 10);
    let seeders = dice.between(1, 2);
    let is_leaving = dice.one_in(2);
    let is_lying = dice.one_in(3);
    let mut peers = Vec::new();
    for number in 0..seeders + leechers {
        let is_seeder = number < seeders;
        // From a bad telephone line to a good fibre.
        let rate = |dice: &mut Dice| 16_000 << dice.between(0, 11);
        let access = Access { up: rate(&mut dice), down: rate(&mut dice) };
        let mut peer = PeerPlan {
            group: 0,
            access,
            region: dice.between(0, regions as u64 - 1) as usize,
            is_seeder,
            arrives_at: if dice.one_in(2) { dice.millis(5_000) } else { Duration::ZERO },
            leaves_at: None,
            returns_at: None,
            noticed_after: if dice.one_in(2) { dice.millis(10_000) } else { Duration::ZERO },
            leaves_when_done: !is_seeder && dice.one_in(4),
            lie: None,
        };
        if number > 0 && is_leaving && dice.one_in(3) {
            let left = peer.arrives_at + dice.millis(20_000);
            peer.leaves_at = Some(left);
            if dice.one_in(2) {
                peer.returns_at = Some(left + Duration::from_millis(1) + dice.millis(20_000));
            }
        } else if !is_seeder && is_lying && dice.one_in(4) {
            peer.lie = Some(if dice.one_in(3) { Lie::Withhold } else { Lie::Forge });
        }
        peers.push(peer);
    }
    // The file's size follows from how long the slowest needs, so that none takes for ever.
    let slowest = peers.iter().map(|peer| peer.access.up.min(peer.access.down)).min();
    let slowest = slowest.expect("somebody is there");
    let copies = file.bytes.saturating_mul(leechers + 1);
    let time_max = Duration::from_secs(900 + copies / slowest * 4);
    // A block that a connection broke off begins anew: those who stay are left the time for one, when all others
    // have gone, too. Somebody is left who gives, and somebody who wants.
    let is_staying = |peer: &&PeerPlan| peer.leaves_at.is_none() && !peer.leaves_when_done;
    let stay = peers.iter().filter(is_staying).count().max(2) as f64;
    let loss = ways.iter().map(|way| way.loss).fold(0.0, f64::max);
    let delay = ways.iter().map(|way| way.delay + way.jitter).max().unwrap_or_default();
    // What TCP carries in spite of losses.
    let lossy = 1460.0 / (2.0 * delay.as_secs_f64() * loss.sqrt());
    let block_takes = block_bytes as f64 / lossy.min(slowest as f64) + 3.0;
    let breaks_max = stay * (stay - 1.0) / 2.0 / (2.0 * block_takes);
    let breaks = |dice: &mut Dice| {
        let breaks = if dice.one_in(3) { dice.between(1, 30) as f64 / 100.0 } else { 0.0 };
        breaks.min(breaks_max)
    };
    Plan {
        seed,
        file,
        behaviour: Behaviour::Ours,
        limits: Limits::default(),
        peers,
        paths,
        network: NetworkLimits {
            chunk_bytes_max: 1 << dice.between(11, 16),
            ..NetworkLimits::default()
        },
        neighbours: dice.one_in(3).then_some(4),
        read_delay: if dice.one_in(3) { dice.millis(50) } else { Duration::ZERO },
        breaks_per_second: breaks(&mut dice),
        time_max,
    }
}

/// What must not happen.
fn wrong(outcome: &Outcome) -> Vec<String> {
    let mut wrong = outcome.broken.clone();
    if outcome.unfinished() > 0 {
        let at = outcome.ended_at.as_secs_f64();
        wrong.push(format!("{} had not everything after {at:.3} s", outcome.unfinished()));
    }
    wrong
}

/// What should not happen.
fn short(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let leave = plan.peers.iter().any(|peer| peer.leaves_at.is_some());
    // In a calm swarm the tail alone may fetch twice. Where connections break, what was given up can
    // come too.
    let is_calm = !leave && plan.breaks_per_second == 0.0;
    let part = if is_calm { 0.1 } else { 0.5 };
    let few = 8 * u64::from(plan.file.block_bytes) * plan.peers.len() as u64;
    let useful = outcome.sum(|totals| totals.bytes_in);
    let twice = outcome.sum(|totals| totals.duplicate_bytes);
    (twice > few + (useful as f64 * part) as u64)
        .then(|| format!("{twice} bytes came twice, beside {useful} of use"))
}

/// Seeds that found a fault once, beyond those that `cargo test` runs anyway.
///
/// With 194, idle peers waited for one that never sent anything, since they had been allowed as many second questions
/// as there are. With 278, one whose downlink took a minute for a block held five for stalled that waited for their
/// turn on it. With 330, 331 and 527 it was the plan's fault: connections broke before a block could come. With 411, what a
/// store still read for peers whose connections had broken was not counted any more. With 717 and 757, two that never sent
/// anything were asked for the last block by turns, for ever. With 213, one with a slow downlink took two blocks that ended
/// together for its speed, and held one for stalled that waited for its turn.
const FOUND: [u64; 9] = [194, 213, 278, 330, 331, 411, 527, 717, 757];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn whatever_goes_wrong_who_stays_has_everything_in_the_end() {
    let seeds: Vec<u64> = match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
            (0..seeds).chain(FOUND.into_iter().filter(|found| *found >= seeds)).collect()
        }
    };
    let count = seeds.len() as u64;
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", plan(seed));
    }
    let (mut failed, mut fell_short) = (Vec::new(), Vec::new());
    for seed in seeds {
        let plan = plan(seed);
        let outcome = sim::run(&plan, &mut |_| {});
        let (wrong, short) = (wrong(&outcome), short(&plan, &outcome));
        for what in wrong.iter().chain(&short) {
            println!("SIM_SEED={seed}: {what}");
        }
        failed.extend((!wrong.is_empty()).then_some(seed));
        fell_short.extend(short.map(|_| seed));
    }
    println!("of {count} seeds, {} fell short: {fell_short:?}", fell_short.len());
    assert!(failed.is_empty(), "of {count} seeds, these failed: {failed:?}");
    let short_max = (count * SHORT_PERCENT_MAX).div_ceil(100);
    assert!(
        fell_short.len() as u64 <= short_max,
        "of {count} seeds, these fell short: {fell_short:?}"
    );
}

#[test]
fn connections_between_the_last_two_outlive_a_block() {
    let mut plans_with_breaks = 0;
    for plan in (0..1000).map(plan).filter(|plan| plan.breaks_per_second > 0.0) {
        plans_with_breaks += 1;
        let stays = |peer: &&PeerPlan| peer.leaves_at.is_none() && !peer.leaves_when_done;
        if plan.peers.iter().filter(stays).count() > 2 {
            continue;
        }
        let rates = plan.peers.iter().map(|peer| peer.access.up.min(peer.access.down));
        let slowest = rates.min().expect("somebody is there");
        let block_takes = f64::from(plan.file.block_bytes) / slowest as f64;
        let lasts = 1.0 / plan.breaks_per_second;
        assert!(lasts > 2.0 * block_takes, "SIM_SEED={}: {lasts} s, {block_takes} s", plan.seed);
    }
    assert!(plans_with_breaks > 200, "{plans_with_breaks}");
}

#[test]
fn one_seed_twice_is_the_same_to_the_byte() {
    for seed in 0..8 {
        let plan = plan(seed);
        let mut seen = Vec::new();
        let first = sim::run(&plan, &mut |progress| seen.push(progress));
        let mut seen_again = Vec::new();
        let second = sim::run(&plan, &mut |progress| seen_again.push(progress));
        assert_eq!(first, second);
        assert_eq!(seen, seen_again);
    }
}
