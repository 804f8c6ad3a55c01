//! A page of the documents with the figures of an experiment, and its picture.
//!
//! The page names the experiment file, the commit that was measured, the machine and how busy others kept it, so that
//! a reader knows what the figures are worth. [`age`] reads the file and the commit again, and counts how far the code
//! has moved since.

mod age;
mod networks;
mod picture;
mod targets;

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use watchfire_report::Table;
use watchfire_report::units::binary_bytes;

pub use age::{Age, AgeError, PageHead};
pub use targets::targets_table;

use self::targets::value_of;
use crate::definition::{Experiment, PageFigure, Trial};
use crate::results::{
    Figure, NOISE_MAX, RunResult, figure_spread, results_rows, shown_name, spread,
};

/// The runs of an experiment, and all that its page says about them.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub experiment: &'a Experiment,
    /// The experiment file.
    pub file: &'a Path,
    /// The page, which is written beside its picture.
    pub page: &'a Path,
    pub runs: &'a [RunResult],
    pub driver: &'a str,
    /// The command that writes the page again.
    pub command: &'a str,
    pub commit: &'a str,
    pub date: &'a str,
    pub machine: &'a str,
    pub seconds: u64,
}

impl Page<'_> {
    /// The file of the picture, beside the page.
    pub fn picture_file(&self) -> PathBuf {
        self.page.with_extension("svg")
    }

    /// The picture, unless there is nothing to draw.
    pub fn picture(&self) -> Option<String> {
        let chart = picture::picture(self.experiment, self.runs);
        (!chart.panels.is_empty()).then(|| chart.svg())
    }

    pub fn markdown(&self) -> String {
        let experiment = self.experiment;
        let mut out = format!("# {}\n\n", experiment.name);
        if self.picture().is_some() {
            let picture = self.picture_file();
            let picture = picture.file_name().unwrap_or_default().to_string_lossy();
            let _ = writeln!(
                out,
                "![{}: how long it takes, and what it costs]({picture})\n",
                experiment.name
            );
        }
        out += &self.head().markdown();
        if let Some(noise) = self.noise().filter(|noise| *noise > NOISE_MAX) {
            let share = noise * 100.0;
            let _ = writeln!(
                out,
                "\n**Other programs used {share:.0} % of the machine: do not compare these times with others.**"
            );
        }
        if !experiment.targets.is_empty() {
            let _ = write!(out, "\n{}", targets_table(experiment, self.runs).markdown());
        }
        for cluster in experiment.clusters.keys() {
            out += &self.cluster(cluster);
        }
        if !experiment.notes.is_empty() {
            out += "\n## How it is measured\n\n";
            for note in &experiment.notes {
                let _ = writeln!(out, "- {note}");
            }
        }
        out
    }

    /// The share of the machine's CPU time that other programs used while the clocks of the runs ran; `None` if no run
    /// has it, as in the simulator.
    fn noise(&self) -> Option<f64> {
        let known = || self.runs.iter().filter_map(|run| Some((run.noise?, run.took_seconds)));
        let seconds: f64 = known().map(|(_, seconds)| seconds).sum();
        let used: f64 = known().map(|(noise, seconds)| noise * seconds).sum();
        (seconds > 0.0).then(|| used / seconds)
    }

    /// The measured file, the machine and the date. [`PageHead`] reads the first two lines.
    fn head(&self) -> Table {
        let folder = self.page.parent().unwrap_or(Path::new(""));
        let link = relative(folder, self.file);
        let mut head = Table::new(["measured", ""]);
        let mut row = |name: &str, value: String| head.push([name.to_owned(), value]);
        row(age::EXPERIMENT, format!("[{}]({})", self.file.display(), link.display()));
        row(age::COMMIT, self.commit.to_owned());
        row("date", self.date.to_owned());
        row("driver", self.driver.to_owned());
        row("runs of each trial", self.experiment.repeat.to_string());
        row("machine", self.machine.to_owned());
        if let Some(noise) = self.noise() {
            let share = format!("{:.0} % of the machine", noise * 100.0);
            row("used by other programs meanwhile", share);
        }
        row("all runs together", format!("{} s", self.seconds));
        row("renew with", format!("`{}`", self.command));
        row(
            "out of date",
            format!(
                "after {} commits in {}",
                self.experiment.stale_after,
                self.experiment.measures.join(", ")
            ),
        );
        head
    }

    /// The trials of a cluster, a row for each. The figures of a load are too many for columns.
    fn cluster(&self, cluster: &str) -> String {
        let trials: Vec<&Trial> =
            self.experiment.trials.iter().filter(|trial| trial.cluster == cluster).collect();
        let of = |trial: &Trial| -> Vec<&RunResult> {
            self.runs.iter().filter(|run| run.trial == trial.name).collect()
        };
        let runs: Vec<&RunResult> = trials.iter().flat_map(|trial| of(trial)).collect();
        if runs.is_empty() {
            return String::new();
        }
        if let Some(grid) = networks::grid(self.experiment, &trials) {
            return format!("\n## {cluster}\n\n{}", grid.markdown(self.experiment, self.runs));
        }
        if !self.experiment.figures.is_empty() {
            return format!("\n## {cluster}\n\n{}", self.chosen(&trials).markdown());
        }
        if runs.iter().any(|run| !run.measures.is_empty()) {
            let runs: Vec<RunResult> = runs.into_iter().cloned().collect();
            return format!("\n## {cluster}\n\n{}", results_rows(&runs).markdown());
        }
        let is_known = |figure: &&Figure| runs.iter().any(|run| figure.of(run).is_some());
        let figures: Vec<Figure> = Figure::ALL.iter().filter(is_known).copied().collect();
        let title = |figure: &Figure| shown_name(figure.title());
        let mut table = Table::new(std::iter::once("trial").chain(figures.iter().map(title)));
        for trial in trials {
            let runs = of(trial);
            let value = |figure: &Figure| figure_spread(*figure, runs.iter().copied());
            table.push(std::iter::once(trial.name.clone()).chain(figures.iter().map(value)));
        }
        let bytes: u64 = runs.iter().map(|run| run.object_bytes).max().unwrap_or(0);
        let (size, table) = (binary_bytes(bytes), table.markdown());
        format!("\n## {cluster}\n\nEach node that fetches needs {size}.\n\n{table}")
    }

    /// The figures that the experiment chooses, a row for each that one of the trials has, and a column for each trial.
    fn chosen(&self, trials: &[&Trial]) -> Table {
        let heads = trials.iter().map(|trial| trial.name.as_str());
        let mut table = Table::new(std::iter::once("figure").chain(heads));
        for PageFigure { figure, title, times } in &self.experiment.figures {
            let value = |trial: &&Trial| {
                let of_trial = self.runs.iter().filter(|run| run.trial == trial.name);
                let values = of_trial.filter_map(|run| Some(value_of(figure, run)? * times));
                spread(&values.collect::<Vec<_>>())
            };
            let values: Vec<String> = trials.iter().map(value).collect();
            if values.iter().any(|value| value != "-") {
                table.push(std::iter::once(title.clone()).chain(values));
            }
        }
        table
    }
}

