//! The leaves protocol, which needs fewer bytes than Bitswap between Watchfire nodes.
//!
//! A DAG node is a list of links, and its CID fixes their order. So peers that have the node can
//! name its links by index, without CIDs. A peer subscribes to the list. It receives which leaves
//! are available now and which arrive later. It requests runs of leaves and receives them on one
//! stream. All other messages are Bitswap messages, on a second stream. Requests are assigned as
//! with Bitswap. `docs/reference/protocols/leaves.md` has the protocol.

mod known_lists;
mod peer_lists;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use watchfire_content::Cid;

pub use crate::message::leaf_frame::{FrameError, decode, encode, encoded_len};
pub use crate::message::list_message::ListMessage;
pub use crate::message::ranges::{LEAVES_MAX, Ranges, RangesError};

use crate::{Message, Misbehaviour, Payload, Presence, SessionId, WantEntry, WantKind};
use known_lists::KnownLists;
use peer_lists::{Announcement, OurSubscription, PeerLists, TheirSubscription};

pub const PROTOCOL_ID: &str = "/watchfire/leaves/1";

/// Most lists that one peer may subscribe to, with [`LEAVES_MAX`] leaves together. Others are
/// rejected.
const LISTS_PER_PEER_MAX: usize = 1024;

/// Most leaves of all known lists. At the limit, subscriptions are rejected, and this node fetches
/// further lists with Bitswap.
const LEAVES_TOTAL_MAX: usize = 1 << 19;

/// Most leaves of one request. Further ones are skipped.
const REQUESTED_LEAVES_MAX: usize = 1024;

/// The lists that this node subscribes to at peers, and those that peers subscribe to here.
#[derive(Debug)]
pub(crate) struct LeafLists<P> {
    lists: KnownLists<P>,
    peers: BTreeMap<P, PeerLists>,
    /// Nodes that peers subscribe to and that are not known yet.
    missing: BTreeMap<Cid, Missing<P>>,
    /// Peers with messages to send.
    pub peers_to_update: BTreeSet<P>,
}

#[derive(Debug)]
struct Missing<P> {
    subscribers: BTreeMap<P, u32>,
    /// Whether the store is listing the node's links.
    is_listing: bool,
}

/// A request for leaves, or its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafRequest {
    /// Send the leaves. The first has this priority, each further one a priority lower by one.
    Want(u32),
    /// Do not send the leaves.
    Cancel,
    /// Do not send the leaves that are still queued, and confirm that.
    CancelQueued,
}

/// Requests that came before their list was known: the priority and CID of each leaf.
pub(crate) type EarlyRequests<P> = Vec<(P, Vec<(u32, Cid)>)>;

impl<P: Copy + Ord + Debug> LeafLists<P> {
    pub(crate) const fn new() -> Self {
        LeafLists {
            lists: KnownLists::new(),
            peers: BTreeMap::new(),
            missing: BTreeMap::new(),
            peers_to_update: BTreeSet::new(),
        }
    }

    /// A peer that speaks the leaves protocol connected. Returns the leaves that it will announce.
    pub(crate) fn handle_connected(&mut self, peer: P) -> Vec<Cid> {
        let lists_of_peer = self.peers.entry(peer).or_default();
        let mut cids = Vec::new();
        for (id, list) in self.lists.ours() {
            lists_of_peer.subscribe(id);
            cids.extend(list.leaves.iter().cloned());
        }
        self.peers_to_update.insert(peer);
        cids
    }

    pub(crate) fn handle_disconnected(&mut self, peer: P) {
        let Some(lists_of_peer) = self.peers.remove(&peer) else { return };
        self.peers_to_update.remove(&peer);
        for (_, theirs) in lists_of_peer.theirs {
            self.forget_subscriber(peer, &theirs);
        }
    }

    fn forget_subscriber(&mut self, peer: P, theirs: &TheirSubscription) {
        if let Some(id) = theirs.list {
            if let Some(list) = self.lists.get_mut(id) {
                list.subscribers.remove(&peer);
            }
            self.lists.forget_if_idle(id);
        }
        if let Some(missing) = self.missing.get_mut(&theirs.node) {
            missing.subscribers.remove(&peer);
            if missing.subscribers.is_empty() {
                self.missing.remove(&theirs.node);
            }
        }
    }

