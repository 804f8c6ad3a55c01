//! The metrics of hooks.

use std::time::Duration;

use watchfire_metrics::{CountersBy, MetricWriter, Pending, TimesBy};

use crate::settings::Hook;

/// The bounds of the histogram, in nanoseconds: from 2 ms to 5 s.
const TIMES: &[u64] = &[
    2_000_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// Counts of the requests of this process.
#[derive(Debug)]
pub(super) struct HookMetrics {
    /// Those without an answer.
    pub questions: Pending,
    /// Those that are not sent.
    pub notices: Pending,
    requests: CountersBy<2>,
    times: TimesBy,
}

impl Default for HookMetrics {
    fn default() -> Self {
        HookMetrics {
            questions: Pending::default(),
            notices: Pending::default(),
            requests: CountersBy::new(["hook", "outcome"]),
            times: TimesBy::new("hook", TIMES),
        }
    }
}

impl HookMetrics {
    /// Counts a question or a notice. `outcome` is one of a closed set.
    pub fn count(&self, hook: Hook, outcome: &'static str) {
        self.requests.inc([name(hook), outcome]);
    }

    /// Counts the time of a request that was sent.
    pub fn took(&self, hook: Hook, time: Duration) {
        self.times.observe(name(hook), time);
    }

    pub fn write(&self, writer: &mut MetricWriter) {
        let help = "Questions and notices to the backend";
        writer.counters("hooks_requests", help, &self.requests);
        writer.times_by("hooks_request_seconds", "Time of a request", &self.times);
        let mut drops = [0, 0];
        for ([(_, hook), (_, outcome)], count) in self.requests.counts() {
            if outcome == "queue_full" {
                drops[usize::from(hook == name(Hook::Leave))] += count;
            }
        }
        let questions = self.questions.queue("hook questions", drops[0]);
        writer.queues(&[questions, self.notices.queue("hook notices", drops[1])]);
    }
}

fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::Connect => "connect",
        Hook::Join => "join",
        Hook::Publish => "publish",
        Hook::Leave => "leave",
    }
}
