//! Telling who came and who left: one diff for each topic that changed, in rounds.
//!
//! When thousands come or go at once, the diffs of all their topics are megabytes, and as much
//! again once they are encoded. So a few are told at a time; what waits stays on the board, where
//! it merges with what follows.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hub::Diff;
use vocab::{Instant, ShardId};

use super::Shard;
use super::mail::Mail;
use crate::app::Body;
use crate::broadcast::Broadcast;
use crate::presence::{PresenceBoard, SHELVES};

/// Bytes of diffs that may be on their way to their readers: one more is told below that.
const UNDER_WAY_BYTES_MAX: usize = 64 * 1024;

/// How far the telling is.
#[derive(Default)]
pub(super) struct Rounds {
    /// The shelf that is being told, and how many of its topics are due; past the last shelf, no
    /// round goes on.
    shelf: usize,
    due: usize,
    began: Instant,
    /// No round begins earlier.
    next: Instant,
    /// What was told and may still be on its way, with its bytes.
    under_way: VecDeque<(Weak<Broadcast>, usize)>,
    under_way_bytes: usize,
    /// What a full mailbox did not take.
    late: Vec<(ShardId, Arc<Broadcast>)>,
}

impl Rounds {
    pub fn new() -> Self {
        Rounds { shelf: SHELVES, ..Rounds::default() }
    }

    pub fn goes_on(&self) -> bool {
        self.shelf < SHELVES
    }

    fn begin(&mut self, now: Instant, board: &PresenceBoard) {
        (self.began, self.shelf, self.due) = (now, 0, board.changed(0));
    }

    /// A diff that is due in this round. Topics that change after their shelf's turn began are told
    /// in the next one.
    fn take(&mut self, now: Instant, board: &PresenceBoard) -> Option<Diff> {
        while self.goes_on() {
            if self.due > 0 {
                self.due -= 1;
                if let Some(diff) = board.take_diff(self.shelf) {
                    return Some(diff);
                }
            }
            if self.due == 0 {
                self.shelf += 1;
                match self.goes_on() {
                    true => self.due = board.changed(self.shelf),
                    false => self.next = now + self.rest(now),
                }
            }
        }
        None
    }

    /// As long as the round was: then telling takes at most half the time of a server that is busy
    /// with it, and says in one diff what would have been two.
    fn rest(&self, now: Instant) -> Duration {
        now.since(self.began)
    }

    /// Whether another diff may be told.
    fn has_room(&mut self) -> bool {
        while let Some((_, bytes)) =
            self.under_way.pop_front_if(|(diff, _)| diff.strong_count() == 0)
        {
            self.under_way_bytes -= bytes;
        }
        self.under_way_bytes < UNDER_WAY_BYTES_MAX
    }

    fn note(&mut self, diff: &Arc<Broadcast>, bytes: usize) {
        self.under_way.push_back((Arc::downgrade(diff), bytes));
        self.under_way_bytes += bytes;
    }
}

impl Shard {
    /// Begin a round, if it is time for one.
    pub(super) fn begin_round(&mut self, now: Instant) {
        if !self.rounds.goes_on() && now >= self.rounds.next {
            self.rounds.begin(now, &self.world.presence);
        }
    }

    /// Tell some of the diffs that are due. While a shard's mailbox is full, none is: one that got
    /// lost would leave clients wrong for good.
    pub(super) fn tell_presence(&mut self, now: Instant) {
        let endpoint = &self.world.endpoint;
        self.rounds
            .late
            .retain(|(shard, diff)| endpoint.mail(*shard, Mail::Broadcast(diff.clone())).is_err());
        while self.rounds.late.is_empty() && self.rounds.has_room() {
            let Some(diff) = self.rounds.take(now, &self.world.presence) else { return };
            self.tell_diff(diff);
        }
    }

    fn tell_diff(&mut self, Diff { topic, payload, own }: Diff) {
        PresenceBoard::publish(&self.world.cluster, &topic, &own);
        let Some(payload) = payload else { return };
        let bytes = payload.len();
        let diff =
            Arc::new(Broadcast::new(&topic, "presence_diff", Body::Json(payload.into()), None));
        self.rounds.note(&diff, bytes);
        for shard in self.world.endpoint.shards().filter(|shard| *shard != self.id) {
            if self.world.endpoint.mail(shard, Mail::Broadcast(diff.clone())).is_err() {
                self.rounds.late.push((shard, diff.clone()));
            }
        }
        self.world.metrics.broadcasts.inc();
        self.queue(diff);
    }
}
