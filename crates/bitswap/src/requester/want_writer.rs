//! Writes pending wants and cancels into the wantlist of a message.

use super::{PeerState, Requester, WantHaves, cancel_entry};
use crate::bit_set;
use crate::{Limits, WantEntry, WantKind};

/// Most entries of one message; others follow in the next.
const ENTRIES_PER_MESSAGE: usize = 512;

/// Usual bytes of an entry in a message.
const ENTRY_BYTES: usize = 64;

impl<P: Copy + Ord> Requester<P> {
    /// The next entries for a peer, in about `room_bytes`, and whether there are more.
    ///
    /// Cancels come first, then want-blocks, then the want-haves that the strategy allows.
    pub(crate) fn take_wants(
        &mut self,
        peer: P,
        room_bytes: usize,
        want_haves: Option<WantHaves<'_>>,
    ) -> (Vec<WantEntry>, bool) {
        let entries_max = (room_bytes / ENTRY_BYTES).clamp(1, ENTRIES_PER_MESSAGE);
        let Some(state) = self.peers.get_mut(&peer) else { return (Vec::new(), false) };
        state.queue.is_urgent = false;
        let cancels = state.queue.cancels.len().min(entries_max);
        let mut entries: Vec<WantEntry> =
            state.queue.cancels.drain(..cancels).map(cancel_entry).collect();
        let mut has_more = !state.queue.cancels.is_empty();
        has_more |= self.take_cancels_if_queued(peer, entries_max, &mut entries);
        has_more |= self.take_requests(peer, entries_max, &mut entries);
        if let Some(want_haves) = want_haves {
            has_more |= self.take_want_haves(peer, entries_max, want_haves, &mut entries);
        }
        if let Some(state) = self.peers.get_mut(&peer)
            && state.queue.cancels.is_empty()
        {
            state.queue.just_cancelled = Default::default();
        }
        (entries, has_more)
    }

    fn take_cancels_if_queued(
        &mut self,
        peer: P,
        entries_max: usize,
        entries: &mut Vec<WantEntry>,
    ) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let mut later = Vec::new();
        for at in std::mem::take(&mut state.queue.cancels_if_queued) {
            if entries.len() >= entries_max {
                later.push(at);
            } else if state.requests.is_being_cancelled(at) {
                let cid = self.wants.get(at).cid.clone();
                entries.push(WantEntry { send_dont_have: true, ..cancel_entry(cid) });
            }
        }
        state.queue.cancels_if_queued = later;
        !state.queue.cancels_if_queued.is_empty()
    }

    fn take_requests(&mut self, peer: P, entries_max: usize, entries: &mut Vec<WantEntry>) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        let requests = std::mem::take(&mut state.queue.requests);
        let mut later = Vec::new();
        for at in requests {
            let Some(state) = self.peers.get_mut(&peer) else { return false };
            let Some(request) = state.requests.get_mut(at) else { continue };
            if entries.len() >= entries_max || state.queue.just_cancelled.has(at) {
                later.push(at);
                continue;
            }
            let urgent_place = self.wants.urgent_place(at);
            request.is_sent = true;
            request.is_urgent = urgent_place.is_some();
            state.queue.sent_want_haves.remove(at);
            let send_dont_have = state.protocol.has_presences();
            let priority = match urgent_place {
                Some(place) => i32::MAX - i32::try_from(place).unwrap_or(0),
                None => self.take_priority(),
            };
            let cid = self.wants.get(at).cid.clone();
            let kind = WantKind::Block;
            entries.push(WantEntry { cid, priority, cancel: false, kind, send_dont_have });
        }
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        state.queue.requests = later;
        !state.queue.requests.is_empty()
    }

    fn take_want_haves(
        &mut self,
        peer: P,
        entries_max: usize,
        want_haves: WantHaves<'_>,
        entries: &mut Vec<WantEntry>,
    ) -> bool {
        let Some(state) = self.peers.get(&peer) else { return false };
        if !state.protocol.has_presences() {
            return false;
        }
        let room = entries_max.saturating_sub(entries.len());
        let sent_max = want_haves_max(&self.limits, state);
        let among = want_haves.only.unwrap_or(self.wants.live());
        let known = |at| {
            state.queue.sent_want_haves.word(at)
                | state.blocks.has.word(at)
                | state.blocks.announced.word(at)
        };
        let unsent = bit_set::ones(among.words(), |at| among.word(at) & !known(at));
        let unsent = unsent.filter(|at| state.requests.get(*at).is_none());
        let wanted: Vec<u32> = unsent.take(room + 1).collect();
        let mut has_more = false;
        for at in wanted {
            let Some(state) = self.peers.get_mut(&peer) else { return false };
            if state.queue.sent_want_haves.len() >= sent_max {
                break;
            }
            if entries.len() >= entries_max || state.queue.just_cancelled.has(at) {
                has_more = true;
                continue;
            }
            state.queue.sent_want_haves.insert(at);
            let priority = self.take_priority();
            let cid = self.wants.get(at).cid.clone();
            let kind = WantKind::Have;
            let send_dont_have = want_haves.send_dont_have;
            entries.push(WantEntry { cid, priority, cancel: false, kind, send_dont_have });
        }
        has_more
    }
}

/// Most want-haves that a peer may have besides its requests. A quarter is left for want-blocks.
/// Otherwise want-haves without an answer would leave no room for requests.
fn want_haves_max(limits: &Limits, state: &PeerState) -> usize {
    let max = limits.sent_wants_per_peer_max;
    (max - max / 4).min(max.saturating_sub(state.requests.len()))
}
