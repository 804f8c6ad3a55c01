//! Guests as the driver sees them: what each may still be sent, and by which carrier.

use std::collections::BTreeMap;

use bitswap::{Message, Presence, Protocol};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::peers::Peer;
use crate::carrier::{Errand, Errands, Guest, Scope};

/// Messages of a guest that cannot be read; then it is sent away.
const MALFORMED_MAX: u32 = 16;

/// The guests of all carriers.
#[derive(Default)]
pub(super) struct Guests {
    peers: BTreeMap<Guest, Peer>,
    lodgings: BTreeMap<Peer, Lodging>,
}

struct Lodging {
    guest: Guest,
    protocol: Protocol,
    scope: Option<Scope>,
    errands: Errands,
    /// Its end tells who waits for the guest's.
    _is_here: oneshot::Sender<()>,
    unsent_bytes: usize,
    malformed: u32,
}

impl Guests {
    /// A guest is here; what comes back ends with its stay.
    pub(super) fn connect(
        &mut self,
        guest: Guest,
        peer: Peer,
        protocol: Protocol,
        scope: Option<Scope>,
        errands: Errands,
    ) -> oneshot::Receiver<()> {
        let (is_here, is_gone) = oneshot::channel();
        self.peers.insert(guest, peer);
        let lodging = Lodging {
            guest,
            protocol,
            scope,
            errands,
            _is_here: is_here,
            unsent_bytes: 0,
            malformed: 0,
        };
        self.lodgings.insert(peer, lodging);
        is_gone
    }

    pub(super) fn disconnect(&mut self, guest: Guest) -> Option<Peer> {
        let peer = self.peers.remove(&guest)?;
        self.lodgings.remove(&peer);
        Some(peer)
    }

    /// The number of a guest that is here.
    pub(super) fn peer(&self, guest: Guest) -> Option<Peer> {
        self.peers.get(&guest).copied()
    }

    /// Guests whose carriers are gone.
    pub(super) fn abandoned(&self) -> Vec<Guest> {
        let is_abandoned = |lodging: &&Lodging| lodging.errands.is_closed();
        self.lodgings.values().filter(is_abandoned).map(|lodging| lodging.guest).collect()
    }

    /// Gives a message to the guest's carrier, and tells how many bytes it has; and what the guest
    /// has not got, since it may not be asked for it.
    pub(super) fn send(&mut self, peer: Peer, mut message: Message) -> (usize, Vec<Presence>) {
        let Some(lodging) = self.lodgings.get_mut(&peer) else { return (0, Vec::new()) };
        let mut lacks = Vec::new();
        if let Some(scope) = &lodging.scope {
            message.wants.retain(|want| {
                let is_within = scope(&want.cid);
                if !is_within && !want.cancel && want.send_dont_have {
                    lacks.push(Presence { cid: want.cid.clone(), is_here: false });
                }
                is_within
            });
            if message.is_empty() {
                return (0, lacks);
            }
        }
        let message = Bytes::from(bitswap::message::encode(&message, lodging.protocol));
        let bytes = message.len();
        lodging.unsent_bytes += bytes;
        // A carrier that is gone is noticed as such.
        let _ = lodging.errands.send(Errand::Send { guest: lodging.guest, message });
        (bytes, lacks)
    }

    /// A message is through.
    pub(super) fn sent(&mut self, peer: Peer, bytes: usize) {
        if let Some(lodging) = self.lodgings.get_mut(&peer) {
            lodging.unsent_bytes = lodging.unsent_bytes.saturating_sub(bytes);
        }
    }

    /// Bytes that a guest can be sent now.
    pub(super) fn room(&self, peer: Peer, outbox_bytes_max: usize) -> usize {
        let unsent = self.lodgings.get(&peer).map(|lodging| lodging.unsent_bytes);
        outbox_bytes_max.saturating_sub(unsent.unwrap_or(outbox_bytes_max))
    }

