//! How full each process is: all tell the first that is up, and the first tells all. With
//! fifty processes, each telling each would be thousands of messages a second.

use vocab::NodeId;

use super::{Cluster, Fill, Word};
use crate::presence::lock;

/// A change by so much is told to the first at once: it steers newcomers by it.
const MUCH: u64 = 256;
/// So is a change by one in so many of the places of a process.
const MUCH_OF_PLACES: u64 = 16;
/// How often any other change is told, in ticks.
const CHANGED_TICKS: u32 = 5;
/// And what did not change, for what was told may have got lost.
const REPEATED_TICKS: u32 = 100;

/// What this process told last.
#[derive(Default)]
pub(super) struct Census {
    told: Vec<(NodeId, Fill)>,
    ticks: u32,
}

impl Cluster {
    /// Tell what is due of how full this process is, and steer newcomers; called at each tick.
    pub fn count(&self, fill: Fill) {
        if self.is_alone() {
            return;
        }
        *lock(&self.fill) = fill;
        let mut known: Vec<_> = self.others().collect();
        let first = known.first().map(|(node, _)| *node).filter(|first| *first < self.me);
        known.insert(0, (self.me, fill));
        match first {
            Some(first) => {
                self.let_go();
                known.truncate(1);
                if self.is_due(&known) {
                    self.tell(first, census_word(&known).to_bytes()).ok();
                }
            }
            None => {
                if self.is_due(&known) {
                    self.tell_all(|| census_word(&known));
                }
                self.steer(known);
            }
        }
    }

    fn is_due(&self, known: &[(NodeId, Fill)]) -> bool {
        let much = MUCH.min(self.connections_max / MUCH_OF_PLACES);
        let mut census = lock(&self.census);
        census.ticks += 1;
        let is_due = match (known, &census.told[..]) {
            _ if census.ticks >= REPEATED_TICKS => true,
            ([(_, now)], [(_, told)]) if now.connections.abs_diff(told.connections) > much => true,
            (known, told) => census.ticks >= CHANGED_TICKS && known != told,
        };
        if is_due {
            *census = Census { told: known.to_vec(), ticks: 0 };
        }
        is_due
    }

    /// What another process said of itself, or the first one of all.
    pub(super) fn hear_census(&self, said: &[(u16, Fill)]) {
        for (node, fill) in said {
            self.note_fill(NodeId(*node), *fill);
        }
    }
}

pub(super) fn census_word(known: &[(NodeId, Fill)]) -> Word<'static> {
    Word::Census(known.iter().map(|(node, fill)| (node.0, *fill)).collect())
}
