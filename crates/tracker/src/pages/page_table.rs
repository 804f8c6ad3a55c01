use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use watchfire_types::{Instant, PeerId, heap_bytes};

use crate::address_quotas::budget::Rate;
use crate::pages::limits::{JoinError, PageLimits, RelayRefusal};
use crate::pages::output::{Counts, Have, Output};
use crate::pages::page::{Page, Peer};
use crate::pages::pending_events::Due;

/// All open pages.
///
/// `A` is the driver's address of a peer, such as its socket. A driver gives one input, drains
/// [`Pages::poll_output`], and sends a tick at [`Pages::next_wake`]. One input makes at most two
/// outputs for each page it changes; one tick, one for each page that is due.
///
/// Several processes may each have a replica. Each sends its own peers to the others, which
/// [`Pages::insert`] them. Counts and availability include all peers of the page.
#[derive(Debug)]
pub struct Pages<A> {
    limits: PageLimits,
    pages: BTreeMap<Arc<str>, Page<A>>,
    available: usize,
    /// Peers of all pages.
    peers: usize,
    /// Pages with an event that must wait, in order of time.
    wakes: BTreeSet<(Instant, Arc<str>)>,
    outputs: VecDeque<Output>,
    is_node: fn(&A) -> bool,
}

impl<A: Copy> Pages<A> {
    pub fn new(limits: PageLimits) -> Self {
        Pages {
            limits,
            pages: BTreeMap::new(),
            available: 0,
            peers: 0,
            wakes: BTreeSet::new(),
            outputs: VecDeque::new(),
            is_node: |_| false,
        }
    }

    /// Sets the test that [`Counts::nodes`] uses. Without it, no peer is a node.
    pub fn with_node_test(mut self, is_node: fn(&A) -> bool) -> Self {
        self.is_node = is_node;
        self
    }

    /// Adds a peer to a page. Returns the counts for its join reply; they include the peer.
    ///
    /// When the peer is on the page already, its address is replaced.
    pub fn join(
        &mut self,
        now: Instant,
        page: &str,
        peer: PeerId,
        address: A,
        have: Have,
    ) -> Result<Counts, JoinError> {
        self.check_room(page, peer)?;
        let is_first = self.open(page).counts().watching == 0;
        self.change(now, page, |page| {
            page.join(peer, address, have);
            if is_first {
                // The first peer sees the counts in its join reply.
                page.pending.note_counts_known(page.counts());
            }
        });
        let page = self.pages.get_mut(page).expect("the page has a peer");
        page.pending.note_counts_in_reply(page.counts());
        Ok(page.counts())
    }

    /// Adds a peer of another process. No limit applies, because that process has admitted it. It
    /// counts towards the limits of [`Pages::join`].
    ///
    /// The peer gets its counts from its own process. When it is on the page already, its address is
    /// replaced.
    pub fn insert(&mut self, now: Instant, page: &str, peer: PeerId, address: A, have: Have) {
        self.open(page);
        self.change(now, page, |page| page.join(peer, address, have));
    }

    /// Updates how much of the page a peer has.
    pub fn progress(&mut self, now: Instant, page: &str, peer: PeerId, have: Have) {
        self.change(now, page, |page| page.progress(peer, have));
    }

    /// Removes a peer. A page without peers is forgotten.
    pub fn leave(&mut self, now: Instant, page: &str, peer: PeerId) {
        self.change(now, page, |page| page.leave(peer));
    }

    /// Removes every peer whose address matches, such as the peers of a process that stopped. Returns
    /// the removed peers with their pages.
    ///
    /// A page that becomes empty is forgotten without an event, because no peer could receive one.
    /// The cost is proportional to all peers of all pages.
    pub fn forget(
        &mut self,
        now: Instant,
        mut is_gone: impl FnMut(A) -> bool,
    ) -> Vec<(Arc<str>, PeerId)> {
        let pages: Vec<Arc<str>> = self.pages.keys().cloned().collect();
        let forgotten = pages.into_iter().flat_map(|page| {
            let gone = self.forget_on(now, &page, &mut is_gone);
            gone.into_iter().map(move |peer| (page.clone(), peer))
        });
        forgotten.collect()
    }

