//! The answers of the driver about its store.

use std::fmt::Debug;

use watchfire_content::Cid;
use watchfire_types::Instant;

use super::Exchange;
use crate::{Output, Payload};

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A block of `len` bytes is in the local store. Peers that wait for it receive it, or HAVE.
    pub fn handle_stored(&mut self, now: Instant, cid: &Cid, len: usize) {
        self.handle_stored_for(now, cid, len, |_| true);
        self.announce_leaf(now, cid);
    }

    /// Like [`Exchange::handle_stored`], for a block that only some peers may receive. It is not
    /// announced as a leaf.
    pub fn handle_stored_for(
        &mut self,
        now: Instant,
        cid: &Cid,
        len: usize,
        is_for: impl Fn(P) -> bool,
    ) {
        self.begin_input(now);
        self.ledger.handle_stored(cid, len, is_for);
    }

    /// Announces a stored block to the peers that subscribe to a list with it.
    pub fn announce_leaf(&mut self, now: Instant, cid: &Cid) {
        self.begin_input(now);
        if self.leaves.handle_stored(cid) {
            self.outputs.push_back(Output::ListLinks { node: cid.clone() });
        }
    }

    /// The answer to [`Output::Lookup`]: the length of the block, or `None` if the store lacks it.
    pub fn handle_lookup(&mut self, now: Instant, cid: &Cid, len: Option<usize>) {
        self.begin_input(now);
        self.ledger.handle_lookup(cid, len);
    }

    /// An answer to [`Output::Lookup`]: the store lacks the block, and can obtain it. Peers that ask
    /// only whether the block is here receive HAVE. Returns whether there are no other peers;
    /// for others, the lookup still needs its answer.
    pub fn handle_obtainable(&mut self, now: Instant, cid: &Cid) -> bool {
        self.begin_input(now);
        self.ledger.handle_obtainable(cid)
    }

    /// The answer to [`Output::Lookup`] follows later, in [`Exchange::handle_stored_for`] or
    /// [`Exchange::handle_unavailable_for`]. Until then, the want of another peer causes a lookup of
    /// its own.
    pub fn defer_lookup(&mut self, now: Instant, cid: &Cid) {
        self.begin_input(now);
        self.ledger.defer_lookup(cid);
    }

    /// The peers for which a block is being looked up.
    pub fn peers_of_lookup(&self, cid: &Cid) -> &[P] {
        self.ledger.peers_of_lookup(cid)
    }

    /// A block whose lookup was deferred cannot be obtained for the peers that `is_for` selects.
    pub fn handle_unavailable_for(&mut self, now: Instant, cid: &Cid, is_for: impl Fn(P) -> bool) {
        self.begin_input(now);
        self.ledger.handle_unavailable(cid, is_for);
    }

    /// The answer to [`Output::Read`]: the block, or `None` if it cannot be read.
    pub fn handle_read(&mut self, now: Instant, peer: P, cid: &Cid, block: Option<B>) {
        self.begin_input(now);
        self.ledger.handle_read(peer, cid, block);
    }
}
