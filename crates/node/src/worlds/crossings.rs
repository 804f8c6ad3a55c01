//! Which page a wanted block belongs to, and the lane that fetches it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use content::{Cid, Multihash};
use p2p::{Asker, Elsewhere};
use tokio::sync::mpsc;
use visit::page_of;

use super::standings::Standings;
use super::transit::LaneId;
use crate::presence::lock;

/// Wants that wait for a lane; one that comes when so many wait is answered with DONT_HAVE.
const WANTS_MAX: usize = 1024;
/// Blocks that one lane knows; what a page has beyond them does not cross.
const KNOWN_MAX: usize = 16 * 1024;

/// Pages that peers wanted while they were not lit; the longest ago are forgotten first.
const MISSED_MAX: usize = 1024;

/// Which way blocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Way {
    /// From the browsers of a page to peers.
    Out,
    /// From peers to the browsers of a page.
    In,
}

/// A lane that is to be run.
#[derive(Debug)]
pub(super) struct Opened {
    pub id: LaneId,
    pub way: Way,
    /// The root.
    pub page: Cid,
    /// Blocks that somebody wants, by the names they were asked for.
    pub wants: mpsc::Receiver<Cid>,
}

/// The lanes that are open, and what each carries.
pub(super) struct Crossings {
    standings: Arc<Standings>,
    pages_max: usize,
    /// Lanes that peers' wants opened.
    opened: mpsc::UnboundedSender<Opened>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: LaneId,
    lanes: BTreeMap<LaneId, Lane>,
    pages: HashMap<(Box<str>, Way), LaneId>,
    owners: HashMap<Multihash, Vec<LaneId>>,
    missed: HashSet<Cid>,
    missed_in_order: VecDeque<Cid>,
}

struct Lane {
    page: Box<str>,
    way: Way,
    wants: mpsc::Sender<Cid>,
    known: usize,
}

impl Crossings {
    /// `pages_max`: lanes each way.
    pub fn new(
        standings: Arc<Standings>,
        pages_max: usize,
    ) -> (Self, mpsc::UnboundedReceiver<Opened>) {
        let (opened, to_run) = mpsc::unbounded_channel();
        (Crossings { standings, pages_max, opened, state: Mutex::default() }, to_run)
    }

    /// Opens a lane, unless there is one, or there are too many.
    pub fn open(&self, page: &Cid, way: Way) -> Option<Opened> {
        self.open_in(&mut lock(&self.state), page, way)
    }

    fn open_in(&self, state: &mut State, page: &Cid, way: Way) -> Option<Opened> {
        let name: Box<str> = page.to_string().into();
        let is_open = state.pages.contains_key(&(name.clone(), way));
        if is_open || !state.has_room(way, self.pages_max) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let (sender, wants) = mpsc::channel(WANTS_MAX);
        state.pages.insert((name.clone(), way), id);
        state.lanes.insert(id, Lane { page: name, way, wants: sender, known: 0 });
        state.learn(id, page.hash());
        Some(Opened { id, way, page: page.clone(), wants })
    }

    /// A page is lit: opens a lane for it if peers wanted it before. They still wait.
    pub fn is_lit(&self, page: &Cid) -> Option<Opened> {
        let mut state = lock(&self.state);
        if !state.missed.contains(page) {
            return None;
        }
        let opened = self.open_in(&mut state, page, Way::Out)?;
        state.lanes[&opened.id].wants.try_send(page.clone()).ok();
        Some(opened)
    }

    /// Whether one more lane may be open.
    pub fn has_room(&self, way: Way) -> bool {
        lock(&self.state).has_room(way, self.pages_max)
    }

    /// A lane carries this block as well; whether it may.
    pub fn learn(&self, lane: LaneId, cid: &Cid) -> bool {
        lock(&self.state).learn(lane, cid.hash())
    }

    /// Whether a lane carries this block.
    pub fn is_of(&self, lane: LaneId, cid: &Cid) -> bool {
        lock(&self.state).owners.get(cid.hash()).is_some_and(|lanes| lanes.contains(&lane))
    }

    /// A lane takes no more wants. Those it was sent before still are in its channel.
    pub fn close(&self, id: LaneId) {
        let mut state = lock(&self.state);
        let Some(lane) = state.lanes.remove(&id) else { return };
        state.pages.remove(&(lane.page, lane.way));
        state.owners.retain(|_, lanes| {
            lanes.retain(|lane| *lane != id);
            !lanes.is_empty()
        });
    }
}

