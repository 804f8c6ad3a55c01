//! The pages that are open, and who is introduced to whom on them.
//!
//! Each process knows all peers of the pages that its own peers are on: its own it lets in here,
//! of those of other processes it is told. What follows (counts, lit, dark, neighbours) each
//! process works out for itself and tells its own peers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pages::{
    Counts, Have, JoinError, LastLit, NodeCounts, Output, OverQuota, PageLimits, Pages,
    QuotaLimits, Quotas, RelayRefusal,
};
use rings::{Change, Rings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vocab::{Instant, NodeId, PeerId};

use crate::app::{Body, ChannelAddress};
use crate::cluster::{Cluster, Word, word};
use crate::denied::Denied;
use crate::endpoint::Endpoint;
use crate::presence::lock;
use crate::seed::Seed;
use crate::worlds::Standings;

/// Random rings a page's peers are on: each has at most twice as many neighbours.
const RINGS: usize = 3;
/// Holders that a seeker is told of beside its neighbours.
const HOLDERS_TOLD: usize = 4;

/// The pages that are open. What it tells peers, it tells through the endpoint it was given.
pub(crate) struct PageBoard {
    endpoint: Endpoint,
    cluster: Arc<Cluster>,
    /// The same in all processes, so that their rings are.
    seed: Seed,
    /// Present when other worlds are met.
    standings: Option<Arc<Standings>>,
    denied: Arc<Denied>,
    state: Mutex<State>,
}

/// Where a peer of a page is found.
#[derive(Clone, Copy)]
struct Seat {
    address: ChannelAddress,
    kind: PeerKind,
}

struct State {
    pages: Pages<Seat>,
    rings: HashMap<Box<str>, Rings>,
    quotas: Quotas,
    last_lit: LastLit,
    /// When something last happened, for what other processes say between two ticks.
    now: Instant,
    dice: u64,
}

impl State {
    /// Seeds for dice, each another.
    fn next_seed(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.dice
    }

    fn rings<'a>(&'a mut self, page: &str, seed: Seed) -> &'a mut Rings {
        let of_page = || Rings::new(RINGS, seed.of(page));
        if !self.rings.contains_key(page) {
            self.rings.insert(page.into(), of_page());
        }
        self.rings.get_mut(page).expect("it is there, or was put there")
    }
}

/// What a peer says it is. Nobody checks it: whoever lies is met as what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PeerKind {
    /// A tab of a browser.
    #[default]
    Tab,
    /// A terminal, or a server that meets other worlds: it has nobody in front of it, and no WebRTC.
    Node,
}

/// What one peer is told of another.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub peer: PeerId,
    pub have: Have,
    pub kind: PeerKind,
}

/// What a peer is told when it joined.
pub(crate) struct Welcome {
    pub peers: Vec<Known>,
    pub counts: Counts,
    /// How long ago it was lit, when it is not, and that is remembered.
    pub last_lit: Option<Duration>,
}

/// Why a peer is not let on a page.
pub(crate) enum NotJoined {
    /// There is no room.
    Full(JoinError),
    /// Its address has used what it may.
    OverQuota(OverQuota),
    /// The operator wants nobody to be introduced there.
    Denied,
}

/// Why a peer's bytes are not passed on.
pub(crate) enum NotRelayed {
    /// By what the page and the peer may.
    Refused(RelayRefusal),
    /// Its address has used what it may.
    OverQuota(OverQuota),
}

/// What pages may cost, and what is remembered of them.
pub(crate) struct PageRules {
    pub limits: PageLimits,
    pub quotas: QuotaLimits,
    pub last_lit_kept: Duration,
    pub denied: Arc<Denied>,
}

