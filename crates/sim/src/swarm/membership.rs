//! Peers that arrive, leave, find each other and connect.

use std::time::Duration;

use watchfire_content::Cid;

use super::node::Peer;
use super::{DialReason, EventKind, Swarm, Timer, exchange};
use crate::network::Host;

/// Round trips until a connection can be used: TCP's, TLS's, and one to agree on protocols.
const ROUND_TRIPS_TO_CONNECT: u32 = 3;
/// The delay before peers redial after a connection broke.
const REDIAL_DELAY: Duration = Duration::from_secs(1);
/// Most providers that a search finds.
const PROVIDERS_MAX: usize = 10;

impl Swarm<'_> {
    pub(super) fn arrive(&mut self, peer: Peer) {
        self.note(EventKind::Arrive, peer, None, 0);
        let (now, peer_plan) = (self.now, self.peer_plan(peer));
        let mut exchange = exchange(self.plan, &mut self.rng);
        let is_full = peer_plan.is_seeder || peer_plan.attack.is_some();
        let held = self.dag.leaves_within(peer_plan.held_bytes);
        for block in 0..self.dag.len() {
            let node = &mut self.nodes[peer.0 as usize];
            if peer_plan.is_seeder {
                node.store(block);
            } else if held.contains(&block) && node.store(block) {
                self.held += u64::from(peer_plan.is_awaited());
            }
            if is_full || node.has(block) {
                exchange.handle_stored(
                    now,
                    self.dag.cid(block),
                    self.dag.block_len(block) as usize,
                );
            }
        }
        let node = &mut self.nodes[peer.0 as usize];
        node.exchange = exchange;
        node.is_online = true;
        node.arrivals += 1;
        node.wake_at = None;
        if !is_full && node.finished_at.is_none() {
            node.begin(now, &self.dag);
        }
        // Peers that have not noticed its departure do so now.
        for other in (0..self.nodes.len() as u32).map(Peer) {
            if self.node(other).peers.remove(&peer) {
                self.node(other).exchange.handle_disconnected(now, peer);
                self.settle(other);
            }
        }
        self.topology.join(peer);
        self.settle(peer);
        self.dial_neighbours(peer);
    }

    pub(super) fn leave(&mut self, peer: Peer) {
        let peer_plan = self.peer_plan(peer);
        if !self.node(peer).is_online {
            return;
        }
        self.note(EventKind::Leave, peer, None, 0);
        self.topology.leave(peer);
        let node = self.node(peer);
        node.is_online = false;
        node.session = None;
        let totals = node.exchange.totals();
        node.earlier_totals.push(totals);
        node.reads = 0;
        node.reading_bytes = 0;
        let (arrivals, peers) = (node.arrivals, std::mem::take(&mut node.peers));
        for other in peers {
            self.network.close(Host(peer.0), Host(other.0));
            let at = self.now + self.path(peer, other).delay + peer_plan.noticed_after;
            self.timers.push(at, Timer::DisconnectNoticed(other, peer, arrivals));
        }
    }

    pub(super) fn dial_neighbours(&mut self, peer: Peer) {
        if self.node(peer).is_online {
            for other in self.topology.neighbours(peer) {
                self.dial(peer, other, Duration::ZERO, DialReason::Neighbour);
            }
        }
    }

    pub(super) fn dial(&mut self, peer: Peer, other: Peer, wait: Duration, reason: DialReason) {
        if self.node(peer).peers.contains(&other)
            || self.network.is_open(Host(peer.0), Host(other.0))
        {
            return;
        }
        let handshakes = 2 * self.path(peer, other).delay * ROUND_TRIPS_TO_CONNECT;
        self.timers.push(self.now + wait + handshakes, Timer::Connect(peer, other, reason));
    }

    pub(super) fn connect(&mut self, a: Peer, b: Peer, reason: DialReason) {
        let can_connect = |swarm: &mut Self, a: Peer, b: Peer| {
            let node = swarm.node(a);
            node.is_online && !node.peers.contains(&b) && !node.blocked.contains(&b)
        };
        if !can_connect(self, a, b) || !can_connect(self, b, a) {
            return;
        }
        if reason == DialReason::Neighbour && !self.topology.are_neighbours(a, b) {
            return;
        }
        let now = self.now;
        let path = self.path(a, b);
        self.note(EventKind::Connect, a, Some(b), 0);
        self.network.open(Host(a.0), Host(b.0), path);
        let protocol = self.plan.strategy.protocol();
        for (peer, other) in [(a, b), (b, a)] {
            let room = self.network.room(Host(peer.0), Host(other.0)) as usize;
            let node = self.node(peer);
            node.peers.insert(other);
            node.exchange.handle_connected(now, other, protocol);
            node.exchange.handle_writable(now, other, room);
            self.settle(peer);
        }
    }

    /// Closes a connection. Both peers notice it immediately.
    pub(super) fn disconnect(&mut self, a: Peer, b: Peer) {
        let now = self.now;
        self.note(EventKind::Disconnect, a, Some(b), 0);
        self.network.close(Host(a.0), Host(b.0));
        for (peer, other) in [(a, b), (b, a)] {
            if self.node(peer).peers.remove(&other) {
                self.node(peer).exchange.handle_disconnected(now, other);
                self.settle(peer);
            }
        }
    }

    pub(super) fn set_break(&mut self) {
        // The wait should be exponential, but a logarithm differs from machine to machine. A sum of
        // two uniform numbers has the same mean.
        let wait = self.rng.fraction() + self.rng.fraction();
        let wait = Duration::from_secs_f64(wait / self.plan.breaks_per_second);
        self.timers.push(self.now + wait, Timer::Break);
    }

    pub(super) fn break_connection(&mut self) {
        self.set_break();
        let online = self.topology.online();
        let Some(at) = (!online.is_empty()).then(|| self.rng.below(online.len() as u64)) else {
            return;
        };
        let peer = *online.iter().nth(at as usize).expect("the index is below the length");
        let peers: Vec<Peer> = self.node(peer).peers.iter().copied().collect();
        if peers.is_empty() {
            return;
        }
        let other = peers[self.rng.below(peers.len() as u64) as usize];
        self.disconnect(peer, other);
        self.dial(peer, other, REDIAL_DELAY, DialReason::Provider);
    }

    /// Completes a search for providers, with peers that have the block or claim to.
    pub(super) fn finish_search(&mut self, peer: Peer, cid: &Cid, arrivals: u32) {
        let Some(session) = self.node(peer).session else { return };
        if self.node(peer).arrivals != arrivals {
            return;
        }
        let Some(block) = self.dag.find(cid) else { return };
        let has = |other: &Peer| {
            let node = &self.nodes[other.0 as usize];
            *other != peer && (node.has(block) || self.peer_plan(*other).attack.is_some())
        };
        let mut providers: Vec<Peer> = self.topology.online().iter().copied().filter(has).collect();
        self.rng.shuffle(&mut providers);
        let blocked = &self.nodes[peer.0 as usize].blocked;
        providers.retain(|other| !blocked.contains(other));
        providers.truncate(PROVIDERS_MAX);
        for other in &providers {
            self.dial(peer, *other, Duration::ZERO, DialReason::Provider);
        }
        let now = self.now;
        self.node(peer).exchange.handle_providers(now, session, &providers);
        self.settle(peer);
    }
}
