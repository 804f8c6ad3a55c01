//! The values that a report shows over time: times of connections, pages, requests, sessions and steps.

use watchfire_report::{Histogram, Snapshot};

use crate::results::{Results, Second, Step, Times};

/// Times that each interval has.
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

    /// The times of some intervals together.
    pub(super) fn of(self, results: &Results, intervals: &[Times]) -> Histogram {
        let mut all = Histogram::new();
        for interval in intervals {
            self.each(results, interval, |times| all.merge(times));
        }
        all
    }

    /// How many times there are in some intervals.
    pub(super) fn count(self, results: &Results, intervals: &[Times]) -> u64 {
        let mut count = 0;
        for interval in intervals {
            self.each(results, interval, |times| count += times.len());
        }
        count
    }

    fn each(self, results: &Results, interval: &Times, mut use_times: impl FnMut(&Snapshot)) {
        match self {
            Series::Connect => use_times(&interval.stages.connect),
            Series::Page => use_times(&interval.stages.page),
            Series::Session => use_times(&interval.stages.session),
            Series::Step(index) => interval.steps.get(&index).into_iter().for_each(use_times),
            Series::Request => {
                let is_request = |index: &u16| {
                    results.steps.get(usize::from(*index)).is_some_and(|step| !step.is_group)
                };
                let steps = interval.steps.iter().filter(|(index, _)| is_request(index));
                steps.for_each(|(_, times)| use_times(times));
            }
        }
    }
}

/// Consecutive seconds of a load, and the times of the intervals that begin in them.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) seconds: &'a [Second],
    pub(super) times: &'a [Times],
}

/// A load in parts of so many seconds; the last one may be shorter. Only parts of whole intervals have times of
/// their own, so they are longer than that in a load of many hours.
pub(super) fn parts(results: &Results, seconds: usize) -> Vec<Part<'_>> {
    let len = seconds.next_multiple_of(results.interval);
    let parts = results.seconds_shown().chunks(len).enumerate().map(|(index, seconds)| {
        let times = results.times_between(index * len, index * len + seconds.len());
        Part { seconds, times }
    });
    parts.collect()
}

/// The steps of a load that were done, either those that are groups or the others.
pub(super) fn steps(results: &Results, are_groups: bool) -> Vec<Series> {
    let is_shown = |step: &Step| step.is_group == are_groups && !step.due.is_empty();
    let steps = results.steps.iter().enumerate().filter(|(_, step)| is_shown(step));
    steps.map(|(index, _)| Series::Step(index as u16)).collect()
}