impl PageBoard {
    pub fn new(
        rules: PageRules,
        seed: Seed,
        endpoint: Endpoint,
        cluster: Arc<Cluster>,
        standings: Option<Arc<Standings>>,
    ) -> Self {
        let PageRules { limits, quotas, last_lit_kept, denied } = rules;
        let state = State {
            pages: Pages::new(limits).counting_nodes(|seat| seat.kind == PeerKind::Node),
            rings: HashMap::new(),
            quotas: Quotas::new(quotas),
            last_lit: LastLit::new(last_lit_kept),
            now: Instant::ZERO,
            dice: seed.of(""),
        };
        PageBoard { endpoint, cluster, seed, standings, denied, state: Mutex::new(state) }
    }

    pub fn join(&self, now: Instant, page: &str, newcomer: Newcomer) -> Result<Welcome, NotJoined> {
        let Newcomer { peer, address, from, have, kind, is_visit } = newcomer;
        let mut state = lock(&self.state);
        // Looked up under the lock, so that nobody comes in while the denied are shown out.
        if self.denied.holds_page(page) {
            return Err(NotJoined::Denied);
        }
        if let Some(from) = from {
            state.quotas.enter(now, from).map_err(NotJoined::OverQuota)?;
        }
        let seat = Seat { address, kind };
        let joined = state.pages.join(now, page, peer, seat, have);
        let counts = joined.map_err(|error| {
            from.inspect(|from| state.quotas.leave(now, *from));
            NotJoined::Full(error)
        })?;
        self.standings.as_ref().inspect(|standings| standings.came(page, peer, have, is_visit));
        self.say(page, peer, seat, have);
        let rings = state.rings(page, self.seed);
        let changes = rings.join(peer);
        let neighbours = rings.neighbours(peer);
        self.introduce(&state, page, &changes, Some(peer));
        let peers = known_peers(&mut state, page, peer, &neighbours);
        self.publish(&mut state);
        let is_dark = counts.holders == 0;
        let last_lit = is_dark.then(|| state.last_lit.ago(now, page)).flatten();
        Ok(Welcome { peers, counts, last_lit })
    }

    pub fn progress(&self, now: Instant, page: &str, peer: PeerId, have: Have) {
        let mut state = lock(&self.state);
        let before = state.pages.peer(page, peer).map(|(_, have)| have);
        if let (Some(standings), Some(before)) = (&self.standings, before) {
            standings.has(page, peer, before, have);
        }
        state.pages.progress(now, page, peer, have);
        if let Some((seat, have)) = state.pages.peer(page, peer) {
            self.say(page, peer, seat, have);
        }
        self.publish(&mut state);
    }

    pub fn leave(&self, now: Instant, page: &str, peer: PeerId, from: Option<IpAddr>) {
        let mut state = lock(&self.state);
        from.inspect(|from| state.quotas.leave(now, *from));
        if let (Some(standings), Some((_, have))) = (&self.standings, state.pages.peer(page, peer))
        {
            standings.went(page, peer, have);
        }
        self.cluster.publish_state(&topic_of(page), || Word::PeerGone { page, peer: peer.0 });
        self.remove(&mut state, now, page, peer);
        self.publish(&mut state);
    }

    fn remove(&self, state: &mut State, now: Instant, page: &str, peer: PeerId) {
        state.pages.leave(now, page, peer);
        self.unlink(state, page, peer);
    }

    /// Close a peer's places on the rings, and tell those who were around it.
    fn unlink(&self, state: &mut State, page: &str, peer: PeerId) {
        let Some(rings) = state.rings.get_mut(page) else { return };
        let changes = rings.leave(peer);
        if rings.is_empty() {
            state.rings.remove(page);
        }
        self.introduce(state, page, &changes, None);
    }

    /// Tell the other processes of a peer of ours.
    fn say(&self, page: &str, peer: PeerId, seat: Seat, have: Have) {
        let said = || word::peer(page, peer, seat.address, have, seat.kind);
        self.cluster.publish_state(&topic_of(page), said);
    }

