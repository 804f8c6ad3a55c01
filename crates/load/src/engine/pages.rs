//! Pages that users load from each other through the relay of the server. A user verifies its page, and serves it
//! to others until it disconnects.

use std::time::Duration;

use serde_json::Value;
use watchfire_types::Rng;

use super::Share;
use super::channel::{Received, response_of};
use crate::frame::Opcode;
use crate::sampling::seed_for;
use crate::scenario::{
    PEER_BYTES, Page, PageMessage, PageVisit, Scenario, Serializer, peer_id, relayed,
};

/// A peer that does not send the block within this time is replaced by another one.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Refs below the first one of a user belong to joins. These are not used by joins, because a
/// session has fewer topics.
const MORE_PEERS: u32 = 99_997;
const RELAY: u32 = 99_998;
const HAVE: u32 = 99_999;
/// Part of the seed of the choice of peers.
const PEERS: u64 = u64::MAX - 3;

type Peer = [u8; PEER_BYTES];

/// The part of a user in a page.
pub(super) struct Visit {
    page: u16,
    join_ref: u32,
    /// Whether it has the page from the start.
    has_it: bool,
    stage: Stage,
    /// Peers with the whole page that were not asked yet.
    holders: Vec<Peer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Joining,
    Loading,
    /// It has the page, and serves it.
    Holding,
}

/// A message that a user sends about its page.
#[derive(Debug)]
pub(super) enum Outgoing<'a> {
    /// A push with a ref.
    Push { page: &'a Page, refs: [u32; 2], event: &'static str, payload: &'static str },
    /// A message to a peer.
    Relay { page: &'a Page, join_ref: u32, peer: Peer, message: &'a [u8] },
}

/// The effect of a message on the step of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// The block is requested: it has [`PEER_TIMEOUT`].
    Requested,
    /// A peer has sent other bytes than the page. The block is requested again, as in [`Effect::Requested`].
    WrongBlock,
    /// A block that the user has already.
    Duplicate,
    Done,
    /// The server has refused the join.
    Refused,
}

/// The requests that a user sends after a message, and its next step.
type Reaction<'a> = (Option<Outgoing<'a>>, Effect);

pub(super) struct Pages<'a> {
    pages: &'a [Page],
    /// How many users load a page from others.
    loading: u64,
    rng: Rng,
}

impl Outgoing<'_> {
    /// Writes the payload of a frame, and returns its kind.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Opcode {
        match *self {
            Outgoing::Push { page, refs: [join_ref, reference], event, payload } => {
                let topic = &page.topic;
                let text = format!(r#"["{join_ref}","{reference}","{topic}","{event}",{payload}]"#);
                out.extend_from_slice(text.as_bytes());
                Opcode::Text
            }
            Outgoing::Relay { page, join_ref, peer, message } => {
                page.put_relay((join_ref, RELAY), &peer, message, out);
                Opcode::Binary
            }
        }
    }
}

