//! The open pages, and which of their peers are introduced to each other.
//!
//! Each process knows all peers of the pages that its own peers have open: its own peers join here,
//! and the other processes send theirs. From these each process computes counts, availability and
//! neighbours, and sends them to its own peers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use watchfire::feature::{ClusterPart, PartLink};
use watchfire::internal::{ClientSender, REPORT_ENTRIES_MAX, ReportWaker, Reporter, Seed};
use watchfire::{Body, ChannelAddress, Settings};
use watchfire_tracker::{
    Change, Counts, DayUsage, Have, JoinError, LastAvailable, Output, PageLimits, Pages,
    QuotaExceeded, QuotaLimits, QuotaReports, Quotas, RelayRefusal, Rings,
};
use watchfire_types::{Instant, NodeId, PeerId, Rng};

use super::availability::Availability;
use super::deny_list::DenyList;
use super::messages::Message;
use super::name::{TOPIC_PREFIX, topic_of};
use super::peer_json::{KnownPeer, PeerKind, counts_json};
use crate::settings::{self, PageSettings};

/// Random rings of each page. A peer has at most two neighbours on each.
const RINGS: usize = 3;
/// Holders that a peer gets besides its neighbours.
const HOLDERS_SENT: usize = 4;

/// The open pages, replicated between processes.
pub(crate) struct ReplicatedPages {
    sender: Arc<dyn ClientSender>,
    link: PartLink,
    /// Equal in all processes, so that their rings are equal too.
    seed: Seed,
    /// `None` without a gateway and neighbours.
    availability: Option<Arc<Availability>>,
    deny_list: Arc<DenyList>,
    report_waker: ReportWaker,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct PagePeer {
    address: ChannelAddress,
    kind: PeerKind,
    /// Whether this process has ignored a peer of another one with the same id.
    is_twice: bool,
}

impl PagePeer {
    fn new(address: ChannelAddress, kind: PeerKind) -> Self {
        PagePeer { address, kind, is_twice: false }
    }
}

struct State {
    pages: Pages<PagePeer>,
    rings: HashMap<Box<str>, Rings>,
    quotas: Quotas,
    last_available: LastAvailable,
    /// The time of the last tick, for messages of other processes.
    now: Instant,
    rng: Rng,
}

impl State {
    /// A seed for random choices, different each time.
    fn next_seed(&mut self) -> u64 {
        self.rng.next_u64()
    }

    fn rings<'a>(&'a mut self, page: &str, seed: Seed) -> &'a mut Rings {
        if !self.rings.contains_key(page) {
            self.rings.insert(page.into(), Rings::new(RINGS, seed.of(page)));
        }
        self.rings.get_mut(page).expect("the rings exist or were just created")
    }

    /// A peer, if it is the one that joined at this address. It was removed if the page was denied meanwhile, and
    /// another with the same key may have joined since.
    fn peer_at(
        &self,
        page: &str,
        peer: PeerId,
        address: ChannelAddress,
    ) -> Option<(PagePeer, Have)> {
        self.pages.peer(page, peer).filter(|(known, _)| known.address == address)
    }

    /// Peers for one peer: its neighbours, and a few that have the whole page.
    fn known_peers(&mut self, page: &str, peer: PeerId, neighbours: &[PeerId]) -> Vec<KnownPeer> {
        let seed = self.next_seed();
        let holders = self.pages.peers_with_blocks(page, peer, HOLDERS_SENT, seed);
        let mut peers: Vec<PeerId> = holders.into_iter().map(|(peer, _)| peer).collect();
        for &neighbour in neighbours {
            if !peers.contains(&neighbour) {
                peers.push(neighbour);
            }
        }
        let known = peers.into_iter().filter_map(|peer| {
            let (PagePeer { kind, .. }, have) = self.pages.peer(page, peer)?;
            Some(KnownPeer { peer, have, kind })
        });
        known.collect()
    }
}

