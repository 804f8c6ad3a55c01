mod lists;
mod lookups;
mod questions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use watchfire_content::{Block, Cid};
use watchfire_types::Instant;

use self::questions::Questions;
use crate::leaves::LeafLists;
use crate::ledger::Ledger;
use crate::limits::SWARM_LEECHERS_MIN;
use crate::requester::{Arrival, ReceivedKind, Requester, Response};
use crate::send_buffer::SendBuffer;
use crate::uplink::Uplink;
use crate::{
    Limits, Message, Misbehaviour, Output, Payload, PeerTotals, Protocol, RarestFirst,
    RequestStrategy, SessionId, Totals, Want, WantEntry,
};

/// A peer that waits for blocks gets a reminder after this time without a message.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// How often to compare how many blocks this node and other leechers lack.
const COMPARE_INTERVAL: Duration = Duration::from_millis(50);

/// All that one node does in Bitswap, for peers with ids `P` and blocks of type `B`.
///
/// After each input, drain every output with [`Exchange::poll_output`], and call
/// [`Exchange::handle_tick`] at [`Exchange::next_wake`].
#[derive(Debug)]
pub struct Exchange<P, B = Block> {
    /// How long messages that are not urgent wait after the last message to the same peer.
    batching_delay: Duration,
    strategy: Box<dyn RequestStrategy<P>>,
    requester: Requester<P>,
    ledger: Ledger<P, B>,
    leaves: LeafLists<P>,
    questions: Questions<P>,
    send_buffers: BTreeMap<P, SendBuffer>,
    uplink: Uplink,
    /// Peers with messages that wait, and until when.
    delayed: BTreeSet<(Instant, P)>,
    /// When the number of missing blocks was last compared with other leechers.
    compared_at: Instant,
    reminded_at: Instant,
    now: Instant,
    /// Whether the outputs include all effects of the inputs.
    is_settled: bool,
    totals: Totals,
    outputs: VecDeque<Output<P, B>>,
}

impl<P: Copy + Ord + Debug + Send + 'static, B: Payload> Exchange<P, B> {
    /// A node without peers and sessions, which requests the rarest blocks first.
    ///
    /// `seed` decides between equal choices. Nodes of one swarm need different seeds, or all of
    /// them would request the same blocks first.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Exchange::with_strategy(limits, Box::new(RarestFirst::new()), seed)
    }
}

impl<P: Copy + Ord + Debug, B: Payload> Exchange<P, B> {
    /// A node without peers and sessions, which requests blocks as `strategy` chooses.
    pub fn with_strategy(limits: Limits, strategy: Box<dyn RequestStrategy<P>>, seed: u64) -> Self {
        let policy = strategy.policy();
        Exchange {
            requester: Requester::new(limits.clone(), policy, seed),
            batching_delay: match policy.batches_messages {
                true => limits.batching_delay,
                false => Duration::ZERO,
            },
            strategy,
            uplink: Uplink::new(limits.reading_bytes_max),
            ledger: Ledger::new(limits, policy.serves_rarest_first, seed),
            leaves: LeafLists::new(),
            questions: Questions::new(),
            send_buffers: BTreeMap::new(),
            delayed: BTreeSet::new(),
            compared_at: Instant::ZERO,
            reminded_at: Instant::ZERO,
            now: Instant::ZERO,
            is_settled: true,
            totals: Totals::default(),
            outputs: VecDeque::new(),
        }
    }

    /// A peer connected. Nothing is sent to it before [`Exchange::handle_writable`].
    pub fn handle_connected(&mut self, now: Instant, peer: P, protocol: Protocol) {
        self.begin_input(now);
        self.forget_peer(peer);
        self.send_buffers.insert(peer, SendBuffer::new(now, protocol));
        self.requester.handle_connected(now, peer, protocol);
        self.strategy.handle_connected(peer);
        self.ledger.handle_connected(peer, protocol.has_presences());
        self.subscribe_to_lists(peer, protocol);
    }

    /// A peer disconnected. Its requests go to other peers.
    pub fn handle_disconnected(&mut self, now: Instant, peer: P) {
        self.begin_input(now);
        self.forget_peer(peer);
    }

