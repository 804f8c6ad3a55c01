//! The planes that sprites walk on: who has which place, and where a throw goes.
//!
//! A plane is two random rings: left and right on the first, up and down on the second. A peer's
//! *seat* says what carries its arrivals: a channel, or polls over plain HTTP. A seat whose carrier
//! is gone stays as a vacancy for a while; a token gives it back.
//!
//! Each process has the seats of its own peers, and of the others' knows the places: rings are a
//! function of who is on them, so that all agree who is next to whom. [`Places`] is that part.

mod others;
mod places;
mod polling;
mod seat;
mod throw;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use vocab::{Instant, NodeId, PeerId};

use crate::addresses::Addresses;
use crate::app::ChannelAddress;
use crate::cluster::{Cluster, Seating};
use crate::endpoint::Endpoint;
use crate::presence::lock;
use crate::seed::Seed;
use crate::shard::Mail;

use places::Places;
use seat::{Carrier, Parked, Poll, Seat};

pub(crate) use seat::{Connection, Newcomer, PollAnswer};
pub(crate) use throw::{BadThrow, Edge, Throw, check_plane};

/// What the topics of planes begin with.
pub(crate) const TOPIC_PREFIX: &str = "sprites:";
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
    cluster: Arc<Cluster>,
    addresses: Arc<Addresses>,
    limits: PlaneLimits,
    state: Mutex<State>,
    /// When the last tick was, in nanoseconds: time enough for those outside a shard.
    ticked_at: AtomicU64,
}

struct State {
    places: Places,
    /// Of our own peers.
    seats: HashMap<PeerId, Seat>,
    /// Planes with a vacancy that may be over at that time, in order of time.
    vacating: VecDeque<(Instant, Arc<str>)>,
    /// When to look whether a polling peer is still there, in order of time; one for each.
    listening: VecDeque<(Instant, PeerId)>,
    /// Polls to be answered whose shard's mailbox was full; each waiting poll at most once.
    late: Vec<(PeerId, Connection)>,
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

/// This process hears of a plane for as long as this lives.
pub(crate) struct Attention<'a> {
    cluster: &'a Cluster,
    topic: String,
}

impl Drop for Attention<'_> {
    fn drop(&mut self) {
        self.cluster.unsubscribe(&self.topic);
    }
}

impl Planes {
    pub fn new(
        limits: PlaneLimits,
        seed: Seed,
        endpoint: Endpoint,
        cluster: Arc<Cluster>,
        addresses: Arc<Addresses>,
    ) -> Self {
        let state = Mutex::new(State {
            places: Places::new(seed),
            seats: HashMap::new(),
            vacating: VecDeque::new(),
            listening: VecDeque::new(),
            late: Vec::new(),
        });
        Planes { endpoint, cluster, addresses, limits, state, ticked_at: AtomicU64::new(0) }
    }