pub(super) struct JoiningPeer {
    /// The id of its key, which it gets if no peer of the page has it.
    pub of_key: Option<PeerId>,
    /// The id that it gets otherwise.
    pub random: PeerId,
    pub address: ChannelAddress,
    /// Its address, when limits per address apply to it.
    pub from: Option<IpAddr>,
    pub have: Have,
    pub kind: PeerKind,
    /// Whether it is a client of this server's own.
    pub is_own_client: bool,
}

pub(super) struct JoinedPage {
    pub peer: PeerId,
    pub peers: Vec<KnownPeer>,
    pub counts: Counts,
    /// How long ago the page was last available. `None` when it is available, or that is not known.
    pub last_available: Option<Duration>,
}

pub(super) enum JoinRefusal {
    /// The page has too many peers, or the server too many pages.
    Full(JoinError),
    /// The peer's address reached a quota.
    QuotaExceeded(QuotaExceeded),
    /// The operator blocked the page.
    Denied,
}

/// Why relayed bytes are refused.
pub(super) enum RelayError {
    /// A limit of the page or the peer.
    Refused(RelayRefusal),
    /// The sender's address reached a quota.
    QuotaExceeded(QuotaExceeded),
}

/// Limits of pages, and how long the server remembers when they were available.
pub(crate) struct PageRules {
    limits: PageLimits,
    quotas: QuotaLimits,
    last_available_kept: Duration,
}

impl From<&Settings> for PageRules {
    fn from(settings: &Settings) -> Self {
        let limits: settings::PageLimits = settings.section();
        let quotas = QuotaLimits {
            pages_max: limits.pages_per_address_max as usize,
            relay_bytes_per_second_per_address: limits.relay_bytes_per_second_per_address,
            relay_burst: PageLimits::default().relay_burst,
            relay_bytes_per_day_per_address: limits.relay_bytes_per_day_per_address,
            processes: settings.server.processes.max(1).into(),
        };
        let limits = PageLimits {
            peers_per_page_max: limits.peers_per_page_max as usize,
            pages_max: limits.pages_max as usize,
            relay_bytes_per_second_per_page: limits.relay_bytes_per_second_per_page,
            relay_bytes_per_second_per_peer: limits.relay_bytes_per_second_per_peer,
            signals_per_second_per_peer: limits.signals_per_second_per_peer.into(),
            ..PageLimits::default()
        };
        let PageSettings { last_available_kept, .. } = settings.section();
        PageRules { limits, quotas, last_available_kept }
    }
}

impl ReplicatedPages {
    pub fn new(
        rules: PageRules,
        seed: Seed,
        sender: Arc<dyn ClientSender>,
        link: PartLink,
        availability: Option<Arc<Availability>>,
        deny_list: Arc<DenyList>,
        report_waker: ReportWaker,
    ) -> Self {
        let PageRules { limits, quotas, last_available_kept } = rules;
        let state = State {
            pages: Pages::new(limits).with_node_test(|peer| peer.kind == PeerKind::Node),
            rings: HashMap::new(),
            quotas: Quotas::new(quotas),
            last_available: LastAvailable::new(last_available_kept),
            now: Instant::ZERO,
            rng: Rng::from_seed(seed.of("")),
        };
        let state = Mutex::new(state);
        ReplicatedPages { sender, link, seed, availability, deny_list, report_waker, state }
    }

