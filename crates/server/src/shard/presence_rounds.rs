//! Broadcasts the changes of presence: one diff for each changed topic, in rounds.
//!
//! When thousands of clients join or leave in the same moment, the diffs of all their topics take megabytes,
//! and as much again when they are encoded. So only a few diffs are on their way at a time. The
//! changes of other topics wait, and merge with later changes.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use watchfire_hub::Diff;
use watchfire_types::{Instant, ShardId};

use super::process_state::ProcessState;
use crate::channel_api::{Body, Broadcast, ShardMessage};
use crate::presence::{ReplicatedPresence, STRIPES};

/// The next diff is sent while fewer bytes of diffs than this are on their way.
const IN_FLIGHT_BYTES_MAX: usize = 64 * 1024;

/// The progress of a round over all topics with changes. The first shard of a process has it.
#[derive(Default)]
pub(super) struct PresenceRounds {
    /// The current stripe, and how many of its topics are due. Past the last stripe, no round runs.
    stripe: usize,
    due: usize,
    started_at: Instant,
    /// The earliest start of the next round.
    next_round_at: Instant,
    /// Diffs that may still be on their way, with their bytes.
    in_flight: VecDeque<(Weak<Broadcast>, usize)>,
    in_flight_bytes: usize,
    /// Diffs that the full queue of a shard did not take.
    late: Vec<(ShardId, Arc<Broadcast>)>,
}

impl PresenceRounds {
    pub fn new() -> Self {
        PresenceRounds { stripe: STRIPES, ..PresenceRounds::default() }
    }

    /// Whether a round runs.
    pub fn is_running(&self) -> bool {
        self.stripe < STRIPES
    }

    /// Starts a round, when it is time for one.
    pub fn start_round(&mut self, now: Instant, presence: &ReplicatedPresence) {
        if self.is_running() || now < self.next_round_at {
            return;
        }
        (self.started_at, self.stripe, self.due) = (now, 0, presence.changed(0));
    }

    /// Sends the next diff that is due to the other processes and to the shards other than `me`, and returns
    /// it for this one. While the queue of a shard is full, it sends none, because clients that miss a
    /// diff would stay wrong.
    pub fn send_next(
        &mut self,
        now: Instant,
        shared: &ProcessState,
        me: ShardId,
    ) -> Option<Arc<Broadcast>> {
        let ProcessState { endpoint, presence, .. } = shared;
        self.late.retain(|(shard, diff)| {
            endpoint.send_to(*shard, ShardMessage::Broadcast(diff.clone())).is_err()
        });
        while self.late.is_empty() && self.has_room() {
            let Diff { topic, payload, own } = self.take(now, presence)?;
            presence.publish(&topic, &own);
            let Some(payload) = payload else { continue };
            let body = Body::Json(payload.into());
            let diff = Arc::new(Broadcast::new(&topic, "presence_diff", body, None));
            self.in_flight.push_back((Arc::downgrade(&diff), diff.body.len()));
            self.in_flight_bytes += diff.body.len();
            for shard in endpoint.shards().filter(|shard| *shard != me) {
                if endpoint.send_to(shard, ShardMessage::Broadcast(diff.clone())).is_err() {
                    self.late.push((shard, diff.clone()));
                }
            }
            return Some(diff);
        }
        None
    }

    /// Takes a diff that is due in this round. A topic that changes after the turn of its stripe
    /// began waits for the next round.
    fn take(&mut self, now: Instant, presence: &ReplicatedPresence) -> Option<Diff> {
        while self.is_running() {
            if self.due > 0 {
                self.due -= 1;
                if let Some(diff) = presence.take_diff(self.stripe) {
                    return Some(diff);
                }
            }
            if self.due == 0 {
                self.stripe += 1;
                match self.is_running() {
                    true => self.due = presence.changed(self.stripe),
                    false => self.next_round_at = now + self.pause(now),
                }
            }
        }
        None
    }

    /// The pause after a round: as long as the round. A busy server then spends at most half its
    /// time on presence, and merges more changes into each diff.
    fn pause(&self, now: Instant) -> Duration {
        now.since(self.started_at)
    }

    /// Whether another diff may be sent.
    fn has_room(&mut self) -> bool {
        while let Some((_, bytes)) =
            self.in_flight.pop_front_if(|(diff, _)| diff.strong_count() == 0)
        {
            self.in_flight_bytes -= bytes;
        }
        self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
    }
}
