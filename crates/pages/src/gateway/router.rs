//! Finds the page that a wanted block belongs to, and the transfer that fetches it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use watchfire_content::{Cid, Multihash};
use watchfire_p2p::{FallbackSource, RequestOrigin};
use watchfire_page_client::page_cid;

use super::block_buffer::TransferId;
use crate::page::Availability;

/// Wants that wait for a transfer. Further wants are answered with DONT_HAVE.
const WANTS_MAX: usize = 1024;
/// Blocks that one transfer knows. Further blocks of the page are not transferred.
const KNOWN_BLOCKS_MAX: usize = 16 * 1024;
/// Pages that peers wanted while they were unavailable. At the limit, the oldest is dropped.
const MISSED_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Direction {
    /// From the browsers of a page to peers.
    ToPeers,
    /// From peers to the browsers of a page.
    ToBrowsers,
}

#[derive(Debug)]
pub(super) struct NewTransfer {
    pub id: TransferId,
    pub direction: Direction,
    pub page: Cid,
    /// The CIDs of wanted blocks, as they were requested.
    pub wants: mpsc::Receiver<Cid>,
}

/// The open transfers, and the blocks of each.
pub(super) struct GatewayRouter {
    availability: Arc<Availability>,
    pages_max: usize,
    /// Transfers that a peer's want opened.
    opened: mpsc::UnboundedSender<NewTransfer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_id: TransferId,
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
    known_blocks: usize,
    /// Whether a libp2p peer has the page now, for a transfer to browsers.
    has_source: bool,
}

impl GatewayRouter {
    /// Allows `pages_max` transfers in each direction. Also returns the transfers to run.
    pub fn new(
        availability: Arc<Availability>,
        pages_max: usize,
    ) -> (Self, mpsc::UnboundedReceiver<NewTransfer>) {
        let (opened, to_run) = mpsc::unbounded_channel();
        (GatewayRouter { availability, pages_max, opened, state: Mutex::default() }, to_run)
    }

    /// Opens a transfer. `None` when the page has one already, or there are too many.
    pub fn open(&self, page: &Cid, direction: Direction) -> Option<NewTransfer> {
        self.open_in(&mut self.state.lock(), page, direction)
    }

    fn open_in(&self, state: &mut State, page: &Cid, direction: Direction) -> Option<NewTransfer> {
        let name: Box<str> = page.to_string().into();
        let is_open = state.pages.contains_key(&(name.clone(), direction));
        if is_open || !state.has_room(direction, self.pages_max) {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        let (sender, wants) = mpsc::channel(WANTS_MAX);
        state.pages.insert((name.clone(), direction), id);
        let transfer = PageTransfer {
            page: name,
            direction,
            wants: sender,
            known_blocks: 0,
            has_source: false,
        };
        state.transfers.insert(id, transfer);
        state.learn(id, page.hash());
        Some(NewTransfer { id, direction, page: page.clone(), wants })
    }

    /// Opens a transfer for a page that became available, if peers wanted it before.
    pub fn page_available(&self, page: &Cid) -> Option<NewTransfer> {
        let mut state = self.state.lock();
        if !state.missed.contains(page) {
            return None;
        }
        let opened = self.open_in(&mut state, page, Direction::ToPeers)?;
        state.transfers[&opened.id].wants.try_send(page.clone()).ok();
        Some(opened)
    }

    /// Whether another transfer may be opened.
    pub fn has_room(&self, direction: Direction) -> bool {
        self.state.lock().has_room(direction, self.pages_max)
    }

    pub fn is_open(&self, page: &str, direction: Direction) -> bool {
        self.state.lock().pages.contains_key(&(page.into(), direction))
    }

    /// Whether so few transfers are open that idle ones may stay.
    pub fn is_half_empty(&self, direction: Direction) -> bool {
        self.state.lock().has_room(direction, self.pages_max / 2)
    }

    /// Adds a block to a transfer. Returns false when the transfer is closed or knows too many.
    pub fn learn(&self, transfer: TransferId, cid: &Cid) -> bool {
        self.state.lock().learn(transfer, cid.hash())
    }

    /// Whether a block belongs to a transfer.
    pub fn is_part_of(&self, transfer: TransferId, cid: &Cid) -> bool {
        self.state
            .lock()
            .owners
            .get(cid.hash())
            .is_some_and(|transfers| transfers.contains(&transfer))
    }

    /// Sets whether a libp2p peer has the page of a transfer to browsers.
    pub fn set_has_source(&self, id: TransferId, has_source: bool) {
        if let Some(transfer) = self.state.lock().transfers.get_mut(&id) {
            transfer.has_source = has_source;
        }
    }

    /// Closes a transfer. Wants that it was sent before remain in its channel.
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
        let has_room = transfer.known_blocks < KNOWN_BLOCKS_MAX;
        if has_room {
            transfer.known_blocks += 1;
            transfers.push(id);
        } else if transfers.is_empty() {
            self.owners.remove(hash);
        }
        has_room
    }
}

