//! Leaves: faster than Bitswap allows, between our own nodes.
//!
//! A node of a DAG is a list of links whose order nobody can dispute: its bytes hash to its CID. So
//! who has it needs no CIDs to speak of what it links to. A peer follows the list, hears in a few
//! bytes which leaves are here and which come, asks for runs of them, and gets them back to back on
//! one stream. All else is said as in Bitswap, on a stream beside it; which peers are asked for what is
//! decided as for every peer. `docs/protocols/leaves.md` is the protocol.

mod frame;
mod link;
mod lists;
mod ranges;
mod word;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use content::Cid;

pub use frame::{FrameError, decode, encode, encoded_len};
pub use ranges::Ranges;
pub use word::Word;

use crate::{Message, Misbehaviour, Payload, Presence, SessionId, WantEntry, WantKind};
use link::{Followed, Following, Link, Say};
use lists::Lists;

/// What the protocol is negotiated by.
pub const PROTOCOL_ID: &str = "/watchfire/leaves/1";

/// Most leaves of one list. Nodes of more links are not followed; none has them whose links are
/// sha2-256, since it would be too long for a block.
pub const LEAVES_MAX: u32 = 1 << 16;

/// Lists that one peer may follow here; all together have at most [`LEAVES_MAX`] leaves. Others are refused.
const LISTS_PER_PEER_MAX: usize = 1024;

/// Leaves of all lists that are known. Beyond, peers are refused, and ours are fetched as in Bitswap.
const LEAVES_TOTAL_MAX: usize = 1 << 19;

/// Leaves of one ask that are heard; what is behind them is passed over.
const ASKED_AT_ONCE_MAX: usize = 1024;

/// The lists that we follow, and those that others follow here.
#[derive(Debug)]
pub(crate) struct Leaves<P> {
    lists: Lists<P>,
    links: BTreeMap<P, Link>,
    /// Nodes that somebody follows and that are not known: who, and whether the store was asked.
    missing: BTreeMap<Cid, Missing<P>>,
    /// Peers to whom something is to be told.
    pub touched: BTreeSet<P>,
}

#[derive(Debug)]
struct Missing<P> {
    followers: BTreeMap<P, u32>,
    is_asked: bool,
}

/// How urgently a peer wants leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The first of them so much, each further one less.
    Wanted(u32),
    /// Not any more.
    Cancelled,
    /// Not any more, if that is in time.
    Returned,
}

/// What peers asked for before their lists were known: how urgently, and what.
pub(crate) type Early<P> = Vec<(P, Vec<(u32, Cid)>)>;

