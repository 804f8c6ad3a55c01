//! The peers of all external transports.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;
use watchfire_bitswap::{Message, Presence, Protocol};

use super::peer_numbers::PeerNumber;
use crate::external::{ExternalPeer, RequestFilter, TransportCommand, TransportCommands};

/// Malformed messages of one peer. A peer that sends more of them is banned.
const MALFORMED_MESSAGES_MAX: u32 = 16;

#[derive(Default)]
pub(super) struct ExternalPeers {
    numbers: BTreeMap<ExternalPeer, PeerNumber>,
    peers: BTreeMap<PeerNumber, Peer>,
    /// Yields each peer that was removed, or whose transport was dropped.
    ended: FuturesUnordered<BoxFuture<'static, ExternalPeer>>,
}

struct Peer {
    id: ExternalPeer,
    protocol: Protocol,
    filter: Option<RequestFilter>,
    commands: TransportCommands,
    /// Dropping it resolves this peer's future in [`ExternalPeers::ended`].
    _present: oneshot::Sender<()>,
    unsent_bytes: usize,
    malformed_messages: u32,
}

/// The result of [`ExternalPeers::send`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Bytes of the message; 0 if the filter left nothing to send.
    pub(super) bytes: usize,
    /// DONT_HAVEs in reply to the requests that the filter removed.
    pub(super) filtered: Vec<Presence>,
}

impl ExternalPeers {
    pub(super) fn connect(
        &mut self,
        id: ExternalPeer,
        number: PeerNumber,
        protocol: Protocol,
        filter: Option<RequestFilter>,
        commands: TransportCommands,
    ) {
        let (present, removed) = oneshot::channel();
        let transport = commands.clone();
        self.ended.push(Box::pin(async move {
            tokio::select! {
                () = transport.closed() => {}
                _ = removed => {}
            }
            id
        }));
        self.numbers.insert(id, number);
        let peer = Peer {
            id,
            protocol,
            filter,
            commands,
            _present: present,
            unsent_bytes: 0,
            malformed_messages: 0,
        };
        self.peers.insert(number, peer);
    }

    /// Removes a peer and returns its number; `None` if it was removed already.
    pub(super) fn disconnect(&mut self, id: ExternalPeer) -> Option<PeerNumber> {
        let number = self.numbers.remove(&id)?;
        self.peers.remove(&number);
        Some(number)
    }

    /// Waits for a peer that was removed, or whose transport was dropped; `None` without peers.
    pub(super) async fn next_ended(&mut self) -> Option<ExternalPeer> {
        self.ended.next().await
    }

    pub(super) fn number_of(&self, id: ExternalPeer) -> Option<PeerNumber> {
        self.numbers.get(&id).copied()
    }

    /// Sends a message through the peer's transport, without the requests that its filter rejects.
    pub(super) fn send(&mut self, number: PeerNumber, mut message: Message) -> Sent {
        let Some(peer) = self.peers.get_mut(&number) else { return Sent::default() };
        let mut filtered = Vec::new();
        if let Some(is_allowed) = &peer.filter {
            message.wants.retain(|want| {
                let is_allowed = is_allowed(&want.cid);
                if !is_allowed && !want.cancel && want.send_dont_have {
                    filtered.push(Presence { cid: want.cid.clone(), has_block: false });
                }
                is_allowed
            });
            if message.is_empty() {
                return Sent { bytes: 0, filtered };
            }
        }
        let has_blocks = message.payloads().next().is_some();
        let message = Bytes::from(watchfire_bitswap::message::encode(&message, peer.protocol));
        let bytes = message.len();
        peer.unsent_bytes += bytes;
        // A dropped transport is reported by `next_ended`.
        let _ = peer.commands.send(TransportCommand::Send { peer: peer.id, message, has_blocks });
        Sent { bytes, filtered }
    }

    pub(super) fn handle_sent(&mut self, number: PeerNumber, bytes: usize) {
        if let Some(peer) = self.peers.get_mut(&number) {
            peer.unsent_bytes = peer.unsent_bytes.saturating_sub(bytes);
        }
    }

    /// Returns how many bytes can be queued for a peer now.
    pub(super) fn room(&self, number: PeerNumber, queue_bytes_max: usize) -> usize {
        let unsent = self.peers.get(&number).map(|peer| peer.unsent_bytes);
        queue_bytes_max.saturating_sub(unsent.unwrap_or(queue_bytes_max))
    }

