//! The table of trials that differ only in the kinds of NAT of two groups: a row for each kind of the one, and a column for
//! each kind of the other.

use std::collections::BTreeSet;

use watchfire_report::units::number;
use watchfire_report::{Cell, Cells, Colour, Panel, Table};

use super::targets::median_of;
use crate::definition::{Experiment, NatKind, PageFigure, Trial};
use crate::results::{RunResult, decimals};

/// The colours of the first figures, in the picture.
const COLOURS: [Colour; 2] = [Colour::Green, Colour::Orange];

/// The pairs of networks that trials compare.
pub struct Grid<'a> {
    trials: Vec<&'a Trial>,
    /// The groups of rows and of columns.
    groups: [&'a str; 2],
}

/// The table of the trials of a cluster; `None` unless each has another pair of kinds for the same two groups, and the
/// experiment chooses figures for the cells.
pub fn grid<'a>(experiment: &Experiment, trials: &[&'a Trial]) -> Option<Grid<'a>> {
    let first = trials.first()?;
    let names: Vec<&str> = first.nat.keys().map(String::as_str).collect();
    let groups: [&str; 2] = names.try_into().ok()?;
    let is_alike = |trial: &&Trial| {
        (&trial.scenario, &trial.peer, &trial.peers) == (&first.scenario, &first.peer, &first.peers)
            && trial.nat.keys().eq(first.nat.keys())
    };
    let pairs: BTreeSet<_> = trials.iter().map(|trial| &trial.nat).collect();
    let is_grid = trials.len() > 2 && trials.iter().all(is_alike) && pairs.len() == trials.len();
    (is_grid && !experiment.figures.is_empty()).then(|| Grid { trials: trials.to_vec(), groups })
}

impl Grid<'_> {
    pub fn markdown(&self, experiment: &Experiment, runs: &[RunResult]) -> String {
        let [row, column] = self.groups;
        let heads = self.kinds(column).into_iter().map(|kind| kind.name().to_owned());
        let mut table = Table::new(std::iter::once(format!("{row} \\ {column}")).chain(heads));
        for (of_row, trials) in self.rows() {
            let cells = trials.into_iter().map(|trial| {
                let figures = trial.map(|trial| figures(trial, experiment, runs));
                figures.filter(|figures| !figures.is_empty()).map_or_else(
                    || "-".to_owned(),
                    |figures| figures.iter().map(Shown::text).collect::<Vec<_>>().join("; "),
                )
            });
            table.push(std::iter::once(of_row.name().to_owned()).chain(cells));
        }
        format!("Rows are networks of `{row}`, columns of `{column}`.\n\n{}", table.markdown())
    }

    /// The table as a picture. The first figure that a pair has gives its cell the colour, and stands in it with the value.
    pub fn panel(&self, cluster: &str, experiment: &Experiment, runs: &[RunResult]) -> Panel {
        let [row, column] = self.groups;
        let cell = |trial: Option<&Trial>| {
            let shown = trial.and_then(|trial| figures(trial, experiment, runs).into_iter().next());
            shown.map_or_else(Cell::default, |shown| Cell {
                colour: COLOURS.get(shown.place).copied(),
                lines: vec![shown.title.replace("**", ""), shown.value],
            })
        };
        let rows = self
            .rows()
            .into_iter()
            .map(|(kind, trials)| (kind.name().to_owned(), trials.into_iter().map(cell).collect()));
        let columns = self.kinds(column).into_iter().map(|kind| kind.name().to_owned());
        Panel::Cells {
            title: format!("{cluster}: rows are networks of the {row}, columns of the {column}"),
            cells: Cells { columns: columns.collect(), rows: rows.collect() },
        }
    }

    fn kinds(&self, group: &str) -> Vec<NatKind> {
        let has = |kind: &NatKind| self.trials.iter().any(|trial| trial.nat[group] == *kind);
        NatKind::ALL.into_iter().filter(has).collect()
    }

    /// Each kind of the rows, and its trials in the order of the columns.
    fn rows(&self) -> Vec<(NatKind, Vec<Option<&Trial>>)> {
        let [row, column] = self.groups;
        let columns = self.kinds(column);
        let of_pair = |of_row: NatKind, of_column: NatKind| {
            let is_pair =
                |trial: &&&Trial| trial.nat[row] == of_row && trial.nat[column] == of_column;
            self.trials.iter().find(is_pair).copied()
        };
        let of_row =
            |kind| (kind, columns.iter().map(|of_column| of_pair(kind, *of_column)).collect());
        self.kinds(row).into_iter().map(of_row).collect()
    }
}