impl<P: Copy + Ord + Debug> Leaves<P> {
    pub(crate) const fn new() -> Self {
        Leaves {
            lists: Lists::new(),
            links: BTreeMap::new(),
            missing: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    /// A peer that speaks leaves is here. All that it will be followed for.
    pub(crate) fn connected(&mut self, peer: P) -> Vec<Cid> {
        let link = self.links.entry(peer).or_default();
        let mut cids = Vec::new();
        for (id, list) in self.lists.ours() {
            link.follow(id);
            cids.extend(list.leaves.iter().cloned());
        }
        self.touched.insert(peer);
        cids
    }

    pub(crate) fn disconnected(&mut self, peer: P) {
        let Some(link) = self.links.remove(&peer) else { return };
        self.touched.remove(&peer);
        for (_, followed) in link.followed {
            self.forget_follower(peer, &followed);
        }
    }

    fn forget_follower(&mut self, peer: P, followed: &Followed) {
        if let Some(id) = followed.list {
            if let Some(list) = self.lists.get_mut(id) {
                list.followers.remove(&peer);
            }
            self.lists.forget_if_idle(id);
        }
        if let Some(missing) = self.missing.get_mut(&followed.node) {
            missing.followers.remove(&peer);
            if missing.followers.is_empty() {
                self.missing.remove(&followed.node);
            }
        }
    }

    /// Whether a peer speaks leaves.
    pub(crate) fn speaks(&self, peer: P) -> bool {
        self.links.contains_key(&peer)
    }

    /// How many leaves a peer lacks of the lists that it follows here, as far as we know: of one that we do not follow
    /// there it lacks one at least. `None` if it follows none.
    pub(crate) fn missing_at(&self, peer: P) -> Option<usize> {
        let link = self.links.get(&peer)?;
        let lacked = link.followed.values().map(|followed| {
            let following = followed.list.and_then(|list| link.following.get(&list));
            let theirs = following.map(|following| following.theirs.len());
            theirs.map_or(1, |theirs| (followed.leaves as usize).saturating_sub(theirs))
        });
        lacked.reduce(|sum, lacked| sum + lacked)
    }

    /// Whether something to be told to a peer cannot wait.
    pub(crate) fn is_urgent(&self, peer: P) -> bool {
        self.links.get(&peer).is_some_and(|link| link.is_urgent)
    }

    /// A session knows a node, and fetches what it links to. Peers that are followed for it from now on.
    pub(crate) fn open(
        &mut self,
        session: SessionId,
        node: &Cid,
        leaves: Vec<(Cid, bool)>,
    ) -> (Vec<P>, Early<P>) {
        let is_whole = leaves.iter().all(|(_, is_here)| *is_here);
        if leaves.len() < 2 || leaves.len() > LEAVES_MAX as usize || is_whole {
            return (Vec::new(), Vec::new());
        }
        let Some(id) = self.lists.add(node, leaves) else { return (Vec::new(), Vec::new()) };
        if let Some(list) = self.lists.get_mut(id)
            && !list.sessions.contains(&session)
        {
            list.sessions.push(session);
        }
        let mut peers = Vec::new();
        for (peer, link) in &mut self.links {
            if link.follow(id) {
                peers.push(*peer);
            }
        }
        self.touched.extend(&peers);
        let early = self.attach(node, id);
        (peers, early)
    }

    /// What peers are known to have of a leaf: those that tell it by a list; `None` while they have not.
    pub(crate) fn holders(&self, cid: &Cid) -> Vec<(P, Option<bool>)> {
        let mut holders = Vec::new();
        for (id, leaf) in self.lists.places(cid) {
            if self.lists.get(id).is_none_or(|list| list.sessions.is_empty()) {
                continue;
            }
            for (peer, link) in &self.links {
                if let Some(following) = link.following.get(&id).filter(|one| !one.is_refused) {
                    let is_here = following.is_answered.then(|| following.theirs.has(leaf));
                    holders.push((*peer, is_here));
                }
            }
        }
        holders
    }

    /// A session misses something that nobody is known to have: whoever said nothing of its lists, or
    /// that it has none of them, may lack the node alone, unless it follows the list here. Whom to ask leaf by leaf, and
    /// for what.
    pub(crate) fn doubted(&self, session: SessionId) -> Vec<(P, Cid)> {
        let mut doubted = Vec::new();
        for (id, list) in self.lists.ours().filter(|(_, list)| list.sessions.contains(&session)) {
            for (peer, link) in &self.links {
                let following = link.following.get(&id);
                let shows_none = |one: &Following| !one.is_refused && one.theirs.is_empty();
                if following.is_some_and(shows_none) && !list.followers.contains_key(peer) {
                    doubted.extend(list.leaves.iter().map(|cid| (*peer, cid.clone())));
                }
            }
        }
        doubted
    }

    /// A session has ended. What nobody hears by lists any more, and from whom.
    pub(crate) fn stop(&mut self, session: SessionId) -> Vec<(P, Cid)> {
        let mut stopped = Vec::new();
        let ours: Vec<u32> = self.lists.ours().map(|(id, _)| id).collect();
        for id in ours {
            let Some(list) = self.lists.get_mut(id) else { continue };
            list.sessions.retain(|other| *other != session);
            if !list.sessions.is_empty() {
                continue;
            }
            let leaves = list.leaves.clone();
            for peer in self.unfollow_all(id) {
                stopped.extend(leaves.iter().map(|cid| (peer, cid.clone())));
            }
        }
        stopped
    }

    fn unfollow_all(&mut self, id: u32) -> Vec<P> {
        let mut peers = Vec::new();
        for (peer, link) in &mut self.links {
            let Some(following) = link.following.remove(&id) else { continue };
            if following.is_refused {
                continue;
            }
            peers.push(*peer);
            // Who was not told of it yet need not be.
            let untold = link.says.iter().position(|say| *say == Say::Follow(id));
            if let Some(at) = untold {
                link.says.remove(at);
            } else {
                link.says.push(Say::Unfollow(id));
            }
        }
        self.touched.extend(&peers);
        self.lists.forget_if_idle(id);
        peers
    }

    /// A block is in the store from now on. Whether the store is to be asked for it as a node that
    /// somebody follows.
    pub(crate) fn have(&mut self, cid: &Cid) -> bool {
        let places: Vec<(u32, u32)> = self.lists.places(cid).collect();
        for (id, leaf) in places {
            let Some(list) = self.lists.get_mut(id) else { continue };
            if !list.here.insert(leaf) {
                continue;
            }
            for (peer, number) in &list.followers {
                let Some(link) = self.links.get_mut(peer) else { continue };
                let Some(followed) = link.followed.get_mut(number) else { continue };
                followed.news.insert(leaf);
                link.news.insert(*number);
                self.touched.insert(*peer);
            }
            if list.here.len() == list.leaves.len() && !list.sessions.is_empty() {
                list.sessions.clear();
                self.unfollow_all(id);
            }
        }
        let missing = self.missing.get_mut(cid);
        missing.is_some_and(|missing| !std::mem::replace(&mut missing.is_asked, true))
    }

    /// A peer follows a list. Whether the store is to be asked for the node, and what the peer asked for.
    pub(crate) fn follow(&mut self, peer: P, number: u32, node: Cid, leaves: u32) -> bool {
        let Some(link) = self.links.get_mut(&peer) else { return false };
        self.touched.insert(peer);
        let is_known = |link: &Link| {
            link.followed.contains_key(&number)
                || link.followed.values().any(|other| other.node == node)
        };
        if !link.has_room(leaves) || is_known(link) {
            link.refuse(number);
            return false;
        }
        link.followed_leaves += leaves as usize;
        link.followed.insert(number, Followed::new(node.clone(), leaves));
        let id = self.lists.find(&node);
        let missing = self.missing.entry(node.clone());
        let missing = missing
            .or_insert_with(|| Missing { followers: BTreeMap::new(), is_asked: id.is_some() });
        missing.followers.insert(peer, number);
        if let Some(id) = id {
            // It cannot have asked for anything yet.
            self.attach(&node, id);
            return false;
        }
        !std::mem::replace(&mut missing.is_asked, true)
    }

    /// The store was asked for a node: what it links to and whether that is there too, or that there
    /// is no such node.
    pub(crate) fn listed(&mut self, node: &Cid, leaves: Option<Vec<(Cid, bool)>>) -> Early<P> {
        let Some(missing) = self.missing.get_mut(node) else { return Vec::new() };
        missing.is_asked = false;
        let followers: Vec<(P, u32)> =
            missing.followers.iter().map(|(peer, number)| (*peer, *number)).collect();
        let Some(leaves) = leaves else {
            for (peer, number) in followers {
                let Some(link) = self.links.get_mut(&peer) else { continue };
                let Some(followed) = link.followed.get_mut(&number) else { continue };
                followed.is_absent = true;
                for (leaf, _) in std::mem::take(&mut followed.early) {
                    followed.lacks.insert(leaf);
                }
                link.news.insert(number);
                link.is_urgent = true;
                self.touched.insert(peer);
            }
            return Vec::new();
        };
        let is_fit = leaves.len() <= LEAVES_MAX as usize;
        if let Some(id) = is_fit.then(|| self.lists.add(node, leaves)).flatten() {
            let early = self.attach(node, id);
            // Should all of them have been refused.
            self.lists.forget_if_idle(id);
            return early;
        }
        self.missing.remove(node);
        for (peer, number) in followers {
            let Some(link) = self.links.get_mut(&peer) else { continue };
            link.remove(number);
            link.refuse(number);
            self.touched.insert(peer);
        }
        Vec::new()
    }

    /// Those who waited for a list hear what is here of it.
    fn attach(&mut self, node: &Cid, id: u32) -> Early<P> {
        let mut all_early = Vec::new();
        let Some(missing) = self.missing.remove(node) else { return all_early };
        let Some(list) = self.lists.get_mut(id) else { return all_early };
        for (peer, number) in missing.followers {
            let Some(link) = self.links.get_mut(&peer) else { continue };
            self.touched.insert(peer);
            link.is_urgent = true;
            let Some(followed) = link.followed.get_mut(&number) else { continue };
            if followed.leaves as usize != list.leaves.len() {
                link.remove(number);
                link.refuse(number);
                continue;
            }
            followed.list = Some(id);
            list.followers.insert(peer, number);
            // Who heard that nothing was here hears what has come since.
            followed.news = list.here.clone();
            link.news.insert(number);
            let early = std::mem::take(&mut followed.early);
            let early = early
                .into_iter()
                .filter_map(|(leaf, urgency)| {
                    Some((urgency, list.leaves.get(leaf as usize)?.clone()))
                })
                .collect();
            all_early.push((peer, early));
        }
        all_early
    }

    pub(crate) fn unfollow(&mut self, peer: P, number: u32) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        if let Some(followed) = link.remove(number) {
            self.forget_follower(peer, &followed);
        }
    }

    /// A peer refuses a list. Its leaves.
    pub(crate) fn refused(&mut self, peer: P, id: u32) -> Vec<Cid> {
        let following = self.links.get_mut(&peer).and_then(|link| link.following.get_mut(&id));
        let (Some(following), Some(list)) = (following, self.lists.get(id)) else {
            return Vec::new();
        };
        if std::mem::replace(&mut following.is_refused, true) {
            return Vec::new();
        }
        list.leaves.clone()
    }

    /// A peer says what it has of a list. What follows for each leaf.
    pub(crate) fn here(
        &mut self,
        peer: P,
        id: u32,
        is_all: bool,
        leaves: &Ranges,
    ) -> Result<Vec<(Cid, bool)>, Misbehaviour> {
        let Some((following, list)) = self.following(peer, id) else { return Ok(Vec::new()) };
        let len = list.len();
        following.named(leaves.end(), if is_all { len } else { leaves.len() }, len)?;
        following.is_answered = true;
        if is_all {
            following.theirs = leaves.iter().collect();
            let has = |leaf| following.theirs.has(leaf);
            return Ok(list.iter().zip(0..).map(|(cid, leaf)| (cid.clone(), has(leaf))).collect());
        }
        let new = leaves.iter().filter(|leaf| following.theirs.insert(*leaf));
        Ok(new.map(|leaf| (list[leaf as usize].clone(), true)).collect())
    }

    /// A peer says that it lacks what it was asked for.
    pub(crate) fn lack(
        &mut self,
        peer: P,
        id: u32,
        leaves: &Ranges,
    ) -> Result<Vec<Cid>, Misbehaviour> {
        let Some((following, list)) = self.following(peer, id) else { return Ok(Vec::new()) };
        following.named(leaves.end(), leaves.len(), list.len())?;
        let cid = |leaf| {
            following.theirs.remove(leaf);
            list[leaf as usize].clone()
        };
        Ok(leaves.iter().map(cid).collect())
    }

    fn following(&mut self, peer: P, id: u32) -> Option<(&mut Following, &[Cid])> {
        let following = self.links.get_mut(&peer)?.following.get_mut(&id)?;
        let list = self.lists.get(id)?;
        (!following.is_refused).then_some((following, &list.leaves))
    }

    /// A peer asks for leaves, or takes asks back. As wants; and how many were passed over.
    pub(crate) fn asked(
        &mut self,
        peer: P,
        number: u32,
        urgency: Urgency,
        leaves: &Ranges,
    ) -> Result<(Vec<WantEntry>, usize), Misbehaviour> {
        let over = leaves.len().saturating_sub(ASKED_AT_ONCE_MAX);
        let link = self.links.get_mut(&peer);
        let Some(link) = link else { return Ok((Vec::new(), over)) };
        let Some(followed) = link.followed.get_mut(&number) else { return Ok((Vec::new(), over)) };
        let heard = leaves.iter().take(ASKED_AT_ONCE_MAX).zip(0..);
        followed.named(leaves.end(), leaves.len() - over)?;
        let list = followed.list.and_then(|id| self.lists.get(id));
        let mut wants = Vec::new();
        for (leaf, later) in heard {
            let urgency = urgency.later(later);
            match (list, urgency) {
                (Some(list), urgency) => {
                    let cid = list.leaves.get(leaf as usize).cloned();
                    wants.extend(cid.map(|cid| entry(cid, urgency)));
                }
                (None, Urgency::Wanted(_)) if followed.is_absent => {
                    followed.lacks.insert(leaf);
                    link.news.insert(number);
                    link.is_urgent = true;
                    self.touched.insert(peer);
                }
                (None, Urgency::Wanted(urgency)) => {
                    followed.early.insert(leaf, urgency);
                }
                (None, Urgency::Cancelled) => {
                    followed.early.remove(&leaf);
                }
                // It will be sent.
                (None, Urgency::Returned) => {}
            }
        }
        Ok((wants, over))
    }

    /// Whether a leaf that came is what its list says; `None` when the list is not known any more.
    pub(crate) fn is_leaf(&self, id: u32, leaf: u32, cid: &Cid) -> Option<bool> {
        let list = self.lists.get(id)?;
        Some(list.leaves.get(leaf as usize) == Some(cid))
    }

    /// Says what can be said by lists that way, and what there is to say of lists.
    pub(crate) fn speak<B: Payload>(&mut self, peer: P, message: &mut Message<B>) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        link.is_urgent = false;
        let mut words = Vec::new();
        for say in std::mem::take(&mut link.says) {
            words.extend(match say {
                Say::Follow(id) => self.lists.get(id).map(|list| Word::Follow {
                    list: id,
                    node: list.node.clone(),
                    leaves: list.leaves.len() as u32,
                }),
                Say::Unfollow(list) => Some(Word::Unfollow { list }),
                Say::Refuse(list) => Some(Word::Refuse { list }),
            });
        }
        link.tell_news(&mut words);
        self.wants_as_words(peer, message, &mut words);
        self.answers_as_words(peer, message, &mut words);
        message.leaves = words;
    }

