//! The targets of each benchmark.

use super::benchmark::Benchmark;
use super::figures::Figures;
use super::system::{Program, System};
use crate::report::Target;

/// The file size for which the CPU target of a leecher holds.
const TARGET_FILE_BYTES: f64 = 300.0 * 1024.0 * 1024.0;
/// CPU of both sides with kubo on one side, divided by that of two kubos.
const PAIR_CPU_MAX: f64 = 0.8;
/// CPU-seconds of all processes per leecher, disk included.
const LEECHER_CPU_MAX: f64 = 1.3;
/// Copies that the seeder of a mesh sends.
const COPIES_MAX: f64 = 1.5;
/// Duplicate bytes in percent.
const DUPLICATES_MAX: f64 = 1.0;
/// Speed compared with kubo in its better topology.
const FASTER_THAN_KUBO_MIN: f64 = 5.0;
/// Time with slow uplinks, divided by the least possible time.
const BOUND_MAX: f64 = 1.3;
/// The same, divided by the time of one web server behind the seeder's uplink.
const HTTP_MAX: f64 = 0.5;
const LEECHER_PEAK_MIB_MAX: f64 = 64.0;
const MIB: f64 = 1_048_576.0;

/// The targets of a benchmark. A system that was not measured has none.
pub fn targets(benchmark: Benchmark, figures: &[Figures], file_bytes: u64) -> Vec<Target> {
    let Some(leechers) = figures.iter().map(|figures| figures.case.leechers).max() else {
        return Vec::new();
    };
    let of = |system| {
        let is = |one: &&Figures| one.case.system == system && one.case.leechers == leechers;
        figures.iter().find(is)
    };
    let mut targets = match benchmark {
        Benchmark::Pair => pair(of),
        Benchmark::Crowd => {
            let mut targets = crowd(of, leechers, file_bytes);
            targets.extend(copies(figures));
            targets
        }
        Benchmark::Uplinks => uplinks(of, file_bytes),
    };
    let ours = figures.iter().filter(|one| one.case.system.leecher() == Program::Watchfire);
    if let Some(peak) = ours.map(|one| one.leecher_peak).max_by(f64::total_cmp) {
        let what = "memory of the largest Watchfire leecher";
        targets.push(Target::at_most(what, peak / MIB, LEECHER_PEAK_MIB_MAX, "MiB", 1));
    }
    targets
}

fn pair<'a>(of: impl Fn(System) -> Option<&'a Figures>) -> Vec<Target> {
    let Some(kubo) = of(System::KuboStar) else { return Vec::new() };
    let mixed = [
        (System::WatchfireFromKubo, "CPU, Watchfire from kubo compared with kubo from kubo"),
        (System::KuboFromWatchfire, "CPU, kubo from Watchfire compared with kubo from kubo"),
    ];
    let target = |(system, what)| {
        let ratio = of(system)?.cpu / kubo.cpu;
        Some(Target::at_most(what, ratio, PAIR_CPU_MAX, "x", 2))
    };
    mixed.into_iter().filter_map(target).collect()
}

fn crowd<'a>(
    of: impl Fn(System) -> Option<&'a Figures>,
    leechers: usize,
    file_bytes: u64,
) -> Vec<Target> {
    let Some(ours) = of(System::WatchfireMesh) else { return Vec::new() };
    let whole = TARGET_FILE_BYTES / file_bytes as f64;
    let what = format!("CPU of 1 to {leechers}, for each leecher and 300 MiB");
    let mut targets = vec![
        Target::at_most(&what, ours.cpu_each() * whole, LEECHER_CPU_MAX, "CPU-s", 2),
        Target::at_most("duplicate bytes", ours.duplicates * 100.0, DUPLICATES_MAX, "%", 2),
    ];
    use System::{KuboMesh, KuboMeshLarge, KuboStar, KuboStarLarge};
    let kubo = [KuboMesh, KuboMeshLarge, KuboStar, KuboStarLarge].into_iter().filter_map(of);
    if let Some(best) = kubo.map(|kubo| kubo.last).min_by(f64::total_cmp) {
        let what = "faster than kubo at its best";
        targets.push(Target::at_least(what, best / ours.last, FASTER_THAN_KUBO_MIN, "x", 1));
    }
    targets
}