    /// Whether a peer speaks the leaves protocol.
    pub(crate) fn has_peer(&self, peer: P) -> bool {
        self.peers.contains_key(&peer)
    }

    /// How many leaves a peer is known to lack of the lists that it subscribes to here. A list that
    /// this node does not subscribe to there counts as one. `None` without subscriptions.
    pub(crate) fn blocks_missing_at(&self, peer: P) -> Option<usize> {
        let lists_of_peer = self.peers.get(&peer)?;
        let lacked = lists_of_peer.theirs.values().map(|theirs| {
            let ours = theirs.list.and_then(|list| lists_of_peer.ours.get(&list));
            let available = ours.map(|ours| ours.available.len());
            available.map_or(1, |available| (theirs.leaves as usize).saturating_sub(available))
        });
        lacked.reduce(|sum, lacked| sum + lacked)
    }

    pub(crate) fn has_urgent(&self, peer: P) -> bool {
        self.peers.get(&peer).is_some_and(|lists_of_peer| lists_of_peer.is_urgent)
    }

    /// A session fetches a node's links. Returns new subscriptions at peers, and early requests.
    pub(crate) fn open_node(
        &mut self,
        session: SessionId,
        node: &Cid,
        leaves: Vec<(Cid, bool)>,
    ) -> (Vec<P>, EarlyRequests<P>) {
        let is_whole = leaves.iter().all(|(_, has_block)| *has_block);
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
        for (peer, lists_of_peer) in &mut self.peers {
            if lists_of_peer.subscribe(id) {
                peers.push(*peer);
            }
        }
        self.peers_to_update.extend(&peers);
        let early = self.attach_list(node, id);
        (peers, early)
    }

    /// The peers that announce a leaf, and whether they have it; `None` until they have answered.
    pub(crate) fn holders(&self, cid: &Cid) -> Vec<(P, Option<bool>)> {
        let mut holders = Vec::new();
        for (id, leaf) in self.lists.places(cid) {
            if self.lists.get(id).is_none_or(|list| list.sessions.is_empty()) {
                continue;
            }
            for (peer, lists_of_peer) in &self.peers {
                if let Some(ours) = lists_of_peer.ours.get(&id).filter(|one| !one.is_rejected) {
                    let has_block = ours.is_answered.then(|| ours.available.has(leaf));
                    holders.push((*peer, has_block));
                }
            }
        }
        holders
    }

    /// The leaves to request with want-haves, because no peer is known to have them. A peer that
    /// announced none may lack only the node, unless it subscribes to the list here.
    pub(crate) fn unconfirmed_leaves(&self, session: SessionId) -> Vec<(P, Cid)> {
        let mut unconfirmed = Vec::new();
        for (id, list) in self.lists.ours().filter(|(_, list)| list.sessions.contains(&session)) {
            for (peer, lists_of_peer) in &self.peers {
                let ours = lists_of_peer.ours.get(&id);
                let shows_none =
                    |one: &OurSubscription| !one.is_rejected && one.available.is_empty();
                if ours.is_some_and(shows_none) && !list.subscribers.contains_key(peer) {
                    unconfirmed.extend(list.leaves.iter().map(|cid| (*peer, cid.clone())));
                }
            }
        }
        unconfirmed
    }

    /// A session ended. Returns the leaves that are not announced any more, and by which peers.
    pub(crate) fn stop_session(&mut self, session: SessionId) -> Vec<(P, Cid)> {
        let mut stopped = Vec::new();
        let ours: Vec<u32> = self.lists.ours().map(|(id, _)| id).collect();
        for id in ours {
            let Some(list) = self.lists.get_mut(id) else { continue };
            list.sessions.retain(|other| *other != session);
            if !list.sessions.is_empty() {
                continue;
            }
            let leaves = list.leaves.clone();
            for peer in self.unsubscribe_all(id) {
                stopped.extend(leaves.iter().map(|cid| (peer, cid.clone())));
            }
        }
        stopped
    }