    /// A whole message arrived. Messages from peers that are not connected are ignored.
    pub fn handle_message(&mut self, now: Instant, peer: P, message: Message<B>) {
        self.begin_input(now);
        if !self.send_buffers.contains_key(&peer) {
            return;
        }
        self.totals.messages_in += 1;
        self.totals.skipped_entries += message.skipped_entries as u64;
        let kind = match message.payloads().next() {
            Some(_) => ReceivedKind::Blocks,
            None => ReceivedKind::NoBlocks,
        };
        self.requester.note_received(now, peer, kind);
        let mut unsolicited = message.skipped_blocks as u64;
        self.totals.unsolicited_blocks += unsolicited;
        for list_message in message.leaves {
            match self.handle_list_message(peer, list_message) {
                Ok(is_unsolicited) => unsolicited += u64::from(is_unsolicited),
                Err(reason) => return self.drop_peer(peer, reason),
            }
        }
        for block in message.blocks {
            unsolicited += u64::from(self.handle_block(peer, block));
        }
        for presence in &message.presences {
            self.handle_presence(peer, &presence.cid, presence.has_block);
        }
        if unsolicited > 0
            && let Some(reason) = self.requester.count_unsolicited(peer, unsolicited)
        {
            return self.drop_peer(peer, reason);
        }
        if let Some(reason) = self.requester.misbehaviour(peer) {
            return self.drop_peer(peer, reason);
        }
        self.handle_wants(peer, message.full, message.wants);
    }

    fn handle_presence(&mut self, peer: P, cid: &Cid, has_block: bool) {
        self.answer_question(peer, cid, has_block);
        if let Some(response) = self.requester.handle_presence(self.now, peer, cid, has_block) {
            self.strategy.handle_response(peer, response);
        }
    }

    /// A block arrived. Returns whether its CID was never wanted.
    fn handle_block(&mut self, peer: P, block: B) -> bool {
        let bytes = block.len() as u64;
        let was_asked = self.answer_question(peer, block.cid(), true);
        if was_asked && self.requester.wants().find(block.cid()).is_none() {
            // A short block is the answer of many peers to a want-have.
            self.totals.duplicate_blocks += 1;
            self.totals.duplicate_bytes += bytes;
            return false;
        }
        match self.requester.handle_block(self.now, peer, block.cid(), block.len()) {
            Arrival::Wanted(sessions, response) => {
                self.strategy.handle_response(peer, response);
                self.totals.blocks_in += 1;
                self.totals.bytes_in += bytes;
                self.outputs.push_back(Output::BlockReceived { sessions, block, from: peer });
                false
            }
            Arrival::Duplicate => {
                self.strategy.handle_response(peer, Response::Duplicate);
                self.totals.duplicate_blocks += 1;
                self.totals.duplicate_bytes += bytes;
                false
            }
            Arrival::Unsolicited => {
                self.totals.unsolicited_blocks += 1;
                self.totals.unsolicited_bytes += bytes;
                true
            }
        }
    }

    /// Part of a message arrived: the peer is alive, however slow.
    pub fn handle_partial_message(&mut self, now: Instant, peer: P) {
        // This is the most frequent input, and it rarely has an effect.
        if self.requester.note_received(now, peer, ReceivedKind::Part) {
            self.begin_input(now);
        }
    }

    /// The send buffer of a peer has room for `room_bytes` now. This replaces earlier reports.
    ///
    /// The exchange subtracts the bytes that it sends. Report the room again when the buffer has
    /// drained. While there is any room, a message of one block is sent whatever its length, so no
    /// block is too long for a buffer.
    pub fn handle_writable(&mut self, now: Instant, peer: P, room_bytes: usize) {
        let Some(send_buffer) = self.send_buffers.get_mut(&peer) else { return };
        let was_full = send_buffer.room == 0;
        let left = send_buffer.set_room(now, room_bytes);
        if left > 0 {
            self.uplink.handle_left(now, left);
        }
        if was_full {
            self.requester.update_peer(peer);
        }
        self.begin_input(now);
    }

