//! The metrics of the logs.

use std::sync::Arc;

use watchfire_hub::history::{FollowerTotals, LogTotals};
use watchfire_metrics::Pending;

use crate::metrics::{Counter, CountersBy, MetricWriter};

/// The outcome of a join that asked for missed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The client got all of them.
    Recovered,
    /// The log does not have all of them, or the position is not one of the log.
    Lost,
    /// They do not fit into the client's queue.
    TooLarge,
}

#[derive(Debug)]
pub(super) struct HistoryMetrics {
    /// Messages that are not stored yet, and how many were given up.
    pub writes: Arc<(Pending, Counter)>,
    recoveries: CountersBy<1>,
}

impl Default for HistoryMetrics {
    fn default() -> Self {
        HistoryMetrics { writes: Arc::default(), recoveries: CountersBy::new(["outcome"]) }
    }
}

impl HistoryMetrics {
    pub fn count(&self, recovery: Recovery) {
        let outcome = match recovery {
            Recovery::Recovered => "recovered",
            Recovery::Lost => "lost",
            Recovery::TooLarge => "too_large",
        };
        self.recoveries.inc([outcome]);
    }

    /// Writes the figures that all kinds of storage have.
    pub fn write(&self, totals: &LogTotals, writer: &mut MetricWriter) {
        let LogTotals { logs, messages, memory_bytes, dropped_logs } = *totals;
        writer.gauge("history_logs", "Topics with kept messages", logs as u64);
        writer.gauge("history_messages", "Kept messages", messages as u64);
        writer.gauge("history_bytes", "Memory of kept messages", memory_bytes as u64);
        writer.counter(
            "history_dropped_logs",
            "Topics that lost their messages because of channels.history_bytes_max",
            dropped_logs,
        );
        let (writes, given_up) = &*self.writes;
        writer.queues(&[writes.queue("history writes", given_up.get())]);
        writer.counters("history_recoveries", "Joins with a position", &self.recoveries);
    }
}

/// The sizes of the caches of a process that follows its topics.
pub(super) fn sizes_of(totals: &FollowerTotals) -> LogTotals {
    let FollowerTotals { topics, messages, memory_bytes, dropped_topics, .. } = *totals;
    LogTotals { logs: topics, messages, memory_bytes, dropped_logs: dropped_topics }
}