    fn unsubscribe_all(&mut self, id: u32) -> Vec<P> {
        let mut peers = Vec::new();
        for (peer, lists_of_peer) in &mut self.peers {
            let Some(ours) = lists_of_peer.ours.remove(&id) else { continue };
            if ours.is_rejected {
                continue;
            }
            peers.push(*peer);
            // A subscription that is unsent needs no message.
            let unsent = lists_of_peer
                .announcements
                .iter()
                .position(|message| *message == Announcement::Subscribe(id));
            if let Some(at) = unsent {
                lists_of_peer.announcements.remove(at);
            } else {
                lists_of_peer.announcements.push(Announcement::Unsubscribe(id));
            }
        }
        self.peers_to_update.extend(&peers);
        self.lists.forget_if_idle(id);
        peers
    }

    /// A block was stored. Returns whether to list its links, because a peer subscribes to them.
    pub(crate) fn handle_stored(&mut self, cid: &Cid) -> bool {
        let places: Vec<(u32, u32)> = self.lists.places(cid).collect();
        for (id, leaf) in places {
            let Some(list) = self.lists.get_mut(id) else { continue };
            if !list.stored.insert(leaf) {
                continue;
            }
            for (peer, number) in &list.subscribers {
                let Some(lists_of_peer) = self.peers.get_mut(peer) else { continue };
                let Some(theirs) = lists_of_peer.theirs.get_mut(number) else { continue };
                theirs.new_leaves.insert(leaf);
                lists_of_peer.updated_lists.insert(*number);
                self.peers_to_update.insert(*peer);
            }
            if list.stored.len() == list.leaves.len() && !list.sessions.is_empty() {
                list.sessions.clear();
                self.unsubscribe_all(id);
            }
        }
        let missing = self.missing.get_mut(cid);
        missing.is_some_and(|missing| !std::mem::replace(&mut missing.is_listing, true))
    }

    /// A peer subscribes to a list. Returns whether to list the node's links.
    pub(crate) fn handle_subscribe(
        &mut self,
        peer: P,
        number: u32,
        node: Cid,
        leaves: u32,
    ) -> bool {
        let Some(lists_of_peer) = self.peers.get_mut(&peer) else { return false };
        self.peers_to_update.insert(peer);
        let is_known = |lists_of_peer: &PeerLists| {
            lists_of_peer.theirs.contains_key(&number)
                || lists_of_peer.theirs.values().any(|other| other.node == node)
        };
        if !lists_of_peer.has_room(leaves) || is_known(lists_of_peer) {
            lists_of_peer.reject(number);
            return false;
        }
        lists_of_peer.their_leaves += leaves as usize;
        lists_of_peer.theirs.insert(number, TheirSubscription::new(node.clone(), leaves));
        let id = self.lists.find(&node);
        let missing = self.missing.entry(node.clone());
        let missing = missing
            .or_insert_with(|| Missing { subscribers: BTreeMap::new(), is_listing: id.is_some() });
        missing.subscribers.insert(peer, number);
        if let Some(id) = id {
            // A new subscriber has no early requests.
            self.attach_list(&node, id);
            return false;
        }
        !std::mem::replace(&mut missing.is_listing, true)
    }

    /// The store listed a node's links; `None` if it has no such node. Returns early requests.
    pub(crate) fn handle_links(
        &mut self,
        node: &Cid,
        leaves: Option<Vec<(Cid, bool)>>,
    ) -> EarlyRequests<P> {
        let Some(missing) = self.missing.get_mut(node) else { return Vec::new() };
        missing.is_listing = false;
        let subscribers: Vec<(P, u32)> =
            missing.subscribers.iter().map(|(peer, number)| (*peer, *number)).collect();
        let Some(leaves) = leaves else {
            for (peer, number) in subscribers {
                let Some(lists_of_peer) = self.peers.get_mut(&peer) else { continue };
                let Some(theirs) = lists_of_peer.theirs.get_mut(&number) else { continue };
                theirs.is_absent = true;
                for (leaf, _) in std::mem::take(&mut theirs.early) {
                    theirs.missing_leaves.insert(leaf);
                }
                lists_of_peer.updated_lists.insert(number);
                lists_of_peer.is_urgent = true;
                self.peers_to_update.insert(peer);
            }
            return Vec::new();
        };
        let fits = leaves.len() <= LEAVES_MAX as usize;
        if let Some(id) = fits.then(|| self.lists.add(node, leaves)).flatten() {
            let early = self.attach_list(node, id);
            // All subscribers may have been rejected.
            self.lists.forget_if_idle(id);
            return early;
        }
        self.missing.remove(node);
        for (peer, number) in subscribers {
            let Some(lists_of_peer) = self.peers.get_mut(&peer) else { continue };
            lists_of_peer.remove(number);
            lists_of_peer.reject(number);
            self.peers_to_update.insert(peer);
        }
        Vec::new()
    }