    fn wants_as_words<B>(&self, peer: P, message: &mut Message<B>, words: &mut Vec<Word<B>>) {
        let Some(link) = self.links.get(&peer) else { return };
        let mut cancels: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut returns: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut asks: BTreeMap<u32, (i32, Vec<u32>)> = BTreeMap::new();
        message.wants.retain(|want| {
            if !want.cancel && want.kind == WantKind::Have {
                return true;
            }
            let is_spoken = |id: &u32| link.following.get(id).is_some_and(Following::is_spoken);
            let place = self.lists.places(&want.cid).find(|(id, _)| is_spoken(id));
            let Some((id, leaf)) = place else { return true };
            if want.cancel {
                let taken_back = if want.send_dont_have { &mut returns } else { &mut cancels };
                taken_back.entry(id).or_default().push(leaf);
            } else {
                let ask = asks.entry(id).or_default();
                ask.0 = ask.0.max(want.priority);
                ask.1.push(leaf);
            }
            false
        });
        for (list, leaves) in cancels {
            words.push(Word::Cancel { list, leaves: leaves.into_iter().collect() });
        }
        for (list, leaves) in returns {
            words.push(Word::Return { list, leaves: leaves.into_iter().collect() });
        }
        for (list, (priority, leaves)) in asks {
            let priority = priority.unsigned_abs();
            words.push(Word::Ask { list, priority, leaves: leaves.into_iter().collect() });
        }
    }