/// The copies that the seeder sends in a mesh, for each number of leechers.
fn copies(figures: &[Figures]) -> impl Iterator<Item = Target> {
    let meshes = figures.iter().filter(|one| one.case.system == System::WatchfireMesh);
    meshes.map(|mesh| {
        let what = format!("copies that the seeder sends, 1 to {}", mesh.case.leechers);
        Target::at_most(&what, mesh.copies, COPIES_MAX, "", 2)
    })
}

fn uplinks<'a>(of: impl Fn(System) -> Option<&'a Figures>, file_bytes: u64) -> Vec<Target> {
    let Some(ours) = of(System::WatchfireMesh) else { return Vec::new() };
    let uplinks = ours.case.uplinks.expect("the benchmark has uplinks");
    let bound = uplinks.bound_seconds(file_bytes, ours.case.leechers);
    let what = "time of the last leecher, compared with the least possible";
    let mut targets = vec![Target::at_most(what, ours.last / bound, BOUND_MAX, "x", 2)];
    if let Some(http) = of(System::Http) {
        let what = "time of the last leecher, compared with HTTP";
        targets.push(Target::at_most(what, ours.last / http.last, HTTP_MAX, "x", 2));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::case::{Case, Outcome};
    use crate::swarm::uplinks::Uplinks;

    const FILE: u64 = 300 << 20;

    fn figures(system: System, leechers: usize, seconds: f64, cpu: f64) -> Figures {
        let uplinks = Some(Uplinks { seeder_mbit: 400.0, leecher_mbit: 100.0 });
        let case = Case { system, leechers, uplinks };
        let outcome = Outcome {
            finishes: vec![seconds; leechers],
            seeder_cpu: 0.0,
            leechers_cpu: cpu,
            kernel_cpu: 0.0,
            seeder_sent: FILE * 3 / 2,
            seeder_sent_on_wire: None,
            duplicate_bytes: FILE / 100,
            seeder_peak: 1 << 20,
            leecher_peak: 64 << 20,
            load_before: 0.5,
        };
        Figures::of(case, FILE, &[outcome]).unwrap()
    }

    fn verdicts(targets: &[Target]) -> Vec<bool> {
        targets.iter().map(Target::is_met).collect()
    }

    #[test]
    fn a_pair_is_compared_with_two_kubos() {
        let measured = [
            figures(System::KuboStar, 1, 2.0, 2.0),
            figures(System::WatchfireFromKubo, 1, 1.0, 1.6),
            figures(System::KuboFromWatchfire, 1, 1.0, 1.7),
        ];
        assert_eq!(verdicts(&targets(Benchmark::Pair, &measured, FILE)), [true, false, true]);
        assert!(targets(Benchmark::Pair, &[], FILE).is_empty());
    }

    #[test]
    fn a_crowd_is_compared_with_the_better_topology_of_kubo() {
        let measured = [
            figures(System::WatchfireMesh, 8, 99.0, 99.0),
            figures(System::WatchfireMesh, 32, 10.0, 41.0),
            figures(System::KuboMesh, 32, 150.0, 300.0),
            figures(System::KuboStar, 32, 60.0, 130.0),
            figures(System::KuboStarLarge, 32, 49.0, 130.0),
        ];
        let targets = targets(Benchmark::Crowd, &measured, FILE);
        assert_eq!(verdicts(&targets), [true, true, false, true, true, true]);
        assert!((targets[2].value - 4.9).abs() < 1e-9);
        assert!(targets[3].what.ends_with("1 to 8") && targets[4].what.ends_with("1 to 32"));
    }

    #[test]
    fn the_cpu_target_scales_with_the_file_size() {
        let measured = [figures(System::WatchfireMesh, 32, 10.0, 32.0 * 0.7)];
        assert!(!targets(Benchmark::Crowd, &measured, FILE / 2)[0].is_met());
        assert!(targets(Benchmark::Crowd, &measured, FILE)[0].is_met());
    }

    #[test]
    fn slow_uplinks_are_compared_with_the_bound_and_http() {
        let bound = Uplinks { seeder_mbit: 400.0, leecher_mbit: 100.0 }.bound_seconds(FILE, 8);
        let measured = [
            figures(System::WatchfireMesh, 8, bound * 1.4, 10.0),
            figures(System::Http, 8, bound * 3.0, 2.0),
        ];
        assert_eq!(verdicts(&targets(Benchmark::Uplinks, &measured, FILE)), [false, true, true]);
    }
}
