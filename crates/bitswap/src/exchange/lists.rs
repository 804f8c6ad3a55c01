//! What is said by lists of leaves means what it would mean in Bitswap.

use std::fmt::Debug;

use watchfire_content::Cid;
use watchfire_types::Instant;

use super::Exchange;
use crate::leaves::{EarlyRequests, LeafRequest, ListMessage, Ranges};
use crate::{Misbehaviour, Output, Payload, Protocol, SessionId, WantEntry, WantKind};

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A session fetches what this node links to, in this order: each lists_of_peer, and whether its block is
    /// in the local store. To be told before what it links to is wanted: peers that speak
    /// [`leaves`](crate::leaves) are then not asked block by block what they have.
    pub fn open_node(
        &mut self,
        now: Instant,
        session: SessionId,
        node: &Cid,
        leaves: Vec<(Cid, bool)>,
    ) {
        self.begin_input(now);
        if !self.requester.has_session(session) {
            return;
        }
        let cids: Vec<Cid> = leaves.iter().map(|(cid, _)| cid.clone()).collect();
        let (peers, early) = self.leaves.open_node(session, node, leaves);
        for peer in peers {
            cids.iter().for_each(|cid| self.requester.set_announced(peer, cid));
        }
        self.handle_early_requests(early);
    }

    /// The answer to [`Output::ListLinks`]: what the node links to, in its order, and whether that is in
    /// the local store; `None` when the node is not there, or links to nothing.
    pub fn handle_links(&mut self, now: Instant, node: &Cid, leaves: Option<Vec<(Cid, bool)>>) {
        self.begin_input(now);
        let early = self.leaves.handle_links(node, leaves);
        self.handle_early_requests(early);
    }

    /// What the exchange and this peer speak; `None` when it is not connected.
    pub fn protocol(&self, peer: P) -> Option<Protocol> {
        self.send_buffers.get(&peer).map(|send_buffer| send_buffer.protocol)
    }

    /// A peer is here, that speaks leaves perhaps.
    pub(super) fn subscribe_to_lists(&mut self, peer: P, protocol: Protocol) {
        if protocol == Protocol::Leaves {
            for cid in self.leaves.handle_connected(peer) {
                self.requester.set_announced(peer, &cid);
            }
        }
    }

    /// A session misses something, in spite of all that lists tell.
    pub(super) fn request_have_for_unconfirmed(&mut self, session: SessionId) {
        for (peer, cid) in self.leaves.unconfirmed_leaves(session) {
            self.requester.clear_announced(peer, &cid);
        }
    }

    /// A peer wants this of us.
    pub(super) fn handle_wants(&mut self, peer: P, full: bool, mut wants: Vec<WantEntry>) {
        if let Some(send_buffer) = self.send_buffers.get(&peer) {
            let is_ask = |want: &WantEntry| !want.cancel && want.kind == WantKind::Block;
            wants.retain(|want| !(is_ask(want) && send_buffer.has_block(&want.cid)));
            // Bitswap knows of no answer to what is taken back.
            if send_buffer.protocol != Protocol::Leaves {
                let cancels = wants.iter_mut().filter(|want| want.cancel);
                cancels.for_each(|want| want.send_dont_have = false);
            }
        }
        let looks = self.ledger.handle_wants(peer, full, wants, &mut self.totals);
        self.outputs.extend(looks.into_iter().map(|cid| Output::Lookup { cid }));
    }

    fn handle_leaf_request(
        &mut self,
        peer: P,
        list: u32,
        urgency: LeafRequest,
        leaves: &Ranges,
    ) -> Result<(), Misbehaviour> {
        let (wants, over) = self.leaves.handle_request(peer, list, urgency, leaves)?;
        self.totals.skipped_entries += over as u64;
        self.handle_wants(peer, false, wants);
        Ok(())
    }

    fn handle_early_requests(&mut self, early: EarlyRequests<P>) {
        for (peer, asks) in early {
            let want = |(urgency, cid): (u32, Cid)| WantEntry {
                cid,
                priority: i32::try_from(urgency).unwrap_or(i32::MAX),
                cancel: false,
                kind: WantKind::Block,
                send_dont_have: true,
            };
            self.handle_wants(peer, false, asks.into_iter().map(want).collect());
        }
    }

    /// What peers tell by lists of a block that was just wanted.
    pub(super) fn apply_announcements(&mut self, cid: &Cid) {
        for (peer, is_here) in self.leaves.holders(cid) {
            self.requester.set_announced(peer, cid);
            if let Some(is_here) = is_here {
                self.requester.handle_announcement(self.now, peer, cid, is_here);
            }
        }
    }

    /// A word of a peer. Whether it was a block that nobody ever asked for.
    pub(super) fn handle_list_message(
        &mut self,
        peer: P,
        message: ListMessage<B>,
    ) -> Result<bool, Misbehaviour> {
        if !self.leaves.has_peer(peer) {
            self.totals.skipped_entries += 1;
            return Ok(false);
        }
        match message {
            ListMessage::Subscribe { list, node, leaves } => {
                if self.leaves.handle_subscribe(peer, list, node.clone(), leaves) {
                    self.outputs.push_back(Output::ListLinks { node });
                }
            }
            ListMessage::Unsubscribe { list } => self.leaves.handle_unsubscribe(peer, list),
            ListMessage::Reject { list } => {
                for cid in self.leaves.handle_reject(peer, list) {
                    self.requester.handle_reject(peer, &cid);
                }
            }
            ListMessage::Have { list, is_complete, leaves } => {
                for (cid, is_here) in self.leaves.handle_have(peer, list, is_complete, &leaves)? {
                    self.requester.handle_announcement(self.now, peer, &cid, is_here);
                }
            }
            ListMessage::DontHave { list, leaves } => {
                for cid in self.leaves.handle_dont_have(peer, list, &leaves)? {
                    self.handle_presence(peer, &cid, false);
                }
            }
            ListMessage::Request { list, priority, leaves } => {
                self.handle_leaf_request(peer, list, LeafRequest::Want(priority), &leaves)?;
            }
            ListMessage::Cancel { list, leaves } => {
                self.handle_leaf_request(peer, list, LeafRequest::Cancel, &leaves)?
            }
            ListMessage::CancelQueued { list, leaves } => {
                self.handle_leaf_request(peer, list, LeafRequest::CancelQueued, &leaves)?
            }
            ListMessage::Leaf { list, leaf, block } => {
                // Of a list that is not followed any more a leaf may come late, as blocks do.
                if self.leaves.is_expected_leaf(list, leaf, block.cid()) == Some(false) {
                    self.totals.unsolicited_blocks += 1;
                    self.totals.unsolicited_bytes += block.len() as u64;
                    return Ok(true);
                }
                return Ok(self.handle_block(peer, block));
            }
        }
        Ok(false)
    }
}