/// The path of a file as a page in a folder links to it. Both begin at the same folder.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let parts = |path: &Path| -> Vec<PathBuf> {
        let is_named = |part: &Component<'_>| !matches!(part, Component::CurDir);
        path.components().filter(is_named).map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    let (folder, file) = (parts(folder), parts(file));
    let common = folder.iter().zip(&file).take_while(|(a, b)| a == b).count();
    let up = folder[common..].iter().map(|_| PathBuf::from(".."));
    up.chain(file[common..].iter().cloned()).collect()
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::drivers::{Driver as _, Simulated};

    pub const TEXT: &str = r#"
name = "A file to three"
notes = ["All peers know each other."]
measures = ["crates/bitswap"]
stale_after = 7
[peers]
old = { implementation = 'go-bitswap' }
[clusters.'One to three']
groups = [
  { name = 'source', link = { up = '100Mbit', down = '100Mbit' } },
  { name = 'peers', count = 3, link = { up = '100Mbit', down = '100Mbit' } },
]
[scenarios.s]
objects.file = { random = '2MiB' }
seed = { source = 'file' }
fetch = { peers = 'file' }
[[trials]]
name = 'ours'
cluster = 'One to three'
scenario = 's'
[[trials]]
name = 'old'
cluster = 'One to three'
scenario = 's'
peer = 'old'
[[targets]]
trial = 'ours'
figure = 'seeder_copies'
at_most = 1000.0
[[targets]]
trial = 'ours'
figure = 'completion_last'
relative_to = ['old']
at_most = 0.000001
"#;

    pub fn runs(experiment: &Experiment) -> Vec<RunResult> {
        let run = |trial| Simulated.run(&experiment.plan(trial, 0), &mut |_| {}).unwrap();
        experiment.trials.iter().map(run).collect()
    }

    fn noisy(runs: &[RunResult], noise: f64) -> Vec<RunResult> {
        runs.iter().map(|run| RunResult { noise: Some(noise), ..run.clone() }).collect()
    }

    fn page<'a>(experiment: &'a Experiment, runs: &'a [RunResult]) -> Page<'a> {
        Page {
            experiment,
            file: Path::new("experiments/three.toml"),
            page: Path::new("docs/swarm/three.md"),
            runs,
            driver: "simulated",
            command: "make bench-swarm",
            commit: "0123abcd",
            date: "2026-11-27",
            machine: "2 cores",
            seconds: 3,
        }
    }

    #[test]
    fn a_page_says_what_was_measured_and_can_be_read_again() {
        let experiment = Experiment::parse("three.toml", TEXT).unwrap();
        let runs = runs(&experiment);
        let text = page(&experiment, &noisy(&runs, 0.02)).markdown();
        for expected in [
            "# A file to three\n",
            "(three.svg)",
            "| experiment | [experiments/three.toml](../../experiments/three.toml) |",
            "| out of date | after 7 commits in crates/bitswap |",
            "| used by other programs meanwhile | 2 % of the machine |",
            "## One to three\n",
            "| ours |",
            "- All peers know each other.",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("do not compare"));
        let head = PageHead::read(&text).unwrap();
        assert_eq!(
            (head.experiment.as_str(), head.commit.as_str()),
            ("experiments/three.toml", "0123abcd")
        );
        assert!(
            page(&experiment, &noisy(&runs, 0.5))
                .markdown()
                .contains("used 50 % of the machine: do not compare")
        );
        let simulated = page(&experiment, &runs);
        assert!(!simulated.markdown().contains("other programs"));
        assert!(simulated.picture().unwrap().contains("nodes that have all, of 3"));
    }

    #[test]
    fn the_figures_of_a_load_have_a_row_each() {
        let experiment = Experiment::parse("three.toml", TEXT).unwrap();
        let mut runs = runs(&experiment);
        runs[0].measures = BTreeMap::from([("load: errors".to_owned(), 0.0)]);
        runs[0].measures.insert("load: join, p99, s".to_owned(), 0.5);
        assert!(page(&experiment, &runs).markdown().contains("| load: errors | 0 |"));
        let text = TEXT.replacen("[peers]", "figures = ['load: join, p99, s']\n[peers]", 1);
        let experiment = Experiment::parse("three.toml", &text).unwrap();
        let text = page(&experiment, &runs).markdown();
        assert!(text.contains("| load: join, p99, s | 0.500 | - |"), "{text}");
        assert!(!text.contains("load: errors"));
        assert!(page(&experiment, &runs).picture().unwrap().contains("load: join, p99, s"));
    }

    #[test]
    fn a_time_below_a_millisecond_has_three_digits_too() {
        let experiment = Experiment::parse("three.toml", TEXT).unwrap();
        let mut runs = runs(&experiment);
        runs[0].measures = BTreeMap::from([("load: join, p99, s".to_owned(), 0.000_42)]);
        let text = page(&experiment, &runs).markdown();
        assert!(text.contains("| load: join, p99, s | 0.000420 |"), "{text}");
    }

    #[test]
    fn a_page_has_the_figures_that_its_experiment_chooses() {
        let text = TEXT.replacen(
            "[peers]",
            "figures = [{ figure = 'load: talk: delivery, a second', title = 'thousands a second', times = 0.001 }, \
             { figure = 'load: nobody: has this' }]\n[peers]",
            1,
        );
        let experiment = Experiment::parse("three.toml", &text).unwrap();
        let mut runs = runs(&experiment);
        let measure =
            |value| BTreeMap::from([("load: talk: delivery, a second".to_owned(), value)]);
        (runs[0].measures, runs[1].measures) = (measure(2000.0), measure(4000.0));
        let page = page(&experiment, &runs);
        let text = page.markdown();
        assert!(text.contains("| thousands a second | 2.00 | 4.00 |"), "{text}");
        let picture = page.picture().unwrap();
        assert!(picture.contains("One to three: thousands a second"), "{picture}");
        assert!(!picture.contains("nobody"), "{picture}");
    }
}
