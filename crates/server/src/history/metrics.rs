//! The metrics of the logs.

use watchfire_hub::history::Totals;

use crate::metrics::{CountersBy, MetricWriter};

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
    recoveries: CountersBy<1>,
}

impl Default for HistoryMetrics {
    fn default() -> Self {
        HistoryMetrics { recoveries: CountersBy::new(["outcome"]) }
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

    pub fn write_replicas(&self, totals: &Totals, writer: &mut MetricWriter) {
        let Totals { logs, messages, memory_bytes, dropped_logs, .. } = *totals;
        self.write(logs, messages, memory_bytes, dropped_logs, writer);
        writer.counter(
            "history_dropped_publishes",
            "Messages that were dropped because no process owned their topic in time",
            totals.dropped_publishes,
        );
        writer.counter(
            "history_diverged_logs",
            "Logs that began again because two processes wrote at once",
            totals.diverged_logs,
        );
    }

    /// Writes the figures that all kinds of logs have.
    pub fn write(
        &self,
        logs: usize,
        messages: usize,
        memory_bytes: usize,
        dropped_logs: u64,
        writer: &mut MetricWriter,
    ) {
        writer.gauge("history_logs", "Topics with a log in this process", logs as u64);
        writer.gauge("history_messages", "Messages kept in this process", messages as u64);
        writer.gauge("history_bytes", "Memory of all logs", memory_bytes as u64);
        writer.counter(
            "history_dropped_logs",
            "Logs that lost their messages because of channels.history_bytes_max",
            dropped_logs,
        );
        writer.counters("history_recoveries", "Joins with a position", &self.recoveries);
    }
}
