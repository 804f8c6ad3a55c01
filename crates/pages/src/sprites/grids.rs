//! The grids on which sprites are thrown: the slots of peers, and the destinations of throws.
//!
//! A grid is two random rings: left and right on the first, up and down on the second. A peer has a
//! *slot* on it. The *carrier* of its arrivals is a channel, or polls over plain HTTP. When the
//! carrier is gone, the slot stays reserved for a while, and a token gives it back.
//!
//! Each process has the carriers of its own peers and knows the slots of all. The rings are
//! computed from the peers on them, so all processes agree about neighbours.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchfire::feature::PartLink;
use watchfire::internal::{Addresses, ClientSender, Cluster, ParkedRequest, Seed};
use watchfire::{Body, ChannelAddress, Settings};
use watchfire_types::{Instant, NodeId, PeerId};

use super::messages::{Message, SlotState};
use super::name::topic_of;
use super::neighbours::Neighbours;
use super::slot::{Carrier, JoiningCarrier, LocalSlot, Parked, Poll, PollResponse};
use super::slots::{self, Slots};
use super::state::{NoSlot, POLL_GAP_MAX, State};
use crate::settings::{PageLimits, SpriteSettings};

/// Limits of grids, and how long slots are reserved.
#[derive(Clone, Debug)]
pub(crate) struct GridLimits {
    grids_max: usize,
    /// Slots of all grids together, including reserved ones.
    peers_max: usize,
    /// Arrivals that wait for one peer's next poll. When as many wait, a throw returns to its
    /// thrower.
    pub(super) arrivals_queued_max: usize,
    pub(super) reservation_period: Duration,
}

impl From<&Settings> for GridLimits {
    fn from(settings: &Settings) -> Self {
        let limits: PageLimits = settings.section();
        let SpriteSettings { reservation_period, .. } = settings.section();
        GridLimits {
            grids_max: limits.grids_max as usize,
            peers_max: limits.grid_peers_max as usize,
            arrivals_queued_max: limits.arrivals_queued_max as usize,
            reservation_period,
        }
    }
}

/// All grids of the server, replicated between processes.
pub(crate) struct ReplicatedGrids {
    sender: Arc<dyn ClientSender>,
    pub(super) link: PartLink,
    addresses: Arc<Addresses>,
    pub(super) limits: GridLimits,
    pub(super) state: Mutex<State>,
    /// The time of the last tick in nanoseconds, for callers outside of a shard.
    ticked_at: AtomicU64,
}

pub(super) struct JoinedGrid {
    pub peer: PeerId,
    pub neighbours: Neighbours,
}

/// Why a peer gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinError {
    TooManyGrids { max: usize },
    TooManyPeers { max: usize },
}

impl JoinError {
    pub fn to_json(self) -> Value {
        match self {
            JoinError::TooManyGrids { max } => json!({ "reason": "too many grids", "max": max }),
            JoinError::TooManyPeers { max } => json!({ "reason": "grids full", "max": max }),
        }
    }
}

/// A subscription to a grid's topic, which ends when this is dropped.
pub(super) struct GridSubscription<'a> {
    cluster: &'a Cluster,
    topic: String,
}

impl Drop for GridSubscription<'_> {
    fn drop(&mut self) {
        self.cluster.unsubscribe(&self.topic);
    }
}

impl ReplicatedGrids {
    pub fn new(
        limits: GridLimits,
        seed: Seed,
        sender: Arc<dyn ClientSender>,
        link: PartLink,
        addresses: Arc<Addresses>,
    ) -> Self {
        let state = Mutex::new(State::new(Slots::new(seed)));
        ReplicatedGrids { sender, link, addresses, limits, state, ticked_at: AtomicU64::new(0) }
    }