    /// Adds a peer of this process to a page.
    pub(super) fn join(
        &self,
        now: Instant,
        page: &str,
        joining: JoiningPeer,
    ) -> Result<JoinedPage, JoinRefusal> {
        let JoiningPeer { of_key, random, address, from, have, kind, is_own_client } = joining;
        let mut state = self.state.lock();
        let is_free = |peer: &PeerId| state.pages.peer(page, *peer).is_none();
        let peer = of_key.filter(is_free).unwrap_or(random);
        // Checked under the lock, so that no peer joins while `end_denied` removes them.
        if self.deny_list.holds_page(page) {
            return Err(JoinRefusal::Denied);
        }
        if let Some(from) = from {
            state.quotas.enter(from).map_err(JoinRefusal::QuotaExceeded)?;
            self.wake_reports(&state);
        }
        let entry = PagePeer::new(address, kind);
        let joined = state.pages.join(now, page, peer, entry, have);
        let counts = joined.map_err(|error| {
            from.inspect(|from| state.quotas.leave(now, *from));
            self.wake_reports(&state);
            JoinRefusal::Full(error)
        })?;
        if let Some(availability) = &self.availability {
            availability.peer_joined(page, peer, have, is_own_client);
        }
        self.publish_peer(page, peer, entry, have);
        let rings = state.rings(page, self.seed);
        let changes = rings.join(peer);
        let neighbours = rings.neighbours(peer);
        self.introduce(&state, page, &changes, Some(peer));
        let peers = state.known_peers(page, peer, &neighbours);
        self.send_outputs(&mut state);
        let is_available = counts.is_available();
        let last_available = (!is_available).then(|| state.last_available.ago(now, page)).flatten();
        Ok(JoinedPage { peer, peers, counts, last_available })
    }

    /// Notes how much of a page the peer at an address has now.
    pub(super) fn progress(
        &self,
        now: Instant,
        page: &str,
        peer: PeerId,
        address: ChannelAddress,
        have: Have,
    ) {
        let mut state = self.state.lock();
        let Some((entry, before)) = state.peer_at(page, peer, address) else { return };
        if let Some(availability) = &self.availability {
            availability.peer_progressed(page, peer, before, have);
        }
        state.pages.progress(now, page, peer, have);
        self.publish_peer(page, peer, entry, have);
        self.send_outputs(&mut state);
    }

    /// Removes the peer at an address, whose client has this address when limits apply to it.
    pub(super) fn leave(
        &self,
        now: Instant,
        page: &str,
        peer: PeerId,
        address: ChannelAddress,
        from: Option<IpAddr>,
    ) {
        let mut state = self.state.lock();
        from.inspect(|from| state.quotas.leave(now, *from));
        self.wake_reports(&state);
        let Some((_, have)) = state.peer_at(page, peer, address) else { return };
        if let Some(availability) = &self.availability {
            availability.peer_left(page, peer, have);
        }
        self.link.publish_state(&topic_of(page), || Message::PeerGone { page, peer: peer.0 });
        self.remove(&mut state, now, page, peer);
        self.send_outputs(&mut state);
    }

    fn remove(&self, state: &mut State, now: Instant, page: &str, peer: PeerId) {
        state.pages.leave(now, page, peer);
        self.unlink(state, page, peer);
    }

    /// Removes a peer from the rings, and notifies the peers that were its neighbours.
    fn unlink(&self, state: &mut State, page: &str, peer: PeerId) {
        let Some(rings) = state.rings.get_mut(page) else { return };
        let changes = rings.leave(peer);
        if rings.is_empty() {
            state.rings.remove(page);
        }
        self.introduce(state, page, &changes, None);
    }

    /// Sends a peer of this process to the other processes.
    fn publish_peer(&self, page: &str, peer: PeerId, entry: PagePeer, have: Have) {
        self.link.publish_state(&topic_of(page), || peer_message(page, peer, entry, have));
    }

    /// Peers for a peer that requests more: its neighbours, and a few that have the whole page.
    pub(super) fn peers(&self, page: &str, peer: PeerId) -> Vec<KnownPeer> {
        let mut state = self.state.lock();
        let neighbours = state.rings.get(page).map_or_else(Vec::new, |r| r.neighbours(peer));
        state.known_peers(page, peer, &neighbours)
    }

    /// Charges `bytes` from `from` to `to` to the limits. Returns the address of `to`.
    pub(super) fn relay(
        &self,
        now: Instant,
        page: &str,
        (from, at): (PeerId, Option<IpAddr>),
        to: PeerId,
        bytes: usize,
    ) -> Result<ChannelAddress, RelayError> {
        let mut state = self.state.lock();
        if let Some(at) = at {
            state.quotas.check(now, at, bytes).map_err(RelayError::QuotaExceeded)?;
        }
        let to = state.pages.relay(now, page, from, to, bytes).map_err(RelayError::Refused)?;
        at.inspect(|at| state.quotas.spend(now, *at, bytes));
        self.wake_reports(&state);
        Ok(to.address)
    }

