//! The planes that sprites walk on: who has which place, and where a throw goes.
//!
//! A plane is two random rings: left and right on the first, up and down on the second. A peer's
//! *seat* says what carries its arrivals: a channel, or polls over plain HTTP. A seat whose carrier
//! is gone stays as a vacancy for a while; a token gives it back.

mod seat;
mod throw;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rings::Rings;
use serde_json::{Value, json};
use vocab::{Instant, PeerId};

use crate::addresses::Addresses;
use crate::app::ChannelAddress;
use crate::endpoint::Endpoint;
use crate::presence::lock;
use crate::shard::Mail;

use seat::{Carrier, Parked, Poll, Seat};

pub(crate) use seat::{Connection, Newcomer, PollAnswer};
pub(crate) use throw::{BadThrow, Edge, Throw, check_plane};

/// Left and right, up and down.
const RINGS: usize = 2;
/// A peer that polls is taken to be gone when this long no poll of it waited.
const POLL_GAP_MAX: Duration = Duration::from_secs(30);

/// What planes may cost, and how long they wait.
#[derive(Clone, Debug)]
pub(crate) struct PlaneLimits {
    pub planes_max: usize,
    /// Of all planes together, with the absent whose places are kept.
    pub peers_max: usize,
    /// Arrivals that wait for one peer's next poll; over it, a throw comes back to its thrower.
    pub arrivals_queued_max: usize,
    /// How long a place is kept.
    pub vacancy_period: Duration,
}

/// Every plane of the server.
pub(crate) struct Planes {
    endpoint: Endpoint,
    addresses: Arc<Addresses>,
    limits: PlaneLimits,
    state: Mutex<State>,
    /// When the last tick was, in nanoseconds: time enough for those outside a shard.
    ticked_at: AtomicU64,
}

#[derive(Default)]
struct State {
    planes: HashMap<Arc<str>, Rings>,
    seats: HashMap<PeerId, Seat>,
    /// Planes with a vacancy that may be over at that time, in order of time.
    vacating: VecDeque<(Instant, Arc<str>)>,
    /// When to look whether a polling peer is still there, in order of time; one for each.
    listening: VecDeque<(Instant, PeerId)>,
    /// Polls to be answered whose shard's mailbox was full; each waiting poll at most once.
    late: Vec<(PeerId, Connection)>,
    seed: u64,
}

/// A peer has a place.
pub(crate) struct Welcome {
    pub peer: PeerId,
    pub neighbours: Value,
}

/// Why a peer gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinError {
    TooManyPlanes { max: usize },
    TooManyPeers { max: usize },
}

impl JoinError {
    pub fn to_json(self) -> Value {
        match self {
            JoinError::TooManyPlanes { max } => json!({ "reason": "too many planes", "max": max }),
            JoinError::TooManyPeers { max } => json!({ "reason": "planes full", "max": max }),
        }
    }
}

/// The place is not, or no longer, that of who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

/// What became of a throw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thrown {
    /// A neighbour has it.
    Across,
    /// Nobody can take it on that side: it comes in at the thrower's opposite edge.
    Wrapped,
}

impl Thrown {
    pub fn to_json(self) -> Value {
        match self {
            Thrown::Across => json!({}),
            Thrown::Wrapped => json!({ "wrapped": true }),
        }
    }
}

impl Planes {
    pub fn new(
        limits: PlaneLimits,
        seed: u64,
        endpoint: Endpoint,
        addresses: Arc<Addresses>,
    ) -> Self {
        let state = Mutex::new(State { seed, ..State::default() });
        Planes { endpoint, addresses, limits, state, ticked_at: AtomicU64::new(0) }
    }

