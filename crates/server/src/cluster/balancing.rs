//! Selects the processes that get new connections.
//!
//! # The faults without it
//!
//! Each process listens on the port with sockets of its own (SO_REUSEPORT), and the kernel gives a new
//! connection to one of all these sockets, by a hash. It knows neither how full a process is nor what
//! waking it costs:
//!
//! - Of 20 processes with room for 10,000 connections each, one was restarted and has none. The others
//!   have 9,900. The hash gives 19 of 20 new connections to the full ones. After 2,000 connections they
//!   are full, and the empty one has 100.
//! - 1,000 connections in a tenth of a second on two cores: all 20 processes wake, each for 50 of them,
//!   and take turns on the cores. Two processes would wake less often and find more to do each time.
//!
//! # The choice
//!
//! The first process of the machine that is up gives the kernel a program that selects among the
//! sockets of some processes (`ConnectionBalancer`): of those with the fewest connections, one for each
//! core. It looks again at each tick, ten times a second. The restarted process of the example is filled
//! first, together with one other.
//!
//! It needs the loads of the others, and fifty processes that report to each other at each tick would send
//! 24,500 messages a second. So they report to the first one only, when the load has changed:
//! immediately after 256 connections, else twice a second (`load.rs`). The first one sends all loads to all, twice a
//! second, for the hand-over of connections (`handoff.rs`).
//!
//! # Bounds
//!
//! - The loads are old by a tick and a report. At 20,000 new connections a second two processes get 1,000
//!   each in a tick. That is harmless while there is room, so above seven eighths of the limit all
//!   processes get connections, except those that are fuller than the mean by a sixteenth.
//! - A process that is full nevertheless hands connections over: see `handoff.rs`.
//! - If the first process ends, the kernel keeps its program until the next one sets its own. If the
//!   kernel refuses the program, its hash decides.

use watchfire_sockets::ConnectionBalancer;
use watchfire_types::NodeId;

use super::load::ProcessLoad;

/// A process counts as fuller than the others when it exceeds the mean by one part in this number.
const FULLER_SHARE: u64 = 16;

/// Unchanged targets are set again this often, in ticks: a process that did not respond for a while,
/// or a server that this one replaced, may have set others.
const SET_AGAIN_TICKS: u32 = 20;

/// Directs the new connections of the port to some of the processes. The first process that is up
/// has this role.
pub struct Balancer {
    pub kernel: ConnectionBalancer,
    pub processes: u16,
    /// The node of the machine's first process.
    pub first: NodeId,
    /// Event loops of each process.
    pub shards: u16,
    /// Sockets of each address; at least one for each event loop.
    pub sockets: u32,
    pub cores: usize,
    /// The targets that were set last; empty when another process may have set others since.
    pub chosen: Vec<NodeId>,
    /// Calls since the targets were set.
    pub ticks: u32,
}

impl Balancer {
    /// Directs new connections to the processes with the fewest. Called at every tick, because tens
    /// of thousands of connections a second may arrive.
    pub fn balance(&mut self, loads: &[(NodeId, ProcessLoad)], connections_max: u64) {
        let connections = loads.iter().map(|(node, load)| (load.connections, *node)).collect();
        let chosen = choose(connections, self.cores, connections_max);
        self.ticks += 1;
        if chosen == self.chosen && self.ticks < SET_AGAIN_TICKS {
            return;
        }
        self.ticks = 0;
        let listeners = chosen.iter().flat_map(|node| self.listeners_of(*node)).collect::<Vec<_>>();
        if let Err(error) = self.kernel.set_targets(&listeners) {
            tracing::warn!(%error, "connection balancing unavailable; falling back to SO_REUSEPORT");
        }
        self.chosen = chosen;
    }

    /// Leaves the balancing to another process.
    pub fn release(&mut self) {
        self.chosen.clear();
    }

    /// The listeners of a process among those of the port, which were assigned in turn: first to
    /// all event loops, and of these to the processes.
    fn listeners_of(&self, node: NodeId) -> impl Iterator<Item = u32> + use<> {
        let processes = u32::from(self.processes);
        let all_shards = processes * u32::from(self.shards);
        let slot = u32::from(node.0 - self.first.0);
        let of_node = move |socket: &u32| socket % all_shards % processes == slot;
        (0..self.sockets).filter(of_node)
    }
}

/// The processes that should get new connections, sorted: as few as keep all cores busy, so that
/// each handles many connections whenever it wakes.
fn choose(mut loads: Vec<(u64, NodeId)>, cores: usize, connections_max: u64) -> Vec<NodeId> {
    loads.sort_unstable();
    // With little room left, the connections of one second could be too many for a few processes.
    if loads.first().is_some_and(|(least, _)| *least > connections_max / 8 * 7) {
        let mean =
            loads.iter().map(|(connections, _)| connections).sum::<u64>() / loads.len() as u64;
        let fuller = mean + mean / FULLER_SHARE;
        loads.retain(|(connections, _)| *connections <= fuller);
    } else {
        loads.truncate(cores);
    }
    let mut chosen: Vec<_> = loads.into_iter().map(|(_, node)| node).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use watchfire_sockets::Listeners;

    use super::*;

    fn chosen(clients: &[u64], cores: usize) -> Vec<u16> {
        let loads = clients.iter().zip(0..).map(|(clients, node)| (*clients, NodeId(node)));
        choose(loads.collect(), cores, 10_000).into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn the_emptiest_processes_get_new_connections_one_for_each_core() {
        assert_eq!(chosen(&[9, 1, 8, 2, 7, 3, 6, 4], 2), [1, 3]);
        assert_eq!(chosen(&[0; 20], 3), [0, 1, 2]);
        assert_eq!(chosen(&[5, 0, 60], 8), [0, 1, 2]);
        assert_eq!(chosen(&[5_000, 5_000, 0, 5_000], 2), [0, 2]);
    }

    #[test]
    fn the_listeners_of_all_processes_are_all_listeners() {
        let listeners = Listeners::open(
            &["127.0.0.1:0".parse().unwrap()],
            1,
            true,
            &watchfire_sockets::SocketLimits::default(),
        );
        let kernel = listeners.unwrap().connection_balancer().unwrap();
        let mut balancer = Balancer {
            kernel,
            processes: 3,
            first: NodeId(0),
            shards: 2,
            sockets: 6,
            cores: 2,
            chosen: Vec::new(),
            ticks: 0,
        };
        let of =
            |balancer: &Balancer, node| balancer.listeners_of(NodeId(node)).collect::<Vec<_>>();
        assert_eq!(of(&balancer, 0), [0, 3]);
        assert_eq!(of(&balancer, 2), [2, 5]);
        // Ten sockets of a server with more event loops: the first four have two of them.
        balancer.sockets = 10;
        assert_eq!(of(&balancer, 0), [0, 3, 6, 9]);
        assert_eq!(of(&balancer, 1), [1, 4, 7]);
        assert_eq!(of(&balancer, 2), [2, 5, 8]);
    }

    #[test]
    fn near_the_limit_all_but_the_fuller_processes_get_new_connections() {
        let mut clients = vec![9_000; 20];
        clients[3] = 9_900;
        let all_but_3: Vec<u16> = (0..20).filter(|node| *node != 3).collect();
        assert_eq!(chosen(&clients, 2), all_but_3);
    }
}
