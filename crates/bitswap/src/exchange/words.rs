//! What is said by lists of leaves means what it would mean in Bitswap.

use std::fmt::Debug;

use content::Cid;
use vocab::Instant;

use super::Exchange;
use crate::leaves::{Early, Ranges, Urgency, Word};
use crate::{Misbehaviour, Output, Payload, Protocol, SessionId, WantEntry, WantKind};

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A session fetches what this node links to, in this order: each link, and whether its block is
    /// in the local store. To be told before what it links to is wanted: peers that speak
    /// [`leaves`](crate::leaves) are then not asked block by block what they have.
    pub fn opened(
        &mut self,
        now: Instant,
        session: SessionId,
        node: &Cid,
        leaves: Vec<(Cid, bool)>,
    ) {
        self.input(now);
        if !self.asking.has(session) {
            return;
        }
        let cids: Vec<Cid> = leaves.iter().map(|(cid, _)| cid.clone()).collect();
        let (peers, early) = self.leaves.open(session, node, leaves);
        for peer in peers {
            cids.iter().for_each(|cid| self.asking.listed(peer, cid));
        }
        self.early(early);
    }

    /// The answer to [`Output::List`]: what the node links to, in its order, and whether that is in
    /// the local store; `None` when the node is not there, or links to nothing.
    pub fn listed(&mut self, now: Instant, node: &Cid, leaves: Option<Vec<(Cid, bool)>>) {
        self.input(now);
        let early = self.leaves.listed(node, leaves);
        self.early(early);
    }

    /// What the exchange and this peer speak; `None` when it is not connected.
    pub fn protocol(&self, peer: P) -> Option<Protocol> {
        self.pipes.get(&peer).map(|pipe| pipe.protocol)
    }

    /// A peer is here, that speaks leaves perhaps.
    pub(super) fn meet(&mut self, peer: P, protocol: Protocol) {
        if protocol == Protocol::Leaves {
            for cid in self.leaves.connected(peer) {
                self.asking.listed(peer, &cid);
            }
        }
    }

    /// A session misses something, in spite of all that lists tell.
    pub(super) fn doubt(&mut self, session: SessionId) {
        for (peer, cid) in self.leaves.doubted(session) {
            self.asking.unlisted(peer, &cid);
        }
    }

    /// A peer wants this of us.
    pub(super) fn wanted(&mut self, peer: P, full: bool, mut wants: Vec<WantEntry>) {
        if let Some(pipe) = self.pipes.get(&peer) {
            let is_ask = |want: &WantEntry| !want.cancel && want.kind == WantKind::Block;
            wants.retain(|want| !(is_ask(want) && pipe.carries(&want.cid)));
            // Bitswap knows of no answer to what is taken back.
            if pipe.protocol != Protocol::Leaves {
                let cancels = wants.iter_mut().filter(|want| want.cancel);
                cancels.for_each(|want| want.send_dont_have = false);
            }
        }
        let looks = self.ledger.wanted(peer, full, wants, &mut self.totals);
        self.outputs.extend(looks.into_iter().map(|cid| Output::Look { cid }));
    }

    fn asked(
        &mut self,
        peer: P,
        list: u32,
        urgency: Urgency,
        leaves: &Ranges,
    ) -> Result<(), Misbehaviour> {
        let (wants, over) = self.leaves.asked(peer, list, urgency, leaves)?;
        self.totals.passed_over += over as u64;
        self.wanted(peer, false, wants);
        Ok(())
    }

    fn early(&mut self, early: Early<P>) {
        for (peer, asks) in early {
            let want = |(urgency, cid): (u32, Cid)| WantEntry {
                cid,
                priority: i32::try_from(urgency).unwrap_or(i32::MAX),
                cancel: false,
                kind: WantKind::Block,
                send_dont_have: true,
            };
            self.wanted(peer, false, asks.into_iter().map(want).collect());
        }
    }

    /// What peers tell by lists of a block that was just wanted.
    pub(super) fn hear_of(&mut self, cid: &Cid) {
        for (peer, is_here) in self.leaves.holders(cid) {
            self.asking.listed(peer, cid);
            if let Some(is_here) = is_here {
                self.asking.heard_of(self.now, peer, cid, is_here);
            }
        }
    }

    /// A word of a peer. Whether it was a block that nobody ever asked for.
    pub(super) fn word(&mut self, peer: P, word: Word<B>) -> Result<bool, Misbehaviour> {
        if !self.leaves.speaks(peer) {
            self.totals.passed_over += 1;
            return Ok(false);
        }
        match word {
            Word::Follow { list, node, leaves } => {
                if self.leaves.follow(peer, list, node.clone(), leaves) {
                    self.outputs.push_back(Output::List { node });
                }
            }
            Word::Unfollow { list } => self.leaves.unfollow(peer, list),
            Word::Refuse { list } => {
                for cid in self.leaves.refused(peer, list) {
                    self.asking.refused(peer, &cid);
                }
            }
            Word::Here { list, is_all, leaves } => {
                for (cid, is_here) in self.leaves.here(peer, list, is_all, &leaves)? {
                    self.asking.heard_of(self.now, peer, &cid, is_here);
                }
            }
            Word::Lack { list, leaves } => {
                for cid in self.leaves.lack(peer, list, &leaves)? {
                    self.asking.presence(self.now, peer, &cid, false);
                }
            }
            Word::Ask { list, priority, leaves } => {
                self.asked(peer, list, Urgency::Wanted(priority), &leaves)?;
            }
            Word::Cancel { list, leaves } => self.asked(peer, list, Urgency::Cancelled, &leaves)?,
            Word::Return { list, leaves } => self.asked(peer, list, Urgency::Returned, &leaves)?,
            Word::Leaf { list, leaf, block } => {
                // Of a list that is not followed any more a leaf may come late, as blocks do.
                if self.leaves.is_leaf(list, leaf, block.cid()) == Some(false) {
                    self.totals.unasked_blocks += 1;
                    self.totals.unasked_bytes += block.len() as u64;
                    return Ok(true);
                }
                return Ok(self.block(peer, block));
            }
        }
        Ok(false)
    }
}