    /// The time at the last tick, a tenth of a second ago at most.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.ticked_at.load(Ordering::Relaxed))
    }

    /// Take the place that `before` had on this plane, if it is still there, or else a new one,
    /// as `fresh`.
    pub fn join(
        &self,
        now: Instant,
        plane: &str,
        before: Option<PeerId>,
        fresh: PeerId,
        newcomer: Newcomer,
    ) -> Result<Welcome, JoinError> {
        let mut state = lock(&self.state);
        let has_seat = |peer: &PeerId| state.seats.get(peer).is_some_and(|s| &*s.plane == plane);
        let peer = match before.filter(has_seat) {
            Some(peer) => {
                self.take_over(&mut state, now, peer, newcomer);
                peer
            }
            None => {
                self.sit_down(&mut state, now, plane, fresh, newcomer)?;
                fresh
            }
        };
        state.listen(now, peer);
        Ok(Welcome { peer, neighbours: state.neighbours(peer) })
    }

    /// The carrier of a peer is another from now on.
    fn take_over(&self, state: &mut State, now: Instant, peer: PeerId, newcomer: Newcomer) {
        let was_vacant = state.is_vacant(peer);
        let seat = state.seats.get_mut(&peer).expect("the seat was found");
        let mut carrier = Carrier::of(newcomer, now);
        std::mem::swap(&mut seat.carrier, &mut carrier);
        match carrier {
            // Two tabs with one token: the older takes another place.
            Carrier::Channel(older) if !was_vacant => {
                self.push(older, "moved", json!({}));
            }
            Carrier::Channel(_) => {}
            Carrier::Poll(mut older) => {
                self.release(&mut older);
                if let Carrier::Poll(poll) = &mut seat.carrier {
                    poll.arrivals = older.arrivals;
                }
                if let Some(connection) = older.parked.and_then(Parked::wake) {
                    self.answer_soon(&mut state.late, peer, connection);
                }
            }
        }
        if let Some(rings) = state.planes.get_mut(&state.seats[&peer].plane) {
            rings.join(peer);
        }
        if was_vacant {
            let around = state.around(peer);
            self.tell_neighbours(state, &around);
        }
    }

    fn sit_down(
        &self,
        state: &mut State,
        now: Instant,
        plane: &str,
        peer: PeerId,
        newcomer: Newcomer,
    ) -> Result<(), JoinError> {
        let PlaneLimits { planes_max, peers_max, .. } = self.limits;
        if state.seats.len() >= peers_max {
            return Err(JoinError::TooManyPeers { max: peers_max });
        }
        let name = match state.planes.get_key_value(plane) {
            Some((name, _)) => name.clone(),
            None if state.planes.len() >= planes_max => {
                return Err(JoinError::TooManyPlanes { max: planes_max });
            }
            None => {
                let name: Arc<str> = plane.into();
                state.seed = state.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                state.planes.insert(name.clone(), Rings::new(RINGS, state.seed));
                name
            }
        };
        state.planes.get_mut(plane).expect("the plane is there").join(peer);
        let carrier = Carrier::of(newcomer, now);
        state.seats.insert(peer, Seat { plane: name, carrier, is_listened_for: false });
        let around = state.around(peer);
        self.tell_neighbours(state, &around);
        Ok(())
    }

    /// A channel is gone: keep its peer's place, unless somebody else carries it by now.
    pub fn vacate(&self, now: Instant, peer: PeerId, channel: ChannelAddress) {
        let mut state = lock(&self.state);
        if state.is_carried_by(peer, channel) {
            self.vacate_seat(&mut state, now, peer);
        }
    }

    fn vacate_seat(&self, state: &mut State, now: Instant, peer: PeerId) {
        let until = now + self.limits.vacancy_period;
        let State { seats, planes, vacating, .. } = &mut *state;
        let Some(seat) = seats.get_mut(&peer) else { return };
        if let Carrier::Poll(poll) = &mut seat.carrier {
            self.release(poll);
        }
        vacating.push_back((until, seat.plane.clone()));
        planes.get_mut(&seat.plane).expect("a seat's plane is there").vacate(peer, until);
        let around = state.around(peer);
        self.tell_neighbours(state, &around);
    }

    /// A polling peer leaves for good.
    pub fn leave(&self, plane: &str, peer: PeerId) -> Result<(), NoPlace> {
        let mut state = lock(&self.state);
        state.poll_of(plane, peer)?;
        self.remove(&mut state, peer);
        Ok(())
    }

    /// Close a place on its rings.
    fn remove(&self, state: &mut State, peer: PeerId) {
        let around = state.around(peer);
        let Some(seat) = state.seats.remove(&peer) else { return };
        if let Carrier::Poll(mut poll) = seat.carrier {
            self.release(&mut poll);
            if let Some(connection) = poll.parked.and_then(Parked::wake) {
                self.answer_soon(&mut state.late, peer, connection);
            }
        }
        let rings = state.planes.get_mut(&seat.plane).expect("a seat's plane is there");
        rings.leave(peer);
        if rings.is_empty() {
            state.planes.remove(&seat.plane);
        }
        self.tell_neighbours(state, &around);
    }

    /// Throw from a channel's peer.
    pub fn throw_from(
        &self,
        peer: PeerId,
        channel: ChannelAddress,
        throw: &Throw,
    ) -> Result<Thrown, NoPlace> {
        let mut state = lock(&self.state);
        if !state.is_carried_by(peer, channel) {
            return Err(NoPlace);
        }
        Ok(self.throw(&mut state, peer, throw))
    }

    /// Throw from a peer that polls.
    pub fn throw_polled(
        &self,
        now: Instant,
        plane: &str,
        peer: PeerId,
        throw: &Throw,
    ) -> Result<Thrown, NoPlace> {
        let mut state = lock(&self.state);
        state.poll_of(plane, peer)?.heard_at = now;
        Ok(self.throw(&mut state, peer, throw))
    }

    fn throw(&self, state: &mut State, peer: PeerId, throw: &Throw) -> Thrown {
        let to = state.towards(peer, throw.edge);
        let Some(to) = to.filter(|to| *to != peer && !state.is_vacant(*to)) else {
            return Thrown::Wrapped;
        };
        let State { seats, late, .. } = &mut *state;
        let seat = seats.get_mut(&to).expect("who is on the rings has a seat");
        let arrival = throw.arrival(peer);
        match &mut seat.carrier {
            Carrier::Channel(address) => match self.push(*address, "arrive", arrival) {
                true => Thrown::Across,
                false => Thrown::Wrapped,
            },
            Carrier::Poll(poll) if poll.arrivals.len() >= self.limits.arrivals_queued_max => {
                Thrown::Wrapped
            }
            Carrier::Poll(poll) => {
                poll.arrivals.push_back(arrival.to_string().into());
                if let Some(connection) = poll.wake() {
                    self.answer_soon(late, to, connection);
                }
                Thrown::Across
            }
        }
    }

    /// A peer's poll waits on this connection, unless there is an answer already.
    pub fn park(
        &self,
        now: Instant,
        plane: &str,
        peer: PeerId,
        connection: Connection,
    ) -> Option<PollAnswer> {
        let mut state = lock(&self.state);
        let Ok(poll) = state.poll_of(plane, peer) else { return Some(PollAnswer::NoPlace) };
        poll.heard_at = now;
        let older = poll.parked.take().and_then(Parked::wake);
        let has_news = poll.has_news();
        if !has_news {
            poll.parked = Some(Parked { connection, is_woken: false });
        }
        if let Some(older) = older {
            self.answer_soon(&mut state.late, peer, older);
        }
        has_news.then(|| state.news(peer))
    }

    /// The answer of a poll that waits on this connection and is to wait no longer.
    pub fn unpark(&self, now: Instant, peer: PeerId, connection: Connection) -> PollAnswer {
        let mut state = lock(&self.state);
        let Some(Seat { carrier: Carrier::Poll(poll), .. }) = state.seats.get_mut(&peer) else {
            return PollAnswer::NoPlace;
        };
        if !poll.waits_on(connection) {
            return PollAnswer::Superseded;
        }
        poll.parked = None;
        poll.heard_at = now;
        state.news(peer)
    }

    /// The client of a poll hung up.
    pub fn poll_gone(&self, now: Instant, peer: PeerId, connection: Connection) {
        let mut state = lock(&self.state);
        if let Some(Seat { carrier: Carrier::Poll(poll), .. }) = state.seats.get_mut(&peer)
            && poll.waits_on(connection)
        {
            poll.parked = None;
            poll.heard_at = now;
        }
    }

    /// Close the places whose time is over, and vacate those of peers that poll no more.
    pub fn tick(&self, now: Instant) {
        self.ticked_at.store(now.as_nanos(), Ordering::Relaxed);
        let mut state = lock(&self.state);
        let state = &mut *state;
        while let Some((_, plane)) = state.vacating.pop_front_if(|(until, _)| *until <= now) {
            while let Some(peer) = state.planes.get(&plane).and_then(|rings| rings.expired(now)) {
                self.remove(state, peer);
            }
        }
        while let Some((_, peer)) = state.listening.pop_front_if(|(at, _)| *at <= now) {
            let is_vacant = state.is_vacant(peer);
            let Some(seat) = state.seats.get_mut(&peer) else { continue };
            seat.is_listened_for = false;
            match &seat.carrier {
                Carrier::Poll(poll) if !is_vacant => {
                    if poll.parked.is_none() && now.since(poll.heard_at) >= POLL_GAP_MAX {
                        self.vacate_seat(state, now, peer);
                    } else {
                        state.listen(now, peer);
                    }
                }
                _ => {}
            }
        }
        for (peer, connection) in std::mem::take(&mut state.late) {
            self.answer_soon(&mut state.late, peer, connection);
        }
    }

    /// How many planes there are, and how many have a place on them.
    pub fn len(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.planes.len(), state.seats.len())
    }

    /// Tell these peers who is around them now.
    fn tell_neighbours(&self, state: &mut State, peers: &[PeerId]) {
        for &peer in peers {
            if state.is_vacant(peer) {
                continue;
            }
            let neighbours = state.neighbours(peer);
            let State { seats, late, .. } = &mut *state;
            match seats.get_mut(&peer).map(|seat| &mut seat.carrier) {
                Some(Carrier::Channel(address)) => {
                    self.push(*address, "neighbours", neighbours);
                }
                Some(Carrier::Poll(poll)) => {
                    poll.neighbours_changed = true;
                    if let Some(connection) = poll.wake() {
                        self.answer_soon(late, peer, connection);
                    }
                }
                None => {}
            }
        }
    }

    /// Whether the push is on its way.
    fn push(&self, to: ChannelAddress, event: &str, body: Value) -> bool {
        let mail = Mail::Push { to, event: event.into(), body: body.into() };
        self.endpoint.mail(to.shard, mail).is_ok()
    }

    fn answer_soon(
        &self,
        late: &mut Vec<(PeerId, Connection)>,
        peer: PeerId,
        connection: Connection,
    ) {
        if self.endpoint.mail(connection.shard, Mail::AnswerPoll { peer, connection }).is_err() {
            late.push((peer, connection));
        }
    }

    /// The peer's address has one place less.
    fn release(&self, poll: &mut Poll) {
        if let Some(address) = poll.counted.take() {
            self.addresses.release(address);
        }
    }
}

