//! Slots and sprites of the other processes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use watchfire::feature::{ClusterPart, PartLink, PendingResponse};
use watchfire::internal::Metrics;
use watchfire_types::{NodeId, PeerId};

use super::grids::ReplicatedGrids;
use super::messages::{Message, Request, SlotState};
use super::name::{TOPIC_PREFIX, topic_of};
use super::polling::{Polling, stale_token};
use super::slot::Carrier;
use super::slot_token::SlotToken;
use super::state::State;

/// How much longer this process reserves a slot of another process than that process does.
const RESERVATION_GRACE: Duration = Duration::from_secs(5);
/// Slots in one message to another process.
const SLOTS_PER_MESSAGE: usize = 1_000;

/// Receives from the other processes for [`ReplicatedGrids`].
pub(super) struct GridReplication {
    pub grids: Arc<ReplicatedGrids>,
    /// Answers requests about peers that poll.
    pub polling: Arc<Polling>,
    pub metrics: Arc<Metrics>,
}

impl ClusterPart for GridReplication {
    fn link(&self) -> &PartLink {
        &self.grids.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(message)? {
            Message::Slots { grid, changes } => {
                // The subscription may have ended while the message was on its way.
                if self.grids.link.cluster().is_subscribed(&topic_of(grid)) {
                    self.grids.slots_changed(from, grid, &changes);
                }
            }
            Message::Ended { grid } => self.grids.remove_slots_of(from, grid),
            Message::Sprite { grid, to, from, arrival, is_returned } => {
                let (to, from) = (PeerId(to), PeerId(from));
                if !self.grids.receive_sprite(grid, to, from, arrival, is_returned) {
                    self.metrics.refused("sprite_lost");
                }
            }
            Message::Threw { peers } => self.grids.note_throwers(&peers),
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        if let Some(grid) = topic.strip_prefix(TOPIC_PREFIX) {
            self.grids.send_slots(node, grid);
        }
    }

    fn unsubscribed(&self, node: NodeId, topic: &str) {
        if let Some(grid) = topic.strip_prefix(TOPIC_PREFIX) {
            self.grids.link.send_state(node, &Message::Ended { grid });
        }
    }

    fn forget(&self, topic: &str) {
        if let Some(grid) = topic.strip_prefix(TOPIC_PREFIX) {
            self.grids.state.lock().slots.forget(grid);
        }
    }

    fn node_down(&self, node: NodeId) {
        self.grids.reserve_slots_of(node);
    }

    fn take_request(&self, request: &[u8], response: PendingResponse) {
        let (status, body) = match postcard::from_bytes(request) {
            Ok(Request::Throw { grid, peer, throw }) => {
                let slot = SlotToken { peer: PeerId(peer), node: self.grids.node() };
                self.polling.throw(grid, slot, throw).unwrap_or_else(stale_token)
            }
            Ok(Request::Leave { grid, peer }) => self.polling.leave(grid, PeerId(peer)),
            Err(error) => return tracing::error!(%error, "cannot decode a request about a sprite"),
        };
        response.send(&(status.as_u16(), body.to_string()));
    }
}

impl ReplicatedGrids {
    pub(super) fn slots_changed(&self, from: NodeId, grid: &str, changes: &[(u64, SlotState)]) {
        let now = self.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        for &(peer, change) in changes {
            let peer = PeerId(peer);
            match change {
                SlotState::Taken => self.slot_taken(state, from, grid, peer),
                SlotState::Reserved => {
                    let is_known = state.slots.has(grid, peer);
                    if is_known && state.slots.owner(grid, peer) != from {
                        continue; // The peer took its slot again at another process.
                    }
                    state.slots.take(grid, peer, from);
                    let until = now + self.limits.reservation_period + RESERVATION_GRACE;
                    state.reserve(grid, peer, until);
                    self.notify_around(state, grid, peer);
                }
                SlotState::Closed if state.slots.owner(grid, peer) == from => {
                    self.remove(state, grid, peer);
                }
                SlotState::Closed => {}
            }
        }
    }

    fn slot_taken(&self, state: &mut State, from: NodeId, grid: &str, peer: PeerId) {
        if state.is_local(grid, peer) {
            // The peer rejoined at another process with its token. Its arrivals are sent there.
            let is_reserved = state.slots.is_reserved(grid, peer);
            if let Some(Carrier::Channel(older)) = state.local.get(&peer).map(|s| &s.carrier)
                && !is_reserved
            {
                self.push(*older, "moved", json!({}));
            }
            for arrival in self.remove_local(state, grid, peer) {
                self.return_sprite(from, grid, peer, &arrival);
            }
        }
        let was_present = state.is_present(grid, peer);
        state.slots.take(grid, peer, from);
        // A peer that only moved to another process has the same neighbours as before.
        if !was_present {
            self.notify_around(state, grid, peer);
        }
    }

    /// Reserves the slots of a process that is gone, because its peers may reload.
    fn reserve_slots_of(&self, node: NodeId) {
        let until = self.now() + self.limits.reservation_period;
        let mut state = self.state.lock();
        let state = &mut *state;
        for (grid, peer) in state.slots.owned_by(node) {
            state.reserve(&grid, peer, until);
            self.notify_around(state, &grid, peer);
        }
    }

    /// Removes the slots of another process on one grid. It sends those that it has now later.
    fn remove_slots_of(&self, node: NodeId, grid: &str) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for peer in state.slots.peers(grid).collect::<Vec<_>>() {
            if state.slots.owner(grid, peer) == node {
                self.remove(state, grid, peer);
            }
        }
    }

    /// Sends another process the slots of this one, and the reserved slots whose process is gone.
    fn send_slots(&self, node: NodeId, grid: &str) {
        let cluster = self.link.cluster();
        let state = self.state.lock();
        let slots: Vec<(u64, SlotState)> = state
            .slots
            .peers(grid)
            .filter_map(|peer| {
                let is_reserved = state.slots.is_reserved(grid, peer);
                let is_orphan = || is_reserved && !cluster.is_up(state.slots.owner(grid, peer));
                let slot = if is_reserved { SlotState::Reserved } else { SlotState::Taken };
                (state.is_local(grid, peer) || is_orphan()).then_some((peer.0, slot))
            })
            .collect();
        for changes in slots.chunks(SLOTS_PER_MESSAGE) {
            self.link.send_state(node, &Message::Slots { grid, changes: changes.to_vec() });
        }
    }
}