    /// The peer has read this many messages with blocks, of those that were sent to it since it
    /// connected. Earlier ones that it has not read are lost.
    ///
    /// Until then, a repeated request for a block is ignored that has left the send buffer: the
    /// request has crossed the block. A driver whose peers acknowledge messages calls this with 0
    /// when the peer connects, and then before the messages that the peer sends afterwards.
    pub fn handle_acknowledged(&mut self, now: Instant, peer: P, messages: u64) {
        if let Some(send_buffer) = self.send_buffers.get_mut(&peer) {
            send_buffer.acknowledge(now, messages);
        }
    }

    pub fn start_session(&mut self, now: Instant) -> SessionId {
        self.begin_input(now);
        self.requester.start_session()
    }

    /// Adds wants to a session. Leave out blocks that are in the local store.
    pub fn want(
        &mut self,
        now: Instant,
        session: SessionId,
        wants: impl IntoIterator<Item = Want>,
    ) {
        self.begin_input(now);
        for want in wants {
            let cid = want.cid.clone();
            self.requester.want(now, session, want);
            self.apply_announcements(&cid);
        }
    }

    /// Sets whether a session will want further blocks, whose CIDs are not known yet. Until no
    /// session will, no block is requested from a second peer as in the endgame of a file.
    pub fn set_growing(&mut self, now: Instant, session: SessionId, is_growing: bool) {
        self.begin_input(now);
        self.requester.set_growing(session, is_growing);
    }

