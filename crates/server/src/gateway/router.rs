//! Which page a wanted block belongs to, and the transfer that fetches it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_content::{Cid, Multihash};
use watchfire_p2p::{FallbackSource, RequestOrigin};
use watchfire_page_client::page_cid;

use super::block_buffer::TransferId;
use crate::pages::Availability;

/// Wants that wait for a transfer; one that comes when so many wait is answered with DONT_HAVE.
const WANTS_MAX: usize = 1024;
/// Blocks that one transfer knows; what a page has beyond them does not cross.
const KNOWN_MAX: usize = 16 * 1024;

/// Pages that peers wanted while they were not available; the longest ago are forgotten first.
const MISSED_MAX: usize = 1024;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Direction {
    /// From the browsers of a page to peers.
    ToPeers,
    /// From peers to the browsers of a page.
    ToBrowsers,
}

/// A transfer that is to be run.
#[derive(Debug)]
pub(super) struct NewTransfer {
    pub id: TransferId,
    pub direction: Direction,
    /// The root.
    pub page: Cid,
    /// Blocks that somebody wants, by the names they were asked for.
    pub wants: mpsc::Receiver<Cid>,
}

/// The transfers that are open, and what each carries.
pub(super) struct GatewayRouter {
    availability: Arc<Availability>,
    pages_max: usize,
    /// Lanes that peers' wants opened.
    opened: mpsc::UnboundedSender<NewTransfer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: TransferId,
    transfers: BTreeMap<TransferId, PageTransfer>,
    pages: HashMap<(Box<str>, Direction), TransferId>,
    owners: HashMap<Multihash, Vec<TransferId>>,
    missed: HashSet<Cid>,
    missed_in_order: VecDeque<Cid>,
}

struct PageTransfer {
    page: Box<str>,
    direction: Direction,
    wants: mpsc::Sender<Cid>,
    known: usize,
}

impl GatewayRouter {
    /// `pages_max`: transfers each direction.
    pub fn new(
        availability: Arc<Availability>,
        pages_max: usize,
    ) -> (Self, mpsc::UnboundedReceiver<NewTransfer>) {
        let (opened, to_run) = mpsc::unbounded_channel();
        (GatewayRouter { availability, pages_max, opened, state: Mutex::default() }, to_run)
    }

    /// Opens a transfer, unless there is one, or there are too many.
    pub fn open(&self, page: &Cid, direction: Direction) -> Option<NewTransfer> {
        self.open_in(&mut self.state.lock(), page, direction)
    }

    fn open_in(&self, state: &mut State, page: &Cid, direction: Direction) -> Option<NewTransfer> {
        let name: Box<str> = page.to_string().into();
        let is_open = state.pages.contains_key(&(name.clone(), direction));
        if is_open || !state.has_room(direction, self.pages_max) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let (sender, wants) = mpsc::channel(WANTS_MAX);
        state.pages.insert((name.clone(), direction), id);
        state.transfers.insert(id, PageTransfer { page: name, direction, wants: sender, known: 0 });
        state.learn(id, page.hash());
        Some(NewTransfer { id, direction, page: page.clone(), wants })
    }

    /// A page is available: opens a transfer for it if peers wanted it before. They still wait.
    pub fn page_available(&self, page: &Cid) -> Option<NewTransfer> {
        let mut state = self.state.lock();
        if !state.missed.contains(page) {
            return None;
        }
        let opened = self.open_in(&mut state, page, Direction::ToPeers)?;
        state.transfers[&opened.id].wants.try_send(page.clone()).ok();
        Some(opened)
    }

    /// Whether one more transfer may be open.
    pub fn has_room(&self, direction: Direction) -> bool {
        self.state.lock().has_room(direction, self.pages_max)
    }

    /// A transfer carries this block as well; whether it may.
    pub fn learn(&self, transfer: TransferId, cid: &Cid) -> bool {
        self.state.lock().learn(transfer, cid.hash())
    }

