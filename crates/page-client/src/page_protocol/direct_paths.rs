//! The direct connections to the peers of a page: when they are made, and what they carry.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use watchfire_types::{Instant, PeerId};

use super::{Output, PageProtocol, PendingRequest};
use crate::assembler::Assembled;
use crate::direct::{self, Datagram, DirectConnections, Secret, StreamEvent};
use crate::frame;
use crate::messages::{Have, PeerInfo};
use crate::segment::Segment;

/// A peer is called when this many bytes were exchanged with it, or are about to be.
const DIRECT_AFTER_BYTES: usize = 128 << 10;
/// Long messages wait this long for the first direct connection to a peer.
pub(super) const DIRECT_HOLD: Duration = Duration::from_secs(1);

impl PageProtocol {
    /// Calls a peer once many bytes were exchanged with it. If `holds`, long messages wait for the
    /// connection.
    pub(super) fn call_if_busy(&mut self, now: Instant, peer: PeerId, holds: bool) {
        let (Some(direct), Some(peer_state)) = (&mut self.direct, self.peers.get_mut(&peer)) else {
            return;
        };
        if peer_state.is_node || peer_state.moved_bytes < DIRECT_AFTER_BYTES || direct.is_up(peer) {
            return;
        }
        if direct.call(now, peer) && holds {
            peer_state.outgoing.hold(now + DIRECT_HOLD);
        }
        self.handle_direct_outputs(now);
    }

    pub(crate) fn set_stun_servers(&mut self, servers: Vec<SocketAddr>) {
        if let Some(direct) = &mut self.direct {
            direct.set_stun_servers(servers);
        }
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &Datagram) {
        if let Some(direct) = &mut self.direct {
            direct.handle_datagram(now, datagram);
            self.handle_direct_outputs(now);
        }
    }

    /// An event of a stream to a browser.
    pub(crate) fn handle_stream_event(&mut self, now: Instant, secret: Secret, event: StreamEvent) {
        if let Some(direct) = &mut self.direct {
            direct.handle_stream_event(now, secret, event);
            self.handle_direct_outputs(now);
        }
    }

    pub(super) fn handle_direct_outputs(&mut self, now: Instant) {
        while let Some(output) = self.direct.as_mut().and_then(DirectConnections::poll_output) {
            self.handle_direct_output(now, output);
        }
    }

    fn handle_direct_output(&mut self, now: Instant, output: direct::Output) {
        match output {
            direct::Output::Signal { to, call, bytes } => {
                let reference = self.reference(now, PendingRequest::Signal { peer: to, call });
                let frame =
                    frame::binary(&self.join_ref, reference, &self.topic, "signal", |frame| {
                        frame.extend_from_slice(&to.to_bytes());
                        frame.extend_from_slice(&bytes);
                    });
                self.outputs.push_back(Output::Binary(frame));
            }
            direct::Output::Datagram(datagram) => {
                self.outputs.push_back(Output::Datagram(datagram))
            }
            direct::Output::StreamFrame { secret, frame } => {
                self.outputs.push_back(Output::StreamFrame { secret, frame });
            }
            direct::Output::CloseStream { secret } => {
                self.outputs.push_back(Output::CloseStream { secret });
            }
            direct::Output::Up { peer } => {
                tracing::debug!(%peer, "connected directly");
                self.move_to_direct(now, peer, false);
            }
            direct::Output::Down { peer, unread } => {
                let Some(peer_state) = self.peers.get_mut(&peer) else { return };
                let unsent = unread.into_iter().filter(|message| !message.is_relayed);
                unsent.for_each(|message| peer_state.outgoing.push(message));
                self.relay_unless_up(now, peer);
            }
            direct::Output::Ended { peer } => {
                let Some(peer_state) = self.peers.get_mut(&peer) else { return };
                // Its partial messages will not complete.
                peer_state.direct.assembler.clear(&mut self.budget);
                peer_state.outgoing.release();
                self.relay_unless_up(now, peer);
            }
            direct::Output::Segment { peer, segment } => {
                self.handle_direct_segment(now, peer, segment)
            }
            direct::Output::Sent { peer, bytes } => {
                self.outputs.push_back(Output::Sent { peer, bytes });
            }
            direct::Output::Misbehaved { peer, reason } => {
                tracing::debug!(%peer, reason, "dropped a peer that misbehaved while connecting");
                self.outputs.push_back(Output::Dropped { reason });
                self.ban(now, peer);
            }
        }
    }

    fn move_to_direct(&mut self, now: Instant, peer: PeerId, is_all: bool) {
        let (Some(direct), Some(peer_state)) = (&mut self.direct, self.peers.get_mut(&peer)) else {
            return;
        };
        peer_state.outgoing.release();
        for message in peer_state.outgoing.take_for_direct(is_all) {
            direct.send(now, peer, message);
        }
    }

    /// The server cannot reach a peer. A direct connection carries what the server has not delivered. Without
    /// one, the peer is gone.
    pub(super) fn leave_relay(&mut self, now: Instant, peer: PeerId) {
        if self.direct.as_ref().is_some_and(|direct| direct.is_up(peer)) {
            self.move_to_direct(now, peer, true);
            self.handle_direct_outputs(now);
        } else {
            self.remove(now, peer);
        }
    }

    /// Relays messages after a connection to the peer has ended, unless a stream has replaced it.
    /// The stream takes over those messages with its [`direct::Output::Up`], which follows.
    fn relay_unless_up(&mut self, now: Instant, peer: PeerId) {
        if self.direct.as_ref().is_none_or(|direct| !direct.is_up(peer)) {
            self.send_segments(now, peer);
        }
    }

    fn handle_direct_segment(&mut self, now: Instant, peer: PeerId, segment: Segment) {
        let Some(peer_state) = self.peers.get_mut(&peer) else { return };
        peer_state.last_frame_at = now;
        let id = segment.message;
        match peer_state.direct.assembler.accept(now, &mut self.budget, segment) {
            Assembled::Whole(bytes) => {
                let is_read =
                    peer_state.direct.read.contains(id) || peer_state.relayed.read.contains(id);
                if !is_read {
                    peer_state.direct.read.insert(id);
                    peer_state.moved_bytes = peer_state.moved_bytes.saturating_add(bytes.len());
                    self.report_acknowledged(peer);
                    self.outputs.push_back(Output::Message { peer, bytes });
                }
                if let Some(direct) = &mut self.direct {
                    direct.acknowledge(now, peer, id);
                }
            }
            Assembled::Partial => self.outputs.push_back(Output::Receiving { peer }),
            Assembled::Malformed => self.outputs.push_back(Output::Malformed { peer }),
            Assembled::Dropped => {}
        }
    }

    pub(super) fn handle_signal(&mut self, now: Instant, payload: &Bytes) {
        let Some((peer, signal)) = payload.split_first_chunk() else { return };
        let peer = PeerId::from_bytes(*peer);
        if self.direct.is_none() || self.banned.contains(&peer) {
            return;
        }
        // A peer may call before the server introduces it to this client.
        self.add_peer(now, PeerInfo { peer, have: Have::None, is_node: false });
        if self.peers.contains_key(&peer)
            && let Some(direct) = &mut self.direct
        {
            direct.handle_signal(now, peer, signal);
            self.handle_direct_outputs(now);
        }
    }

    pub(super) fn handle_lost_signal(&mut self, now: Instant, peer: PeerId, call: u32) {
        if let Some(direct) = &mut self.direct {
            direct.handle_lost_signal(now, peer, call);
            self.handle_direct_outputs(now);
        }
    }
}
