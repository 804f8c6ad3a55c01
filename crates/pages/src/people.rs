//! The people here: the clients, except the programs that show no page to a person.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use watchfire::feature::{ClusterPart, PartLink};
use watchfire_types::NodeId;

/// The number of people at each process of the server.
pub(crate) struct People {
    link: PartLink,
    /// Terminals and gateways of this process. Each has a connection of its own for each page.
    programs: AtomicU64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    here: u64,
    elsewhere: HashMap<NodeId, u64>,
}

impl People {
    pub fn new(link: PartLink) -> Self {
        People { link, programs: AtomicU64::new(0), counts: Mutex::default() }
    }

    pub fn program_joined(&self) {
        self.programs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn program_left(&self) {
        self.programs.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of people at all processes, where this one has `clients`.
    pub fn count(&self, clients: u64) -> u64 {
        let elsewhere: u64 = self.counts.lock().elsewhere.values().sum();
        self.here(clients) + elsewhere
    }

    /// Tells the other processes when the number of this one has changed.
    pub fn report(&self, clients: u64) {
        let here = self.here(clients);
        let mut counts = self.counts.lock();
        if counts.here != here {
            counts.here = here;
            self.link.send_state_all(&here);
        }
    }

    fn here(&self, clients: u64) -> u64 {
        clients.saturating_sub(self.programs.load(Ordering::Relaxed))
    }
}

impl ClusterPart for People {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        self.counts.lock().elsewhere.insert(from, postcard::from_bytes(message)?);
        Ok(())
    }

    fn node_up(&self, node: NodeId) {
        // Under the lock, so that no later number arrives first.
        let counts = self.counts.lock();
        self.link.send_state(node, &counts.here);
    }

    fn node_down(&self, node: NodeId) {
        self.counts.lock().elsewhere.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchfire::feature::PartName;

    use super::*;
    use crate::fakes::FakeBus;

    #[test]
    fn terminals_and_gateways_of_all_processes_are_no_people() {
        let bus = Arc::new(FakeBus::default());
        let people = People::new(PartLink::new(&bus.cluster(), PartName::new("people", 1)));
        people.program_joined();
        assert_eq!(people.count(2), 1, "a tab and a terminal");
        for (node, here) in [(1, 4_u64), (2, 1), (1, 3)] {
            people.receive(NodeId(node), &postcard::to_stdvec(&here).unwrap()).unwrap();
        }
        assert_eq!(people.count(2), 1 + 3 + 1);
        people.report(2);
        people.node_up(NodeId(2));
        let (to, message) = bus.take_sent().remove(0);
        assert_eq!((to, message.last()), (NodeId(2), Some(&1)), "a new process is told");
        people.node_down(NodeId(1));
        people.program_left();
        assert_eq!(people.count(1), 1 + 1);
    }
}