    pub fn cancel_wants<'a>(
        &mut self,
        now: Instant,
        session: SessionId,
        cids: impl IntoIterator<Item = &'a Cid>,
    ) {
        self.begin_input(now);
        cids.into_iter().for_each(|cid| self.requester.cancel_want(session, cid));
    }

    /// Requests these blocks first and in this order, once they are wanted, because a reader needs
    /// them next. They replace the blocks of the previous call. At most 64; further ones are ignored.
    pub fn set_urgent(&mut self, now: Instant, cids: &[Cid]) {
        self.begin_input(now);
        self.requester.set_urgent(cids);
        self.strategy.handle_urgent(now, &mut self.requester);
    }

    /// Ends a session, and cancels the wants of this session alone.
    pub fn stop_session(&mut self, now: Instant, session: SessionId) {
        self.begin_input(now);
        self.requester.stop_session(session);
        for (peer, cid) in self.leaves.stop_session(session) {
            self.requester.clear_announced(peer, &cid);
        }
    }

    /// The answer to [`Output::FindProviders`]: the peers that were found, or none. They receive
    /// requests first, now or once they connect.
    pub fn handle_providers(&mut self, now: Instant, session: SessionId, peers: &[P]) {
        self.begin_input(now);
        self.requester.handle_providers(now, session, peers);
    }

    pub fn handle_tick(&mut self, now: Instant) {
        self.begin_input(now);
        for peer in self.requester.stalled_peers(now) {
            self.drop_peer(peer, Misbehaviour::Stalled);
        }
        self.strategy.handle_tick(now, &mut self.requester, &mut self.totals);
        self.requester.update_next_timeout();
        if self.uplink.is_stuck(now) {
            self.send_buffers.values_mut().for_each(SendBuffer::give_up);
            self.uplink.give_up();
        }
    }

    /// When to call [`Exchange::handle_tick`]; `None` while no timer runs.
    pub fn next_wake(&self) -> Option<Instant> {
        let wakes = [
            self.strategy.next_wake(&self.requester),
            self.requester.next_wake(),
            self.delayed.first().map(|(until, _)| *until),
            self.uplink.next_wake(),
            self.ledger.held_back_until,
        ];
        wakes.into_iter().flatten().min()
    }

    pub fn poll_output(&mut self) -> Option<Output<P, B>> {
        if self.outputs.is_empty() && !self.is_settled {
            self.is_settled = true;
            self.settle();
        }
        self.outputs.pop_front()
    }

    fn begin_input(&mut self, now: Instant) {
        self.now = now;
        self.is_settled = false;
    }

    fn forget_peer(&mut self, peer: P) {
        let Some(send_buffer) = self.send_buffers.remove(&peer) else { return };
        self.delayed.remove(&(send_buffer.delayed_until, peer));
        if send_buffer.moving > 0 {
            self.uplink.handle_left(self.now, send_buffer.moving);
        }
        self.requester.handle_disconnected(peer);
        self.strategy.handle_disconnected(peer);
        self.ledger.handle_disconnected(peer);
        self.leaves.handle_disconnected(peer);
        self.forget_questions(peer);
    }

    fn drop_peer(&mut self, peer: P, reason: Misbehaviour) {
        self.forget_peer(peer);
        self.totals.dropped_peers += 1;
        self.outputs.push_back(Output::DropPeer { peer, reason });
    }

    /// Carries out the effects of all inputs so far. This runs only once the outputs are drained,
    /// so that several inputs share one message.
    fn settle(&mut self) {
        self.compare_with_others();
        if self.requester.has_no_wants() {
            self.requester.pause_searches();
        }
        self.strategy.request_blocks(self.now, &mut self.requester, &mut self.totals);
        self.requester.take_new_holders();
        for (session, cid) in self.requester.begin_searches(self.now) {
            self.request_have_for_unconfirmed(session);
            self.outputs.push_back(Output::FindProviders { session, cid });
        }
        let mut peers = std::mem::take(&mut self.requester.peers_to_update);
        peers.append(&mut self.ledger.peers_to_update);
        peers.append(&mut self.leaves.peers_to_update);
        peers.append(&mut self.questions.peers_to_update);
        while let Some(&(until, peer)) = self.delayed.first()
            && until <= self.now
        {
            self.delayed.pop_first();
            peers.insert(peer);
        }
        let blocks_out = self.totals.blocks_out;
        peers.into_iter().for_each(|peer| self.send_pending(peer));
        if self.totals.blocks_out > blocks_out {
            self.send_reminders();
        }
        self.read_next_blocks();
    }

    /// Compares at intervals how many blocks this node and other leechers lack.
    fn compare_with_others(&mut self) {
        if self.requester.has_no_wants() || self.now.since(self.compared_at) < COMPARE_INTERVAL {
            return;
        }
        self.compared_at = self.now;
        let lacked =
            self.send_buffers.keys().filter_map(|peer| self.leaves.blocks_missing_at(*peer));
        let (mut leechers, mut blocks) = (0, 0);
        for lacked in lacked.filter(|lacked| *lacked > 0) {
            leechers += 1;
            blocks += lacked;
        }
        let is_swarm = leechers >= SWARM_LEECHERS_MIN;
        self.requester.set_blocks_others_lack(is_swarm.then(|| blocks / leechers));
    }

    /// Sends peers that have waited for long the number of bytes queued for them, so that they do
    /// not give up. A node that sends no blocks sends no reminders.
    fn send_reminders(&mut self) {
        if self.now.since(self.reminded_at) < REMINDER_INTERVAL / 4 {
            return;
        }
        self.reminded_at = self.now;
        for (peer, pending_bytes) in self.ledger.waiting_peers() {
            let Some(send_buffer) = self.send_buffers.get_mut(&peer) else { continue };
            let is_recent = self.now.since(send_buffer.message_sent_at) < REMINDER_INTERVAL;
            if send_buffer.room == 0 || is_recent {
                continue;
            }
            let pending_bytes = u32::try_from(pending_bytes).unwrap_or(u32::MAX);
            let message = Message { pending_bytes, ..Message::default() };
            send_buffer.message_sent_at = self.now;
            let len = message.encoded_len(send_buffer.protocol);
            send_buffer.room = send_buffer.room.saturating_sub(len);
            self.totals.messages_out += 1;
            self.outputs.push_back(Output::Send { peer, message });
        }
    }

    /// Sends a peer everything that is pending, unless it can wait or there is no room.
    fn send_pending(&mut self, peer: P) {
        let Some(send_buffer) = self.send_buffers.get(&peer) else { return };
        let is_urgent = self.requester.has_urgent(peer)
            || self.ledger.has_urgent(peer)
            || self.leaves.has_urgent(peer)
            || self.questions.has_unsent(peer);
        if send_buffer.delayed_until > self.now && !is_urgent {
            self.delayed.insert((send_buffer.delayed_until, peer));
            return;
        }
        while let Some(send_buffer) = self.send_buffers.get(&peer)
            && send_buffer.room > 0
        {
            let room = send_buffer.room;
            let (mut wants, has_more_wants) = self.take_wants(peer, room);
            self.add_questions(peer, &mut wants);
            let wants_len: usize = wants.iter().map(WantEntry::encoded_len).sum();
            let (answers, has_more_answers) =
                self.ledger.take_answers(peer, room.saturating_sub(wants_len));
            let mut message = Message {
                wants,
                blocks: answers.blocks,
                presences: answers.presences,
                pending_bytes: u32::try_from(answers.pending_bytes).unwrap_or(u32::MAX),
                ..Message::default()
            };
            self.leaves.fill_message(peer, &mut message);
            if message.is_empty() {
                return;
            }
            self.send(peer, message);
            if !has_more_wants && !has_more_answers {
                return;
            }
        }
    }

    /// The next wants for a peer, and whether there are more.
    fn take_wants(&mut self, peer: P, room_bytes: usize) -> (Vec<WantEntry>, bool) {
        if !self.strategy.can_send(self.now, peer) {
            return (Vec::new(), false);
        }
        let want_haves = self.strategy.want_haves(&self.requester, peer);
        let wants = self.requester.take_wants(peer, room_bytes, want_haves);
        if !wants.0.is_empty() {
            self.strategy.handle_sent(self.now, peer, &self.requester);
        }
        wants
    }

    fn send(&mut self, peer: P, message: Message<B>) {
        let Some(send_buffer) = self.send_buffers.get_mut(&peer) else { return };
        self.delayed.remove(&(send_buffer.delayed_until, peer));
        send_buffer.delayed_until = self.now + self.batching_delay;
        send_buffer.message_sent_at = self.now;
        let len = message.encoded_len(send_buffer.protocol);
        send_buffer.room = send_buffer.room.saturating_sub(len);
        let blocks = message.payloads().count() as u64;
        let bytes = message.payloads().map(|block| block.len() as u64).sum::<u64>();
        if blocks > 0 {
            send_buffer.push(self.now, len, message.payloads().map(|block| block.cid().clone()));
            self.uplink.handle_sent(self.now, len);
        }
        send_buffer.blocks_out += blocks;
        send_buffer.bytes_out += bytes;
        self.totals.messages_out += 1;
        self.totals.blocks_out += blocks;
        self.totals.bytes_out += bytes;
        self.outputs.push_back(Output::Send { peer, message });
    }

    /// Requests reads for the peers whose turn it is, while the uplink has room.
    fn read_next_blocks(&mut self) {
        self.ledger.held_back_until = None;
        let send_buffers = &self.send_buffers;
        let room = |peer: P| send_buffers.get(&peer).map_or(0, |send_buffer| send_buffer.room);
        while self.ledger.has_ready_peer() {
            let room_bytes = self.uplink.take_room(self.ledger.reading_bytes());
            let bytes_max = room_bytes.min(self.uplink.batch_bytes_max());
            let missing = |peer: P| self.leaves.blocks_missing_at(peer);
            let is_seeder = self.requester.has_no_wants();
            let next = self.ledger.read_next(self.now, bytes_max, room, missing, is_seeder);
            let Some((peer, cids)) = next else { return };
            self.outputs.extend(cids.into_iter().map(|cid| Output::Read { peer, cid }));
        }
    }

    /// Counts of all that this node has done so far.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Counts of the exchange with a connected peer; `None` for other peers.
    pub fn peer(&self, peer: P) -> Option<PeerTotals> {
        let (send_buffer, state) = (self.send_buffers.get(&peer)?, self.requester.peer(peer)?);
        Some(PeerTotals {
            blocks_in: state.counts.useful,
            bytes_in: state.counts.useful_bytes,
            blocks_out: send_buffer.blocks_out,
            bytes_out: send_buffer.bytes_out,
            requested_blocks: state.requests.len(),
            wants: self.ledger.wants_of(peer),
            window_bytes: state.delivery.window_bytes,
            latency: state.delivery.base_latency,
        })
    }

    pub fn peers(&self) -> impl Iterator<Item = P> {
        self.send_buffers.keys().copied()
    }

    /// How many blocks a session still lacks.
    pub fn missing(&self, session: SessionId) -> usize {
        self.requester.missing_blocks(session)
    }
}