impl Direction {
    /// The direction of the blocks that peers of this kind receive.
    pub(super) const fn to(origin: RequestOrigin) -> Direction {
        match origin {
            RequestOrigin::Libp2p => Direction::ToPeers,
            RequestOrigin::External => Direction::ToBrowsers,
        }
    }

    /// The peers that receive the blocks.
    pub(super) const fn receivers(self) -> RequestOrigin {
        match self {
            Direction::ToPeers => RequestOrigin::Libp2p,
            Direction::ToBrowsers => RequestOrigin::External,
        }
    }
}

impl FallbackSource for GatewayRouter {
    /// A libp2p peer is served a block of a page only while a browser here has the page, and a browser
    /// only while a libp2p peer has it. So two servers never keep a page for each other.
    fn is_served(&self, cid: &Cid, origin: RequestOrigin) -> bool {
        let direction = Direction::to(origin);
        let state = self.state.lock();
        let owners = state.owners.get(cid.hash()).into_iter().flatten();
        let mut transfers = owners
            .filter_map(|id| state.transfers.get(id))
            .filter(|transfer| transfer.direction == direction);
        transfers.any(|transfer| match direction {
            Direction::ToPeers => self.availability.of(&transfer.page).is_available,
            Direction::ToBrowsers => transfer.has_source,
        })
    }

    /// A libp2p peer that asks only whether a page is available opens no transfer.
    fn can_obtain(&self, cid: &Cid, origin: RequestOrigin) -> bool {
        let is_sha2 = matches!(cid.hash(), Multihash::Sha2_256(_));
        origin == RequestOrigin::Libp2p
            && is_sha2
            && self.availability.of(&page_cid(cid).to_string()).is_available
    }

