//! Which of the processes get the newcomers.

use edge::Steering;
use vocab::NodeId;

use super::{Cluster, Fill};
use crate::presence::lock;

/// A process is clearly fuller than the others with so much more than their mean, as one in so much.
const FULLER_BY: u64 = 16;

/// What one process needs to steer newcomers to all of them.
pub(crate) struct Helm {
    pub steering: Steering,
    pub processes: u16,
    /// Shards of each process.
    pub shards: u16,
    pub cores: usize,
    /// What the port's newcomers were told last.
    pub steered_to: Vec<NodeId>,
}

impl Cluster {
    /// Send newcomers to the emptiest processes; for the first of those that are up. Called often,
    /// for newcomers may come by the ten thousand a second.
    pub(super) fn steer(&self, known: Vec<(NodeId, Fill)>) {
        let mut helm = lock(&self.helm);
        let Some(helm) = helm.as_mut() else { return };
        let filled = known.into_iter().map(|(node, fill)| (fill.connections, node)).collect();
        let chosen = emptiest(filled, helm.cores, self.connections_max);
        if chosen == helm.steered_to {
            return;
        }
        let places = chosen.iter().flat_map(|node| helm.places(*node)).collect::<Vec<_>>();
        if let Err(error) = helm.steering.steer(&places) {
            tracing::warn!(%error, "newcomers cannot be steered: the kernel spreads them");
        }
        helm.steered_to = chosen;
    }

    /// Another one steers: where to is not known here any more.
    pub(super) fn let_go(&self) {
        if let Some(helm) = lock(&self.helm).as_mut() {
            helm.steered_to.clear();
        }
    }
}

impl Helm {
    /// The places of a process among the sockets of the port: these were dealt out in turn.
    fn places(&self, node: NodeId) -> impl Iterator<Item = u32> {
        let (first, processes) = (u32::from(node.0), u32::from(self.processes));
        (0..u32::from(self.shards)).map(move |shard| first + shard * processes)
    }
}

/// Those that newcomers should go to, by their numbers: as few as keep all cores busy, so that each
/// finds much to do when it wakes.
fn emptiest(mut filled: Vec<(u64, NodeId)>, cores: usize, connections_max: u64) -> Vec<NodeId> {
    filled.sort_unstable();
    // With little room left, a second's newcomers would be too many for a few.
    if filled.first().is_some_and(|(least, _)| *least > connections_max / 8 * 7) {
        let mean =
            filled.iter().map(|(connections, _)| connections).sum::<u64>() / filled.len() as u64;
        let fuller = mean + mean / FULLER_BY;
        filled.retain(|(connections, _)| *connections <= fuller);
    } else {
        filled.truncate(cores);
    }
    let mut chosen: Vec<_> = filled.into_iter().map(|(_, node)| node).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(clients: &[u64], cores: usize) -> Vec<u16> {
        let filled = clients.iter().zip(0..).map(|(clients, node)| (*clients, NodeId(node)));
        emptiest(filled.collect(), cores, 10_000).into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn a_process_for_each_core_gets_newcomers_the_emptiest_first() {
        assert_eq!(chosen(&[9, 1, 8, 2, 7, 3, 6, 4], 2), [1, 3]);
        assert_eq!(chosen(&[0; 20], 3), [0, 1, 2]);
        assert_eq!(chosen(&[5, 0, 60], 8), [0, 1, 2]);
        assert_eq!(chosen(&[5_000, 5_000, 0, 5_000], 2), [0, 2]);
    }

    #[test]
    fn all_that_are_not_fuller_share_the_last_places() {
        let mut clients = vec![9_000; 20];
        clients[3] = 9_900;
        let all_but_3: Vec<u16> = (0..20).filter(|node| *node != 3).collect();
        assert_eq!(chosen(&clients, 2), all_but_3);
    }
}
