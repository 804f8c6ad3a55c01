//! What peers tell by lists, without being asked about each block.

use content::Cid;
use vocab::Instant;

use super::Asking;
use crate::SessionId;

impl<P: Copy + Ord> Asking<P> {
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.searches.has(session)
    }

    /// What a peer has of this block it tells by itself from now on.
    pub(crate) fn listed(&mut self, peer: P, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        if let Some(view) = self.views.get_mut(&peer) {
            view.listed.insert(at);
        }
    }

    /// It does no more, and has to be asked.
    pub(crate) fn unlisted(&mut self, peer: P, cid: &Cid) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        if let Some(view) = self.views.get_mut(&peer)
            && view.listed.remove(at)
        {
            self.touched.insert(peer);
        }
    }

    /// It never will, and what it was asked for that way it did not understand.
    pub(crate) fn refused(&mut self, peer: P, cid: &Cid) {
        self.unlisted(peer, cid);
        if let Some(at) = self.wants.find_exactly(cid) {
            self.take_back(at, peer);
            self.all_are_hungry();
        }
    }

    /// It told whether it has a block, without being asked.
    pub(crate) fn heard_of(&mut self, now: Instant, peer: P, cid: &Cid, is_here: bool) {
        let Some(at) = self.wants.find_exactly(cid) else { return };
        let Some(view) = self.views.get_mut(&peer) else { return };
        if !view.asked.contains_key(&at) {
            return self.presence(now, peer, cid, is_here);
        }
        // Not the answer to what it is asked, so nothing follows for its pace; and if it lacks what it
        // is asked for, it will say so again.
        view.told.remove(at);
        if is_here && view.has.insert(at) {
            self.wants.get_mut(at).holders += 1;
        }
    }
}