    /// The time of the last tick, at most a tenth of a second ago.
    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.ticked_at.load(Ordering::Relaxed))
    }

    pub(super) fn node(&self) -> NodeId {
        self.link.cluster().me()
    }

    pub(super) fn new_peer(&self) -> Result<PeerId, getrandom::Error> {
        Ok(slots::peer_of(self.node(), getrandom::u64()?))
    }

    /// Subscribes to a grid and waits for its slots at the other processes. The join of a channel
    /// has already done so.
    pub(super) async fn subscribe(&self, grid: &str) -> GridSubscription<'_> {
        self.subscribe_to(topic_of(grid)).await
    }

    /// Waits until all earlier messages of the other processes have been handled. `fresh` is an id
    /// that no peer has.
    pub(super) async fn catch_up(&self, fresh: PeerId) {
        // A process confirms the subscription after all its earlier messages.
        self.subscribe_to(format!("catching-up:{fresh}")).await;
    }

    async fn subscribe_to(&self, topic: String) -> GridSubscription<'_> {
        let cluster = self.link.cluster();
        let awaited = cluster.subscribe(&topic);
        let subscription = GridSubscription { cluster, topic };
        cluster.ready(awaited).await;
        subscription
    }

    /// Whether this process knows a slot of the peer, taken or reserved.
    pub(super) fn knows(&self, grid: &str, peer: PeerId) -> bool {
        self.state.lock().slots.has(grid, peer)
    }

    /// Gives a client the slot that `before` has on this grid, or else a new slot as the peer
    /// `fresh`. This process must be subscribed to the grid.
    pub(super) fn join(
        &self,
        now: Instant,
        grid: &str,
        before: Option<PeerId>,
        fresh: PeerId,
        carrier: JoiningCarrier,
    ) -> Result<JoinedGrid, JoinError> {
        let mut state = self.state.lock();
        let peer = match before {
            Some(peer) if state.is_local(grid, peer) => {
                self.replace_carrier(&mut state, now, grid, peer, carrier);
                peer
            }
            // The slot is, or was, at another process. Its position on the rings stays the same.
            Some(peer) if state.slots.has(grid, peer) && !state.local.contains_key(&peer) => {
                self.take_slot(&mut state, now, grid, peer, carrier)?;
                peer
            }
            _ => {
                self.take_slot(&mut state, now, grid, fresh, carrier)?;
                fresh
            }
        };
        state.schedule_check(now, peer);
        Ok(JoinedGrid { peer, neighbours: state.neighbours(grid, peer) })
    }

    fn replace_carrier(
        &self,
        state: &mut State,
        now: Instant,
        grid: &str,
        peer: PeerId,
        carrier: JoiningCarrier,
    ) {
        let was_reserved = state.slots.is_reserved(grid, peer);
        let slot = state.local.get_mut(&peer).expect("the slot was found");
        let mut carrier = Carrier::of(carrier, now);
        std::mem::swap(&mut slot.carrier, &mut carrier);
        match carrier {
            // Two tabs have the same token. The older one must take another slot.
            Carrier::Channel(older) if !was_reserved => {
                self.push(older, "moved", json!({}));
            }
            Carrier::Channel(_) => {}
            Carrier::Poll(mut older) => {
                self.release_address(&mut older);
                if let Carrier::Poll(poll) = &mut slot.carrier {
                    poll.arrivals = older.arrivals;
                }
                if let Some(request) = older.parked.and_then(Parked::wake) {
                    self.wake(&mut state.late, request);
                }
            }
        }
        if was_reserved {
            state.slots.take(grid, peer, self.node());
            self.publish_slot(grid, peer, SlotState::Taken);
            self.notify_around(state, grid, peer);
        }
    }

    fn take_slot(
        &self,
        state: &mut State,
        now: Instant,
        grid: &str,
        peer: PeerId,
        carrier: JoiningCarrier,
    ) -> Result<(), JoinError> {
        let GridLimits { grids_max, peers_max, .. } = self.limits;
        if !state.slots.has(grid, peer) && state.slots.len() >= peers_max {
            return Err(JoinError::TooManyPeers { max: peers_max });
        }
        if !state.slots.knows(grid) && state.slots.grids() >= grids_max {
            return Err(JoinError::TooManyGrids { max: grids_max });
        }
        let name = state.slots.take(grid, peer, self.node());
        if state.slots.count_local(grid, 1) == 1 {
            // The caller is subscribed already, so this subscription is ready.
            let _ready = self.link.cluster().subscribe(&topic_of(grid));
        }
        let carrier = Carrier::of(carrier, now);
        state.local.insert(peer, LocalSlot { grid: name, carrier, has_check: false });
        self.publish_slot(grid, peer, SlotState::Taken);
        self.notify_around(state, grid, peer);
        Ok(())
    }

    /// Reserves the slot of a channel that ended, unless the slot has another carrier by now.
    pub(super) fn channel_left(&self, now: Instant, peer: PeerId, channel: ChannelAddress) {
        let mut state = self.state.lock();
        if state.is_carried_by(peer, channel) {
            self.reserve_slot(&mut state, now, peer);
        }
    }

    fn reserve_slot(&self, state: &mut State, now: Instant, peer: PeerId) {
        let until = now + self.limits.reservation_period;
        let Some(slot) = state.local.get_mut(&peer) else { return };
        if let Carrier::Poll(poll) = &mut slot.carrier {
            self.release_address(poll);
        }
        let grid = slot.grid.clone();
        state.reserve(&grid, peer, until);
        self.publish_slot(&grid, peer, SlotState::Reserved);
        self.notify_around(state, &grid, peer);
    }

    /// A peer that polls leaves for good.
    pub(super) fn leave(&self, grid: &str, peer: PeerId) -> Result<(), NoSlot> {
        let mut state = self.state.lock();
        state.poll_of(grid, peer)?;
        self.remove(&mut state, grid, peer);
        Ok(())
    }

    /// Closes a slot of this process or another, and notifies its neighbours.
    pub(super) fn remove(&self, state: &mut State, grid: &str, peer: PeerId) {
        let around = state.around(grid, peer);
        if state.is_local(grid, peer) {
            self.publish_slot(grid, peer, SlotState::Closed);
            self.remove_local(state, grid, peer);
        }
        state.slots.close(grid, peer);
        self.notify(state, grid, &around);
    }

    /// Removes a slot of this process. Returns the arrivals that waited for its next poll.
    pub(super) fn remove_local(
        &self,
        state: &mut State,
        grid: &str,
        peer: PeerId,
    ) -> VecDeque<Box<str>> {
        let mut arrivals = VecDeque::new();
        if let Some(LocalSlot { carrier: Carrier::Poll(mut poll), .. }) = state.local.remove(&peer)
        {
            self.release_address(&mut poll);
            if let Some(request) = poll.parked.and_then(Parked::wake) {
                self.wake(&mut state.late, request);
            }
            arrivals = poll.arrivals;
        }
        if state.slots.count_local(grid, -1) == 0 {
            self.link.cluster().unsubscribe(&topic_of(grid));
        }
        arrivals
    }

    /// Parks a poll, unless there is a response already.
    pub(super) fn park(
        &self,
        now: Instant,
        grid: &str,
        request: ParkedRequest,
    ) -> Option<PollResponse> {
        let peer = PeerId(request.client);
        let mut state = self.state.lock();
        let Ok(poll) = state.poll_of(grid, peer) else { return Some(PollResponse::NoSlot) };
        poll.last_request_at = now;
        // A client that polls again no longer reads the older response, so no arrival may go there.
        let older = poll.parked.take().and_then(Parked::wake);
        let is_due = poll.is_due();
        if !is_due {
            poll.parked = Some(Parked { request, is_woken: false });
        }
        if let Some(older) = older {
            self.wake(&mut state.late, older);
        }
        is_due.then(|| state.take_arrivals(peer))
    }

    /// The response to a parked poll that was woken or timed out.
    pub(super) fn unpark(&self, now: Instant, request: ParkedRequest) -> PollResponse {
        let peer = PeerId(request.client);
        let mut state = self.state.lock();
        let Some(LocalSlot { carrier: Carrier::Poll(poll), .. }) = state.local.get_mut(&peer)
        else {
            return PollResponse::NoSlot;
        };
        if !poll.waits_on(request) {
            return PollResponse::Superseded;
        }
        poll.parked = None;
        poll.last_request_at = now;
        state.take_arrivals(peer)
    }

    /// Forgets a parked poll whose client closed its connection.
    pub(super) fn poll_gone(&self, now: Instant, request: ParkedRequest) {
        let mut state = self.state.lock();
        let slot = state.local.get_mut(&PeerId(request.client));
        if let Some(LocalSlot { carrier: Carrier::Poll(poll), .. }) = slot
            && poll.waits_on(request)
        {
            poll.parked = None;
            poll.last_request_at = now;
        }
    }

    /// Closes slots with expired reservations, and reserves the slots of peers that stopped polling.
    pub(super) fn handle_tick(&self, now: Instant) {
        self.ticked_at.store(now.as_nanos(), Ordering::Relaxed);
        let mut state = self.state.lock();
        let state = &mut *state;
        while let Some((_, grid)) = state.reservations.pop_front_if(|(until, _)| *until <= now) {
            while let Some(peer) = state.slots.expired(&grid, now) {
                self.remove(state, &grid, peer);
            }
        }
        while let Some((_, peer)) = state.checks.pop_front_if(|(at, _)| *at <= now) {
            let Some(slot) = state.local.get_mut(&peer) else { continue };
            slot.has_check = false;
            match &slot.carrier {
                Carrier::Poll(poll) if !state.slots.is_reserved(&slot.grid, peer) => {
                    if poll.parked.is_none() && now.since(poll.last_request_at) >= POLL_GAP_MAX {
                        self.reserve_slot(state, now, peer);
                    } else {
                        state.schedule_check(now, peer);
                    }
                }
                _ => {}
            }
        }
        for request in std::mem::take(&mut state.late) {
            self.wake(&mut state.late, request);
        }
        self.report_throwers(state, now);
    }

    /// The part of this process in the number of all grids, and in that of all slots.
    pub(super) fn counted(&self) -> (usize, usize) {
        self.state.lock().slots.counted(self.link.cluster().me())
    }

    /// Notifies the neighbours of a peer of their neighbours.
    pub(super) fn notify_around(&self, state: &mut State, grid: &str, peer: PeerId) {
        let around = state.around(grid, peer);
        self.notify(state, grid, &around);
    }

    /// Notifies those of these peers that are present at this process of their neighbours.
    fn notify(&self, state: &mut State, grid: &str, peers: &[PeerId]) {
        for &peer in peers {
            if !state.local.contains_key(&peer) || state.slots.is_reserved(grid, peer) {
                continue;
            }
            let neighbours = state.neighbours(grid, peer);
            let State { local, late, .. } = &mut *state;
            match local.get_mut(&peer).map(|slot| &mut slot.carrier) {
                Some(Carrier::Channel(address)) => {
                    self.push(*address, "neighbours", neighbours);
                }
                Some(Carrier::Poll(poll)) => {
                    poll.neighbours_changed = true;
                    if let Some(request) = poll.wake() {
                        self.wake(late, request);
                    }
                }
                None => {}
            }
        }
    }

    fn publish_slot(&self, grid: &str, peer: PeerId, state: SlotState) {
        let changes = || Message::Slots { grid, changes: vec![(peer.0, state)] };
        self.link.publish_state(&topic_of(grid), changes);
    }

    /// Pushes to a channel. Returns whether the message is on its way.
    pub(super) fn push(&self, to: ChannelAddress, event: &str, body: impl Into<Body>) -> bool {
        self.sender.push(to, event, body.into()).is_ok()
    }

    /// Makes the shard of a parked poll answer it. When its queue is full, the next tick retries.
    pub(super) fn wake(&self, late: &mut Vec<ParkedRequest>, request: ParkedRequest) {
        if self.sender.wake(request).is_err() {
            late.push(request);
        }
    }

    /// Removes a peer from the count of its address.
    fn release_address(&self, poll: &mut Poll) {
        if let Some(address) = poll.counted.take() {
            self.addresses.release(address);
        }
    }

    /// Counts a peer that polls against its address. `Err` names the limit.
    pub(super) fn count_address(&self, address: IpAddr) -> Result<Option<IpAddr>, u32> {
        self.addresses.admit(address).map_err(|error| error.max)
    }

    /// Undoes [`ReplicatedGrids::count_address`] for a peer that got no slot.
    pub(super) fn uncount_address(&self, counted: Option<IpAddr>) {
        counted.inspect(|address| self.addresses.release(*address));
    }
}