impl State {
    fn rings_of(&self, peer: PeerId) -> Option<&Rings> {
        self.planes.get(&self.seats.get(&peer)?.plane)
    }

    fn is_vacant(&self, peer: PeerId) -> bool {
        self.rings_of(peer).is_some_and(|rings| rings.is_vacant(peer))
    }

    fn is_carried_by(&self, peer: PeerId, channel: ChannelAddress) -> bool {
        let carrier = self.seats.get(&peer).map(|seat| &seat.carrier);
        matches!(carrier, Some(Carrier::Channel(address)) if *address == channel)
    }

    /// The poll of a peer that is here, on this plane.
    fn poll_of(&mut self, plane: &str, peer: PeerId) -> Result<&mut Poll, NoPlace> {
        if self.is_vacant(peer) {
            return Err(NoPlace);
        }
        match self.seats.get_mut(&peer) {
            Some(Seat { carrier: Carrier::Poll(poll), plane: its, .. }) if &**its == plane => {
                Ok(poll)
            }
            _ => Err(NoPlace),
        }
    }

    /// Look again later whether a polling peer is still there.
    fn listen(&mut self, now: Instant, peer: PeerId) {
        if let Some(seat) = self.seats.get_mut(&peer)
            && matches!(seat.carrier, Carrier::Poll(_))
            && !std::mem::replace(&mut seat.is_listened_for, true)
        {
            self.listening.push_back((now + POLL_GAP_MAX, peer));
        }
    }

