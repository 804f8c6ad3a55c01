//! The values that a report shows over time: times of connections, pages, requests, sessions and steps.

use watchfire_report::{Histogram, Snapshot};

use crate::results::{Results, Second, Step};

/// Times that each second has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Series {
    Connect,
    Page,
    /// All steps that are not groups.
    Request,
    Session,
    /// The step with this index.
    Step(u16),
}

impl Series {
    /// Those of each load, in the order of a report.
    pub(super) const ALL: [Series; 4] =
        [Series::Connect, Series::Page, Series::Request, Series::Session];

    pub(super) fn name(self, results: &Results) -> &str {
        match self {
            Series::Connect => "connect",
            Series::Page => "page",
            Series::Request => "request",
            Series::Session => "session",
            Series::Step(index) => &results.steps[usize::from(index)].name,
        }
    }

    /// The times of some seconds together.
    pub(super) fn of(self, results: &Results, seconds: &[Second]) -> Histogram {
        let mut all = Histogram::new();
        for second in seconds {
            self.each(results, second, |times| all.merge(times));
        }
        all
    }

    /// How many times there are in some seconds.
    pub(super) fn count(self, results: &Results, seconds: &[Second]) -> u64 {
        let mut count = 0;
        for second in seconds {
            self.each(results, second, |times| count += times.len());
        }
        count
    }

    fn each(self, results: &Results, second: &Second, mut use_times: impl FnMut(&Snapshot)) {
        match self {
            Series::Connect => use_times(&second.stages.connect),
            Series::Page => use_times(&second.stages.page),
            Series::Session => use_times(&second.stages.session),
            Series::Step(index) => second.steps.get(&index).into_iter().for_each(use_times),
            Series::Request => {
                let is_request = |index: &u16| {
                    results.steps.get(usize::from(*index)).is_some_and(|step| !step.is_group)
                };
                let steps = second.steps.iter().filter(|(index, _)| is_request(index));
                steps.for_each(|(_, times)| use_times(times));
            }
        }
    }
}

/// The steps of a load that were done, either those that are groups or the others.
pub(super) fn steps(results: &Results, are_groups: bool) -> Vec<Series> {
    let is_shown = |step: &Step| step.is_group == are_groups && !step.due.is_empty();
    let steps = results.steps.iter().enumerate().filter(|(_, step)| is_shown(step));
    steps.map(|(index, _)| Series::Step(index as u16)).collect()
}