    fn wake_reports(&self, state: &State) {
        if state.quotas.is_report_due() {
            self.report_waker.wake();
        }
    }

    /// Charges one signal from `from` to `to` to the limits. Returns the address of `to`.
    pub(super) fn signal(
        &self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
    ) -> Result<ChannelAddress, RelayRefusal> {
        Ok(self.state.lock().pages.signal(now, page, from, to)?.address)
    }

    /// Removes all peers from the pages that the deny-list names, after notifying them.
    pub fn end_denied(&self) {
        let mut state = self.state.lock();
        let now = state.now;
        let open = state.pages.names().filter(|page| self.deny_list.holds_page(page));
        for page in open.cloned().collect::<Vec<_>>() {
            self.sender.broadcast_here(&topic_of(&page), "denied", Body::EMPTY);
            for (peer, entry, have) in state.pages.peers(&page).collect::<Vec<_>>() {
                if entry.address.node() == self.link.cluster().me()
                    && let Some(availability) = &self.availability
                {
                    availability.peer_left(&page, peer, have);
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

    /// Sends the counts that are due.
    pub(super) fn handle_tick(&self, now: Instant) {
        let mut state = self.state.lock();
        state.now = now;
        state.pages.handle_tick(now);
        self.send_outputs(&mut state);
    }

    /// How many pages are open, and how many of them are available.
    pub(crate) fn len(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.pages.len(), state.pages.available())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.state.lock().pages.memory_bytes()
    }

    /// Notifies the peers of this process of new and former neighbours. `joining` gets its own
    /// neighbours in the reply to its join.
    fn introduce(&self, state: &State, page: &str, changes: &[Change], joining: Option<PeerId>) {
        for change in changes {
            let (a, b, is_linked) = match *change {
                Change::Linked(a, b) => (a, b, true),
                Change::Unlinked(a, b) => (a, b, false),
            };
            for (to, about) in [(a, b), (b, a)] {
                let Some((PagePeer { address, .. }, _)) = state.pages.peer(page, to) else {
                    continue;
                };
                if Some(to) == joining || address.node() != self.link.cluster().me() {
                    continue;
                }
                match state.pages.peer(page, about) {
                    Some((PagePeer { kind, .. }, have)) if is_linked => {
                        let known = KnownPeer { peer: about, have, kind };
                        self.push(address, "peer_joined", known.to_json());
                    }
                    // Former neighbours that both still have the page open may keep exchanging
                    // blocks.
                    None if !is_linked => {
                        self.push(address, "peer_left", json!({ "peer": about.to_string() }));
                    }
                    _ => {}
                }
            }
        }
    }

    fn push(&self, to: ChannelAddress, event: &str, body: Value) {
        self.sender.push(to, event, body.into()).ok();
    }

    fn send_outputs(&self, state: &mut State) {
        while let Some(output) = state.pages.poll_output() {
            let (page, event, body) = match output {
                Output::Counts { page, counts } => (page, "counts", counts_json(counts).into()),
                Output::Available { page } => (page, "available", Body::EMPTY),
                Output::Unavailable { page } => {
                    let now = state.now;
                    state.last_available.note(now, &page);
                    if state.last_available.is_on() {
                        self.link.send_all(|| Message::PageUnavailable { page: &page });
                    }
                    (page, "unavailable", Body::EMPTY)
                }
            };
            self.sender.broadcast_here(&topic_of(&page), event, body);
        }
    }

    /// Removes the peers of some processes from a page.
    fn forget_peers(&self, page: &str, is_gone: impl Fn(NodeId) -> bool) {
        let mut state = self.state.lock();
        let now = state.now;
        for peer in state.pages.forget_on(now, page, |entry| is_gone(entry.address.node())) {
            self.unlink(&mut state, page, peer);
        }
        self.send_outputs(&mut state);
    }

    /// Adds a peer of another process to a page, or notes its progress.
    fn insert_remote(&self, page: &str, peer: PeerId, entry: PagePeer, have: Have) {
        let mut state = self.state.lock();
        if self.deny_list.holds_page(page) {
            return;
        }
        // A client that joined here and there at the same moment has one key, and so one id.
        let (me, now) = (self.link.cluster().me(), state.now);
        if let Some((known, have)) = state.pages.peer(page, peer)
            && known.address.node() == me
        {
            let known = PagePeer { is_twice: true, ..known };
            return state.pages.insert(now, page, peer, known, have);
        }
        state.pages.insert(now, page, peer, entry, have);
        let changes = state.rings(page, self.seed).join(peer);
        self.introduce(&state, page, &changes, None);
        self.send_outputs(&mut state);
    }
}

impl Reporter for ReplicatedPages {
    fn send_reports(&self) -> bool {
        let mut state = self.state.lock();
        let reports = state.quotas.take_reports(REPORT_ENTRIES_MAX);
        if reports != QuotaReports::default() {
            let QuotaReports { pages, relayed } = reports;
            // Under the lock, so that reports arrive in their order.
            self.link.send_state_all(&Message::Quotas { pages, relayed });
        }
        state.quotas.is_report_due()
    }
}

impl ClusterPart for ReplicatedPages {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(message)? {
            Message::Peer { page, peer, address, have, kind } => {
                // The subscription may have ended while the message was on its way.
                if self.link.cluster().is_subscribed(&topic_of(page)) {
                    let entry = PagePeer::new(address.into(), kind);
                    self.insert_remote(page, PeerId(peer), entry, have.into());
                }
            }
            Message::PeerGone { page, peer } => {
                let mut state = self.state.lock();
                let (now, peer) = (state.now, PeerId(peer));
                // A peer with a key may have joined at another process meanwhile, with the same id.
                match state.pages.peer(page, peer) {
                    Some((known, _)) if known.address.node() == from => {
                        self.remove(&mut state, now, page, peer);
                        self.send_outputs(&mut state);
                    }
                    // The sender has ignored this peer while it had its own, and the others have removed the id
                    // if the sender was the last to tell them of it.
                    Some((known, have)) if known.address.node() == self.link.cluster().me() => {
                        self.publish_peer(page, peer, known, have);
                    }
                    _ => {}
                }
            }
            Message::Ended { page } => self.forget_peers(page, |node| node == from),
            Message::PageUnavailable { page } => {
                let mut state = self.state.lock();
                let now = state.now;
                state.last_available.note(now, page);
            }
            Message::Quotas { pages, relayed } => {
                let mut state = self.state.lock();
                let now = state.now;
                state.quotas.receive(now, from, &QuotaReports { pages, relayed });
                self.wake_reports(&state);
            }
            Message::DayUsages(usages) => {
                let mut state = self.state.lock();
                let now = state.now;
                for (address, bytes, left) in usages {
                    state.quotas.note_day_usage(now, DayUsage { address, bytes, left });
                }
            }
        }
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX) else { return };
        let state = self.state.lock();
        for (peer, entry, have) in state.pages.peers(page) {
            if entry.address.node() == self.link.cluster().me() {
                self.link.send_state(node, &peer_message(page, peer, entry, have));
            }
        }
    }

    fn unsubscribed(&self, node: NodeId, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX) else { return };
        self.link.send_state(node, &Message::Ended { page });
    }