    /// A peer of another process is on a page, or has more of it.
    pub fn hear_of(
        &self,
        page: &str,
        peer: PeerId,
        address: ChannelAddress,
        have: Have,
        kind: PeerKind,
    ) {
        let mut state = lock(&self.state);
        if self.denied.holds_page(page) {
            return;
        }
        let now = state.now;
        state.pages.insert(now, page, peer, Seat { address, kind }, have);
        let changes = state.rings(page, self.seed).join(peer);
        self.introduce(&state, page, &changes, None);
        self.publish(&mut state);
    }

    /// A peer of another process is gone.
    pub fn hear_gone(&self, page: &str, peer: PeerId) {
        let mut state = lock(&self.state);
        let now = state.now;
        self.remove(&mut state, now, page, peer);
        self.publish(&mut state);
    }

    /// Another process is gone, and all its peers.
    pub fn node_down(&self, node: NodeId) {
        let mut state = lock(&self.state);
        let now = state.now;
        for (page, peer) in state.pages.forget(now, |seat| seat.address.node == node) {
            self.unlink(&mut state, &page, peer);
        }
        self.publish(&mut state);
    }

    /// Another process has peers on this page, too: tell it of ours.
    pub fn introduce_to(&self, node: NodeId, page: &str) {
        let state = lock(&self.state);
        for (peer, Seat { address, kind }, have) in state.pages.peers(page) {
            if address.node == self.cluster.me() {
                self.cluster.tell_state(node, &word::peer(page, peer, address, have, kind));
            }
        }
    }

    /// None of our peers is on this page any more, so that nobody tells us of the others.
    pub fn forget(&self, page: &str) {
        let mut state = lock(&self.state);
        let (now, me) = (state.now, self.cluster.me());
        for peer in state.pages.forget_on(now, page, |seat| seat.address.node != me) {
            self.unlink(&mut state, page, peer);
        }
        self.publish(&mut state);
    }

    /// Others that a peer may ask: its neighbours, and a few that hold everything.
    pub fn peers(&self, page: &str, peer: PeerId) -> Vec<Known> {
        let mut state = lock(&self.state);
        let neighbours = state.rings.get(page).map_or_else(Vec::new, |r| r.neighbours(peer));
        known_peers(&mut state, page, peer, &neighbours)
    }

    /// May `from` send this much to `to`? Then where to.
    pub fn relay(
        &self,
        now: Instant,
        page: &str,
        (from, at): (PeerId, Option<IpAddr>),
        to: PeerId,
        bytes: usize,
    ) -> Result<ChannelAddress, NotRelayed> {
        let mut state = lock(&self.state);
        if let Some(at) = at {
            state.quotas.check(now, at, bytes).map_err(NotRelayed::OverQuota)?;
        }
        let passed = state.pages.relay(now, page, from, to, bytes).map_err(NotRelayed::Refused)?;
        at.inspect(|at| state.quotas.spend(now, *at, bytes));
        Ok(passed.address)
    }

    /// May `from` send `to` one signal? Then where to.
    pub fn signal(
        &self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
    ) -> Result<ChannelAddress, RelayRefusal> {
        Ok(lock(&self.state).pages.signal(now, page, from, to)?.address)
    }

    /// Show everyone out of the pages that are denied by now, after telling them so.
    pub fn end_denied(&self) {
        let mut state = lock(&self.state);
        let now = state.now;
        let open = state.pages.names().filter(|page| self.denied.holds_page(page));
        for page in open.cloned().collect::<Vec<_>>() {
            self.endpoint.broadcast_here(&topic_of(&page), "denied", Body::EMPTY);
            for (peer, seat, have) in state.pages.peers(&page).collect::<Vec<_>>() {
                if seat.address.node == self.cluster.me()
                    && let Some(standings) = &self.standings
                {
                    standings.went(&page, peer, have);
                }
            }
            for peer in state.pages.forget_on(now, &page, |_| true) {
                if let Some(rings) = state.rings.get_mut(&*page) {
                    rings.leave(peer);
                }
            }
            state.rings.remove(&*page);
        }
    }