/// A figure in a cell.
struct Shown<'a> {
    /// The place among the figures that the experiment chooses.
    place: usize,
    title: &'a str,
    value: String,
}

impl Shown<'_> {
    fn text(&self) -> String {
        format!("{} {}", self.title, self.value)
    }
}

/// The figures that a trial has, of those that the experiment chooses.
fn figures<'a>(trial: &Trial, experiment: &'a Experiment, runs: &[RunResult]) -> Vec<Shown<'a>> {
    let shown = |(place, figure): (usize, &'a PageFigure)| {
        let value = median_of(&figure.figure, runs, &trial.name)? * figure.times;
        let value = number(value, decimals(value).min(2));
        Some(Shown { place, title: &figure.title, value })
    };
    experiment.figures.iter().enumerate().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TEXT: &str = "
figures = [
  { figure = 'program: direct after, s', title = 'direct' },
  { figure = 'program: relay after, s', title = 'relay' },
]
[clusters.pairs]
groups = [{ name = 'left' }, { name = 'right' }]
[scenarios.s]
objects.file = { random = '1MiB' }
seed = { left = 'file' }
fetch = { right = 'file' }
[[trials]]
name = 'pair'
cluster = 'pairs'
scenario = 's'
nat = { left = ['open', 'symmetric'], right = ['full-cone', 'udp-blocked'] }
";

    fn run(trial: &str, measure: &str, value: f64) -> RunResult {
        let measures = BTreeMap::from([(measure.to_owned(), value)]);
        RunResult { trial: trial.to_owned(), measures, ..RunResult::default() }
    }

    #[test]
    fn each_pair_of_networks_has_a_cell_with_the_figures_that_it_has() {
        let experiment = Experiment::parse("pairs.toml", TEXT).unwrap();
        let runs = [
            run("pair: open to full-cone", "program: direct after, s", 0.812),
            run("pair: symmetric to udp-blocked", "program: relay after, s", 0.25),
        ];
        let trials: Vec<&Trial> = experiment.trials.iter().collect();
        let text = grid(&experiment, &trials).unwrap().markdown(&experiment, &runs);
        assert!(text.contains("full-cone | udp-blocked |"), "{text}");
        assert!(text.contains("| open | direct 0.81 | - |"), "{text}");
        assert!(text.contains("| symmetric | - | relay 0.25 |"), "{text}");

        let panel = grid(&experiment, &trials).unwrap().panel("pairs", &experiment, &runs);
        let Panel::Cells { cells, .. } = panel else { panic!("{panel:?}") };
        assert_eq!(cells.columns, ["full-cone", "udp-blocked"]);
        let relayed = &cells.rows[1].1[1];
        assert_eq!((&cells.rows[1].0[..], relayed.colour), ("symmetric", Some(Colour::Orange)));
        assert_eq!(relayed.lines, ["relay", "0.25"]);
        assert_eq!(cells.rows[1].1[0], Cell::default());
    }

    #[test]
    fn trials_that_are_no_pairs_of_networks_have_no_grid() {
        let has_grid = |text: &str| {
            let experiment = Experiment::parse("pairs.toml", text).unwrap();
            grid(&experiment, &experiment.trials.iter().collect::<Vec<_>>()).is_some()
        };
        assert!(has_grid(TEXT));
        let other = "[[trials]]\ncluster = 'pairs'\nscenario = 's'\n";
        assert!(!has_grid(&format!("{TEXT}{other}")), "the other trial has no pair");
        let again = "nat = { left = 'open', right = 'full-cone' }";
        assert!(!has_grid(&format!("{TEXT}{other}{again}")), "two trials have the same pair");
        let (_, without_figures) = TEXT.split_once("]\n").unwrap();
        assert!(!has_grid(without_figures), "no figure is chosen for the cells");
    }
}
