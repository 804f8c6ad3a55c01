//! Questions of callers, whether peers have a block now.

use std::collections::BTreeMap;

use libp2p::PeerId;
use tokio::sync::oneshot;
use watchfire_bitswap::Exchange;
use watchfire_content::Cid;
use watchfire_types::Instant;

use super::peer_numbers::PeerNumber;

/// Questions that wait for answers. Further ones are answered with no.
const QUESTIONS_MAX: usize = 1024;

type Reply = oneshot::Sender<Option<PeerId>>;

/// The questions that wait for answers of peers.
#[derive(Default)]
pub(super) struct BlockQuestions {
    open: Vec<Question>,
}

struct Question {
    cid: Cid,
    peers: BTreeMap<PeerNumber, PeerId>,
    reply: Reply,
}

impl BlockQuestions {
    /// Asks connected peers. With `is_named`, a peer that cannot be asked counts as having the block.
    pub(super) fn ask(
        &mut self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        peers: Vec<(PeerNumber, PeerId)>,
        is_named: bool,
        cid: Cid,
        reply: Reply,
    ) {
        // A caller that waits no longer has dropped its end.
        self.open.retain(|question| !question.reply.is_closed());
        if self.open.len() >= QUESTIONS_MAX {
            let _ = reply.send(None);
            return;
        }
        let mut asked = BTreeMap::new();
        for (peer, id) in peers {
            if exchange.ask(now, peer, &cid) {
                asked.insert(peer, id);
            } else if is_named {
                let _ = reply.send(Some(id));
                return;
            }
        }
        if asked.is_empty() {
            let _ = reply.send(None);
        } else {
            self.open.push(Question { cid, peers: asked, reply });
        }
    }

    pub(super) fn handle_answer(&mut self, peer: PeerNumber, cid: &Cid, has_block: bool) {
        let mut at = 0;
        while let Some(question) = self.open.get_mut(at) {
            let id = (question.cid == *cid).then(|| question.peers.remove(&peer)).flatten();
            if id.is_some() && (has_block || question.peers.is_empty()) {
                let question = self.open.swap_remove(at);
                // The caller may wait no longer.
                let _ = question.reply.send(id.filter(|_| has_block));
            } else {
                at += 1;
            }
        }
    }
}
