use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use vocab::{Instant, PeerId};

use crate::budget::Rate;
use crate::error::{JoinError, RelayRefusal};
use crate::have::Have;
use crate::limits::PageLimits;
use crate::news::Item;
use crate::output::{Counts, Output};
use crate::page::Page;

/// The pages that someone has open.
///
/// `A` is the driver's address of a peer, such as its socket. A driver gives one input, drains
/// [`Pages::poll_output`], and sends a tick at [`Pages::next_wake`]. One input makes at most two
/// outputs for each page it changes; one tick, one for each page that is due.
///
/// Several processes may each hold a replica: every one tells the others of its own peers, and they
/// [`Pages::insert`] them. Counts, and whether a page is lit, are those of all its peers.
#[derive(Debug)]
pub struct Pages<A> {
    limits: PageLimits,
    pages: BTreeMap<Arc<str>, Page<A>>,
    lit: usize,
    /// The pages that have something to tell later, by when.
    wakes: BTreeSet<(Instant, Arc<str>)>,
    outputs: VecDeque<Output>,
    is_node: fn(&A) -> bool,
}

impl<A: Copy> Pages<A> {
    /// No page yet.
    pub fn new(limits: PageLimits) -> Self {
        Pages {
            limits,
            pages: BTreeMap::new(),
            lit: 0,
            wakes: BTreeSet::new(),
            outputs: VecDeque::new(),
            is_node: |_| false,
        }
    }

    /// The same, of which [`Counts::nodes`] tells those apart whose address says that they are
    /// nodes. Until then nobody is.
    pub fn counting_nodes(mut self, is_node: fn(&A) -> bool) -> Self {
        self.is_node = is_node;
        self
    }

