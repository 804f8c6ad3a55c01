//! The figures of a run. For each figure, less is better.

use super::run_result::{NodeResult, RunResult};
pub use crate::definition::Figure;

/// Whether a larger value of a measure is the better one: rates, and the number of users.
pub(crate) fn more_is_better(measure: &str) -> bool {
    measure.ends_with(", a second") || measure.ends_with(": users") || measure.ends_with(", done")
}

impl Figure {
    /// The smallest relative change that is reported. Differences below it are noise on any machine.
    pub(super) const fn least_change(self) -> f64 {
        match self {
            Figure::LeecherCpu | Figure::SeederCpu | Figure::PeakMemory => 0.05,
            _ => 0.02,
        }
    }

    /// The value for a run; `None` if its driver did not measure it, or if no node finished.
    pub fn of(self, run: &RunResult) -> Option<f64> {
        let awaited = run.awaited().count();
        if awaited == 0 {
            return None;
        }
        let needed = run.object_bytes as f64 * awaited as f64;
        let sum = |nodes: &mut dyn Iterator<Item = &NodeResult>,
                   of: &dyn Fn(&NodeResult) -> Option<f64>| {
            nodes.map(of).sum::<Option<f64>>()
        };
        let all = |of: &dyn Fn(&NodeResult) -> Option<f64>| sum(&mut run.nodes.iter(), of);
        let seeders = |of: &dyn Fn(&NodeResult) -> Option<f64>| {
            sum(&mut run.nodes.iter().filter(|node| node.is_seeder), of)
        };
        let mean = |of: &dyn Fn(&NodeResult) -> Option<f64>| {
            Some(sum(&mut run.awaited(), of)? / awaited.max(1) as f64)
        };
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        match self {
            Figure::FirstByte => quantile(run, 0.5, |node| node.first_byte_at),
            Figure::CompletionMedian => quantile(run, 0.5, |node| node.finished_at),
            Figure::CompletionP90 => quantile(run, 0.9, |node| node.finished_at),
            Figure::CompletionLast => quantile(run, 1.0, |node| node.finished_at),
            Figure::TimesTheBound => {
                let last =
                    run.awaited().map(|node| node.finished_at).collect::<Option<Vec<_>>>()?;
                Some(last.into_iter().fold(0.0, f64::max) / run.bound_seconds?)
            }
            Figure::SeederCopies => {
                let sent = seeders(&|node| bytes(node.content_sent_bytes))?;
                Some(sent / run.object_bytes as f64)
            }
            Figure::Duplicates => Some(all(&|node| bytes(node.duplicate_bytes))? / needed),
            Figure::WireBytes => Some(all(&|node| bytes(node.received_bytes))? / needed),
            Figure::Messages => mean(&|node| node.messages.map(|messages| messages as f64)),
            Figure::LeecherCpu => mean(&|node| node.cpu_seconds),
            Figure::SeederCpu => seeders(&|node| node.cpu_seconds),
            Figure::PeakMemory => {
                let peaks = run.awaited().map(|node| bytes(node.peak_memory_bytes));
                peaks.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
            }
        }
    }
}

/// The time, since its arrival, that a share of the awaited nodes needed at most; `None` if fewer did it.
fn quantile(run: &RunResult, share: f64, of: impl Fn(&NodeResult) -> Option<f64>) -> Option<f64> {
    let mut times: Vec<f64> = run
        .awaited()
        .map(|node| of(node).map_or(f64::INFINITY, |at| at - node.arrived_at))
        .collect();
    times.sort_by(f64::total_cmp);
    let at = ((times.len() as f64 * share).ceil() as usize).max(1) - 1;
    times.get(at).copied().filter(|time| time.is_finite())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn node(finished_at: Option<f64>) -> NodeResult {
        NodeResult {
            is_awaited: true,
            arrived_at: 1.0,
            first_byte_at: Some(2.0),
            finished_at,
            received_bytes: Some(150),
            duplicate_bytes: Some(10),
            ..NodeResult::default()
        }
    }

    fn run() -> RunResult {
        let seeder = NodeResult {
            is_seeder: true,
            content_sent_bytes: Some(250),
            received_bytes: Some(0),
            duplicate_bytes: Some(0),
            ..NodeResult::default()
        };
        RunResult {
            trial: "t".to_owned(),
            driver: "d".to_owned(),
            seed: 0,
            object_bytes: 100,
            bound_seconds: Some(2.0),
            took_seconds: 10.0,
            nodes: vec![seeder, node(Some(5.0)), node(Some(3.0)), node(Some(9.0)), node(Some(4.0))],
            transfers: Vec::new(),
            wire: None,
            measures: BTreeMap::new(),
            problems: Vec::new(),
            ..RunResult::default()
        }
    }

    #[test]
    fn experiment_files_name_figures_as_results_do() {
        for figure in Figure::ALL {
            assert_eq!(serde_json::to_value(figure).unwrap(), figure.name());
        }
    }

    #[test]
    fn figures_are_about_the_awaited_nodes() {
        let run = run();
        for (figure, expected) in [
            (Figure::FirstByte, Some(1.0)),
            (Figure::CompletionMedian, Some(3.0)),
            (Figure::CompletionP90, Some(8.0)),
            (Figure::CompletionLast, Some(8.0)),
            (Figure::TimesTheBound, Some(4.5)),
            (Figure::SeederCopies, Some(2.5)),
            (Figure::Duplicates, Some(0.1)),
            (Figure::WireBytes, Some(1.5)),
            (Figure::LeecherCpu, None),
        ] {
            assert_eq!(figure.of(&run), expected, "{figure:?}");
        }
    }

    #[test]
    fn a_node_that_did_not_finish_counts_as_never() {
        let mut run = run();
        run.nodes[1].finished_at = None;
        assert_eq!(Figure::CompletionMedian.of(&run), Some(3.0));
        assert_eq!(Figure::CompletionLast.of(&run), None);
        assert_eq!(Figure::TimesTheBound.of(&run), None);
        assert_eq!(run.unfinished(), 1);
    }
}
