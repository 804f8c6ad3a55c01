//! Broadcasts of presence changes.

use std::sync::Arc;

use watchfire_hub::Diff;
use watchfire_types::Instant;

use super::state::Shard;
use crate::channel_api::{Body, Broadcast, ShardMessage};

impl Shard {
    /// Starts a round of broadcasts, when it is time for one.
    pub(super) fn begin_presence_round(&mut self, now: Instant) {
        self.presence_rounds.start_round(now, &self.shared.presence);
    }

    /// Broadcasts some of the diffs that are due. While the queue of a shard is full, it broadcasts
    /// none, because clients that miss a diff would stay wrong.
    pub(super) fn broadcast_presence(&mut self, now: Instant) {
        let endpoint = &self.shared.endpoint;
        self.presence_rounds.late.retain(|(shard, diff)| {
            endpoint.send_to(*shard, ShardMessage::Broadcast(diff.clone())).is_err()
        });
        while self.presence_rounds.late.is_empty() && self.presence_rounds.has_room() {
            let Some(diff) = self.presence_rounds.take(now, &self.shared.presence) else { return };
            self.broadcast_diff(diff);
        }
    }

    fn broadcast_diff(&mut self, Diff { topic, payload, own }: Diff) {
        self.shared.presence.publish(&topic, &own);
        let Some(payload) = payload else { return };
        let bytes = payload.len();
        let diff =
            Arc::new(Broadcast::new(&topic, "presence_diff", Body::Json(payload.into()), None));
        self.presence_rounds.note(&diff, bytes);
        for shard in self.shared.endpoint.shards().filter(|shard| *shard != self.id) {
            if self.shared.endpoint.send_to(shard, ShardMessage::Broadcast(diff.clone())).is_err() {
                self.presence_rounds.late.push((shard, diff.clone()));
            }
        }
        self.metrics.broadcasts.add(1);
        self.queue(diff);
    }
}