    /// Whether a transfer carries this block.
    pub fn is_of(&self, transfer: TransferId, cid: &Cid) -> bool {
        self.state
            .lock()
            .owners
            .get(cid.hash())
            .is_some_and(|transfers| transfers.contains(&transfer))
    }

    /// A transfer takes no more wants. Those it was sent before still are in its channel.
    pub fn close(&self, id: TransferId) {
        let mut state = self.state.lock();
        let Some(transfer) = state.transfers.remove(&id) else { return };
        state.pages.remove(&(transfer.page, transfer.direction));
        state.owners.retain(|_, transfers| {
            transfers.retain(|transfer| *transfer != id);
            !transfers.is_empty()
        });
    }
}

impl State {
    fn has_room(&self, direction: Direction, pages_max: usize) -> bool {
        self.transfers.values().filter(|transfer| transfer.direction == direction).count()
            < pages_max
    }

    fn miss(&mut self, page: Cid) {
        if self.missed.insert(page.clone()) {
            self.missed_in_order.push_back(page);
        }
        if self.missed_in_order.len() > MISSED_MAX
            && let Some(oldest) = self.missed_in_order.pop_front()
        {
            self.missed.remove(&oldest);
        }
    }

    fn learn(&mut self, id: TransferId, hash: &Multihash) -> bool {
        let Some(transfer) = self.transfers.get_mut(&id) else { return false };
        let transfers = self.owners.entry(hash.clone()).or_default();
        if transfers.contains(&id) {
            return true;
        }
        let is_welcome = transfer.known < KNOWN_MAX;
        if is_welcome {
            transfer.known += 1;
            transfers.push(id);
        } else if transfers.is_empty() {
            self.owners.remove(hash);
        }
        is_welcome
    }
}

impl FallbackSource for GatewayRouter {
    /// Peers get what browsers have, and browsers what peers have; what goes between browsers goes
    /// without us.
    fn request(&self, cid: &Cid, asker: RequestOrigin) -> bool {
        let Multihash::Sha2_256(_) = cid.hash() else { return false };
        let direction = match asker {
            RequestOrigin::Libp2p => Direction::ToPeers,
            RequestOrigin::External => Direction::ToBrowsers,
        };
        let mut state = self.state.lock();
        let owners = state.owners.get(cid.hash()).into_iter().flatten();
        let mut transfers = owners
            .filter_map(|id| state.transfers.get(id))
            .filter(|transfer| transfer.direction == direction);
        if transfers.any(|transfer| transfer.wants.try_send(cid.clone()).is_ok()) {
            return true;
        }
        let page = page_cid(cid);
        if direction == Direction::ToBrowsers {
            return false;
        }
        if !self.availability.of(&page.to_string()).is_available {
            state.miss(page);
            return false;
        }
        let Some(opened) = self.open_in(&mut state, &page, Direction::ToPeers) else {
            return false;
        };
        let transfer = &state.transfers[&opened.id];
        // It is empty, so that there is room.
        transfer.wants.try_send(cid.clone()).is_ok() && self.opened.send(opened).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, PartLink};
    use watchfire_content::Block;
    use watchfire_tracker::Have;
    use watchfire_types::PeerId;

    fn root(text: &'static str) -> Cid {
        Block::raw(text.into()).expect("it is short").cid().clone()
    }

    struct Story {
        availability: Arc<Availability>,
        router: GatewayRouter,
        opened: mpsc::UnboundedReceiver<NewTransfer>,
    }

    impl Story {
        fn new(pages_max: usize) -> Self {
            let availability =
                Arc::new(Availability::new(PartLink::new(&Arc::new(Cluster::alone())), true));
            let (router, opened) = GatewayRouter::new(availability.clone(), pages_max);
            Story { availability, router, opened }
        }

        fn make_available(&self, page: &Cid) {
            self.availability.peer_joined(&page.to_string(), PeerId(1), Have::All, false);
        }
    }

