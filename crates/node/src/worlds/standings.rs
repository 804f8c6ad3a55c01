//! Which pages are held, and which are only watched, over all processes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use pages::Have;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use vocab::{NodeId, PeerId};

use crate::cluster::{Cluster, Word};
use crate::presence::lock;

/// What processes say of pages is said on this topic of theirs.
pub(crate) const STANDINGS_TOPIC: &str = "standings of pages";

/// How a page stands at one process, or at all. Our own visits do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Light {
    /// Somebody has all of it.
    pub is_held: bool,
    /// Somebody has it open.
    pub is_watched: bool,
}

/// What each process knows of its own peers, and what the one that meets other worlds knows of all.
pub(crate) struct Standings {
    cluster: Arc<Cluster>,
    /// Whether it is this process that meets other worlds.
    is_home: bool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    own: HashMap<Box<str>, Own>,
    /// Peers that are our own visits.
    visits: HashSet<PeerId>,
    /// By page, the processes where it is watched. As many as there are pages.
    known: HashMap<Box<str>, Vec<(NodeId, Light)>>,
    /// Pages that changed since that was last looked at.
    changed: BTreeSet<Box<str>>,
}

/// This process's own peers of a page.
#[derive(Default)]
struct Own {
    watching: u32,
    holders: u32,
}

impl Own {
    fn light(&self) -> Light {
        Light { is_held: self.holders > 0, is_watched: self.watching > 0 }
    }
}

impl Standings {
    pub fn new(cluster: Arc<Cluster>, is_home: bool) -> Self {
        Standings { cluster, is_home, state: Mutex::default(), changed: Notify::new() }
    }

    /// A peer of ours came to a page.
    pub fn came(&self, page: &str, peer: PeerId, have: Have, is_visit: bool) {
        if is_visit {
            lock(&self.state).visits.insert(peer);
        } else {
            self.change(page, |own| {
                own.watching += 1;
                own.holders += u32::from(have == Have::All);
            });
        }
    }

    /// A peer of ours has more of a page, or less.
    pub fn has(&self, page: &str, peer: PeerId, before: Have, have: Have) {
        let (was_holder, is_holder) = (before == Have::All, have == Have::All);
        if was_holder == is_holder || lock(&self.state).visits.contains(&peer) {
            return;
        }
        self.change(page, |own| match is_holder {
            true => own.holders += 1,
            false => own.holders -= 1,
        });
    }

    /// A peer of ours left a page.
    pub fn went(&self, page: &str, peer: PeerId, have: Have) {
        if !lock(&self.state).visits.remove(&peer) {
            self.change(page, |own| {
                own.watching -= 1;
                own.holders -= u32::from(have == Have::All);
            });
        }
    }

    fn change(&self, page: &str, change: impl FnOnce(&mut Own)) {
        let mut state = lock(&self.state);
        if !state.own.contains_key(page) {
            state.own.insert(page.into(), Own::default());
        }
        let own = state.own.get_mut(page).expect("it was just put there");
        let before = own.light();
        change(own);
        let light = own.light();
        if !light.is_watched {
            state.own.remove(page);
        }
        if light == before {
            return;
        }
        self.cluster.publish_state(STANDINGS_TOPIC, || Word::Standing { page, light });
        if self.is_home {
            self.note(&mut state, self.cluster.me(), page, light);
        }
    }

    fn note(&self, state: &mut State, node: NodeId, page: &str, light: Light) {
        let State { known, changed, .. } = state;
        let nodes = match known.get_mut(page) {
            Some(nodes) => nodes,
            None => known.entry(page.into()).or_default(),
        };
        nodes.retain(|(other, _)| *other != node);
        if light.is_watched {
            nodes.push((node, light));
        } else if nodes.is_empty() {
            known.remove(page);
        }
        changed.insert(page.into());
        self.changed.notify_one();
    }

    /// Another process says how a page stands there.
    pub fn hear_of(&self, node: NodeId, page: &str, light: Light) {
        if self.is_home {
            self.note(&mut lock(&self.state), node, page, light);
        }
    }

    /// Another process meets other worlds: tell it of all our pages.
    pub fn introduce_to(&self, node: NodeId) {
        let state = lock(&self.state);
        for (page, own) in &state.own {
            self.cluster.tell_state(node, &Word::Standing { page, light: own.light() });
        }
    }

    /// Another process is gone, and all its peers.
    pub fn node_down(&self, node: NodeId) {
        let mut state = lock(&self.state);
        let is_there = |nodes: &[(NodeId, Light)]| nodes.iter().any(|(other, _)| *other == node);
        let pages: Vec<Box<str>> =
            state.known.iter().filter(|(_, n)| is_there(n)).map(|(page, _)| page.clone()).collect();
        for page in pages {
            self.note(&mut state, node, &page, Light::default());
        }
    }

    /// How a page stands, over all processes.
    pub fn light(&self, page: &str) -> Light {
        let state = lock(&self.state);
        let nodes = state.known.get(page).into_iter().flatten();
        nodes.fold(Light::default(), |all, (_, light)| Light {
            is_held: all.is_held || light.is_held,
            is_watched: all.is_watched || light.is_watched,
        })
    }

    /// Waits until some pages changed.
    pub async fn changes(&self) -> BTreeSet<Box<str>> {
        loop {
            let changed = std::mem::take(&mut lock(&self.state).changed);
            if !changed.is_empty() {
                return changed;
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: PeerId = PeerId(1);
    const VISIT: PeerId = PeerId(9);
    const HELD: Light = Light { is_held: true, is_watched: true };
    const DARK: Light = Light { is_held: false, is_watched: true };

    fn standings() -> Standings {
        Standings::new(Arc::new(Cluster::alone()), true)
    }

    #[test]
    fn a_page_is_held_while_a_peer_that_is_no_visit_has_all_of_it() {
        let standings = standings();
        standings.came("page", VISIT, Have::All, true);
        assert_eq!(standings.light("page"), Light::default());
        standings.came("page", ALICE, Have::Nothing, false);
        assert_eq!(standings.light("page"), DARK);
        standings.has("page", ALICE, Have::Nothing, Have::All);
        standings.has("page", VISIT, Have::All, Have::Some);
        assert_eq!(standings.light("page"), HELD);
        standings.went("page", ALICE, Have::All);
        standings.went("page", VISIT, Have::Some);
        assert_eq!(standings.light("page"), Light::default());
        let state = lock(&standings.state);
        assert!(state.own.is_empty() && state.known.is_empty() && state.visits.is_empty());
    }

    #[test]
    fn other_processes_count_until_they_are_gone() {
        let standings = standings();
        standings.hear_of(NodeId(3), "page", HELD);
        standings.came("page", ALICE, Have::Some, false);
        assert_eq!(standings.light("page"), HELD);
        standings.hear_of(NodeId(3), "page", DARK);
        assert_eq!(standings.light("page"), DARK);
        standings.hear_of(NodeId(3), "page", HELD);
        standings.node_down(NodeId(3));
        assert_eq!(standings.light("page"), DARK);
    }

    #[tokio::test]
    async fn what_changed_is_told_once() {
        let standings = standings();
        standings.came("one", ALICE, Have::All, false);
        standings.came("two", PeerId(2), Have::All, false);
        standings.came("two", PeerId(3), Have::All, false);
        assert_eq!(standings.changes().await, ["one".into(), "two".into()].into());
        standings.went("two", PeerId(3), Have::All);
        assert!(lock(&standings.state).changed.is_empty(), "one is still there");
    }
}