    fn forget(&self, topic: &str) {
        let Some(page) = topic.strip_prefix(TOPIC_PREFIX) else { return };
        let me = self.link.cluster().me();
        self.forget_peers(page, |node| node != me);
    }

    fn node_up(&self, node: NodeId) {
        let state = self.state.lock();
        for pages in state.quotas.reported_pages().chunks(REPORT_ENTRIES_MAX) {
            let pages = pages.to_vec();
            self.link.send_state(node, &Message::Quotas { pages, relayed: Vec::new() });
        }
        // All processes know the same usage of the day, so one of them sends it.
        let cluster = self.link.cluster();
        if cluster.others().any(|(other, _)| other < cluster.me() && other != node) {
            return;
        }
        for usages in state.quotas.day_usages(state.now).chunks(REPORT_ENTRIES_MAX) {
            let usages = usages.iter().map(|usage| (usage.address, usage.bytes, usage.left));
            self.link.send_state(node, &Message::DayUsages(usages.collect()));
        }
    }

    fn node_down(&self, node: NodeId) {
        let mut state = self.state.lock();
        let now = state.now;
        state.quotas.node_down(node);
        for (page, peer) in state.pages.forget(now, |entry| entry.address.node() == node) {
            self.unlink(&mut state, &page, peer);
        }
        // A third process may have known the peer of that process by this id, and now knows none.
        for page in state.pages.names() {
            for (peer, entry, have) in state.pages.peers(page).filter(|(_, at, _)| at.is_twice) {
                self.publish_peer(page, peer, entry, have);
            }
        }
        self.send_outputs(&mut state);
    }
}

