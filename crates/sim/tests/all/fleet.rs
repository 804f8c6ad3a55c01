//! Small fleets of image mirrors: the registry sends one copy, whatever happens to hosts.

use std::time::Duration;

use watchfire_sim::{Access, FleetOutcome, FleetPlan, HostPlan, NetworkLimits, Path, run_fleet};

const RATE: u64 = 125_000_000;

fn path(millis: u64) -> Path {
    Path { delay: Duration::from_millis(millis), jitter: Duration::ZERO, loss: 0.0 }
}

fn plan(hosts: u32) -> FleetPlan {
    let access = Access { up: RATE, down: RATE };
    let host = HostPlan {
        access,
        region: 0,
        joins_at: Duration::ZERO,
        starts_at: Duration::ZERO,
        leaves_at: None,
    };
    FleetPlan {
        seed: 1,
        layers: vec![30 << 20, 20 << 20, 16 << 20, 10 << 20, 4 << 20],
        layers_at_once: 3,
        registry: access,
        registry_region: 0,
        registry_wait: Duration::from_millis(20),
        hosts: vec![host; hosts as usize],
        paths: vec![vec![path(1)]],
        network: NetworkLimits::default(),
        connections_max: 256,
        handshakes_max: 64,
        leases_per_layer: 4,
        noticed_after: Duration::from_secs(10),
        time_max: Duration::from_secs(120),
    }
}

fn run(plan: &FleetPlan) -> FleetOutcome {
    let outcome = run_fleet(plan, &mut |_| {});
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!(outcome.unfinished(), 0, "{:?}", outcome.times());
    outcome
}

#[track_caller]
fn assert_one_copy(outcome: &FleetOutcome, most: f64) {
    for copies in outcome.registry_copies() {
        assert!((1.0..=most).contains(&copies), "{copies}");
    }
}

#[test]
fn the_registry_sends_one_copy_to_24_hosts() {
    let outcome = run(&plan(24));
    assert_one_copy(&outcome, 1.05);
    assert!(outcome.times_the_bound(1.0).unwrap() < 2.5, "{:?}", outcome.times_the_bound(1.0));
    assert_eq!(outcome.rejected_connections, 0);
}

#[test]
fn the_same_seed_has_the_same_outcome() {
    let plan = plan(12);
    assert_eq!(run(&plan), run(&plan));
    assert_ne!(run(&plan), run(&FleetPlan { seed: 2, ..plan }));
}

#[test]
fn segments_of_lost_hosts_are_fetched_by_others() {
    let mut plan = plan(24);
    // A slow registry: the first hosts hold leases when they leave.
    plan.registry = Access { up: RATE / 10, down: RATE / 10 };
    for host in &mut plan.hosts[..8] {
        host.leaves_at = Some(Duration::from_secs(2));
    }
    let outcome = run(&plan);
    assert_one_copy(&outcome, 2.0);
}

#[test]
fn hosts_that_join_later_need_nothing_from_the_registry() {
    let mut plan = plan(24);
    for host in &mut plan.hosts[12..] {
        host.joins_at = Duration::from_secs(20);
        host.starts_at = Duration::from_secs(20);
    }
    assert_one_copy(&run(&plan), 1.05);
}

#[test]
fn each_of_two_regions_gets_one_copy() {
    let mut plan = plan(24);
    plan.paths = vec![vec![path(1), path(40)], vec![path(40), path(1)]];
    plan.hosts.iter_mut().step_by(2).for_each(|host| host.region = 1);
    let outcome = run(&plan);
    assert_eq!(outcome.registry_copies().len(), 2);
    assert_one_copy(&outcome, 1.05);
}

#[test]
fn a_host_that_starts_last_has_no_blocks_of_which_nobody_hears() {
    // More hosts than a host asks, and more segments of one layer than leases.
    let mut plan = plan(24);
    plan.layers = vec![160 << 20];
    let outcome = run(&plan);
    assert_one_copy(&outcome, 1.05);
}