    #[test]
    fn a_peer_that_wants_the_root_of_a_lit_page_opens_a_lane() {
        let mut story = Story::new(1);
        let (available, unavailable, other) =
            (root("available"), root("unavailable"), root("other"));
        story.make_available(&available);
        story.make_available(&other);
        assert!(!story.router.request(&unavailable, RequestOrigin::Libp2p));
        assert!(story.router.request(&available, RequestOrigin::Libp2p));
        let mut transfer = story.opened.try_recv().expect("a transfer");
        assert_eq!((transfer.direction, &transfer.page), (Direction::ToPeers, &available));
        assert_eq!(transfer.wants.try_recv().as_ref(), Ok(&available));
        assert!(story.router.request(&available, RequestOrigin::Libp2p), "again");
        assert!(!story.router.request(&other, RequestOrigin::Libp2p), "there are enough transfers");

        let leaf = root("leaf");
        assert!(!story.router.request(&leaf, RequestOrigin::Libp2p));
        assert!(story.router.learn(transfer.id, &leaf));
        assert!(story.router.request(&leaf, RequestOrigin::Libp2p));
        story.router.close(transfer.id);
        assert!(!story.router.request(&leaf, RequestOrigin::Libp2p));
        assert!(story.router.request(&other, RequestOrigin::Libp2p), "there is room again");
    }

    #[test]
    fn what_was_wanted_while_it_was_dark_crosses_when_it_is_lit() {
        let story = Story::new(8);
        let (page, other) = (root("page"), root("other"));
        assert!(!story.router.request(&page, RequestOrigin::Libp2p));
        story.make_available(&page);
        let mut transfer = story.router.page_available(&page).expect("a transfer");
        assert_eq!(
            (transfer.direction, transfer.wants.try_recv()),
            (Direction::ToPeers, Ok(page.clone()))
        );
        assert!(story.router.page_available(&page).is_none(), "there is one");
        assert!(story.router.page_available(&other).is_none(), "nobody wanted it");
        for number in 0..MISSED_MAX {
            let block = Block::raw(format!("{number}").into()).expect("it is short");
            story.router.request(block.cid(), RequestOrigin::Libp2p);
        }
        story.router.close(transfer.id);
        assert!(story.router.page_available(&page).is_none(), "that was long ago");
    }

    #[test]
    fn browsers_get_through_us_only_what_comes_from_outside() {
        let mut story = Story::new(8);
        let page = root("page");
        story.make_available(&page);
        let guest = RequestOrigin::External;
        assert!(!story.router.request(&page, guest));
        assert!(story.router.request(&page, RequestOrigin::Libp2p));
        assert!(!story.router.request(&page, guest), "a transfer out is none for browsers");
        let mut transfer = story.router.open(&page, Direction::ToBrowsers).expect("a transfer in");
        assert!(story.router.open(&page, Direction::ToBrowsers).is_none(), "there is one");
        assert!(story.router.request(&page, guest));
        assert!(transfer.wants.try_recv().is_ok());
        assert!(story.opened.try_recv().is_ok() && story.opened.try_recv().is_err());
    }

    #[test]
    fn a_lane_knows_so_many_blocks_and_holds_so_many_wants() {
        let story = Story::new(8);
        let page = root("page");
        let transfer = story.router.open(&page, Direction::ToBrowsers).expect("a transfer");
        let names = (0..KNOWN_MAX + 10).map(|n| Block::raw(n.to_string().into()).expect("short"));
        let known = names.filter(|block| story.router.learn(transfer.id, block.cid())).count();
        assert_eq!(known, KNOWN_MAX - 1, "and the root");
        let taken =
            (0..2000).filter(|_| story.router.request(&page, RequestOrigin::External)).count();
        assert_eq!(taken, WANTS_MAX);
        story.router.close(transfer.id);
        assert!(story.router.state.lock().owners.is_empty());
    }
}
