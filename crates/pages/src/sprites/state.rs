//! The slots that a process knows, and the carriers of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use watchfire::ChannelAddress;
use watchfire::feature::ParkedRequest;
use watchfire_types::{Instant, PeerId};

use super::slot::{Carrier, LocalSlot, Poll, PollResponse};
use super::slots::Slots;
use super::throw_message::Edge;

/// A peer that polls counts as gone after this long without a waiting poll.
pub(super) const POLL_GAP_MAX: Duration = Duration::from_secs(30);

pub(super) struct State {
    pub slots: Slots,
    pub local: HashMap<PeerId, LocalSlot>,
    /// Grids with a reservation that may end at that time, in order of time.
    pub reservations: VecDeque<(Instant, Arc<str>)>,
    /// When to check whether a peer still polls, in order of time; one check for each peer.
    pub checks: VecDeque<(Instant, PeerId)>,
    /// Parked requests whose shard's queue was full when they should have been answered.
    pub late: Vec<ParkedRequest>,
}

/// The peer has no slot, or another client has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoSlot;

impl State {
    pub fn new(slots: Slots) -> Self {
        State {
            slots,
            local: HashMap::new(),
            reservations: VecDeque::new(),
            checks: VecDeque::new(),
            late: Vec::new(),
        }
    }

    /// Whether the peer has a slot of this process on the grid.
    pub fn is_local(&self, grid: &str, peer: PeerId) -> bool {
        self.local.get(&peer).is_some_and(|slot| &*slot.grid == grid)
    }

    /// Whether the peer has a slot on the grid that is not reserved.
    pub fn is_present(&self, grid: &str, peer: PeerId) -> bool {
        self.slots.has(grid, peer) && !self.slots.is_reserved(grid, peer)
    }

    pub fn is_carried_by(&self, peer: PeerId, channel: ChannelAddress) -> bool {
        let carrier = self.local.get(&peer).map(|slot| &slot.carrier);
        matches!(carrier, Some(Carrier::Channel(address)) if *address == channel)
    }

    /// The poll of a peer of this process that is present on this grid.
    pub fn poll_of(&mut self, grid: &str, peer: PeerId) -> Result<&mut Poll, NoSlot> {
        if self.slots.is_reserved(grid, peer) {
            return Err(NoSlot);
        }
        match self.local.get_mut(&peer) {
            Some(LocalSlot { carrier: Carrier::Poll(poll), grid: own, .. }) if &**own == grid => {
                Ok(poll)
            }
            _ => Err(NoSlot),
        }
    }

    pub fn reserve(&mut self, grid: &str, peer: PeerId, until: Instant) {
        if let Some(name) = self.slots.reserve(grid, peer, until) {
            // Reservations have different lengths, so the new one may not be the last to end.
            let at = self.reservations.partition_point(|(other, _)| *other <= until);
            self.reservations.insert(at, (until, name));
        }
    }

    /// Schedules a check that a peer still polls.
    pub fn schedule_check(&mut self, now: Instant, peer: PeerId) {
        if let Some(slot) = self.local.get_mut(&peer)
            && matches!(slot.carrier, Carrier::Poll(_))
            && !std::mem::replace(&mut slot.has_check, true)
        {
            self.checks.push_back((now + POLL_GAP_MAX, peer));
        }
    }

    /// The neighbours of a peer, each once, including those whose slots are reserved.
    pub fn around(&self, grid: &str, peer: PeerId) -> Vec<PeerId> {
        let towards = |edge: &Edge| self.slots.towards(grid, peer, *edge);
        let mut around: Vec<PeerId> = Edge::ALL.iter().filter_map(towards).collect();
        around.sort_unstable();
        around.dedup();
        around.retain(|other| *other != peer);
        around
    }

    /// The present neighbours of a peer, as clients receive them.
    pub fn neighbours(&self, grid: &str, peer: PeerId) -> Value {
        let name = |edge| {
            let to = self.slots.towards(grid, peer, edge)?;
            (to != peer && !self.slots.is_reserved(grid, to)).then(|| to.to_string())
        };
        json!({
            "left": name(Edge::Left),
            "right": name(Edge::Right),
            "up": name(Edge::Up),
            "down": name(Edge::Down),
        })
    }

    pub fn take_arrivals(&mut self, peer: PeerId) -> PollResponse {
        let Some(LocalSlot { carrier: Carrier::Poll(poll), grid, .. }) = self.local.get_mut(&peer)
        else {
            return PollResponse::NoSlot;
        };
        poll.neighbours_changed = false;
        let arrivals = std::mem::take(&mut poll.arrivals);
        let grid = grid.clone();
        PollResponse::Arrivals { arrivals, neighbours: self.neighbours(&grid, peer) }
    }
}
