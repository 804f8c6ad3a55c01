//! The pages that are available, and those that are only watched, over all processes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use watchfire::feature::{ClusterPart, PartLink};
use watchfire_tracker::Have;
use watchfire_types::{NodeId, PeerId};

/// The topic on which processes exchange the availability of pages. The processes that know all pages
/// subscribe to it.
const TOPIC: &str = "availability of pages";

/// Whether a page is available and watched, at one process or over all. Page clients of this server
/// do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageAvailability {
    /// Whether a peer has the whole page.
    pub is_available: bool,
    /// Whether a peer has the page open.
    pub is_watched: bool,
}

impl PageAvailability {
    fn or(self, other: PageAvailability) -> PageAvailability {
        PageAvailability {
            is_available: self.is_available || other.is_available,
            is_watched: self.is_watched || other.is_watched,
        }
    }
}

/// The availability of pages. Each process knows that of its own peers. The process with the gateway,
/// and each process of a server with neighbours, knows that of all.
pub(crate) struct Availability {
    link: PartLink,
    /// Whether this process knows the pages of all processes.
    knows_all: bool,
    state: Mutex<State>,
}

/// The pages that changed since one reader last looked.
#[derive(Default)]
pub(crate) struct Changes {
    pages: Mutex<BTreeSet<Box<str>>>,
    changed: Notify,
}

impl Changes {
    /// Waits until pages change, and returns them.
    pub async fn next(&self) -> BTreeSet<Box<str>> {
        loop {
            let changed = std::mem::take(&mut *self.pages.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.changed.notified().await;
        }
    }
}

/// A page at one process.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    page: &'a str,
    availability: PageAvailability,
}

#[derive(Default)]
struct State {
    own: HashMap<Box<str>, OwnPeers>,
    /// Peers that are page clients of this server.
    own_clients: HashSet<PeerId>,
    /// The processes at which each page is watched. At most as many pages as are open.
    known: HashMap<Box<str>, Vec<(NodeId, PageAvailability)>>,
    /// Those that read the changes, until they are dropped.
    readers: Vec<Arc<Changes>>,
}

#[derive(Default)]
struct OwnPeers {
    watching: u32,
    holders: u32,
}

impl OwnPeers {
    fn availability(&self) -> PageAvailability {
        PageAvailability { is_available: self.holders > 0, is_watched: self.watching > 0 }
    }
}

impl Availability {
    pub fn new(link: PartLink, knows_all: bool) -> Self {
        Availability { link, knows_all, state: Mutex::default() }
    }

    /// Subscribes to the availability at the other processes.
    pub fn subscribe(&self) {
        // Not awaited: the other processes send their state as changes.
        let _ready = self.link.cluster().subscribe(TOPIC);
    }

    /// Notes that a peer of this process joined a page.
    pub fn peer_joined(&self, page: &str, peer: PeerId, have: Have, is_own_client: bool) {
        if is_own_client {
            self.state.lock().own_clients.insert(peer);
        } else {
            self.change(page, |own| {
                own.watching += 1;
                own.holders += u32::from(have == Have::All);
            });
        }
    }

    /// Notes that a peer of this process has more or less of a page.
    pub fn peer_progressed(&self, page: &str, peer: PeerId, before: Have, have: Have) {
        let (was_holder, is_holder) = (before == Have::All, have == Have::All);
        if was_holder == is_holder || self.state.lock().own_clients.contains(&peer) {
            return;
        }
        self.change(page, |own| match is_holder {
            true => own.holders += 1,
            false => own.holders -= 1,
        });
    }

    /// Notes that a peer of this process left a page.
    pub fn peer_left(&self, page: &str, peer: PeerId, have: Have) {
        if !self.state.lock().own_clients.remove(&peer) {
            self.change(page, |own| {
                own.watching -= 1;
                own.holders -= u32::from(have == Have::All);
            });
        }
    }

    fn change(&self, page: &str, change: impl FnOnce(&mut OwnPeers)) {
        let mut state = self.state.lock();
        if !state.own.contains_key(page) {
            state.own.insert(page.into(), OwnPeers::default());
        }
        let own = state.own.get_mut(page).expect("the entry exists or was just created");
        let before = own.availability();
        change(own);
        let availability = own.availability();
        if !availability.is_watched {
            state.own.remove(page);
        }
        if availability == before {
            return;
        }
        self.link.publish_state(TOPIC, || Message { page, availability });
        if self.knows_all {
            self.note(&mut state, self.link.cluster().me(), page, availability);
        }
    }

    fn note(&self, state: &mut State, node: NodeId, page: &str, availability: PageAvailability) {
        let State { known, readers, .. } = state;
        let nodes = match known.get_mut(page) {
            Some(nodes) => nodes,
            None => known.entry(page.into()).or_default(),
        };
        nodes.retain(|(other, _)| *other != node);
        if availability.is_watched {
            nodes.push((node, availability));
        } else if nodes.is_empty() {
            known.remove(page);
        }
        readers.retain(|reader| Arc::strong_count(reader) > 1);
        for reader in readers {
            reader.pages.lock().insert(page.into());
            reader.changed.notify_one();
        }
    }

