//! What other processes say of planes, and are told.

use std::time::Duration;

use serde_json::json;
use vocab::{NodeId, PeerId};

use super::seat::Carrier;
use super::{Planes, State, topic_of};
use crate::cluster::{Seating, Word};
use crate::endpoint::Undelivered;
use crate::presence::lock;

/// How much longer a place of another process is kept than that process should keep it.
const VACANCY_GRACE: Duration = Duration::from_secs(5);
/// Places that one word to another process tells of.
const PLACES_PER_WORD: usize = 1_000;

impl Planes {
    /// Tell the other processes of a seat of ours.
    pub(super) fn say(&self, plane: &str, peer: PeerId, seating: Seating) {
        self.cluster.publish_state(&topic_of(plane), || Word::Seats {
            plane,
            changes: vec![(peer.0, seating)],
        });
    }

    /// Another process tells of seats.
    pub fn hear_of(&self, from: NodeId, plane: &str, changes: &[(u64, Seating)]) {
        let now = self.now();
        let mut state = lock(&self.state);
        let state = &mut *state;
        for &(peer, seating) in changes {
            let peer = PeerId(peer);
            match seating {
                Seating::Here => self.hear_here(state, from, plane, peer),
                Seating::Vacant => {
                    let is_known = state.places.has(plane, peer);
                    if is_known && state.places.owner(plane, peer) != from {
                        continue; // It has taken its place again elsewhere.
                    }
                    state.places.take(plane, peer, from);
                    let until = now + self.limits.vacancy_period + VACANCY_GRACE;
                    state.keep_vacant(plane, peer, until);
                    self.tell_around(state, plane, peer);
                }
                Seating::Gone if state.places.owner(plane, peer) == from => {
                    self.remove(state, plane, peer);
                }
                Seating::Gone => {}
            }
        }
    }

    fn hear_here(&self, state: &mut State, from: NodeId, plane: &str, peer: PeerId) {
        if state.has_seat(plane, peer) {
            // It came back at another process, with its token: what waits here follows it.
            let is_vacant = state.places.is_vacant(plane, peer);
            if let Some(Carrier::Channel(older)) = state.seats.get(&peer).map(|s| &s.carrier)
                && !is_vacant
            {
                self.push(*older, "moved", json!({}));
            }
            for arrival in self.unseat(state, plane, peer) {
                self.send_sprite(from, plane, peer, peer, &arrival, true).ok();
            }
        }
        let was_present = state.places.has(plane, peer) && !state.places.is_vacant(plane, peer);
        state.places.take(plane, peer, from);
        if !was_present {
            self.tell_around(state, plane, peer);
        }
    }

    /// Another process is gone: the places of its peers are kept for a while, as theirs who reload.
    pub fn node_down(&self, node: NodeId) {
        let until = self.now() + self.limits.vacancy_period;
        let mut state = lock(&self.state);
        let state = &mut *state;
        for (plane, peer) in state.places.owned_by(node) {
            state.keep_vacant(&plane, peer, until);
            self.tell_around(state, &plane, peer);
        }
    }

    /// Another process has peers on this plane, too: tell it of ours, and of places that are kept
    /// for peers whose process is gone.
    pub fn introduce_to(&self, node: NodeId, plane: &str) {
        let state = lock(&self.state);
        let told: Vec<(u64, Seating)> = state
            .places
            .peers(plane)
            .filter_map(|peer| {
                let is_vacant = state.places.is_vacant(plane, peer);
                let is_orphan =
                    || is_vacant && !self.cluster.is_up(state.places.owner(plane, peer));
                let seating = if is_vacant { Seating::Vacant } else { Seating::Here };
                (state.has_seat(plane, peer) || is_orphan()).then_some((peer.0, seating))
            })
            .collect();
        for changes in told.chunks(PLACES_PER_WORD) {
            let changes = changes.to_vec();
            self.cluster.tell_state(node, &Word::Seats { plane, changes });
        }
    }

    /// None of our peers is on this plane any more, so that nobody tells us of the others.
    pub fn forget(&self, plane: &str) {
        lock(&self.state).places.forget(plane);
    }

    pub(super) fn send_sprite(
        &self,
        node: NodeId,
        plane: &str,
        to: PeerId,
        from: PeerId,
        arrival: &str,
        is_back: bool,
    ) -> Result<(), Undelivered> {
        let word = Word::Sprite { plane, to: to.0, from: from.0, arrival, is_back };
        self.cluster.tell(node, word.to_bytes())
    }

    /// A sprite that was thrown at another process. When nobody takes it here, it comes back to its
    /// thrower, as from the other side of its own window. Whether somebody has it, or will.
    pub fn sprite(
        &self,
        plane: &str,
        to: PeerId,
        from: PeerId,
        arrival: &str,
        is_back: bool,
    ) -> bool {
        let Ok(value) = serde_json::from_str(arrival) else { return false };
        let mut state = lock(&self.state);
        let is_present = state.has_seat(plane, to) && !state.places.is_vacant(plane, to);
        if is_present && self.arrive(&mut state, to, value) {
            return true;
        }
        let owner = state.places.owner(plane, from);
        !is_back && self.send_sprite(owner, plane, from, from, arrival, true).is_ok()
    }
}