fn peer_message(page: &str, peer: PeerId, entry: PagePeer, have: Have) -> Message<'_> {
    let PagePeer { address, kind, .. } = entry;
    Message::Peer { page, peer: peer.0, address: address.into(), have: have.into(), kind }
}

#[cfg(test)]
mod tests {
    use watchfire_types::ShardId;

    use super::*;
    use crate::fakes::{FakeBus, NoClients};
    use crate::format::part_name;

    const PAGE: &str = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";

    fn pages() -> ReplicatedPages {
        pages_on(&Arc::default())
    }

    fn pages_on(bus: &Arc<FakeBus>) -> ReplicatedPages {
        ReplicatedPages::new(
            PageRules::from(&Settings::default()),
            Seed::from(&[7; 32]),
            Arc::new(NoClients),
            PartLink::new(&bus.cluster(), part_name("pages")),
            None,
            Arc::new(DenyList::default()),
            ReportWaker::new().0,
        )
    }

    fn receive(pages: &ReplicatedPages, from: u16, message: &Message<'_>) {
        pages.receive(NodeId(from), &postcard::to_stdvec(message).unwrap()).unwrap();
    }

    /// Another process tells that a peer joined there.
    fn insert(pages: &ReplicatedPages, from: u16, peer: u64) {
        let address = ChannelAddress::first_of(NodeId(from), ShardId(0));
        let entry = PagePeer::new(address, PeerKind::Tab);
        receive(pages, from, &peer_message(PAGE, PeerId(peer), entry, Have::All));
    }

    /// The address at which clients of this process join.
    fn here() -> ChannelAddress {
        ChannelAddress::first_of(NodeId(0), ShardId(0))
    }

    /// The peers of the page, and the process of each.
    fn known(pages: &ReplicatedPages) -> Vec<(u64, u16)> {
        let state = pages.state.lock();
        let peers =
            state.pages.peers(PAGE).map(|(peer, entry, _)| (peer.0, entry.address.node().0));
        let mut peers: Vec<_> = peers.collect();
        peers.sort_unstable();
        peers
    }

    /// A client of this process joins with the key of this id.
    fn join(pages: &ReplicatedPages, of_key: u64, random: u64) -> u64 {
        let joining = JoiningPeer {
            of_key: Some(PeerId(of_key)),
            random: PeerId(random),
            address: here(),
            from: None,
            have: Have::Nothing,
            kind: PeerKind::Tab,
            is_own_client: false,
        };
        let joined = pages.join(Instant::ZERO, PAGE, joining);
        joined.map_or_else(|_| panic!("it joins"), |joined| joined.peer.0)
    }

    #[test]
    fn a_peer_gets_the_id_of_its_key_unless_a_peer_of_any_process_has_it() {
        let pages = pages();
        insert(&pages, 1, 10);
        assert_eq!(join(&pages, 10, 90), 90);
        assert_eq!(join(&pages, 11, 91), 11);
        assert_eq!(join(&pages, 11, 92), 92);
        pages.leave(Instant::ZERO, PAGE, PeerId(11), here(), None);
        receive(&pages, 1, &Message::PeerGone { page: PAGE, peer: 10 });
        assert_eq!([join(&pages, 11, 93), join(&pages, 10, 94)], [11, 10]);
    }

