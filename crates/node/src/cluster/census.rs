//! How many clients each process has: all tell the first that is up, and the first tells all. With
//! fifty processes, each telling each would be thousands of messages a second.

use vocab::NodeId;

use super::{Cluster, Word};
use crate::presence::lock;

/// A change by so much is told to the first at once: it steers newcomers by it.
const MUCH: u64 = 256;
/// How often any other change is told, in ticks.
const CHANGED_TICKS: u32 = 5;
/// And what did not change, for what was told may have got lost.
const REPEATED_TICKS: u32 = 100;

/// What this process told last.
#[derive(Default)]
pub(super) struct Census {
    told: Vec<(NodeId, u64)>,
    ticks: u32,
}

impl Cluster {
    /// Tell of this process's clients what is due, and steer newcomers; called at each tick.
    pub fn count(&self, clients: u64) {
        if self.is_alone() {
            return;
        }
        let mut known: Vec<_> = self.others().collect();
        let first = known.first().map(|(node, _)| *node).filter(|first| *first < self.me);
        known.insert(0, (self.me, clients));
        match first {
            Some(first) => {
                self.let_go();
                known.truncate(1);
                if self.is_due(&known) {
                    self.tell(first, clients_word(&known).to_bytes()).ok();
                }
            }
            None => {
                if self.is_due(&known) {
                    self.tell_all(|| clients_word(&known));
                }
                self.steer(known);
            }
        }
    }

    fn is_due(&self, known: &[(NodeId, u64)]) -> bool {
        let mut census = lock(&self.census);
        census.ticks += 1;
        let is_due = match (known, &census.told[..]) {
            _ if census.ticks >= REPEATED_TICKS => true,
            ([(_, now)], [(_, told)]) if now.abs_diff(*told) >= MUCH => true,
            (known, told) => census.ticks >= CHANGED_TICKS && known != told,
        };
        if is_due {
            *census = Census { told: known.to_vec(), ticks: 0 };
        }
        is_due
    }

    /// What another process said of itself, or the first one of all.
    pub(super) fn hear_clients(&self, said: &[(u16, u64)]) {
        for (node, clients) in said {
            self.note_clients(NodeId(*node), *clients);
        }
    }
}

pub(super) fn clients_word(known: &[(NodeId, u64)]) -> Word<'static> {
    Word::Clients(known.iter().map(|(node, clients)| (node.0, *clients)).collect())
}
