//! The histories of a server of one process: their logs are in its memory.

use std::sync::Arc;

use super::keeper::LogKeeper;
use super::metrics::HistoryMetrics;
use super::topics::HistoryTopics;
use super::{Done, Excerpt, NotStored, OnRead, Storage, Wanted};
use crate::metrics::MetricWriter;

pub(super) struct InPlace {
    pub topics: Arc<HistoryTopics>,
    pub keeper: LogKeeper,
}

impl Storage for InPlace {
    fn publish(&self, topic: &str, event: &str, payload: &str, _id: Option<&str>, done: Done) {
        match self.topics.bounds(topic) {
            Some(bounds) => self.keeper.publish(topic, bounds, (event, payload), done),
            None => done(Err(NotStored::Unavailable)),
        }
    }

    fn open(&self, _topic: &str) -> bool {
        true
    }

    fn read(&self, topic: &str, wanted: Wanted) -> Option<Excerpt> {
        self.keeper.with(|logs, now| {
            let messages = match wanted {
                Wanted::Nothing => Some(Vec::new()),
                Wanted::After(after) => after.and_then(|after| logs.since(now, topic, after)),
                Wanted::Last(count) => Some(logs.newest(now, topic, count)),
            };
            Some(Excerpt { position: logs.position(topic), messages })
        })
    }

    fn read_soon(&self, topic: &str, wanted: Wanted, on_read: OnRead) {
        on_read(self.read(topic, wanted));
    }

    fn kept(&self, topic: &str) -> usize {
        self.keeper.with(|logs, _| logs.kept(topic))
    }

    fn add_shard(&self, topic: &str) {
        self.keeper.with(|logs, now| logs.add_shard(now, topic));
    }

    fn remove_shard(&self, topic: &str) {
        self.keeper.with(|logs, now| logs.remove_shard(now, topic));
    }

    fn tick(&self) {
        self.keeper.tick();
    }

    fn keeper(&self) -> Option<LogKeeper> {
        Some(self.keeper.clone())
    }

    fn write_metrics(&self, metrics: &HistoryMetrics, writer: &mut MetricWriter) {
        let totals = self.keeper.with(|logs, _| logs.totals());
        writer.memory("histories", totals.memory_bytes);
        metrics.write(&totals, writer);
    }
}