    /// Another process saw a page go dark.
    pub fn was_lit(&self, page: &str) {
        let mut state = lock(&self.state);
        let now = state.now;
        state.last_lit.note(now, page);
    }

    /// Tell what has waited for its time: the counts.
    pub fn tick(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.now = now;
        state.pages.handle_tick(now);
        self.publish(&mut state);
    }

    /// How many pages are open, and how many of them are lit.
    pub fn len(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.pages.len(), state.pages.lit())
    }

    /// Tell our peers who became, or is no longer, their neighbour. `newcomer` reads its own
    /// neighbours in its reply.
    fn introduce(&self, state: &State, page: &str, changes: &[Change], newcomer: Option<PeerId>) {
        for change in changes {
            let (a, b, linked) = match *change {
                Change::Linked(a, b) => (a, b, true),
                Change::Unlinked(a, b) => (a, b, false),
            };
            for (to, about) in [(a, b), (b, a)] {
                let Some((Seat { address, .. }, _)) = state.pages.peer(page, to) else { continue };
                if Some(to) == newcomer || address.node != self.cluster.me() {
                    continue;
                }
                match state.pages.peer(page, about) {
                    Some((Seat { kind, .. }, have)) if linked => {
                        let known = Known { peer: about, have, kind };
                        self.tell(address, "peer_joined", peer_json(known));
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
                Output::Dark { page } => {
                    let now = state.now;
                    state.last_lit.note(now, &page);
                    if state.last_lit.is_on() {
                        self.cluster.tell_all(|| Word::WasLit { page: &page });
                    }
                    (page, "dark", Body::EMPTY)
                }
            };
            self.endpoint.broadcast_here(&topic_of(&page), event, body);
        }
    }
}

/// Who comes to a page.
pub(crate) struct Newcomer {
    pub peer: PeerId,
    pub address: ChannelAddress,
    /// Where from, when limits per address hold for it.
    pub from: Option<IpAddr>,
    pub have: Have,
    pub kind: PeerKind,
    /// Whether it is a visit of our own.
    pub is_visit: bool,
}

/// The topic of a page.
fn topic_of(page: &str) -> String {
    format!("{TOPIC_PREFIX}{page}")
}

/// What the topics of pages begin with.
pub(crate) const TOPIC_PREFIX: &str = "page:";

fn known_peers(state: &mut State, page: &str, peer: PeerId, neighbours: &[PeerId]) -> Vec<Known> {
    let seed = state.next_seed();
    let holders = state.pages.some_holders(page, peer, HOLDERS_TOLD, seed);
    let mut peers: Vec<PeerId> = holders.into_iter().map(|(peer, _)| peer).collect();
    for &neighbour in neighbours {
        if !peers.contains(&neighbour) {
            peers.push(neighbour);
        }
    }
    let known = peers.into_iter().filter_map(|peer| {
        let (Seat { kind, .. }, have) = state.pages.peer(page, peer)?;
        Some(Known { peer, have, kind })
    });
    known.collect()
}

pub(crate) fn peer_json(Known { peer, have, kind }: Known) -> Value {
    let have = match have {
        Have::Nothing => "none",
        Have::Some => "some",
        Have::All => "all",
    };
    let mut told = json!({ "peer": peer.to_string(), "have": have });
    // Most are tabs, of which nothing is said.
    if kind == PeerKind::Node {
        told["kind"] = "node".into();
    }
    told
}

pub(crate) fn counts_json(counts: Counts) -> Value {
    let Counts { watching, holders, partial, nodes } = counts;
    let mut told = json!({ "watching": watching, "holders": holders, "partial": partial });
    // Most pages have none, and of them nothing is said.
    if nodes.watching > 0 {
        let NodeCounts { watching, holders, partial } = nodes;
        told["nodes"] = json!({ "watching": watching, "holders": holders, "partial": partial });
    }
    told
}

/// A wait, as told to a client.
pub(crate) fn retry_after_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)
}