    /// Passes a libp2p peer's request to browsers, and a browser's request to libp2p peers.
    /// Browsers exchange blocks with each other without the gateway.
    fn request(&self, cid: &Cid, origin: RequestOrigin) -> bool {
        let Multihash::Sha2_256(_) = cid.hash() else { return false };
        let direction = Direction::to(origin);
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
        // A new channel has room.
        transfer.wants.try_send(cid.clone()).is_ok() && self.opened.send(opened).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use watchfire::feature::PartLink;
    use watchfire::internal::Cluster;
    use watchfire_content::Block;
    use watchfire_tracker::Have;
    use watchfire_types::PeerId;

    use super::*;
    use crate::format::part_name;

    fn root(text: &'static str) -> Cid {
        Block::raw(text.into()).expect("the block is short").cid().clone()
    }

    struct Harness {
        availability: Arc<Availability>,
        router: GatewayRouter,
        opened: mpsc::UnboundedReceiver<NewTransfer>,
    }

    impl Harness {
        fn new(pages_max: usize) -> Self {
            let availability = Arc::new(Availability::new(
                PartLink::new(&Arc::new(Cluster::alone()), part_name("availability")),
                true,
            ));
            let (router, opened) = GatewayRouter::new(availability.clone(), pages_max);
            Harness { availability, router, opened }
        }

        fn make_available(&self, page: &Cid) {
            self.availability.peer_joined(&page.to_string(), PeerId(1), Have::All, false);
        }
    }

    #[test]
    fn a_want_for_the_root_of_an_available_page_opens_a_transfer() {
        let mut harness = Harness::new(1);
        let (available, unavailable, other) =
            (root("available"), root("unavailable"), root("other"));
        harness.make_available(&available);
        harness.make_available(&other);
        assert!(!harness.router.request(&unavailable, RequestOrigin::Libp2p));
        assert!(harness.router.request(&available, RequestOrigin::Libp2p));
        let mut transfer = harness.opened.try_recv().expect("a transfer");
        assert_eq!((transfer.direction, &transfer.page), (Direction::ToPeers, &available));
        assert_eq!(transfer.wants.try_recv().as_ref(), Ok(&available));
        assert!(harness.router.request(&available, RequestOrigin::Libp2p), "again");
        assert!(!harness.router.request(&other, RequestOrigin::Libp2p), "at the limit");

        let leaf = root("leaf");
        assert!(!harness.router.request(&leaf, RequestOrigin::Libp2p));
        assert!(harness.router.learn(transfer.id, &leaf));
        assert!(harness.router.request(&leaf, RequestOrigin::Libp2p));
        harness.router.close(transfer.id);
        assert!(!harness.router.request(&leaf, RequestOrigin::Libp2p));
        assert!(harness.router.request(&other, RequestOrigin::Libp2p), "after a transfer closed");
    }

    #[test]
    fn a_page_that_was_wanted_while_unavailable_is_transferred_when_it_becomes_available() {
        let harness = Harness::new(8);
        let (page, other) = (root("page"), root("other"));
        assert!(!harness.router.request(&page, RequestOrigin::Libp2p));
        harness.make_available(&page);
        let mut transfer = harness.router.page_available(&page).expect("a transfer");
        assert_eq!(
            (transfer.direction, transfer.wants.try_recv()),
            (Direction::ToPeers, Ok(page.clone()))
        );
        assert!(harness.router.page_available(&page).is_none(), "already open");
        assert!(harness.router.page_available(&other).is_none(), "not wanted");
        for number in 0..MISSED_MAX {
            let block = Block::raw(format!("{number}").into()).expect("the block is short");
            harness.router.request(block.cid(), RequestOrigin::Libp2p);
        }
        harness.router.close(transfer.id);
        assert!(harness.router.page_available(&page).is_none(), "dropped as the oldest");
    }

    #[test]
    fn browsers_get_only_blocks_of_libp2p_peers_from_the_gateway() {
        let mut harness = Harness::new(8);
        let page = root("page");
        harness.make_available(&page);
        let browser = RequestOrigin::External;
        assert!(!harness.router.request(&page, browser));
        assert!(harness.router.request(&page, RequestOrigin::Libp2p));
        assert!(!harness.router.request(&page, browser), "wrong direction");
        let mut transfer = harness.router.open(&page, Direction::ToBrowsers).expect("a transfer");
        assert!(harness.router.open(&page, Direction::ToBrowsers).is_none(), "already open");
        assert!(harness.router.request(&page, browser));
        assert!(transfer.wants.try_recv().is_ok());
        assert!(harness.opened.try_recv().is_ok() && harness.opened.try_recv().is_err());
    }

    #[test]
    fn each_side_is_served_only_while_the_other_side_has_the_page() {
        let harness = Harness::new(8);
        let (page, leaf) = (root("page"), root("leaf"));
        harness.make_available(&page);
        let [libp2p, browser] = [RequestOrigin::Libp2p, RequestOrigin::External];
        assert!(
            harness.router.can_obtain(&page, libp2p) && !harness.router.can_obtain(&leaf, libp2p)
        );
        let served =
            |cid: &Cid| [libp2p, browser].map(|origin| harness.router.is_served(cid, origin));
        let to_peers = harness.router.open(&page, Direction::ToPeers).expect("a transfer");
        harness.router.learn(to_peers.id, &leaf);
        assert_eq!((served(&page), served(&leaf)), ([true, false], [true, false]));

        harness.availability.peer_left(&page.to_string(), PeerId(1), Have::All);
        assert_eq!((served(&page), served(&leaf)), ([false, false], [false, false]));
        assert!(!harness.router.can_obtain(&page, libp2p));

        let to_browsers = harness.router.open(&page, Direction::ToBrowsers).expect("a transfer");
        assert_eq!(served(&page), [false, false], "no peer is known to have it");
        harness.router.set_has_source(to_browsers.id, true);
        assert_eq!((served(&page), served(&leaf)), ([false, true], [false, false]));
        harness.router.set_has_source(to_browsers.id, false);
        assert_eq!(served(&page), [false, false]);
    }

    #[test]
    fn the_known_blocks_and_waiting_wants_of_a_transfer_are_bounded() {
        let harness = Harness::new(8);
        let page = root("page");
        let transfer = harness.router.open(&page, Direction::ToBrowsers).expect("a transfer");
        let blocks =
            (0..KNOWN_BLOCKS_MAX + 10).map(|n| Block::raw(n.to_string().into()).expect("short"));
        let known = blocks.filter(|block| harness.router.learn(transfer.id, block.cid())).count();
        assert_eq!(known, KNOWN_BLOCKS_MAX - 1, "the root is one of them");
        let taken =
            (0..2000).filter(|_| harness.router.request(&page, RequestOrigin::External)).count();
        assert_eq!(taken, WANTS_MAX);
        harness.router.close(transfer.id);
        assert!(harness.router.state.lock().owners.is_empty());
    }
}
