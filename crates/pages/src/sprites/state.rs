//! The slots that a process knows, and the carriers of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use watchfire::ChannelAddress;
use watchfire::internal::ParkedRequest;
use watchfire_types::{Instant, PeerId};

use super::neighbours::Neighbours;
use super::slot::{Carrier, LocalSlot, Poll, PollResponse};
use super::slots::Slots;
use super::throws::Throwers;

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
    pub throwers: Throwers,
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
            throwers: Throwers::default(),
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

    /// Notes a request of a peer of this process, in case it polls.
    pub fn note_request(&mut self, now: Instant, peer: PeerId) {
        if let Some(LocalSlot { carrier: Carrier::Poll(poll), .. }) = self.local.get_mut(&peer) {
            poll.last_request_at = now;
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
        let pairs = self.slots.around(grid, peer).into_iter().flatten();
        let mut around: Vec<PeerId> = pairs.flat_map(|(before, after)| [before, after]).collect();
        around.sort_unstable();
        around.dedup();
        around.retain(|other| *other != peer);
        around
    }

    /// The present neighbours of a peer, as clients receive them.
    pub fn neighbours(&self, grid: &str, peer: PeerId) -> Neighbours {
        let present = |to: &PeerId| *to != peer && !self.slots.is_reserved(grid, *to);
        let [(left, right), (up, down)] = self.slots.around(grid, peer).map(Option::unzip);
        let [left, right, up, down] = [left, right, up, down].map(|to| to.filter(present));
        Neighbours { left, right, up, down }
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