impl<'a> Pages<'a> {
    pub(super) fn new(scenario: &'a Scenario, share: Share) -> Pages<'a> {
        let rng = Rng::from_seed(seed_for(scenario.seed, share.index as u64, PEERS));
        Pages { pages: &scenario.pages, loading: 0, rng }
    }

    /// Whether a user loads a page, so that others should stay to serve it.
    pub(super) fn is_loading(&self) -> bool {
        self.loading > 0
    }

    /// A user joins a page.
    pub(super) fn join(&mut self, visit: &PageVisit) -> (Visit, Outgoing<'a>) {
        let PageVisit { page, join_ref, has_it, .. } = *visit;
        self.loading += 1;
        let begun = Visit { page, join_ref, has_it, stage: Stage::Joining, holders: Vec::new() };
        let payload = if has_it { r#"{"have":"all"}"# } else { r#"{"have":"none"}"# };
        let join = self.push(&begun, join_ref, "phx_join", payload);
        (begun, join)
    }

    /// The user is on its page no more.
    pub(super) fn leave(&mut self, visit: &Visit) {
        self.loading -= u64::from(visit.stage != Stage::Holding);
    }

    /// Handles a message of the server. `None`: it is not about the page.
    pub(super) fn receive(
        &mut self,
        visit: &mut Visit,
        is_text: bool,
        message: &[u8],
    ) -> Option<Reaction<'a>> {
        if !is_text {
            let (peer, received) = relayed(message)?;
            return Some(self.receive_relayed(visit, peer, received));
        }
        let Received::Reply { reference: Some(reference), is_ok } =
            Received::read(Serializer::V2, message)
        else {
            return None;
        };
        let reaction = match (reference, visit.stage) {
            (reference, Stage::Joining) if reference == visit.join_ref => {
                if !is_ok {
                    return Some((None, Effect::Refused));
                }
                visit.holders = holders(message);
                if visit.has_it {
                    self.hold(visit);
                    return Some((None, Effect::Done));
                }
                visit.stage = Stage::Loading;
                self.request(visit)
            }
            (MORE_PEERS, Stage::Loading) => {
                visit.holders = holders(message);
                // Without a holder, the timeout asks again.
                match visit.holders.is_empty() {
                    true => (None, Effect::None),
                    false => self.request(visit),
                }
            }
            // This peer has left, or its queue is full.
            (RELAY, Stage::Loading) if !is_ok => self.request(visit),
            (MORE_PEERS | RELAY | HAVE, _) => (None, Effect::None),
            _ => return None,
        };
        Some(reaction)
    }

    fn receive_relayed(
        &mut self,
        visit: &mut Visit,
        peer: Peer,
        received: PageMessage<'_>,
    ) -> Reaction<'a> {
        let page = self.page(visit);
        match received {
            PageMessage::Request if visit.stage == Stage::Holding => {
                let join_ref = visit.join_ref;
                let answer = Outgoing::Relay { page, join_ref, peer, message: &page.answer };
                (Some(answer), Effect::None)
            }
            PageMessage::Block(block) if visit.stage == Stage::Loading => {
                if !page.is_verified(block) {
                    return (self.request(visit).0, Effect::WrongBlock);
                }
                self.hold(visit);
                (Some(self.push(visit, HAVE, "have", r#"{"have":"all"}"#)), Effect::Done)
            }
            PageMessage::Block(_) => (None, Effect::Duplicate),
            PageMessage::Request => (None, Effect::None),
        }
    }

    /// Asks another peer after a timeout. `None`: the user does not load a page.
    pub(super) fn retry(&mut self, visit: &mut Visit) -> Option<Reaction<'a>> {
        (visit.stage == Stage::Loading).then(|| self.request(visit))
    }

    /// Requests the block from a random peer that has it, or asks the server for more peers.
    fn request(&mut self, visit: &mut Visit) -> Reaction<'a> {
        let random = self.rng.next_u64();
        if visit.holders.is_empty() {
            let more = self.push(visit, MORE_PEERS, "more_peers", "{}");
            return (Some(more), Effect::Requested);
        }
        let chosen = (random % visit.holders.len() as u64) as usize;
        let peer = visit.holders.swap_remove(chosen);
        let (page, join_ref) = (self.page(visit), visit.join_ref);
        let request = Outgoing::Relay { page, join_ref, peer, message: &page.request };
        (Some(request), Effect::Requested)
    }

    fn hold(&mut self, visit: &mut Visit) {
        visit.stage = Stage::Holding;
        visit.holders = Vec::new();
        self.loading -= 1;
    }

    fn page(&self, visit: &Visit) -> &'a Page {
        &self.pages[usize::from(visit.page)]
    }

    fn push(
        &self,
        visit: &Visit,
        reference: u32,
        event: &'static str,
        payload: &'static str,
    ) -> Outgoing<'a> {
        Outgoing::Push { page: self.page(visit), refs: [visit.join_ref, reference], event, payload }
    }
}