    /// A peer opens a page; the first to do so opens it for all. Returns the counts with the peer
    /// in them, for its reply.
    ///
    /// A peer that is on the page already gets the new address.
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
                // Who opens a page reads its counts in the reply.
                page.news.counts_are_known(page.counts());
            }
        });
        let page = self.pages.get_mut(page).expect("it has a peer");
        page.news.counts_are_read(page.counts());
        Ok(page.counts())
    }

    /// A peer of another process has the page open. Its own process let it in, so no limit refuses
    /// it here; it counts towards those that [`Pages::join`] keeps.
    ///
    /// It reads no counts here: its own process tells it. A peer that is on the page already gets
    /// the new address.
    pub fn insert(&mut self, now: Instant, page: &str, peer: PeerId, address: A, have: Have) {
        self.open(page);
        self.change(now, page, |page| page.join(peer, address, have));
    }

    /// A peer has more of the page, or less.
    pub fn progress(&mut self, now: Instant, page: &str, peer: PeerId, have: Have) {
        self.change(now, page, |page| page.progress(peer, have));
    }

    /// A peer closes the page; the last to do so makes it forgotten.
    pub fn leave(&mut self, now: Instant, page: &str, peer: PeerId) {
        self.change(now, page, |page| page.leave(peer));
    }

    /// Every peer with such an address is gone, as when another process has died. Returns which
    /// were gone from which pages.
    ///
    /// A page that has nobody left is forgotten silently, for nobody is there to be told. The work
    /// grows with all peers of all pages.
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

    /// As [`Pages::forget`], but on one page alone: as when the last who had it open here has left,
    /// so that the other processes will tell no more of it. The peers are returned in order.
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

    /// May `from` send this many bytes to `to`? Then they are spent, and here is where to.
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

    /// May `from` send one signal to `to`, by which the two find a direct path? Then it is spent,
    /// and here is where to.
    pub fn signal(
        &mut self,
        now: Instant,
        page: &str,
        from: PeerId,
        to: PeerId,
    ) -> Result<A, RelayRefusal> {
        let limits = &self.limits;
        let rate =
            Rate { per_second: limits.signals_per_second_peer.into(), burst: limits.signal_burst };
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

    /// A peer's address, and how much it has.
    pub fn peer(&self, page: &str, peer: PeerId) -> Option<(A, Have)> {
        let (peer, have) = self.pages.get(page)?.peer(peer)?;
        Some((peer.address, have))
    }

    /// A page's peers with their addresses, and how much they have; none when it is not open.
    pub fn peers(&self, page: &str) -> impl Iterator<Item = (PeerId, A, Have)> {
        let page = self.pages.get(page).into_iter();
        page.flat_map(Page::peers).map(|(peer, have)| (peer.id, peer.address, have))
    }

    /// Up to `n` peers to ask, but not `except`: holders of all first, then of some.
    ///
    /// Another seed starts at another holder, so that requests spread over them.
    pub fn some_holders(
        &self,
        page: &str,
        except: PeerId,
        n: usize,
        seed: u64,
    ) -> Vec<(PeerId, Have)> {
        self.pages.get(page).map_or_else(Vec::new, |page| page.some_holders(except, n, seed))
    }

    /// A page's counts; `None` when nobody has it open.
    pub fn counts(&self, page: &str) -> Option<Counts> {
        self.pages.get(page).map(Page::counts)
    }

    /// The pages that are open, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pages.keys()
    }

    /// How many pages are open.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether no page is open.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How many of the open pages someone holds whole.
    pub fn lit(&self) -> usize {
        self.lit
    }

    /// Tell what has waited for its time.
    pub fn handle_tick(&mut self, now: Instant) {
        while let Some((at, _)) = self.wakes.first()
            && *at <= now
        {
            let (_, name) = self.wakes.pop_first().expect("it was seen");
            self.tell_news(now, &name);
        }
    }

    /// When [`Pages::handle_tick`] has something to do; `None` while nothing is due.
    pub fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// What is to be told next, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Is there room for a peer on a page?
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

    /// The page, opened if need be.
    fn open(&mut self, name: &str) -> &Page<A> {
        if !self.pages.contains_key(name) {
            let name: Arc<str> = name.into();
            self.pages.insert(name.clone(), Page::new(name, self.is_node));
        }
        &self.pages[name]
    }

    /// Change a page and tell its peers what they may be told at once. Nothing of it is kept when
    /// nobody has it open any more, and nobody waits for its counts.
    fn change(&mut self, now: Instant, name: &str, change: impl FnOnce(&mut Page<A>)) {
        let Some(page) = self.pages.get_mut(name) else { return };
        let before = page.counts();
        // A wake that is still right comes back with the news.
        if let Some(at) = page.news.due_at(before) {
            self.wakes.remove(&(at, page.name.clone()));
        }
        change(page);
        let after = page.counts();
        self.lit += usize::from(after.is_lit());
        self.lit -= usize::from(before.is_lit());
        if after.watching > 0 {
            self.tell_news(now, name);
        } else if let Some(page) = self.pages.remove(name)
            && page.news.is_lit()
        {
            self.outputs.push_back(Output::Dark { page: page.name });
        }
    }

    /// Tell a page's news: now, or as soon as it may be told.
    fn tell_news(&mut self, now: Instant, name: &str) {
        let page = self.pages.get_mut(name).expect("only open pages have news");
        let counts = page.counts();
        while let Some(item) = page.news.take(now, counts, self.limits.counts_period) {
            let page = page.name.clone();
            self.outputs.push_back(match item {
                Item::Counts => Output::Counts { page, counts },
                Item::Lit => Output::Lit { page },
                Item::Dark => Output::Dark { page },
            });
        }
        if let Some(at) = page.news.due_at(counts) {
            self.wakes.insert((at, page.name.clone()));
        }
    }

    /// Forget a page and its peers, and tell nobody.
    fn close(&mut self, name: &str) {
        let Some(page) = self.pages.remove(name) else { return };
        let counts = page.counts();
        self.lit -= usize::from(counts.is_lit());
        if let Some(at) = page.news.due_at(counts) {
            self.wakes.remove(&(at, page.name));
        }
    }

    /// What a page, and what one peer, may relay.
    fn rates(&self) -> (Rate, Rate) {
        let rate = |per_second| Rate { per_second, burst: self.limits.relay_burst };
        let limits = &self.limits;
        (rate(limits.relay_bytes_per_second_page), rate(limits.relay_bytes_per_second_peer))
    }
}