    fn answers_as_words<B: Payload>(
        &mut self,
        peer: P,
        message: &mut Message<B>,
        words: &mut Vec<Word<B>>,
    ) {
        let mut lacks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for Presence { cid, is_here } in std::mem::take(&mut message.presences) {
            let place = if is_here { None } else { self.place_there(peer, &cid) };
            let Some((number, id, leaf)) = place else {
                message.presences.push(Presence { cid, is_here });
                continue;
            };
            lacks.entry(number).or_default().push(leaf);
            if let Some(list) = self.lists.get_mut(id) {
                list.here.remove(leaf);
            }
        }
        for (list, leaves) in lacks {
            words.push(Word::Lack { list, leaves: leaves.into_iter().collect() });
        }
        for block in std::mem::take(&mut message.blocks) {
            match self.place_there(peer, block.cid()) {
                Some((list, _, leaf)) => words.push(Word::Leaf { list, leaf, block }),
                None => message.blocks.push(block),
            }
        }
    }

    /// A peer's number for a list that it follows and that has this leaf, our number, and the leaf's.
    fn place_there(&self, peer: P, cid: &Cid) -> Option<(u32, u32, u32)> {
        self.lists.places(cid).find_map(|(id, leaf)| {
            let number = self.lists.get(id)?.followers.get(&peer)?;
            Some((*number, id, leaf))
        })
    }
}

