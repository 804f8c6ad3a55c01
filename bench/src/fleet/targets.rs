//! The targets of each benchmark, for a fleet of mirrors.

use super::benchmark::Benchmark;
use super::figures::Figures;
use super::system::System;
use crate::report::Target;

/// Copies of the image that the registry serves.
const COPIES_MAX: f64 = 1.05;
/// Time of the last host, divided by the bound of the links.
const BOUND_MAX: f64 = 1.25;
/// How much faster than the registry alone, if it has a slow link.
const FASTER_MIN: f64 = 10.0;
/// CPU of a host, divided by that of a host that pulls straight from the registry.
const CPU_MAX: f64 = 1.5;
/// Time of a pull from a neighbour, divided by that from a registry on the neighbour's host.
const NEIGHBOUR_MAX: f64 = 1.2;
/// Time of the last host with many small layers, divided by that of the registry.
const SMALL_LAYERS_MAX: f64 = 2.0;

/// The targets of a benchmark, for each of its images. A system that was not measured has none.
pub fn targets(benchmark: Benchmark, figures: &[Figures]) -> Vec<Target> {
    let mut fleets = figures.iter().filter(|one| one.case.system == System::Fleet).peekable();
    let mut targets = Vec::new();
    while let Some(fleet) = fleets.next() {
        let mib = fleet.case.image.bytes() as f64 / f64::from(1 << 20);
        let is_only = targets.is_empty() && fleets.peek().is_none();
        let suffix = if is_only { String::new() } else { format!(", {mib:.0} MiB") };
        let is_registry = |one: &&Figures| {
            one.case.system == System::Registry && one.case.image == fleet.case.image
        };
        targets.extend(of_image(benchmark, fleet, figures.iter().find(is_registry), &suffix));
    }
    targets
}

fn of_image(
    benchmark: Benchmark,
    fleet: &Figures,
    registry: Option<&Figures>,
    suffix: &str,
) -> Vec<Target> {
    let at_most = |what: &str, value: f64, bound: f64, unit: &str| {
        Target::at_most(&format!("{what}{suffix}"), value, bound, unit, 2)
    };
    let mut targets = Vec::new();
    if !fleet.case.is_warm {
        let what = "copies that the registry serves";
        targets.push(at_most(what, fleet.upstream_copies, COPIES_MAX, ""));
    }
    if let Some(times) = fleet.times_bound() {
        let what = "time until the last host has the image, compared with the bound of the links";
        targets.push(at_most(what, times, BOUND_MAX, "x"));
    }
    let Some(registry) = registry else { return targets };
    let fetches = fleet.fetched.last / registry.fetched.last;
    match benchmark {
        Benchmark::SlowUpstream => {
            let what = format!("faster than straight from the registry{suffix}");
            targets.push(Target::at_least(&what, 1.0 / fetches, FASTER_MIN, "x", 1));
        }
        Benchmark::SmallLayers => {
            let what = "time until the last host has the image, compared with the registry";
            targets.push(at_most(what, fetches, SMALL_LAYERS_MAX, "x"));
        }
        Benchmark::Neighbour => {
            let pulls = fleet.complete.last / registry.complete.last;
            let what = "time of a pull, compared with a registry on the neighbour's host";
            targets.push(at_most(what, pulls, NEIGHBOUR_MAX, "x"));
        }
        Benchmark::Unshaped | Benchmark::EqualLinks | Benchmark::Sizes => {}
    }
    let cpu = fleet.host_cpu() / registry.host_cpu();
    targets.push(at_most("CPU of a host, compared with the registry", cpu, CPU_MAX, "x"));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::benchmark::Size;
    use crate::fleet::figures::tests::outcome;
    use crate::fleet::links::Links;

    const SIZE: Size = Size {
        hosts: None,
        share: 1.0,
        equal_mbit: 100.0,
        slow_upstream: Links { upstream_mbit: 100.0, host_mbit: 200.0 },
    };

    /// Each system of a benchmark: the fleet takes `fleet` seconds, all others take `others`.
    fn measured(benchmark: Benchmark, fleet: f64, others: f64, copies: f64) -> Vec<Figures> {
        let cases = benchmark.cases(SIZE, benchmark.systems()).into_iter();
        let figures = |case: super::super::case::Case| {
            let is_fleet = case.system == System::Fleet;
            let seconds = if is_fleet { fleet } else { others };
            let mut outcome = outcome(&[seconds]);
            outcome.upstream_bytes = (case.image.bytes() as f64 * copies) as u64;
            outcome.mirrors_cpu = if is_fleet { 2.9 } else { 0.0 };
            Figures::of(case, &[outcome]).unwrap()
        };
        cases.map(figures).collect()
    }

    fn verdicts(benchmark: Benchmark, fleet: f64, others: f64, copies: f64) -> Vec<bool> {
        let targets = targets(benchmark, &measured(benchmark, fleet, others, copies));
        targets.iter().map(Target::is_met).collect()
    }

    #[test]
    fn a_fleet_is_compared_with_the_links_and_the_registry() {
        // The bound is 25.2 s: 300 MiB at 100 Mbit/s.
        let verdicts = |fleet, copies| verdicts(Benchmark::SlowUpstream, fleet, 300.0, copies);
        assert_eq!(verdicts(29.0, 1.05), [true, true, true, true]);
        assert_eq!(verdicts(31.4, 1.06), [false, true, false, true]);
        assert_eq!(verdicts(31.6, 1.0), [true, false, false, true]);
    }

    #[test]
    fn small_layers_and_neighbours_are_compared_with_the_registry() {
        assert_eq!(verdicts(Benchmark::SmallLayers, 4.1, 2.0, 1.0), [true, false, true]);
        assert_eq!(verdicts(Benchmark::SmallLayers, 4.0, 2.0, 1.0), [true, true, true]);
        // A second of each pull is for unpacking.
        assert_eq!(verdicts(Benchmark::Neighbour, 1.4, 1.0, 0.0), [true, true]);
        assert_eq!(verdicts(Benchmark::Neighbour, 1.5, 1.0, 0.0), [false, true]);
    }

    #[test]
    fn each_size_has_its_targets_and_without_a_fleet_there_are_none() {
        let mut measured = measured(Benchmark::Sizes, 1.0, 1.0, 1.0);
        let targets_of_both = targets(Benchmark::Sizes, &measured);
        assert_eq!(targets_of_both.len(), 4);
        assert!(targets_of_both[0].what.ends_with("10 MiB"), "{}", targets_of_both[0].what);
        assert!(targets_of_both[2].what.ends_with("100 MiB"), "{}", targets_of_both[2].what);
        measured.retain(|one| one.case.system != System::Fleet);
        assert!(targets(Benchmark::Sizes, &measured).is_empty());
    }
}
