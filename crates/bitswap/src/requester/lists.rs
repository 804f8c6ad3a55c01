//! Announcements of peers by lists, which replace want-haves.

use watchfire_content::Cid;
use watchfire_types::Instant;

use super::{Requester, Response};
use crate::SessionId;

impl<P: Copy + Ord> Requester<P> {
    pub(crate) fn has_session(&self, session: SessionId) -> bool {
        self.searches.has_session(session)
    }

    /// A peer announces this block by a list from now on.
    pub(crate) fn set_announced(&mut self, peer: P, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        if let Some(state) = self.peers.get_mut(&peer) {
            state.blocks.announced.insert(at);
        }
    }

    /// A peer no longer announces this block, and needs a want-have.
    pub(crate) fn clear_announced(&mut self, peer: P, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        if let Some(state) = self.peers.get_mut(&peer)
            && state.blocks.announced.remove(at)
        {
            self.peers_to_update.insert(peer);
        }
    }

    /// A peer rejected a list with this block, so it ignored requests that use the list.
    pub(crate) fn handle_reject(&mut self, peer: P, cid: &Cid) {
        self.clear_announced(peer, cid);
        if let Some(at) = self.wants.find_exactly(cid) {
            self.cancel_request(at, peer);
            self.note_all_ready_for_requests();
        }
    }

    /// A peer announced whether it has a block.
    pub(crate) fn handle_announcement(
        &mut self,
        now: Instant,
        peer: P,
        cid: &Cid,
        has_block: bool,
    ) -> Option<Response> {
        let at = self.wants.find_exactly(cid)?;
        let state = self.peers.get_mut(&peer)?;
        if state.requests.get(at).is_none() {
            return self.handle_presence(now, peer, cid, has_block);
        }
        // This does not answer the request, so it does not measure the latency. A peer that lacks
        // the block answers the request with DONT_HAVE.
        state.queue.sent_want_haves.remove(at);
        if has_block && state.blocks.has.insert(at) {
            self.wants.get_mut(at).holders += 1;
        }
        None
    }
}
