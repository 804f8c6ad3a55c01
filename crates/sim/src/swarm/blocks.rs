//! Messages with blocks: their lengths, the reads before them, and what arrives.

use watchfire_bitswap::{Message, Payload};
use watchfire_content::Cid;

use super::node::Peer;
use super::{EventKind, Swarm, Timer, message_len};
use crate::dag::FakeBlock;
use crate::network::Host;
use crate::plan::Attack;
use crate::strategies::Strategy;

impl Swarm<'_> {
    pub(super) fn send(&mut self, peer: Peer, to: Peer, message: Message<FakeBlock>) {
        let bytes = message_len::message_len(&message, self.plan.strategy);
        let blocks: Vec<usize> = message.payloads().map(Payload::len).collect();
        let (from, host) = (Host(peer.0), Host(to.0));
        if self.network.is_open(from, host) {
            self.note(EventKind::Send, peer, Some(to), bytes);
            let room = self.network.room(from, host);
            // The length is an estimate.
            if bytes > room + room / 16 + 4096 && blocks.len() != 1 {
                let violation = format_args!("it sent {bytes} bytes with room for {room}");
                self.record_violation(peer, violation);
            }
            let max = self.plan.limits.message_bytes_max;
            let bytes = blocks.iter().sum::<usize>();
            if bytes > max && blocks.len() > 1 {
                let violation = format_args!("it sent {bytes} bytes of blocks, more than {max}");
                self.record_violation(peer, violation);
            }
        }
        if self.plan.strategy != Strategy::Watchfire {
            return self.network.send(self.now, from, host, bytes, message);
        }
        // In the leaves protocol, control messages have their own stream.
        let (control, blocks) = message.apart();
        if !control.is_empty() {
            let bytes = message_len::message_len(&control, self.plan.strategy);
            self.network.send_ahead(self.now, from, host, bytes, control);
        }
        if !blocks.is_empty() {
            let bytes = message_len::message_len(&blocks, self.plan.strategy);
            self.network.send(self.now, from, host, bytes, blocks);
        }
    }

    pub(super) fn read(&mut self, peer: Peer, to: Peer, cid: &Cid) {
        let now = self.now;
        let Some(block) = self.dag.find(cid) else {
            return self.node(peer).exchange.handle_read(now, to, cid, None);
        };
        let len = self.dag.block_len(block);
        let max = self.plan.limits.reading_bytes_max as u64;
        let node = self.node(peer);
        node.reads += 1;
        node.reading_bytes += u64::from(len);
        let reading = node.reading_bytes;
        if reading > max && node.reads > 1 {
            let violation = format_args!("it reads {reading} bytes at a time, more than {max}");
            self.record_violation(peer, violation);
        }
        if self.peer_plan(peer).attack == Some(Attack::Withhold) {
            return;
        }
        if self.plan.read_delay.is_zero() {
            let node = self.node(peer);
            node.reads -= 1;
            node.reading_bytes -= u64::from(len);
            self.finish_read(peer, to, block);
        } else {
            let wait = self.plan.read_delay.mul_f64(self.rng.fraction());
            let arrivals = self.node(peer).arrivals;
            self.timers.push(now + wait, Timer::Read(peer, to, block, arrivals));
        }
    }

    /// The links of a DAG node in a peer's store, and whether the peer has their blocks.
    pub(super) fn leaves(&self, peer: Peer, node: &Cid) -> Option<Vec<(Cid, bool)>> {
        let node = self.dag.find(node)?;
        let leaves = self.nodes[peer.0 as usize].leaves(&self.dag, node);
        leaves.filter(|leaves| !leaves.is_empty())
    }

    pub(super) fn finish_read(&mut self, peer: Peer, to: Peer, block: u32) {
        let fake_block = match self.peer_plan(peer).attack {
            Some(_) => Some(self.dag.forged_block(block, &mut self.rng)),
            None => self.nodes[peer.0 as usize].has(block).then(|| self.dag.fake_block(block)),
        };
        if fake_block.is_some() {
            self.note(EventKind::Read, peer, Some(to), self.dag.block_len(block).into());
        }
        let (now, cid) = (self.now, self.dag.cid(block).clone());
        self.node(peer).exchange.handle_read(now, to, &cid, fake_block);
    }

    pub(super) fn handle_block_received(&mut self, peer: Peer, fake_block: &FakeBlock) {
        let now = self.now;
        let Some(block) = self.dag.find(fake_block.cid()) else {
            return self.record_violation(peer, format_args!("it accepted a forged block"));
        };
        let is_awaited = self.peer_plan(peer).is_awaited();
        let node = &mut self.nodes[peer.0 as usize];
        if !node.store(block) {
            return self.record_violation(peer, format_args!("it reported block {block} twice"));
        }
        node.received_at.push(now);
        self.held += u64::from(is_awaited);
        node.exchange.handle_stored(now, fake_block.cid(), fake_block.len());
        node.handle_block(now, &self.dag, block);
        self.note(EventKind::Store, peer, None, fake_block.len() as u64);
        let node = &mut self.nodes[peer.0 as usize];
        if node.held < self.dag.len() {
            return;
        }
        node.finished_at = Some(now);
        self.finished += usize::from(is_awaited);
        if let Some(session) = node.session.take() {
            node.exchange.stop_session(now, session);
        }
        self.note(EventKind::Finish, peer, None, 0);
        if self.peer_plan(peer).leaves_when_done {
            self.timers.push(now, Timer::Leave(peer));
        }
    }
}
