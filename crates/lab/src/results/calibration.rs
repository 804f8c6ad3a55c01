//! The simulator beside real processes: the same plans in both, and the error of each figure.
//!
//! **Without it**, a simulator is believed because it is plausible. Two figures can be right and the third wrong by half, and a
//! change that helps in the simulator may do nothing on a network.
//!
//! Each run on processes has a simulated run with the same plan: the same seed, so the same nodes leave at the same times. The
//! error of a figure is the median over these pairs of `simulated / processes - 1`. For example, nodes that took 2.0, 2.2
//! and 2.1 s, and 1.9 s in the simulator each time, are errors of -5, -14 and -10 %, and the page says -10 %.
//!
//! The processes have noise of their own, so the page has their smallest and largest value beside the median. An error within
//! that spread says nothing. The wire is a part of the measurement: the page has the lateness of its packets, the packets that
//! the kernel dropped before it, and its CPU time.
//!
//! An error over [`EXPLAINED`] is marked. The notes of the experiment explain it, since they are printed with its table.

use watchfire_report::Table;
use watchfire_report::units::percent;

use super::figure::Figure;
use super::run_result::RunResult;
use super::table::{figure_spread, short, spread};
use super::verdict::median;

/// The largest error that needs no explanation.
const EXPLAINED: f64 = 0.15;

/// The figures that both drivers measure.
const FIGURES: &[Figure] = Figure::ALL.split_at(8).0;

/// One experiment with its runs in both drivers. Runs at the same place have the same plan.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub name: String,
    pub notes: Vec<String>,
    pub simulated: Vec<RunResult>,
    pub processes: Vec<RunResult>,
}

impl Calibration {
    /// The median of `simulated / processes - 1` over all pairs; `None` if a side has no value, or 0.
    pub fn error(&self, figure: Figure) -> Option<f64> {
        let pairs = self.simulated.iter().zip(&self.processes);
        let ratios = pairs.map(|(simulated, real)| {
            Some(figure.of(simulated)? / figure.of(real).filter(|value| *value > 0.0)? - 1.0)
        });
        median(ratios.collect::<Option<Vec<f64>>>()?.into_iter())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["figure", "simulated", "processes", "error"]);
        for figure in FIGURES.iter().copied() {
            let error = self.error(figure).map_or_else(|| "-".to_owned(), marked);
            let [simulated, processes] =
                [&self.simulated, &self.processes].map(|runs| figure_spread(figure, runs));
            table.push([figure.title().to_owned(), simulated, processes, error]);
        }
        table
    }
}

fn marked(error: f64) -> String {
    let sign = if error > 0.0 { "+" } else { "" };
    let text = format!("{sign}{}", percent(error, 0));
    if error.abs() > EXPLAINED { format!("**{text}**") } else { text }
}

/// The page in Markdown. `machine` says where the processes ran.
pub fn calibration_page(calibrations: &[Calibration], machine: &str) -> String {
    let mut summary = Table::new([
        "experiment",
        "last completion, error",
        "bytes on the wire, error",
        "packets late by, mean and most",
        "lost before the wire",
        "CPU-seconds of the wire",
    ]);
    for one in calibrations {
        let error = |figure| one.error(figure).map_or_else(|| "-".to_owned(), marked);
        let wires = || one.processes.iter().filter_map(|run| run.wire.as_ref());
        let mean = wires().map(|wire| wire.lateness_mean_seconds).fold(0.0, f64::max);
        let most = wires().map(|wire| wire.lateness_max_seconds).fold(0.0, f64::max);
        let cpu: Vec<f64> = wires().map(|wire| wire.cpu_seconds).collect();
        let overruns: u64 = wires().map(|wire| wire.overruns).sum();
        summary.push([
            one.name.clone(),
            error(Figure::CompletionLast),
            error(Figure::WireBytes),
            format!("{} and {} ms", short(mean * 1e3), short(most * 1e3)),
            overruns.to_string(),
            spread(&cpu),
        ]);
    }
    let repeats = calibrations.iter().map(|one| one.processes.len()).max().unwrap_or(0);
    let mut page = format!(
        "# The simulator beside real processes\n\n`make bench-calibration` writes this page: each experiment of \
         `experiments/calibration/` runs {repeats} times in the\nsimulator and {repeats} times on processes in network \
         namespaces. {machine}\n\nThe error of a figure is the median of `simulated / processes - 1` over pairs with the \
         same plan. Errors over 15 % are bold, and\nthe text below a table explains them. Beside a median are the smallest \
         and the largest value.\n\n{}",
        summary.markdown()
    );
    for one in calibrations {
        let notes: String = one.notes.iter().map(|note| format!("\n{note}\n")).collect();
        page.push_str(&format!("\n## {}\n\n{}{notes}", one.name, one.table().markdown()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::run_result::{NodeResult, WireFigures};

    fn run(seconds: f64) -> RunResult {
        let node = NodeResult {
            is_awaited: true,
            finished_at: Some(seconds),
            received_bytes: Some(1000),
            ..NodeResult::default()
        };
        let wire = Some(WireFigures { lateness_max_seconds: 0.002, ..WireFigures::default() });
        RunResult { object_bytes: 1000, nodes: vec![node], wire, ..RunResult::default() }
    }

    #[test]
    fn an_error_is_the_median_of_the_pairs() {
        let one = Calibration {
            name: "pair".to_owned(),
            notes: vec!["Why it differs.".to_owned()],
            simulated: [1.9, 1.9, 1.9].map(run).into(),
            processes: [2.0, 2.375, 2.111].map(run).into(),
        };
        let error = one.error(Figure::CompletionLast).unwrap();
        assert!((error + 0.1).abs() < 0.001, "{error}");
        assert_eq!(one.error(Figure::FirstByte), None);
        let page = calibration_page(&[one], "Two cores.");
        assert!(
            page.contains("| completion, last, s | 1.90 | 2.11 (2.00 to 2.38) | -10 % |"),
            "{page}"
        );
        assert!(page.contains("\nWhy it differs.\n") && page.contains("and 2.00 ms"), "{page}");
    }

    #[test]
    fn a_large_error_is_marked() {
        assert_eq!(marked(0.2), "**+20 %**");
        assert_eq!(marked(-0.15), "-15 %");
    }
}