    /// Counts a malformed message. Returns whether the peer has sent too many of them.
    pub(super) fn count_malformed(&mut self, number: PeerNumber) -> bool {
        let Some(peer) = self.peers.get_mut(&number) else { return false };
        peer.malformed_messages += 1;
        peer.malformed_messages > MALFORMED_MESSAGES_MAX
    }

    /// Removes a peer and makes its transport reject it. Returns whether the peer was connected.
    pub(super) fn ban(&mut self, number: PeerNumber) -> bool {
        let Some(peer) = self.peers.remove(&number) else { return false };
        self.numbers.remove(&peer.id);
        let _ = peer.commands.send(TransportCommand::Ban { peer: peer.id });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use watchfire_bitswap::{WantEntry, WantKind};
    use watchfire_content::{Block, Cid};

    const ID: ExternalPeer = ExternalPeer(7);
    const NUMBER: PeerNumber = PeerNumber(1);

    fn connected(
        filter: Option<RequestFilter>,
    ) -> (ExternalPeers, UnboundedReceiver<TransportCommand>) {
        let (sender, commands) = unbounded_channel();
        let mut peers = ExternalPeers::default();
        peers.connect(ID, NUMBER, Protocol::V1_2, filter, sender);
        (peers, commands)
    }

    fn block(bytes: Vec<u8>) -> Block {
        Block::raw(bytes.into()).expect("a short block")
    }

    #[test]
    fn a_peer_has_room_until_enough_bytes_wait_to_be_sent() {
        let (mut peers, mut commands) = connected(None);
        assert_eq!((peers.room(PeerNumber(2), 100), peers.room(NUMBER, 100)), (0, 100));
        let message = Message { blocks: vec![block(vec![1; 80])], ..Message::default() };
        let Sent { bytes, .. } = peers.send(NUMBER, message);
        assert!(peers.room(NUMBER, 100) < 20);
        let command = commands.try_recv();
        assert!(
            matches!(command, Ok(TransportCommand::Send { message, .. }) if message.len() == bytes)
        );
        peers.handle_sent(NUMBER, bytes);
        assert_eq!(peers.room(NUMBER, 100), 100);
    }

    #[tokio::test]
    async fn a_peer_ends_when_it_is_disconnected_or_its_transport_is_dropped() {
        let (mut peers, commands) = connected(None);
        assert_eq!(peers.disconnect(ID), Some(NUMBER));
        assert_eq!((peers.next_ended().await, peers.disconnect(ID)), (Some(ID), None));
        drop(commands);

        let (mut peers, commands) = connected(None);
        drop(commands);
        assert_eq!(peers.next_ended().await, Some(ID));
        assert_eq!(peers.disconnect(ID), Some(NUMBER));
    }

    #[test]
    fn the_filter_replies_dont_have_to_requests_for_other_blocks() {
        let (ours, others) = (block(vec![1]).cid().clone(), block(vec![2]).cid().clone());
        let allowed = ours.clone();
        let (mut peers, mut commands) =
            connected(Some(std::sync::Arc::new(move |cid| *cid == allowed)));
        let want = |cid: &Cid, cancel, send_dont_have| WantEntry {
            cid: cid.clone(),
            priority: 1,
            cancel,
            kind: WantKind::Block,
            send_dont_have,
        };
        let wants = vec![want(&ours, false, true), want(&others, false, true)];
        let sent = peers.send(NUMBER, Message { wants, ..Message::default() });
        assert_eq!(sent.filtered, [Presence { cid: others.clone(), has_block: false }]);
        let Ok(TransportCommand::Send { message, .. }) = commands.try_recv() else {
            panic!("nothing was sent")
        };
        let message = watchfire_bitswap::message::decode(&message).expect("a message");
        assert_eq!(message.wants, [want(&ours, false, true)]);

        let wants = vec![want(&others, true, false), want(&others, false, false)];
        let sent = peers.send(NUMBER, Message { wants, ..Message::default() });
        assert_eq!((sent, commands.is_empty()), (Sent::default(), true));
    }

    #[test]
    fn a_peer_that_sends_too_many_malformed_messages_is_banned() {
        let (mut peers, mut commands) = connected(None);
        let count = (1..).find(|_| peers.count_malformed(NUMBER));
        assert_eq!(count, Some(MALFORMED_MESSAGES_MAX + 1));
        assert!(peers.ban(NUMBER) && !peers.ban(NUMBER));
        assert!(matches!(commands.try_recv(), Ok(TransportCommand::Ban { peer: ID })));
        assert!(peers.number_of(ID).is_none() && peers.peers.is_empty());
    }
}