    pub fn of(&self, page: &str) -> PageAvailability {
        let state = self.state.lock();
        let nodes = state.known.get(page).into_iter().flatten();
        nodes.fold(PageAvailability::default(), |all, (_, here)| all.or(*here))
    }

    /// Calls a function with each page that is available.
    pub fn for_each_available(&self, mut page: impl FnMut(&str)) {
        let state = self.state.lock();
        for (name, nodes) in &state.known {
            if nodes.iter().any(|(_, here)| here.is_available) {
                page(name);
            }
        }
    }

    /// The changes from now on, for a new reader. The first are the pages that are known already.
    pub fn changes(&self) -> Arc<Changes> {
        let mut state = self.state.lock();
        let pages = Mutex::new(state.known.keys().cloned().collect());
        let changes = Arc::new(Changes { pages, changed: Notify::new() });
        state.readers.push(changes.clone());
        changes
    }

    fn note_remote(&self, node: NodeId, page: &str, availability: PageAvailability) {
        if self.knows_all {
            self.note(&mut self.state.lock(), node, page, availability);
        }
    }
}

impl ClusterPart for Availability {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, from: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        let Message { page, availability } = postcard::from_bytes(message)?;
        self.note_remote(from, page, availability);
        Ok(())
    }

    fn introduce_to(&self, node: NodeId, topic: &str) {
        if topic != TOPIC {
            return;
        }
        for (page, own) in &self.state.lock().own {
            self.link.send_state(node, &Message { page, availability: own.availability() });
        }
    }

    fn node_down(&self, node: NodeId) {
        let mut state = self.state.lock();
        let is_known =
            |nodes: &[(NodeId, PageAvailability)]| nodes.iter().any(|(other, _)| *other == node);
        let pages: Vec<Box<str>> =
            state.known.iter().filter(|(_, n)| is_known(n)).map(|(page, _)| page.clone()).collect();
        for page in pages {
            self.note(&mut state, node, &page, PageAvailability::default());
        }
    }
}

#[cfg(test)]
pub(super) fn samples() -> watchfire::internal::Samples {
    let availability = PageAvailability { is_available: true, is_watched: false };
    watchfire::message_samples!(Message<'_>: Message { page: "p", availability })
}

#[cfg(test)]
mod tests {
    use watchfire::internal::Cluster;

    use super::*;
    use crate::format::part_name;

    const ALICE: PeerId = PeerId(1);
    const OWN_CLIENT: PeerId = PeerId(9);
    const AVAILABLE: PageAvailability = PageAvailability { is_available: true, is_watched: true };
    const WATCHED: PageAvailability = PageAvailability { is_available: false, is_watched: true };

    fn availability() -> Availability {
        Availability::new(
            PartLink::new(&Arc::new(Cluster::alone()), part_name("availability")),
            true,
        )
    }

    #[test]
    fn a_page_is_available_while_a_peer_other_than_an_own_client_has_all_of_it() {
        let availability = availability();
        availability.peer_joined("page", OWN_CLIENT, Have::All, true);
        assert_eq!(availability.of("page"), PageAvailability::default());
        availability.peer_joined("page", ALICE, Have::Nothing, false);
        assert_eq!(availability.of("page"), WATCHED);
        availability.peer_progressed("page", ALICE, Have::Nothing, Have::All);
        availability.peer_progressed("page", OWN_CLIENT, Have::All, Have::Some);
        assert_eq!(availability.of("page"), AVAILABLE);
        availability.peer_left("page", ALICE, Have::All);
        availability.peer_left("page", OWN_CLIENT, Have::Some);
        assert_eq!(availability.of("page"), PageAvailability::default());
        let state = availability.state.lock();
        assert!(state.own.is_empty() && state.known.is_empty() && state.own_clients.is_empty());
    }

    #[test]
    fn other_processes_count_until_they_are_gone() {
        let availability = availability();
        availability.note_remote(NodeId(3), "page", AVAILABLE);
        availability.peer_joined("page", ALICE, Have::Some, false);
        assert_eq!(availability.of("page"), AVAILABLE);
        availability.note_remote(NodeId(3), "page", WATCHED);
        assert_eq!(availability.of("page"), WATCHED);
        availability.note_remote(NodeId(3), "page", AVAILABLE);
        availability.node_down(NodeId(3));
        assert_eq!(availability.of("page"), WATCHED);
    }

    #[tokio::test]
    async fn each_reader_gets_each_change_once() {
        let availability = availability();
        availability.peer_joined("one", ALICE, Have::All, false);
        let changes = availability.changes();
        availability.peer_joined("two", PeerId(2), Have::All, false);
        availability.peer_joined("two", PeerId(3), Have::All, false);
        let late = availability.changes();
        for changes in [&changes, &late] {
            assert_eq!(changes.next().await, ["one".into(), "two".into()].into());
        }
        drop(late);
        availability.peer_left("two", PeerId(3), Have::All);
        assert!(changes.pages.lock().is_empty(), "another peer still has all of it");
        availability.peer_joined("three", PeerId(4), Have::Some, false);
        assert_eq!(changes.next().await, ["three".into()].into());
        assert_eq!(availability.state.lock().readers.len(), 1, "the other one is gone");
        let mut available = Vec::new();
        availability.for_each_available(|page| available.push(page.to_owned()));
        available.sort_unstable();
        assert_eq!(available, ["one", "two"]);
    }
}
