//! The pages that are open, and who is introduced to whom on them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use pages::{Counts, Have, JoinError, Output, PageLimits, Pages, RelayRefusal};
use rings::{Change, Rings};
use serde_json::{Value, json};
use vocab::{Instant, PeerId};

use crate::app::{Body, ChannelAddress};
use crate::endpoint::Endpoint;
use crate::presence::lock;

/// Random rings a page's peers are on: each has at most twice as many neighbours.
const RINGS: usize = 3;
/// Holders that a seeker is told of beside its neighbours.
const HOLDERS_TOLD: usize = 4;

/// The pages that are open. What it tells peers, it tells through the endpoint it was given.
pub(crate) struct PageBoard {
    endpoint: Endpoint,
    state: Mutex<State>,
}

struct State {
    pages: Pages<ChannelAddress>,
    rings: HashMap<Box<str>, Rings>,
    seed: u64,
}

impl State {
    /// Seeds for dice, each another.
    fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed
    }
}

/// What a peer is told when it joined.
pub(crate) struct Welcome {
    pub peers: Vec<(PeerId, Have)>,
    pub counts: Counts,
}

impl PageBoard {
    pub fn new(limits: PageLimits, seed: u64, endpoint: Endpoint) -> Self {
        let state = State { pages: Pages::new(limits), rings: HashMap::new(), seed };
        PageBoard { endpoint, state: Mutex::new(state) }
    }

    pub fn join(
        &self,
        now: Instant,
        page: &str,
        peer: PeerId,
        address: ChannelAddress,
        have: Have,
    ) -> Result<Welcome, JoinError> {
        let mut state = lock(&self.state);
        let counts = state.pages.join(now, page, peer, address, have)?;
        let seed = state.next_seed();
        let rings = state.rings.entry(page.into()).or_insert_with(|| Rings::new(RINGS, seed));
        let changes: Vec<Change> = rings.join(peer).into_iter().collect();
        let neighbours: Vec<PeerId> = rings.neighbours(peer).into_iter().collect();
        self.introduce(&state, page, &changes, Some(peer));
        let peers = known_peers(&mut state, page, peer, &neighbours);
        self.publish(&mut state);
        Ok(Welcome { peers, counts })
    }

    pub fn progress(&self, now: Instant, page: &str, peer: PeerId, have: Have) {
        let mut state = lock(&self.state);
        state.pages.progress(now, page, peer, have);
        self.publish(&mut state);
    }

    pub fn leave(&self, now: Instant, page: &str, peer: PeerId) {
        let mut state = lock(&self.state);
        state.pages.leave(now, page, peer);
        if let Some(rings) = state.rings.get_mut(page) {
            let changes: Vec<Change> = rings.leave(peer).into_iter().collect();
            if rings.is_empty() {
                state.rings.remove(page);
            }
            self.introduce(&state, page, &changes, None);
        }
        self.publish(&mut state);
    }

    /// Others that a peer may ask: its neighbours, and a few that hold everything.
    pub fn peers(&self, page: &str, peer: PeerId) -> Vec<(PeerId, Have)> {
        let mut state = lock(&self.state);
        let neighbours = state
            .rings
            .get(page)
            .map_or_else(Vec::new, |r| r.neighbours(peer).into_iter().collect());
        known_peers(&mut state, page, peer, &neighbours)
    }

    /// May `from` send this much to `to`? Then where to.
    pub fn relay(
        &self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
        bytes: usize,
    ) -> Result<ChannelAddress, RelayRefusal> {
        lock(&self.state).pages.relay(now, page, from, to, bytes)
    }

    /// Tell what has waited for its time: the counts.
    pub fn tick(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.pages.handle_tick(now);
        self.publish(&mut state);
    }

    /// How many pages are open, and how many of them are lit.
    pub fn len(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.pages.len(), state.pages.lit())
    }

    /// Tell peers who became, or is no longer, their neighbour. `newcomer` reads its own
    /// neighbours in its reply.
    fn introduce(&self, state: &State, page: &str, changes: &[Change], newcomer: Option<PeerId>) {
        for change in changes {
            let (a, b, linked) = match *change {
                Change::Linked(a, b) => (a, b, true),
                Change::Unlinked(a, b) => (a, b, false),
            };
            for (to, about) in [(a, b), (b, a)] {
                let Some((address, _)) = state.pages.peer(page, to) else { continue };
                if Some(to) == newcomer {
                    continue;
                }
                match state.pages.peer(page, about) {
                    Some((_, have)) if linked => {
                        self.tell(address, "peer_joined", peer_json(about, have));
                    }
                    // Two that still are there may go on; only the gone are told of.
                    None if !linked => {
                        self.tell(address, "peer_left", json!({ "peer": about.to_string() }));
                    }
                    _ => {}
                }
            }
        }
    }

    fn tell(&self, to: ChannelAddress, event: &str, body: Value) {
        self.endpoint.push(to, event, body).expect("the body is an object");
    }

    fn publish(&self, state: &mut State) {
        while let Some(output) = state.pages.poll_output() {
            let (page, event, body) = match output {
                Output::Counts { page, counts } => (page, "counts", counts_json(counts).into()),
                Output::Lit { page } => (page, "lit", Body::EMPTY),
                Output::Dark { page } => (page, "dark", Body::EMPTY),
            };
            self.endpoint.broadcast(&topic_of(&page), event, body).expect("the body is an object");
        }
    }
}

/// The topic of a page.
fn topic_of(page: &str) -> String {
    format!("page:{page}")
}

fn known_peers(
    state: &mut State,
    page: &str,
    peer: PeerId,
    neighbours: &[PeerId],
) -> Vec<(PeerId, Have)> {
    let seed = state.next_seed();
    let mut peers = state.pages.some_holders(page, peer, HOLDERS_TOLD, seed);
    for &neighbour in neighbours {
        if let Some((_, have)) = state.pages.peer(page, neighbour)
            && peers.iter().all(|(known, _)| *known != neighbour)
        {
            peers.push((neighbour, have));
        }
    }
    peers
}

pub(crate) fn peer_json(peer: PeerId, have: Have) -> Value {
    let have = match have {
        Have::Nothing => "none",
        Have::Some => "some",
        Have::All => "all",
    };
    json!({ "peer": peer.to_string(), "have": have })
}

pub(crate) fn counts_json(counts: Counts) -> Value {
    json!({
        "watching": counts.watching,
        "holders": counts.holders,
        "partial": counts.partial,
    })
}

/// A wait, as told to a client.
pub(crate) fn retry_after_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)
}