    /// Whether a guest has sent so much that cannot be read that it is to be sent away.
    pub(super) fn is_unbearable(&mut self, peer: Peer) -> bool {
        let Some(lodging) = self.lodgings.get_mut(&peer) else { return false };
        lodging.malformed += 1;
        lodging.malformed > MALFORMED_MAX
    }

    /// Sends a guest away; whether it was here.
    pub(super) fn dismiss(&mut self, peer: Peer) -> bool {
        let Some(lodging) = self.lodgings.remove(&peer) else { return false };
        self.peers.remove(&lodging.guest);
        let _ = lodging.errands.send(Errand::Dismiss { guest: lodging.guest });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn a_guest_has_room_until_it_was_sent_enough_and_is_gone_with_its_carrier() {
        let (sender, mut errands) = unbounded_channel();
        let mut guests = Guests::default();
        let (guest, peer) = (Guest(7), Peer(1));
        assert_eq!(guests.room(peer, 100), 0);
        let mut stay = guests.connect(guest, peer, Protocol::V1_2, None, sender);
        assert_eq!(guests.room(peer, 100), 100);
        let block = content::Block::raw(vec![1; 80].into()).expect("it is short");
        let message = Message { blocks: vec![block], ..Message::default() };
        let (bytes, _) = guests.send(peer, message);
        assert!(guests.room(peer, 100) < 20);
        assert!(
            matches!(errands.try_recv(), Ok(Errand::Send { message, .. }) if message.len() == bytes)
        );
        guests.sent(peer, bytes);
        assert_eq!(guests.room(peer, 100), 100);
        assert_eq!(guests.abandoned(), []);
        drop(errands);
        assert_eq!(guests.abandoned(), [guest]);
        assert!(stay.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        guests.disconnect(guest);
        assert!(stay.try_recv() == Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn a_guest_is_never_asked_for_what_is_beyond_its_scope_and_has_not_got_it() {
        let cid =
            |bytes: &'static str| content::Block::raw(bytes.into()).expect("short").cid().clone();
        let (ours, others) = (cid("ours"), cid("others"));
        let (sender, mut errands) = unbounded_channel();
        let mut guests = Guests::default();
        let within = ours.clone();
        let scope: Scope = std::sync::Arc::new(move |cid| *cid == within);
        drop(guests.connect(Guest(7), Peer(1), Protocol::V1_2, Some(scope), sender));
        let want = |cid: &content::Cid, cancel, send_dont_have| bitswap::WantEntry {
            cid: cid.clone(),
            priority: 1,
            cancel,
            kind: bitswap::WantKind::Block,
            send_dont_have,
        };
        let wants = vec![want(&ours, false, true), want(&others, false, true)];
        let (_, lacks) = guests.send(Peer(1), Message { wants, ..Message::default() });
        assert_eq!(lacks, [Presence { cid: others.clone(), is_here: false }]);
        let Ok(Errand::Send { message, .. }) = errands.try_recv() else {
            panic!("nothing is sent")
        };
        let message = bitswap::message::decode(&message).expect("a message");
        assert_eq!(message.wants, [want(&ours, false, true)]);
        let wants = vec![want(&others, true, false), want(&others, false, false)];
        let nothing = guests.send(Peer(1), Message { wants, ..Message::default() });
        assert_eq!((nothing, errands.is_empty()), ((0, vec![]), true));
    }

    #[test]
    fn a_guest_that_keeps_sending_nonsense_is_unbearable() {
        let (sender, mut errands) = unbounded_channel();
        let mut guests = Guests::default();
        drop(guests.connect(Guest(7), Peer(1), Protocol::V1_2, None, sender));
        let times = (1..).find(|_| guests.is_unbearable(Peer(1)));
        assert_eq!(times, Some(MALFORMED_MAX + 1));
        assert!(guests.dismiss(Peer(1)) && !guests.dismiss(Peer(1)));
        assert!(matches!(errands.try_recv(), Ok(Errand::Dismiss { guest: Guest(7) })));
        assert!(guests.peer(Guest(7)).is_none() && guests.lodgings.is_empty());
    }
}
