//! The processes of other machines, and the link to each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::bus::LocalBus;
use tokio::sync::mpsc;
use tokio::time::Instant;
use watchfire_types::NodeId;

use super::Publisher;
use super::tunnel::Tunnel;
use crate::nats::packet::{Body, Packet};

/// A process that was silent for this time is gone.
const SILENCE_MAX: Duration = Duration::from_secs(6);
/// After this process has connected again, the others have at least this time to do so, too.
const RETURN_TIME: Duration = Duration::from_secs(3);

/// The processes of other machines that are known.
pub(super) struct Peers {
    pub publisher: Publisher,
    bus: Arc<LocalBus>,
    /// Told of links that ended here.
    ended: mpsc::UnboundedSender<(NodeId, u64)>,
    /// Whether a process was heard for the first time since the last heartbeat.
    pub has_newcomers: bool,
    peers: HashMap<NodeId, Peer>,
}

struct Peer {
    incarnation: u64,
    heard_at: Instant,
    /// The number of the link that this process wants to open.
    opening: u64,
    tunnel: Option<Tunnel>,
}

impl Peers {
    pub fn new(
        publisher: Publisher,
        bus: Arc<LocalBus>,
        ended: mpsc::UnboundedSender<(NodeId, u64)>,
    ) -> Self {
        Peers { publisher, bus, ended, has_newcomers: false, peers: HashMap::new() }
    }

    pub fn links(&self) -> u64 {
        self.peers.values().filter(|peer| peer.tunnel.is_some()).count() as u64
    }

    /// The processes that were heard and have no link.
    pub fn unlinked(&self) -> impl Iterator<Item = NodeId> {
        let without = self.peers.iter().filter(|(_, peer)| peer.tunnel.is_none());
        without.map(|(node, _)| *node)
    }

    /// Notes that the connection to NATS is lost, or back. Without it, nobody can be heard. So silence counts
    /// from its loss, and afterwards each process has [`RETURN_TIME`] to be heard again.
    pub fn note_connection(&mut self, is_connected: bool) {
        let left = if is_connected { RETURN_TIME } else { SILENCE_MAX };
        let Some(heard_at) = Instant::now().checked_sub(SILENCE_MAX - left) else { return };
        for peer in self.peers.values_mut() {
            peer.heard_at = peer.heard_at.max(heard_at);
        }
    }

    pub fn heard(&mut self, node: NodeId, incarnation: u64) {
        let now = Instant::now();
        match self.peers.get_mut(&node) {
            Some(peer) if peer.incarnation == incarnation => peer.heard_at = now,
            // A late one of a process that has ended.
            Some(peer) if peer.incarnation > incarnation => {}
            _ => {
                self.remove(node);
                let opening = incarnation ^ self.publisher.incarnation;
                let peer = Peer { incarnation, heard_at: now, opening, tunnel: None };
                self.peers.insert(node, peer);
                self.has_newcomers = true;
                self.open(node);
            }
        }
    }

    /// Notes that a process stops.
    pub fn left(&mut self, node: NodeId, incarnation: u64) {
        if self.peers.get(&node).is_some_and(|peer| peer.incarnation == incarnation) {
            self.remove(node);
        }
    }

    /// Forgets the processes that were silent for too long.
    pub fn drop_silent(&mut self) {
        let is_silent = |peer: &Peer| peer.heard_at.elapsed() >= SILENCE_MAX;
        let silent = self.peers.iter().filter(|(_, peer)| is_silent(peer)).map(|(node, _)| *node);
        for node in silent.collect::<Vec<_>>() {
            tracing::warn!(%node, "a process of another machine is silent; it counts as gone");
            self.remove(node);
        }
    }

    /// Asks for the links that this process opens: those to processes with larger numbers.
    pub fn open_links(&mut self) {
        for node in self.unlinked().collect::<Vec<_>>() {
            self.open(node);
        }
    }

    /// Asks each process whether it has all that was sent.
    pub fn probe(&self) {
        for (node, peer) in &self.peers {
            let Some(tunnel) = &peer.tunnel else { continue };
            let (probe, ack) = tunnel.probe();
            if let Some(sent) = probe {
                self.publisher.control(*node, tunnel.link, Body::Probe { sent });
            }
            if let Some(ack) = ack {
                self.publisher.control(*node, tunnel.link, Body::Ack(ack));
            }
        }
    }

    /// Handles the end of a link in this process.
    pub fn end(&mut self, node: NodeId, link: u64) {
        let peer = self.peers.get_mut(&node);
        if let Some(peer) = peer.filter(|peer| peer.has_link(link)) {
            peer.tunnel = None;
            self.publisher.counters.ended.fetch_add(1, Ordering::Relaxed);
            self.publisher.control(node, link, Body::Close);
        }
    }

    pub fn receive(&mut self, packet: &Packet<'_>) {
        let (from, link) = (NodeId(packet.from), packet.link);
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if peer.incarnation != packet.incarnation {
            return;
        }
        peer.heard_at = Instant::now();
        match &packet.body {
            Body::Open if from < self.publisher.me => {
                if !peer.has_link(link) {
                    self.link(from, link);
                }
                self.publisher.control(from, link, Body::Accept);
            }
            Body::Accept if peer.opening == link => {
                if peer.tunnel.is_none() {
                    self.link(from, link);
                }
            }
            Body::Open | Body::Accept => {}
            Body::Close => {
                if peer.has_link(link) {
                    peer.tunnel = None;
                    self.publisher.counters.ended.fetch_add(1, Ordering::Relaxed);
                }
            }
            Body::Data { .. } | Body::Ack(_) | Body::Probe { .. } => {
                let Some(tunnel) = peer.tunnel.as_mut().filter(|tunnel| tunnel.link == link) else {
                    self.publisher.control(from, link, Body::Close);
                    return;
                };
                if let Body::Data { bytes, .. } = packet.body {
                    let bytes_in = &self.publisher.counters.bytes_in;
                    bytes_in.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                match tunnel.receive(&packet.body) {
                    Ok(Some(ack)) => self.publisher.control(from, link, Body::Ack(ack)),
                    Ok(None) => {}
                    Err(violation) => {
                        tracing::warn!(node = %from, violation, "a link to another machine is cut");
                        self.end(from, link);
                    }
                }
            }
        }
    }

    /// Asks a process for a new link, unless it is the one that asks.
    fn open(&mut self, node: NodeId) {
        if node < self.publisher.me {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&node) {
            self.publisher.control(node, peer.opening, Body::Open);
        }
    }

    /// Gives the bus a link. An existing one ends.
    fn link(&mut self, node: NodeId, link: u64) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.tunnel = None;
        // The next link has another number.
        peer.opening = link.wrapping_add(1);
        let opened = Tunnel::open(node, link, &self.bus, &self.publisher, &self.ended);
        match opened {
            Ok(tunnel) => peer.tunnel = Some(tunnel),
            Err(error) => tracing::error!(%node, %error, "cannot open a link to another machine"),
        }
    }

    fn remove(&mut self, node: NodeId) {
        if self.peers.remove(&node).is_some_and(|peer| peer.tunnel.is_some()) {
            self.publisher.counters.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Peer {
    fn has_link(&self, link: u64) -> bool {
        self.tunnel.as_ref().is_some_and(|tunnel| tunnel.link == link)
    }
}