    /// Like [`Pages::forget`], for one page. The driver calls it when the last local peer has left,
    /// because the other processes then stop sending changes of that page. Peers are returned in
    /// order.
    pub fn forget_on(
        &mut self,
        now: Instant,
        page: &str,
        mut is_gone: impl FnMut(A) -> bool,
    ) -> Vec<PeerId> {
        let peers = self.peers(page).filter(|(_, address, _)| is_gone(*address));
        let mut gone: Vec<PeerId> = peers.map(|(peer, ..)| peer).collect();
        gone.sort_unstable();
        let Some(Counts { watching, .. }) = self.counts(page) else { return gone };
        if gone.len() == watching {
            self.close(page);
        } else if !gone.is_empty() {
            self.change(now, page, |page| gone.iter().for_each(|peer| page.leave(*peer)));
        }
        gone
    }

    /// Charges `bytes` to the sender and the page, and returns the destination's address.
    ///
    /// When a budget does not allow it, nothing is charged.
    pub fn relay(
        &mut self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
        bytes: usize,
    ) -> Result<A, RelayRefusal> {
        let (page_rate, peer_rate) = self.rates();
        let page = self.pages.get_mut(page).ok_or(RelayRefusal::NoSuchPeer)?;
        if from == to {
            return Err(RelayRefusal::NoSuchPeer);
        }
        let address = page.peer(to).ok_or(RelayRefusal::NoSuchPeer)?.0.address;
        let page_budget = page.budget;
        let sender = page.peer_mut(from).ok_or(RelayRefusal::NoSuchPeer)?;
        let page_wait = page_budget.wait(now, page_rate, bytes);
        let peer_wait = sender.budget.wait(now, peer_rate, bytes);
        if !peer_wait.is_zero() && peer_wait >= page_wait {
            return Err(RelayRefusal::PeerBudget { retry_after: peer_wait });
        }
        if !page_wait.is_zero() {
            return Err(RelayRefusal::PageBudget { retry_after: page_wait });
        }
        sender.budget.spend(now, peer_rate, bytes);
        page.budget.spend(now, page_rate, bytes);
        Ok(address)
    }

    /// Charges one WebRTC signal to the sender, and returns the destination's address.
    ///
    /// When the sender's budget does not allow it, nothing is charged.
    pub fn signal(
        &mut self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
    ) -> Result<A, RelayRefusal> {
        let limits = &self.limits;
        let rate = Rate {
            per_second: limits.signals_per_second_per_peer.into(),
            burst: limits.signal_burst,
        };
        let page = self.pages.get_mut(page).ok_or(RelayRefusal::NoSuchPeer)?;
        if from == to {
            return Err(RelayRefusal::NoSuchPeer);
        }
        let address = page.peer(to).ok_or(RelayRefusal::NoSuchPeer)?.0.address;
        let sender = page.peer_mut(from).ok_or(RelayRefusal::NoSuchPeer)?;
        let retry_after = sender.signals.wait(now, rate, 1);
        if !retry_after.is_zero() {
            return Err(RelayRefusal::PeerBudget { retry_after });
        }
        sender.signals.spend(now, rate, 1);
        Ok(address)
    }

    /// A peer's address, and how much of the page it has.
    pub fn peer(&self, page: &str, peer: PeerId) -> Option<(A, Have)> {
        let (peer, have) = self.pages.get(page)?.peer(peer)?;
        Some((peer.address, have))
    }

    /// A page's peers with their addresses and what they have; empty when the page is not open.
    pub fn peers(&self, page: &str) -> impl Iterator<Item = (PeerId, A, Have)> {
        let page = self.pages.get(page).into_iter();
        page.flat_map(Page::peers).map(|(peer, have)| (peer.id, peer.address, have))
    }

    /// Up to `n` peers from which `except` can request blocks: holders first, then partial peers.
    ///
    /// The seed selects the first one, so that requests are spread over the peers.
    pub fn peers_with_blocks(
        &self,
        page: &str,
        except: PeerId,
        n: usize,
        seed: u64,
    ) -> Vec<(PeerId, Have)> {
        self.pages.get(page).map_or_else(Vec::new, |page| page.peers_with_blocks(except, n, seed))
    }

    /// A page's counts; `None` when no peer has it open.
    pub fn counts(&self, page: &str) -> Option<Counts> {
        self.pages.get(page).map(Page::counts)
    }