/// The peers with the whole page that a reply names.
fn holders(message: &[u8]) -> Vec<Peer> {
    let response = response_of(Serializer::V2, message).unwrap_or_default();
    let response: Value = serde_json::from_str(response).unwrap_or_default();
    let peers = response["peers"].as_array().into_iter().flatten();
    let holders = peers.filter(|peer| peer["have"] == "all");
    holders.filter_map(|peer| peer_id(peer["peer"].as_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::StepId;

    const JOIN: PageVisit = PageVisit { step: StepId(0), page: 0, join_ref: 1, has_it: false };

    fn one_page() -> [Page; 1] {
        [Page::random(1_000, 1).unwrap()]
    }

    fn pages(pages: &[Page]) -> Pages<'_> {
        Pages { pages, loading: 0, rng: Rng::from_seed(1) }
    }

    fn reply(reference: u32, status: &str, peers: &[&str]) -> String {
        let all = peers.iter().map(|peer| format!(r#"{{"peer":"{peer}","have":"all"}}"#));
        let all = all.collect::<Vec<_>>().join(",");
        let response = format!(r#"{{"status":"{status}","response":{{"peers":[{all}]}}}}"#);
        format!(r#"["1","{reference}","t","phx_reply",{response}]"#)
    }

    /// The ref, or the peer, of what is sent; and the effect.
    fn received(reaction: Option<Reaction<'_>>) -> (Option<u64>, Effect) {
        let (sent, effect) = reaction.expect("the message is about the page");
        let sent = sent.map(|sent| match sent {
            Outgoing::Push { refs: [_, reference], .. } => u64::from(reference),
            Outgoing::Relay { peer, .. } => u64::from_be_bytes(peer),
        });
        (sent, effect)
    }

    /// A pushed frame that carries a message of this peer.
    fn relay(page: &Page, peer: u8, message: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        page.put_relay((1, 2), &[0, 0, 0, 0, 0, 0, 0, peer], message, &mut sent);
        // A push from the server has no ref.
        [&[sent[0], sent[1], sent[3], sent[4], b'1'], &sent[7..]].concat()
    }

    #[test]
    fn a_visitor_asks_one_holder_after_another_until_a_block_is_the_page() {
        let all = one_page();
        let mut pages = pages(&all);
        let (mut visit, _) = pages.join(&JOIN);
        let text = |pages: &mut Pages<'_>, visit: &mut Visit, message: String| {
            let reaction = pages.receive(visit, true, message.as_bytes());
            received(reaction)
        };
        let joined = text(&mut pages, &mut visit, reply(1, "ok", &["000000000000000a"]));
        assert_eq!(joined, (Some(10), Effect::Requested));
        let refused = text(&mut pages, &mut visit, reply(RELAY, "error", &[]));
        assert_eq!(refused, (Some(u64::from(MORE_PEERS)), Effect::Requested));
        let none = text(&mut pages, &mut visit, reply(MORE_PEERS, "ok", &[]));
        assert_eq!(none, (None, Effect::None));
        let retried = received(pages.retry(&mut visit));
        assert_eq!(retried, (Some(u64::from(MORE_PEERS)), Effect::Requested));
        let more = text(&mut pages, &mut visit, reply(MORE_PEERS, "ok", &["000000000000000b"]));
        assert_eq!(more, (Some(11), Effect::Requested));

        let mut forged = all[0].answer.clone();
        *forged.last_mut().unwrap() ^= 1;
        let wrong = received(pages.receive(&mut visit, false, &relay(&all[0], 11, &forged)));
        assert_eq!(wrong, (Some(u64::from(MORE_PEERS)), Effect::WrongBlock));
        assert!(pages.is_loading());
        let block = relay(&all[0], 11, &all[0].answer);
        let done = received(pages.receive(&mut visit, false, &block));
        assert_eq!(done, (Some(u64::from(HAVE)), Effect::Done));
        assert_eq!(received(pages.receive(&mut visit, false, &block)), (None, Effect::Duplicate));
        let asked = relay(&all[0], 12, &all[0].request);
        assert_eq!(received(pages.receive(&mut visit, false, &asked)), (Some(12), Effect::None));
        assert!(!pages.is_loading() && pages.retry(&mut visit).is_none());
        pages.leave(&visit);
    }

    #[test]
    fn a_holder_is_done_when_it_has_joined_and_a_refused_join_is_an_error() {
        let all = one_page();
        let mut pages = pages(&all);
        let (mut visit, join) = pages.join(&PageVisit { has_it: true, ..JOIN });
        assert!(matches!(join, Outgoing::Push { payload: r#"{"have":"all"}"#, .. }));
        assert!(pages.receive(&mut visit, true, b"[null,null,\"t\",\"x\",{}]").is_none());
        let joined = pages.receive(&mut visit, true, reply(1, "ok", &[]).as_bytes());
        assert_eq!(received(joined), (None, Effect::Done));
        let (mut visit, _) = pages.join(&JOIN);
        let refused = pages.receive(&mut visit, true, reply(1, "error", &[]).as_bytes());
        assert_eq!(received(refused), (None, Effect::Refused));
        pages.leave(&visit);
        assert!(!pages.is_loading());
    }
}
