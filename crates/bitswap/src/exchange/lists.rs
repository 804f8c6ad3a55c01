//! Messages about lists of leaves, handled as the Bitswap messages that they replace.

use std::fmt::Debug;

use watchfire_content::Cid;
use watchfire_types::Instant;

use super::Exchange;
use crate::leaves::{EarlyRequests, LeafRequest, ListMessage, Ranges};
use crate::{Misbehaviour, Output, Payload, Protocol, SessionId, WantEntry, WantKind};

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A session fetches the links of a node. `leaves` are the links in their order, each with
    /// whether its block is in the local store. Call this before these blocks are wanted. Then
    /// peers that speak [`leaves`](crate::leaves) receive no want-have for each block.
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

    /// The answer to [`Output::ListLinks`]: the node's links in their order, each with whether its
    /// block is in the local store; `None` if the store lacks the node, or it has no links.
    pub fn handle_links(&mut self, now: Instant, node: &Cid, leaves: Option<Vec<(Cid, bool)>>) {
        self.begin_input(now);
        let early = self.leaves.handle_links(node, leaves);
        self.handle_early_requests(early);
    }

    /// The protocol of a connected peer; `None` for other peers.
    pub fn protocol(&self, peer: P) -> Option<Protocol> {
        self.send_buffers.get(&peer).map(|send_buffer| send_buffer.protocol)
    }

    /// Subscribes to the lists of a new peer, if it speaks the leaves protocol.
    pub(super) fn subscribe_to_lists(&mut self, peer: P, protocol: Protocol) {
        if protocol == Protocol::Leaves {
            for cid in self.leaves.handle_connected(peer) {
                self.requester.set_announced(peer, &cid);
            }
        }
    }

    /// Sends want-haves for blocks that a session lacks although peers announce lists.
    pub(super) fn request_have_for_unconfirmed(&mut self, session: SessionId) {
        for (peer, cid) in self.leaves.unconfirmed_leaves(session) {
            self.requester.clear_announced(peer, &cid);
        }
    }

    pub(super) fn handle_wants(&mut self, peer: P, full: bool, mut wants: Vec<WantEntry>) {
        if let Some(send_buffer) = self.send_buffers.get(&peer) {
            let is_request = |want: &WantEntry| !want.cancel && want.kind == WantKind::Block;
            let now = self.now;
            wants.retain(|want| !(is_request(want) && send_buffer.has_block(now, &want.cid)));
            // Bitswap has no answer to a cancel.
            if send_buffer.protocol != Protocol::Leaves {
                let cancels = wants.iter_mut().filter(|want| want.cancel);
                cancels.for_each(|want| want.send_dont_have = false);
            }
        }
        let to_look_up = self.ledger.handle_wants(peer, full, wants, &mut self.totals);
        self.outputs.extend(to_look_up.into_iter().map(|cid| Output::Lookup { cid }));
    }

    fn handle_leaf_request(
        &mut self,
        peer: P,
        list: u32,
        urgency: LeafRequest,
        leaves: &Ranges,
    ) -> Result<(), Misbehaviour> {
        let (wants, skipped) = self.leaves.handle_request(peer, list, urgency, leaves)?;
        self.totals.skipped_entries += skipped as u64;
        self.handle_wants(peer, false, wants);
        Ok(())
    }

    fn handle_early_requests(&mut self, early: EarlyRequests<P>) {
        for (peer, requests) in early {
            let want = |(urgency, cid): (u32, Cid)| WantEntry {
                cid,
                priority: i32::try_from(urgency).unwrap_or(i32::MAX),
                cancel: false,
                kind: WantKind::Block,
                send_dont_have: true,
            };
            self.handle_wants(peer, false, requests.into_iter().map(want).collect());
        }
    }

    /// Applies earlier announcements of peers to a block that was just wanted.
    pub(super) fn apply_announcements(&mut self, cid: &Cid) {
        for (peer, has_block) in self.leaves.holders(cid) {
            self.requester.set_announced(peer, cid);
            if let Some(has_block) = has_block {
                self.requester.handle_announcement(self.now, peer, cid, has_block);
            }
        }
    }

    /// Handles a list message. Returns whether it was a block that was never wanted.
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
                for (cid, has_block) in self.leaves.handle_have(peer, list, is_complete, &leaves)? {
                    self.requester.handle_announcement(self.now, peer, &cid, has_block);
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
                // A late leaf of a list that is not known any more is an ordinary block.
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
