//! The counts of the server.

use crate::server::RunningServer;

#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub clients: u64,
    pub channels: u64,
    pub topics: u64,
    pub presences: u64,
    pub queued_bytes: u64,
    /// Polls that wait.
    pub parked: u64,
}

impl Counts {
    pub fn of(server: &RunningServer) -> Counts {
        let shared = &server.shared;
        let sockets = server.sockets.counters().totals();
        Counts {
            clients: server.clients(),
            channels: shared.metrics.joined(),
            topics: shared.metrics.topics(),
            presences: shared.presence.len() as u64,
            queued_bytes: sockets.queued_bytes_now,
            parked: sockets.parked_now,
        }
    }

    pub fn are_zero(&self) -> bool {
        let Counts { clients, channels, topics, presences, queued_bytes, parked } = self;
        [clients, channels, topics, presences, queued_bytes, parked]
            .iter()
            .all(|count| **count == 0)
    }
}