    /// Attaches the waiting subscribers to a list that is known now. Returns their early requests.
    fn attach_list(&mut self, node: &Cid, id: u32) -> EarlyRequests<P> {
        let mut all_early = Vec::new();
        let Some(missing) = self.missing.remove(node) else { return all_early };
        let Some(list) = self.lists.get_mut(id) else { return all_early };
        for (peer, number) in missing.subscribers {
            let Some(lists_of_peer) = self.peers.get_mut(&peer) else { continue };
            self.peers_to_update.insert(peer);
            lists_of_peer.is_urgent = true;
            let Some(theirs) = lists_of_peer.theirs.get_mut(&number) else { continue };
            if theirs.leaves as usize != list.leaves.len() {
                lists_of_peer.remove(number);
                lists_of_peer.reject(number);
                continue;
            }
            theirs.list = Some(id);
            list.subscribers.insert(peer, number);
            // After an empty HAVE, these leaves are new.
            theirs.new_leaves = list.stored.clone();
            lists_of_peer.updated_lists.insert(number);
            let early = std::mem::take(&mut theirs.early);
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

    pub(crate) fn handle_unsubscribe(&mut self, peer: P, number: u32) {
        let Some(lists_of_peer) = self.peers.get_mut(&peer) else { return };
        if let Some(theirs) = lists_of_peer.remove(number) {
            self.forget_subscriber(peer, &theirs);
        }
    }

    /// A peer rejected a list. Returns the leaves of the list.
    pub(crate) fn handle_reject(&mut self, peer: P, id: u32) -> Vec<Cid> {
        let ours =
            self.peers.get_mut(&peer).and_then(|lists_of_peer| lists_of_peer.ours.get_mut(&id));
        let (Some(ours), Some(list)) = (ours, self.lists.get(id)) else {
            return Vec::new();
        };
        if std::mem::replace(&mut ours.is_rejected, true) {
            return Vec::new();
        }
        list.leaves.clone()
    }

    /// A peer announced its leaves. Returns each affected leaf, and whether the peer has it.
    pub(crate) fn handle_have(
        &mut self,
        peer: P,
        id: u32,
        is_complete: bool,
        leaves: &Ranges,
    ) -> Result<Vec<(Cid, bool)>, Misbehaviour> {
        let Some((ours, list)) = self.our_subscription(peer, id) else { return Ok(Vec::new()) };
        let len = list.len();
        ours.count_named(leaves.end(), if is_complete { len } else { leaves.len() }, len)?;
        ours.is_answered = true;
        if is_complete {
            ours.available = leaves.iter().collect();
            let has = |leaf| ours.available.has(leaf);
            return Ok(list.iter().zip(0..).map(|(cid, leaf)| (cid.clone(), has(leaf))).collect());
        }
        let new = leaves.iter().filter(|leaf| ours.available.insert(*leaf));
        Ok(new.map(|leaf| (list[leaf as usize].clone(), true)).collect())
    }

    /// A peer lacks requested leaves. Returns their CIDs.
    pub(crate) fn handle_dont_have(
        &mut self,
        peer: P,
        id: u32,
        leaves: &Ranges,
    ) -> Result<Vec<Cid>, Misbehaviour> {
        let Some((ours, list)) = self.our_subscription(peer, id) else { return Ok(Vec::new()) };
        ours.count_named(leaves.end(), leaves.len(), list.len())?;
        let cid = |leaf| {
            ours.available.remove(leaf);
            list[leaf as usize].clone()
        };
        Ok(leaves.iter().map(cid).collect())
    }

    fn our_subscription(&mut self, peer: P, id: u32) -> Option<(&mut OurSubscription, &[Cid])> {
        let ours = self.peers.get_mut(&peer)?.ours.get_mut(&id)?;
        let list = self.lists.get(id)?;
        (!ours.is_rejected).then_some((ours, &list.leaves))
    }

    /// A peer requested or cancelled leaves. Returns them as wants, and how many were skipped.
    pub(crate) fn handle_request(
        &mut self,
        peer: P,
        number: u32,
        urgency: LeafRequest,
        leaves: &Ranges,
    ) -> Result<(Vec<WantEntry>, usize), Misbehaviour> {
        let skipped = leaves.len().saturating_sub(REQUESTED_LEAVES_MAX);
        let lists_of_peer = self.peers.get_mut(&peer);
        let Some(lists_of_peer) = lists_of_peer else { return Ok((Vec::new(), skipped)) };
        let Some(theirs) = lists_of_peer.theirs.get_mut(&number) else {
            return Ok((Vec::new(), skipped));
        };
        let requested = leaves.iter().take(REQUESTED_LEAVES_MAX).zip(0..);
        theirs.count_named(leaves.end(), leaves.len() - skipped)?;
        let list = theirs.list.and_then(|id| self.lists.get(id));
        let mut wants = Vec::new();
        for (leaf, later) in requested {
            let urgency = urgency.later(later);
            match (list, urgency) {
                (Some(list), urgency) => {
                    let cid = list.leaves.get(leaf as usize).cloned();
                    wants.extend(cid.map(|cid| want_entry(cid, urgency)));
                }
                (None, LeafRequest::Want(_)) if theirs.is_absent => {
                    theirs.missing_leaves.insert(leaf);
                    lists_of_peer.updated_lists.insert(number);
                    lists_of_peer.is_urgent = true;
                    self.peers_to_update.insert(peer);
                }
                (None, LeafRequest::Want(urgency)) => {
                    theirs.early.insert(leaf, urgency);
                }
                (None, LeafRequest::Cancel) => {
                    theirs.early.remove(&leaf);
                }
                // The request stays, and is answered with the leaf.
                (None, LeafRequest::CancelQueued) => {}
            }
        }
        Ok((wants, skipped))
    }

    /// Whether a received leaf has the CID from its list; `None` if the list is not known any more.
    pub(crate) fn is_expected_leaf(&self, id: u32, leaf: u32, cid: &Cid) -> Option<bool> {
        let list = self.lists.get(id)?;
        Some(list.leaves.get(leaf as usize) == Some(cid))
    }

    /// Replaces wants and answers with list messages, and adds pending messages about lists.
    pub(crate) fn fill_message<B: Payload>(&mut self, peer: P, message: &mut Message<B>) {
        let Some(lists_of_peer) = self.peers.get_mut(&peer) else { return };
        lists_of_peer.is_urgent = false;
        let mut messages = Vec::new();
        for announcement in std::mem::take(&mut lists_of_peer.announcements) {
            messages.extend(match announcement {
                Announcement::Subscribe(id) => {
                    self.lists.get(id).map(|list| ListMessage::Subscribe {
                        list: id,
                        node: list.node.clone(),
                        leaves: list.leaves.len() as u32,
                    })
                }
                Announcement::Unsubscribe(list) => Some(ListMessage::Unsubscribe { list }),
                Announcement::Reject(list) => Some(ListMessage::Reject { list }),
            });
        }
        lists_of_peer.take_updates(&mut messages);
        self.wants_as_list_messages(peer, message, &mut messages);
        self.answers_as_list_messages(peer, message, &mut messages);
        message.leaves = messages;
    }

    fn wants_as_list_messages<B>(
        &self,
        peer: P,
        message: &mut Message<B>,
        messages: &mut Vec<ListMessage<B>>,
    ) {
        let Some(lists_of_peer) = self.peers.get(&peer) else { return };
        let mut cancels: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut queued_cancels: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut requests: BTreeMap<u32, (i32, Vec<u32>)> = BTreeMap::new();
        message.wants.retain(|want| {
            if !want.cancel && want.kind == WantKind::Have {
                return true;
            }
            let is_usable =
                |id: &u32| lists_of_peer.ours.get(id).is_some_and(OurSubscription::is_usable);
            let place = self.lists.places(&want.cid).find(|(id, _)| is_usable(id));
            let Some((id, leaf)) = place else { return true };
            if want.cancel {
                let leaves = if want.send_dont_have { &mut queued_cancels } else { &mut cancels };
                leaves.entry(id).or_default().push(leaf);
            } else {
                let request = requests.entry(id).or_default();
                request.0 = request.0.max(want.priority);
                request.1.push(leaf);
            }
            false
        });
        for (list, leaves) in cancels {
            messages.push(ListMessage::Cancel { list, leaves: leaves.into_iter().collect() });
        }
        for (list, leaves) in queued_cancels {
            messages.push(ListMessage::CancelQueued { list, leaves: leaves.into_iter().collect() });
        }
        for (list, (priority, leaves)) in requests {
            let priority = priority.unsigned_abs();
            messages.push(ListMessage::Request {
                list,
                priority,
                leaves: leaves.into_iter().collect(),
            });
        }
    }

    fn answers_as_list_messages<B: Payload>(
        &mut self,
        peer: P,
        message: &mut Message<B>,
        messages: &mut Vec<ListMessage<B>>,
    ) {
        let mut lacks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for Presence { cid, has_block } in std::mem::take(&mut message.presences) {
            let place = if has_block { None } else { self.their_place(peer, &cid) };
            let Some((number, id, leaf)) = place else {
                message.presences.push(Presence { cid, has_block });
                continue;
            };
            lacks.entry(number).or_default().push(leaf);
            if let Some(list) = self.lists.get_mut(id) {
                list.stored.remove(leaf);
            }
        }
        for (list, leaves) in lacks {
            messages.push(ListMessage::DontHave { list, leaves: leaves.into_iter().collect() });
        }
        for block in std::mem::take(&mut message.blocks) {
            match self.their_place(peer, block.cid()) {
                Some((list, _, leaf)) => messages.push(ListMessage::Leaf { list, leaf, block }),
                None => message.blocks.push(block),
            }
        }
    }

    /// The place of a leaf in a peer's subscription: the peer's list number, ours, and the index.
    fn their_place(&self, peer: P, cid: &Cid) -> Option<(u32, u32, u32)> {
        self.lists.places(cid).find_map(|(id, leaf)| {
            let number = self.lists.get(id)?.subscribers.get(&peer)?;
            Some((*number, id, leaf))
        })
    }
}

impl PeerLists {
    /// Subscribes to a list at the peer. Returns whether this is a new subscription.
    fn subscribe(&mut self, id: u32) -> bool {
        if self.ours.contains_key(&id) {
            return false;
        }
        self.ours.insert(id, OurSubscription::default());
        self.announcements.push(Announcement::Subscribe(id));
        self.is_urgent = true;
        true
    }

    /// Takes the pending HAVE and DONT_HAVE messages of the peer's subscriptions.
    fn take_updates<B>(&mut self, messages: &mut Vec<ListMessage<B>>) {
        for number in std::mem::take(&mut self.updated_lists) {
            let Some(theirs) = self.theirs.get_mut(&number) else { continue };
            if !theirs.new_leaves.is_empty() || !theirs.is_answered {
                let leaves = std::mem::take(&mut theirs.new_leaves).iter().collect();
                let is_complete = !std::mem::replace(&mut theirs.is_answered, true);
                messages.push(ListMessage::Have { list: number, is_complete, leaves });
            }
            if !theirs.missing_leaves.is_empty() {
                let leaves = std::mem::take(&mut theirs.missing_leaves).iter().collect();
                messages.push(ListMessage::DontHave { list: number, leaves });
            }
        }
    }
}

impl LeafRequest {
    /// The request for the leaf that is `by` places later.
    const fn later(self, by: u32) -> Self {
        match self {
            LeafRequest::Want(first) => LeafRequest::Want(first.saturating_sub(by)),
            other => other,
        }
    }
}

fn want_entry(cid: Cid, urgency: LeafRequest) -> WantEntry {
    let priority = match urgency {
        LeafRequest::Want(urgency) => i32::try_from(urgency).unwrap_or(i32::MAX),
        LeafRequest::Cancel | LeafRequest::CancelQueued => 0,
    };
    WantEntry {
        cid,
        priority,
        cancel: !matches!(urgency, LeafRequest::Want(_)),
        kind: WantKind::Block,
        send_dont_have: urgency != LeafRequest::Cancel,
    }
}