impl Link {
    /// Follows a list of ours at the peer; whether it did not.
    fn follow(&mut self, id: u32) -> bool {
        if self.following.contains_key(&id) {
            return false;
        }
        self.following.insert(id, Following::default());
        self.says.push(Say::Follow(id));
        self.is_urgent = true;
        true
    }

    /// What came and what is lacked of the lists that the peer follows.
    fn tell_news<B>(&mut self, words: &mut Vec<Word<B>>) {
        for number in std::mem::take(&mut self.news) {
            let Some(followed) = self.followed.get_mut(&number) else { continue };
            if !followed.news.is_empty() || !followed.is_answered {
                let leaves = std::mem::take(&mut followed.news).iter().collect();
                let is_all = !std::mem::replace(&mut followed.is_answered, true);
                words.push(Word::Here { list: number, is_all, leaves });
            }
            if !followed.lacks.is_empty() {
                let leaves = std::mem::take(&mut followed.lacks).iter().collect();
                words.push(Word::Lack { list: number, leaves });
            }
        }
    }
}

impl Urgency {
    /// That of the leaf that is so many later.
    const fn later(self, by: u32) -> Self {
        match self {
            Urgency::Wanted(first) => Urgency::Wanted(first.saturating_sub(by)),
            other => other,
        }
    }
}

/// A leaf as a want.
fn entry(cid: Cid, urgency: Urgency) -> WantEntry {
    let priority = match urgency {
        Urgency::Wanted(urgency) => i32::try_from(urgency).unwrap_or(i32::MAX),
        Urgency::Cancelled | Urgency::Returned => 0,
    };
    WantEntry {
        cid,
        priority,
        cancel: !matches!(urgency, Urgency::Wanted(_)),
        kind: WantKind::Block,
        send_dont_have: urgency != Urgency::Cancelled,
    }
}