    /// The time at the last tick, a tenth of a second ago at most.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.ticked_at.load(Ordering::Relaxed))
    }

    /// The process that this is.
    pub fn node(&self) -> NodeId {
        self.cluster.me()
    }

    /// An id for a new peer of this process.
    pub fn new_peer(&self) -> Result<PeerId, getrandom::Error> {
        Ok(places::peer_of(self.cluster.me(), getrandom::u64()?))
    }

    /// Learn what the other processes know of a plane. A channel's join has done so already.
    pub async fn attend(&self, plane: &str) -> Attention<'_> {
        let topic = topic_of(plane);
        let awaited = self.cluster.subscribe(&topic);
        let attention = Attention { cluster: &self.cluster, topic };
        self.cluster.ready(awaited).await;
        attention
    }

    /// Whether a place is kept, as far as is known here.
    pub fn knows(&self, plane: &str, peer: PeerId) -> bool {
        lock(&self.state).places.has(plane, peer)
    }

    /// Hear everything that the other processes have said until now. `fresh` is an id that nobody has yet.
    pub async fn catch_up(&self, fresh: PeerId) {
        // That a topic is known to them is told behind what they said before.
        let topic = format!("catching-up:{fresh}");
        let awaited = self.cluster.subscribe(&topic);
        let _attention = Attention { cluster: &self.cluster, topic };
        self.cluster.ready(awaited).await;
    }

    /// Take the place that `before` has on this plane, if it is still kept, or else a new one, as
    /// `fresh`. What other processes know of the plane is known here.
    pub fn join(
        &self,
        now: Instant,
        plane: &str,
        before: Option<PeerId>,
        fresh: PeerId,
        newcomer: Newcomer,
    ) -> Result<Welcome, JoinError> {
        let mut state = lock(&self.state);
        let peer = match before {
            Some(peer) if state.has_seat(plane, peer) => {
                self.take_over(&mut state, now, plane, peer, newcomer);
                peer
            }
            // Its seat is, or was, at another process: the place on the rings stays the same.
            Some(peer) if state.places.has(plane, peer) && !state.seats.contains_key(&peer) => {
                self.sit_down(&mut state, now, plane, peer, newcomer)?;
                peer
            }
            _ => {
                self.sit_down(&mut state, now, plane, fresh, newcomer)?;
                fresh
            }
        };
        state.listen(now, peer);
        Ok(Welcome { peer, neighbours: state.neighbours(plane, peer) })
    }

    /// The carrier of a peer is another from now on.
    fn take_over(
        &self,
        state: &mut State,
        now: Instant,
        plane: &str,
        peer: PeerId,
        newcomer: Newcomer,
    ) {
        let was_vacant = state.places.is_vacant(plane, peer);
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
        if was_vacant {
            state.places.take(plane, peer, self.cluster.me());
            self.say(plane, peer, Seating::Here);
            self.tell_around(state, plane, peer);
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
        if !state.places.has(plane, peer) && state.places.len() >= peers_max {
            return Err(JoinError::TooManyPeers { max: peers_max });
        }
        if !state.places.knows(plane) && state.places.planes() >= planes_max {
            return Err(JoinError::TooManyPlanes { max: planes_max });
        }
        let name = state.places.take(plane, peer, self.cluster.me());
        if state.places.seat_here(plane, 1) == 1 {
            // Whoever sits down knows the plane already: it is ready at once.
            let _ready = self.cluster.subscribe(&topic_of(plane));
        }
        let carrier = Carrier::of(newcomer, now);
        state.seats.insert(peer, Seat { plane: name, carrier, is_listened_for: false });
        self.say(plane, peer, Seating::Here);
        self.tell_around(state, plane, peer);
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
        let Some(seat) = state.seats.get_mut(&peer) else { return };
        if let Carrier::Poll(poll) = &mut seat.carrier {
            self.release(poll);
        }
        let plane = seat.plane.clone();
        state.keep_vacant(&plane, peer, until);
        self.say(&plane, peer, Seating::Vacant);
        self.tell_around(state, &plane, peer);
    }

    /// A polling peer leaves for good.
    pub fn leave(&self, plane: &str, peer: PeerId) -> Result<(), NoPlace> {
        let mut state = lock(&self.state);
        state.poll_of(plane, peer)?;
        self.remove(&mut state, plane, peer);
        Ok(())
    }

    /// Close a place on its rings, with the seat if it is ours.
    fn remove(&self, state: &mut State, plane: &str, peer: PeerId) {
        let around = state.around(plane, peer);
        if state.has_seat(plane, peer) {
            self.say(plane, peer, Seating::Gone);
            self.unseat(state, plane, peer);
        }
        state.places.close(plane, peer);
        self.tell_neighbours(state, plane, &around);
    }

    /// Nobody here has this seat any more. What waited for its poll.
    fn unseat(&self, state: &mut State, plane: &str, peer: PeerId) -> VecDeque<Box<str>> {
        let mut waited = VecDeque::new();
        if let Some(Seat { carrier: Carrier::Poll(mut poll), .. }) = state.seats.remove(&peer) {
            self.release(&mut poll);
            if let Some(connection) = poll.parked.and_then(Parked::wake) {
                self.answer_soon(&mut state.late, peer, connection);
            }
            waited = poll.arrivals;
        }
        if state.places.seat_here(plane, -1) == 0 {
            self.cluster.unsubscribe(&topic_of(plane));
        }
        waited
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
        let plane = state.seats[&peer].plane.clone();
        let to = state.places.towards(&plane, peer, throw.edge);
        let Some(to) = to.filter(|to| *to != peer && !state.places.is_vacant(&plane, *to)) else {
            return Thrown::Wrapped;
        };
        let arrival = throw.arrival(peer);
        let is_taken = if state.seats.contains_key(&to) {
            self.arrive(state, to, arrival)
        } else {
            let owner = state.places.owner(&plane, to);
            self.send_sprite(owner, &plane, to, peer, &arrival.to_string(), false).is_ok()
        };
        if is_taken { Thrown::Across } else { Thrown::Wrapped }
    }

    /// A sprite for a peer of ours; whether it is taken.
    fn arrive(&self, state: &mut State, to: PeerId, arrival: Value) -> bool {
        let State { seats, late, .. } = state;
        match seats.get_mut(&to).map(|seat| &mut seat.carrier) {
            None => false,
            Some(Carrier::Channel(address)) => self.push(*address, "arrive", arrival),
            Some(Carrier::Poll(poll)) => {
                let is_taken = poll.arrivals.len() < self.limits.arrivals_queued_max;
                if is_taken {
                    poll.arrivals.push_back(arrival.to_string().into());
                    if let Some(connection) = poll.wake() {
                        self.answer_soon(late, to, connection);
                    }
                }
                is_taken
            }
        }
    }

    /// Close the places whose time is over, and vacate those of peers that poll no more.
    pub fn tick(&self, now: Instant) {
        self.ticked_at.store(now.as_nanos(), Ordering::Relaxed);
        let mut state = lock(&self.state);
        let state = &mut *state;
        while let Some((_, plane)) = state.vacating.pop_front_if(|(until, _)| *until <= now) {
            while let Some(peer) = state.places.expired(&plane, now) {
                self.remove(state, &plane, peer);
            }
        }
        while let Some((_, peer)) = state.listening.pop_front_if(|(at, _)| *at <= now) {
            let Some(seat) = state.seats.get_mut(&peer) else { continue };
            seat.is_listened_for = false;
            match &seat.carrier {
                Carrier::Poll(poll) if !state.places.is_vacant(&seat.plane, peer) => {
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
        (state.places.planes(), state.places.len())
    }

    fn tell_around(&self, state: &mut State, plane: &str, peer: PeerId) {
        let around = state.around(plane, peer);
        self.tell_neighbours(state, plane, &around);
    }

    /// Tell those of these peers that are ours who is around them now.
    fn tell_neighbours(&self, state: &mut State, plane: &str, peers: &[PeerId]) {
        for &peer in peers {
            if !state.seats.contains_key(&peer) || state.places.is_vacant(plane, peer) {
                continue;
            }
            let neighbours = state.neighbours(plane, peer);
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
        self.endpoint.push_body(to, event, body.into()).is_ok()
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
    fn has_seat(&self, plane: &str, peer: PeerId) -> bool {
        self.seats.get(&peer).is_some_and(|seat| &*seat.plane == plane)
    }

    fn is_carried_by(&self, peer: PeerId, channel: ChannelAddress) -> bool {
        let carrier = self.seats.get(&peer).map(|seat| &seat.carrier);
        matches!(carrier, Some(Carrier::Channel(address)) if *address == channel)
    }

    /// The poll of a peer that is here, on this plane.
    fn poll_of(&mut self, plane: &str, peer: PeerId) -> Result<&mut Poll, NoPlace> {
        if self.places.is_vacant(plane, peer) {
            return Err(NoPlace);
        }
        match self.seats.get_mut(&peer) {
            Some(Seat { carrier: Carrier::Poll(poll), plane: its, .. }) if &**its == plane => {
                Ok(poll)
            }
            _ => Err(NoPlace),
        }
    }

    /// A place that nobody is at is kept until then.
    fn keep_vacant(&mut self, plane: &str, peer: PeerId, until: Instant) {
        if let Some(name) = self.places.vacate(plane, peer, until) {
            // Grace makes some times longer than others: keep them in order.
            let at = self.vacating.partition_point(|(other, _)| *other <= until);
            self.vacating.insert(at, (until, name));
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

    /// The others around a peer, each once.
    fn around(&self, plane: &str, peer: PeerId) -> Vec<PeerId> {
        let towards = |edge: &Edge| self.places.towards(plane, peer, *edge);
        let mut around: Vec<PeerId> = Edge::ALL.iter().filter_map(towards).collect();
        around.sort_unstable();
        around.dedup();
        around.retain(|other| *other != peer);
        around
    }

    fn neighbours(&self, plane: &str, peer: PeerId) -> Value {
        let name = |edge| {
            let to = self.places.towards(plane, peer, edge)?;
            (to != peer && !self.places.is_vacant(plane, to)).then(|| to.to_string())
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
        let Some(Seat { carrier: Carrier::Poll(poll), plane, .. }) = self.seats.get_mut(&peer)
        else {
            return PollAnswer::NoPlace;
        };
        poll.neighbours_changed = false;
        let arrivals = std::mem::take(&mut poll.arrivals);
        let plane = plane.clone();
        PollAnswer::News { arrivals, neighbours: self.neighbours(&plane, peer) }
    }
}

fn topic_of(plane: &str) -> String {
    format!("{TOPIC_PREFIX}{plane}")
}