    /// The pages that are open, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pages.keys()
    }

    /// The number of open pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// The memory of all pages and their peers, estimated from their numbers: a page has a list with four places and
    /// a leaf of a tree with eleven, and both grow by half of what they need on average.
    pub fn memory_bytes(&self) -> usize {
        let (peer, position) = (size_of::<Peer<A>>(), size_of::<(PeerId, u32)>());
        let page = size_of::<Page<A>>() * 3 / 2 + heap_bytes(4 * peer) + heap_bytes(11 * position);
        self.pages.len() * page + self.peers * (peer + position) * 3 / 2
    }

    /// Whether no page is open.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The number of open pages that are available.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Pushes the events that are due.
    pub fn handle_tick(&mut self, now: Instant) {
        while let Some((at, _)) = self.wakes.first()
            && *at <= now
        {
            let (_, name) = self.wakes.pop_first().expect("there is a first");
            self.push_due_events(now, &name);
        }
    }

    /// When [`Pages::handle_tick`] has something to do; `None` while nothing is due.
    pub fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// The next event, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Checks the limits for one more peer on a page.
    fn check_room(&self, name: &str, peer: PeerId) -> Result<(), JoinError> {
        let max = self.limits.peers_per_page_max;
        let page = self.pages.get(name);
        if page.is_some_and(|page| page.has(peer)) {
            return Ok(());
        }
        if page.map_or(0, |page| page.counts().watching) >= max {
            return Err(JoinError::PageFull { max });
        }
        if page.is_none() {
            let max = self.limits.pages_max;
            if self.pages.len() >= max {
                return Err(JoinError::TooManyPages { max });
            }
        }
        Ok(())
    }

    /// The page; it is opened if needed.
    fn open(&mut self, name: &str) -> &Page<A> {
        if !self.pages.contains_key(name) {
            let name: Arc<str> = name.into();
            self.pages.insert(name.clone(), Page::new(name, self.is_node));
        }
        &self.pages[name]
    }

    /// Changes a page and pushes the events that are due immediately. A page without peers is removed.
    fn change(&mut self, now: Instant, name: &str, change: impl FnOnce(&mut Page<A>)) {
        let Some(page) = self.pages.get_mut(name) else { return };
        let before = page.counts();
        // `push_due_events` inserts the wake again if it is still needed.
        if let Some(at) = page.pending.due_at(before) {
            self.wakes.remove(&(at, page.name.clone()));
        }
        change(page);
        let after = page.counts();
        self.available += usize::from(after.is_available());
        self.available -= usize::from(before.is_available());
        self.peers = self.peers + after.watching - before.watching;
        if after.watching > 0 {
            self.push_due_events(now, name);
        } else if let Some(page) = self.pages.remove(name)
            && page.pending.is_available()
        {
            self.outputs.push_back(Output::Unavailable { page: page.name });
        }
    }

    /// Pushes a page's due events, and sets a wake for those that must wait.
    fn push_due_events(&mut self, now: Instant, name: &str) {
        let page = self.pages.get_mut(name).expect("only open pages have events");
        let counts = page.counts();
        while let Some(item) = page.pending.take(now, counts, self.limits.counts_period) {
            let page = page.name.clone();
            self.outputs.push_back(match item {
                Due::Counts => Output::Counts { page, counts },
                Due::Available => Output::Available { page },
                Due::Unavailable => Output::Unavailable { page },
            });
        }
        if let Some(at) = page.pending.due_at(counts) {
            self.wakes.insert((at, page.name.clone()));
        }
    }

    /// Removes a page and its peers without an event.
    fn close(&mut self, name: &str) {
        let Some(page) = self.pages.remove(name) else { return };
        let counts = page.counts();
        self.available -= usize::from(counts.is_available());
        self.peers -= counts.watching;
        if let Some(at) = page.pending.due_at(counts) {
            self.wakes.remove(&(at, page.name));
        }
    }

    /// The relay rates of a page and of one peer.
    fn rates(&self) -> (Rate, Rate) {
        let rate = |per_second| Rate { per_second, burst: self.limits.relay_burst };
        let limits = &self.limits;
        (rate(limits.relay_bytes_per_second_per_page), rate(limits.relay_bytes_per_second_per_peer))
    }
}