impl State {
    fn has_room(&self, way: Way, pages_max: usize) -> bool {
        self.lanes.values().filter(|lane| lane.way == way).count() < pages_max
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

    fn learn(&mut self, id: LaneId, hash: &Multihash) -> bool {
        let Some(lane) = self.lanes.get_mut(&id) else { return false };
        let lanes = self.owners.entry(hash.clone()).or_default();
        if lanes.contains(&id) {
            return true;
        }
        let is_welcome = lane.known < KNOWN_MAX;
        if is_welcome {
            lane.known += 1;
            lanes.push(id);
        } else if lanes.is_empty() {
            self.owners.remove(hash);
        }
        is_welcome
    }
}

impl Elsewhere for Crossings {
    /// Peers get what browsers have, and browsers what peers have; what goes between browsers goes
    /// without us.
    fn wanted(&self, cid: &Cid, asker: Asker) -> bool {
        let Multihash::Sha2_256(_) = cid.hash() else { return false };
        let way = match asker {
            Asker::Peer => Way::Out,
            Asker::Guest => Way::In,
        };
        let mut state = lock(&self.state);
        let owners = state.owners.get(cid.hash()).into_iter().flatten();
        let mut lanes = owners.filter_map(|id| state.lanes.get(id)).filter(|lane| lane.way == way);
        if lanes.any(|lane| lane.wants.try_send(cid.clone()).is_ok()) {
            return true;
        }
        let page = page_of(cid);
        if way == Way::In {
            return false;
        }
        if !self.standings.light(&page.to_string()).is_held {
            state.miss(page);
            return false;
        }
        let Some(opened) = self.open_in(&mut state, &page, Way::Out) else { return false };
        let lane = &state.lanes[&opened.id];
        // It is empty, so that there is room.
        lane.wants.try_send(cid.clone()).is_ok() && self.opened.send(opened).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use content::Block;
    use pages::Have;
    use vocab::PeerId;

    fn root(text: &'static str) -> Cid {
        Block::raw(text.into()).expect("it is short").cid().clone()
    }

    struct Story {
        standings: Arc<Standings>,
        crossings: Crossings,
        opened: mpsc::UnboundedReceiver<Opened>,
    }

    impl Story {
        fn new(pages_max: usize) -> Self {
            let standings = Arc::new(Standings::new(Arc::new(Cluster::alone()), true));
            let (crossings, opened) = Crossings::new(standings.clone(), pages_max);
            Story { standings, crossings, opened }
        }

        fn light(&self, page: &Cid) {
            self.standings.came(&page.to_string(), PeerId(1), Have::All, false);
        }
    }

    #[test]
    fn a_peer_that_wants_the_root_of_a_lit_page_opens_a_lane() {
        let mut story = Story::new(1);
        let (lit, dark, other) = (root("lit"), root("dark"), root("other"));
        story.light(&lit);
        story.light(&other);
        assert!(!story.crossings.wanted(&dark, Asker::Peer));
        assert!(story.crossings.wanted(&lit, Asker::Peer));
        let mut lane = story.opened.try_recv().expect("a lane");
        assert_eq!((lane.way, &lane.page), (Way::Out, &lit));
        assert_eq!(lane.wants.try_recv().as_ref(), Ok(&lit));
        assert!(story.crossings.wanted(&lit, Asker::Peer), "again");
        assert!(!story.crossings.wanted(&other, Asker::Peer), "there are enough lanes");

        let leaf = root("leaf");
        assert!(!story.crossings.wanted(&leaf, Asker::Peer));
        assert!(story.crossings.learn(lane.id, &leaf));
        assert!(story.crossings.wanted(&leaf, Asker::Peer));
        story.crossings.close(lane.id);
        assert!(!story.crossings.wanted(&leaf, Asker::Peer));
        assert!(story.crossings.wanted(&other, Asker::Peer), "there is room again");
    }

    #[test]
    fn what_was_wanted_while_it_was_dark_crosses_when_it_is_lit() {
        let story = Story::new(8);
        let (page, other) = (root("page"), root("other"));
        assert!(!story.crossings.wanted(&page, Asker::Peer));
        story.light(&page);
        let mut lane = story.crossings.is_lit(&page).expect("a lane");
        assert_eq!((lane.way, lane.wants.try_recv()), (Way::Out, Ok(page.clone())));
        assert!(story.crossings.is_lit(&page).is_none(), "there is one");
        assert!(story.crossings.is_lit(&other).is_none(), "nobody wanted it");
        for number in 0..MISSED_MAX {
            let block = Block::raw(format!("{number}").into()).expect("it is short");
            story.crossings.wanted(block.cid(), Asker::Peer);
        }
        story.crossings.close(lane.id);
        assert!(story.crossings.is_lit(&page).is_none(), "that was long ago");
    }

    #[test]
    fn browsers_get_through_us_only_what_comes_from_outside() {
        let mut story = Story::new(8);
        let page = root("page");
        story.light(&page);
        let guest = Asker::Guest;
        assert!(!story.crossings.wanted(&page, guest));
        assert!(story.crossings.wanted(&page, Asker::Peer));
        assert!(!story.crossings.wanted(&page, guest), "a lane out is none for browsers");
        let mut lane = story.crossings.open(&page, Way::In).expect("a lane in");
        assert!(story.crossings.open(&page, Way::In).is_none(), "there is one");
        assert!(story.crossings.wanted(&page, guest));
        assert!(lane.wants.try_recv().is_ok());
        assert!(story.opened.try_recv().is_ok() && story.opened.try_recv().is_err());
    }

    #[test]
    fn a_lane_knows_so_many_blocks_and_holds_so_many_wants() {
        let story = Story::new(8);
        let page = root("page");
        let lane = story.crossings.open(&page, Way::In).expect("a lane");
        let names = (0..KNOWN_MAX + 10).map(|n| Block::raw(n.to_string().into()).expect("short"));
        let known = names.filter(|block| story.crossings.learn(lane.id, block.cid())).count();
        assert_eq!(known, KNOWN_MAX - 1, "and the root");
        let taken = (0..2000).filter(|_| story.crossings.wanted(&page, Asker::Guest)).count();
        assert_eq!(taken, WANTS_MAX);
        story.crossings.close(lane.id);
        assert!(lock(&story.crossings.state).owners.is_empty());
    }
}