    /// Who has the place beyond a peer's edge: itself when it is alone, an absent one perhaps.
    fn towards(&self, peer: PeerId, edge: Edge) -> Option<PeerId> {
        let (before, after) = self.rings_of(peer)?.around(peer, edge.ring())?;
        Some(if edge.is_after() { after } else { before })
    }

    /// The others around a peer, each once.
    fn around(&self, peer: PeerId) -> Vec<PeerId> {
        let mut around: Vec<PeerId> =
            Edge::ALL.iter().filter_map(|edge| self.towards(peer, *edge)).collect();
        around.sort_unstable();
        around.dedup();
        around.retain(|other| *other != peer);
        around
    }

    fn neighbours(&self, peer: PeerId) -> Value {
        let name = |edge| {
            let to = self.towards(peer, edge)?;
            (to != peer && !self.is_vacant(to)).then(|| to.to_string())
        };
        json!({
            "left": name(Edge::Left),
            "right": name(Edge::Right),
            "up": name(Edge::Up),
            "down": name(Edge::Down),
        })
    }

    /// What waits for a polling peer, taken out of its queue.
    fn news(&mut self, peer: PeerId) -> PollAnswer {
        let neighbours = self.neighbours(peer);
        let Some(Seat { carrier: Carrier::Poll(poll), .. }) = self.seats.get_mut(&peer) else {
            return PollAnswer::NoPlace;
        };
        poll.neighbours_changed = false;
        PollAnswer::News { arrivals: std::mem::take(&mut poll.arrivals), neighbours }
    }
}