    #[test]
    fn a_peer_that_moved_to_another_process_stays_when_the_first_one_notices_its_end() {
        let pages = pages();
        insert(&pages, 1, 10);
        insert(&pages, 2, 10);
        receive(&pages, 1, &Message::PeerGone { page: PAGE, peer: 10 });
        assert_eq!(known(&pages), [(10, 2)]);
        // Both processes admitted it before they knew of each other's peer.
        join(&pages, 11, 91);
        insert(&pages, 2, 11);
        receive(&pages, 2, &Message::PeerGone { page: PAGE, peer: 11 });
        assert_eq!(known(&pages), [(10, 2), (11, 0)]);
    }

    #[test]
    fn a_peer_is_sent_again_when_another_process_ends_its_own_of_the_same_id() {
        let bus = Arc::new(FakeBus::default());
        let pages = pages_on(&bus);
        join(&pages, 11, 91);
        let sent = bus.take_published();
        assert_eq!(sent.len(), 1);
        receive(&pages, 1, &Message::PeerGone { page: PAGE, peer: 11 });
        assert_eq!(bus.take_published(), sent);
        insert(&pages, 2, 20);
        for peer in [20, 30] {
            receive(&pages, 1, &Message::PeerGone { page: PAGE, peer });
        }
        assert!(bus.take_published().is_empty(), "not a peer of this process");
    }

    #[test]
    fn a_peer_is_sent_again_when_a_process_is_gone_that_had_another_of_the_same_id() {
        let bus = Arc::new(FakeBus::default());
        let pages = pages_on(&bus);
        for peer in [11, 12] {
            join(&pages, peer, 90);
        }
        insert(&pages, 1, 11);
        insert(&pages, 2, 20);
        let sent = bus.take_published();
        pages.node_down(NodeId(1));
        assert_eq!(bus.take_published(), sent[..1], "the peer 11, and no other");
        assert_eq!(known(&pages), [(11, 0), (12, 0), (20, 2)]);
    }

    #[test]
    fn a_peer_that_was_ignored_is_known_when_the_own_one_of_the_same_id_has_left() {
        let pages = pages();
        join(&pages, 11, 91);
        insert(&pages, 2, 11);
        assert_eq!(known(&pages), [(11, 0)]);
        pages.leave(Instant::ZERO, PAGE, PeerId(11), here(), None);
        assert!(known(&pages).is_empty());
        // The process 2 sends it again when it is told of the end.
        insert(&pages, 2, 11);
        assert_eq!(known(&pages), [(11, 2)]);
    }

    #[test]
    fn a_member_whose_peer_was_removed_does_not_change_another_with_its_id() {
        let bus = Arc::new(FakeBus::default());
        let mut pages = pages_on(&bus);
        let link = PartLink::new(&bus.cluster(), part_name("availability"));
        pages.availability = Some(Arc::new(Availability::new(link, true)));
        insert(&pages, 2, 11);
        join(&pages, 12, 92);
        bus.take_published();
        let elsewhere = ChannelAddress::first_of(NodeId(0), ShardId(1));
        for (peer, address) in [(11, here()), (12, elsewhere)] {
            pages.progress(Instant::ZERO, PAGE, PeerId(peer), address, Have::Some);
            pages.leave(Instant::ZERO, PAGE, PeerId(peer), address, None);
        }
        assert_eq!(known(&pages), [(11, 2), (12, 0)]);
        assert!(bus.take_published().is_empty());
    }

    #[test]
    fn a_peer_of_an_earlier_subscription_does_not_stay() {
        let pages = pages();
        // The peer 10 joined while this process was subscribed, and left when it was not: nobody says
        // so. Then it subscribed again.
        for (from, number) in [(1, 10), (1, 11), (2, 20)] {
            insert(&pages, from, number);
        }
        receive(&pages, 1, &Message::Ended { page: PAGE });
        assert_eq!(known(&pages), [(20, 2)]);
        insert(&pages, 1, 11);
        assert_eq!(known(&pages), [(11, 1), (20, 2)]);
    }
}
