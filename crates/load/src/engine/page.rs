//! A user that loads a page from other users through the relay of the server, verifies it, and serves
//! it to others until it disconnects.

use std::time::Duration;

use serde_json::Value;
use watchfire_types::Instant;

use super::Engine;
use super::message::{Received, response_of};
use super::script::Turn;
use super::user::Waiting;
use crate::failure::Failure;
use crate::frame::Opcode;
use crate::scenario::{Op, PEER_BYTES, Page, PageMessage, PageVisit, Serializer, peer_id, relayed};

/// A peer that does not send the block within this time is replaced by another one.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Refs below the first one of a user belong to joins. These are not used by joins, because a
/// session has fewer topics.
const MORE_PEERS: u32 = 99_997;
const RELAY: u32 = 99_998;
const HAVE: u32 = 99_999;

/// The part of a user in a page.
pub(super) struct Visit {
    page: u16,
    join_ref: u32,
    stage: Stage,
    /// Peers with the whole page that were not asked yet.
    holders: Vec<[u8; PEER_BYTES]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Joining,
    Loading,
    /// It has the page, and serves it.
    Holding,
}

impl<'a> Engine<'a> {
    pub(super) fn begin_page(&mut self, index: usize, visit: &PageVisit) -> Turn {
        let PageVisit { page, join_ref, has_it, .. } = *visit;
        self.users[index].begun = self.clock.now();
        let holders = Vec::new();
        let begun = Visit { page, join_ref, stage: Stage::Joining, holders };
        self.pages_loading += 1;
        self.memory(index).visit = Some(Box::new(begun));
        self.arm(index, self.scenario.step_timeout);
        self.wait(index, Waiting::Message);
        let have = if has_it { "all" } else { "none" };
        self.push(index, join_ref, "phx_join", &format!(r#"{{"have":"{have}"}}"#));
        Turn::Wait
    }

    fn visit(&mut self, index: usize) -> Option<&mut Visit> {
        self.users.get_mut(index)?.memory.as_mut()?.visit.as_deref_mut()
    }

    fn page(&mut self, index: usize) -> Option<(&'a Page, u32)> {
        let scenario = self.scenario;
        let visit = self.visit(index)?;
        Some((scenario.pages.get(usize::from(visit.page))?, visit.join_ref))
    }

    /// Pushes an event on the topic of the page; `false` if that ended the user.
    fn push(&mut self, index: usize, reference: u32, event: &str, payload: &str) -> bool {
        let Some((page, join_ref)) = self.page(index) else { return true };
        let topic = &page.topic;
        let text = format!(r#"["{join_ref}","{reference}","{topic}","{event}",{payload}]"#);
        self.send_frame(index, Opcode::Text, text.as_bytes())
    }

    /// Handles a message about the page of a user; returns whether it was one.
    pub(super) fn handle_page_message(
        &mut self,
        index: usize,
        is_text: bool,
        message: &[u8],
    ) -> bool {
        let Some(&mut Visit { join_ref, stage, .. }) = self.visit(index) else { return false };
        if !is_text {
            let Some((peer, received)) = relayed(message) else { return false };
            self.tally.counts.deliveries += 1;
            self.tally.counts.delivery_bytes += message.len() as u64;
            self.handle_relayed(index, stage, &peer, received);
            return true;
        }
        let Received::Reply { reference: Some(reference), is_ok } =
            Received::read(Serializer::V2, message)
        else {
            return false;
        };
        match (reference, stage) {
            (reference, Stage::Joining) if reference == join_ref => {
                self.handle_joined(index, is_ok, message);
            }
            (MORE_PEERS, Stage::Loading) => {
                self.note_holders(index, message);
                // Without a holder, the timeout asks again.
                if self.visit(index).is_some_and(|visit| !visit.holders.is_empty()) {
                    self.request_block(index);
                }
            }
            // This peer has left, or its queue is full.
            (RELAY, Stage::Loading) if !is_ok => self.request_block(index),
            (MORE_PEERS | RELAY | HAVE, _) => {}
            _ => return false,
        }
        true
    }

    fn handle_joined(&mut self, index: usize, is_ok: bool, message: &[u8]) {
        if !is_ok {
            self.end_visit(index);
            return self.complete_with_error(index, Failure::RefusedReply);
        }
        self.note_holders(index, message);
        let has_it = matches!(self.op(&self.users[index]), Some(Op::Page(op)) if op.has_it);
        if has_it {
            self.hold(index);
            return self.complete(index);
        }
        if let Some(visit) = self.visit(index) {
            visit.stage = Stage::Loading;
        }
        self.request_block(index);
    }

    fn hold(&mut self, index: usize) {
        if let Some(visit) = self.visit(index) {
            visit.stage = Stage::Holding;
            visit.holders = Vec::new();
            self.pages_loading -= 1;
        }
    }

    /// The user is on its page no more.
    pub(super) fn end_visit(&mut self, index: usize) {
        let memory = self.users[index].memory.as_mut();
        let visit = memory.and_then(|memory| memory.visit.take());
        let is_loading = visit.is_some_and(|visit| visit.stage != Stage::Holding);
        self.pages_loading -= u64::from(is_loading);
    }

    /// Keeps the peers with the whole page that a reply names.
    fn note_holders(&mut self, index: usize, message: &[u8]) {
        let response = response_of(Serializer::V2, message).unwrap_or_default();
        let response: Value = serde_json::from_str(response).unwrap_or_default();
        let peers = response["peers"].as_array().into_iter().flatten();
        let holders = peers.filter(|peer| peer["have"] == "all");
        let holders = holders.filter_map(|peer| peer_id(peer["peer"].as_str()?)).collect();
        if let Some(visit) = self.visit(index) {
            visit.holders = holders;
        }
    }

    /// Requests the block from a random peer that has it, or asks the server for more peers.
    fn request_block(&mut self, index: usize) {
        self.arm(index, PEER_TIMEOUT);
        let random = self.rng.next_u64();
        let Some(visit) = self.visit(index) else { return };
        if visit.holders.is_empty() {
            self.push(index, MORE_PEERS, "more_peers", "{}");
            return;
        }
        let chosen = (random % visit.holders.len() as u64) as usize;
        let peer = visit.holders.swap_remove(chosen);
        if let Some((page, _)) = self.page(index) {
            self.relay(index, &peer, &page.request);
        }
    }

    fn relay(&mut self, index: usize, peer: &[u8; PEER_BYTES], message: &[u8]) {
        let Some((page, join_ref)) = self.page(index) else { return };
        let mut payload = std::mem::take(&mut self.message_buffer);
        payload.clear();
        page.put_relay((join_ref, RELAY), peer, message, &mut payload);
        self.send_frame(index, Opcode::Binary, &payload);
        self.message_buffer = payload;
    }

    fn handle_relayed(
        &mut self,
        index: usize,
        stage: Stage,
        peer: &[u8; PEER_BYTES],
        received: PageMessage<'_>,
    ) {
        let Some((page, _)) = self.page(index) else { return };
        match received {
            PageMessage::Request if stage == Stage::Holding => {
                self.relay(index, peer, &page.answer);
            }
            PageMessage::Block(block) if stage == Stage::Loading => {
                if !page.is_verified(block) {
                    let step = self.step(index);
                    self.tally.error(step, Failure::WrongBlock);
                    return self.request_block(index);
                }
                self.hold(index);
                if self.push(index, HAVE, "have", r#"{"have":"all"}"#) {
                    self.complete(index);
                }
            }
            PageMessage::Block(_) => self.tally.count("page_duplicate"),
            PageMessage::Request => {}
        }
    }

    /// Asks another peer for the page after a timeout; `false` if the step has timed out as a
    /// whole.
    pub(super) fn tries_next_peer(&mut self, index: usize) -> bool {
        let over_at: Instant = self.users[index].begun + self.scenario.step_timeout;
        let is_over = self.clock.now() >= over_at;
        let is_loading = self.visit(index).is_some_and(|visit| visit.stage == Stage::Loading);
        if !is_loading || is_over {
            return false;
        }
        self.tally.count("page_retry");
        self.request_block(index);
        true
    }
}
