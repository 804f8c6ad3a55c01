//! Handles a request's head, and decides how its connection continues.

use std::os::fd::OwnedFd;

use watchfire_types::{NodeId, ShardId, SocketId};

use super::EventLoop;
use crate::counters::CloseCause;
use crate::frame::Decoder;
use crate::handler::{Route, SocketHandler};
use crate::handoff::{ClientAddress, HandoffConnection, HandoffTarget, Moved};
use crate::head::{BodyLength, HeadError, HeadSlots, RequestHead};
use crate::http::{LentRequest, Loan};
use crate::record::State;
use crate::response::{put_handshake, refusal};
use crate::shard_sockets::Released;

/// Moves of a connection for one request, between shards and processes.
const HOPS_MAX: u8 = 4;

/// The response to a request that would outlive a drain.
const DRAINING_REASON: &str = "the server restarts";

/// The action for a request. It borrows nothing, so that the bytes can be moved.
enum RequestAction<T> {
    Unfinished,
    Unreadable(HeadError),
    Gone,
    Http(LentRequest),
    Answer { request: LentRequest, ticket: T },
    Move(ShardId),
    HandOff(NodeId),
    Refuse { status: u16, reason: &'static str },
    Upgrade { head_len: usize, ticket: T },
    Park { head_len: usize, keeps_alive: bool, ticket: T },
}

impl<T: SocketHandler> EventLoop<T> {
    /// Handles the head at the front of `bytes`, and returns the number of bytes used. All are used
    /// if the rest moved with the connection, or is ignored.
    pub(super) fn feed_head(&mut self, id: SocketId, bytes: &[u8], is_first: bool) -> usize {
        match self.classify(id, bytes) {
            RequestAction::Unfinished => self.hold(id, bytes, is_first),
            RequestAction::Unreadable(error) => self.refuse_head(id, error),
            RequestAction::Gone => self.sockets.disconnect(id),
            RequestAction::Http(request) => self.lend(id, bytes, request),
            RequestAction::Answer { request, ticket } => {
                return self.answer_or_lend(id, bytes, request, ticket);
            }
            RequestAction::Move(shard) => self.move_to(id, shard, bytes),
            RequestAction::HandOff(node) => self.hand_off(id, node, bytes),
            RequestAction::Refuse { status, reason } => {
                self.sockets.count().refusals.add(1);
                let is_head = bytes.starts_with(b"HEAD ");
                self.sockets.answer_and_end(id, &[refusal(status, reason, is_head)]);
            }
            RequestAction::Upgrade { head_len, ticket } => {
                self.open(id, ticket);
                return head_len;
            }
            RequestAction::Park { head_len, keeps_alive, ticket } => {
                self.park(id, keeps_alive, ticket);
                return head_len;
            }
        }
        bytes.len()
    }

    fn classify(&mut self, id: SocketId, bytes: &[u8]) -> RequestAction<T::Ticket> {
        let mut slots = HeadSlots::default();
        let head_bytes_max = self.threads.limits.head_bytes_max;
        let (head, head_len) = match RequestHead::parse(bytes, &mut slots) {
            Ok(Some((_, len))) if len > head_bytes_max => {
                return RequestAction::Unreadable(HeadError::TooLarge);
            }
            Ok(Some(parsed)) => parsed,
            Ok(None) if bytes.len() > head_bytes_max => {
                return RequestAction::Unreadable(HeadError::TooLarge);
            }
            Ok(None) => return RequestAction::Unfinished,
            Err(error) => return RequestAction::Unreadable(error),
        };
        let body = match head.body_length() {
            Ok(body) => body,
            Err(error) => return RequestAction::Unreadable(error),
        };
        let Some(peer) = self.sockets.peer(id) else {
            return RequestAction::Gone;
        };
        let is_draining = self.sockets.is_draining;
        let request = LentRequest { head_len, body, keeps_alive: head.keeps_alive(), peer };
        match self.handler.route(self.sockets.now(), peer, &head) {
            // A drain answers the requests of connections that it accepted, and then ends them.
            Route::Http => RequestAction::Http(request),
            Route::Answer { .. } if is_draining => RequestAction::Http(request),
            Route::Answer { ticket } => RequestAction::Answer { request, ticket },
            Route::Move(_) | Route::HandOff(_) | Route::Park { .. } if is_draining => {
                RequestAction::Refuse { status: 503, reason: DRAINING_REASON }
            }
            Route::Move(shard) => RequestAction::Move(shard),
            Route::HandOff(node) => RequestAction::HandOff(node),
            Route::Refuse { status, body } => RequestAction::Refuse { status, reason: body },
            Route::Upgrade { protocol, ticket } => match head.websocket_key() {
                Err(refusal) => {
                    RequestAction::Refuse { status: refusal.status(), reason: refusal.reason() }
                }
                Ok(key) => {
                    put_handshake(key, protocol.as_deref(), &mut self.handshake);
                    RequestAction::Upgrade { head_len, ticket }
                }
            },
            Route::Park { .. } if head.method() != "GET" || body != BodyLength::Bytes(0) => {
                RequestAction::Refuse { status: 400, reason: "only a GET without a body can wait" }
            }
            Route::Park { ticket } => {
                RequestAction::Park { head_len, keeps_alive: head.keeps_alive(), ticket }
            }
        }
    }

    fn open(&mut self, id: SocketId, ticket: T::Ticket) {
        if !self.sockets.write_handshake(id, &self.handshake) {
            return;
        }
        let tick = self.sockets.tick;
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        record.state = State::Open(Decoder::default());
        record.seen = tick;
        // A WebSocket has no further request whose client must be known.
        self.sockets.forget_client(id);
        self.sockets.note_opened();
        let key = self.handler.handle_open(&mut self.sockets, id, ticket);
        self.set_key(id, key);
        if self.sockets.is_draining {
            // A drain visits only the sockets that were open when it began.
            self.sockets.close_for(id, CloseCause::Drained, 1012, DRAINING_REASON);
            self.settle();
        }
    }

    fn park(&mut self, id: SocketId, keeps_alive: bool, ticket: T::Ticket) {
        let Some(record) = self.sockets.slab.get_mut(id) else { return };
        record.state = State::Parked { held: None, keeps_alive };
        self.sockets.note_parked();
        let key = self.handler.handle_park(&mut self.sockets, id, ticket);
        self.set_key(id, key);
    }

    fn set_key(&mut self, id: SocketId, key: u32) {
        if let Some(record) = self.sockets.slab.get_mut(id) {
            record.key = key;
        }
        self.settle();
    }

    /// Lets the handler answer a request, or else hyper. Returns the number of bytes used.
    fn answer_or_lend(
        &mut self,
        id: SocketId,
        bytes: &[u8],
        request: LentRequest,
        ticket: T::Ticket,
    ) -> usize {
        let asked = std::time::Instant::now();
        let answer = request.whole_body(bytes).and_then(|body| {
            let response = self.handler.handle_request(&mut self.sockets, ticket, body)?;
            Some((request.head_len + body.len(), response))
        });
        let Some((end, response)) = answer else {
            self.lend(id, bytes, request);
            return bytes.len();
        };
        let took = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.sockets.count().http_requests.add(1);
        self.sockets.count().histograms.http_times.observe(took);
        let has_more = bytes.len() > end;
        self.sockets.answer_request(id, &response, request.keeps_alive, has_more);
        end
    }

    fn lend(&mut self, id: SocketId, bytes: &[u8], request: LentRequest) {
        if let Some(Released { fd, client, counted }) = self.sockets.release(id) {
            self.lender.lend(Loan { fd, bytes: bytes.to_vec(), request, client, counted });
        }
    }

    /// Sends a connection to another shard, with the bytes that were read.
    fn move_to(&mut self, id: SocketId, shard: ShardId, bytes: &[u8]) {
        let is_elsewhere = shard != self.threads.shard && self.hops < HOPS_MAX;
        let mover = self.threads.movers.get(usize::from(shard.0)).filter(|_| is_elsewhere);
        let Some(mover) = mover else {
            tracing::error!(shard = shard.0, "cannot move a connection: no such shard, or a loop");
            return self.refuse(id, 500, "no shard accepts this request");
        };
        let Ok(permit) = mover.clone().try_reserve_owned() else {
            return self.refuse(id, 503, "the server is busy");
        };
        if let Some(released) = self.sockets.release(id) {
            self.sockets.count().moves.add(1);
            let Released { fd, client, .. } = released;
            permit.send(Moved { handoff: self.handoff(fd, client, bytes), is_adopted: false });
        }
    }

    /// Hands a connection over to another process, with the bytes that were read.
    fn hand_off(&mut self, id: SocketId, to: NodeId, bytes: &[u8]) {
        if self.hops >= HOPS_MAX {
            tracing::error!(%to, "cannot hand a connection over: it was moved too often");
            return self.refuse(id, 500, "no process accepts this request");
        }
        let Some(Released { fd, client, counted }) = self.sockets.release(id) else { return };
        let handoff = self.handoff(fd, client, bytes);
        let Err(handoff) = self.handler.hand_off(HandoffTarget::Owner(to), handoff) else {
            self.sockets.count().handoffs.add(1);
            return;
        };
        match self.sockets.adopt(handoff.fd, handoff.client, true, counted) {
            Ok(id) => self.refuse(id, 503, "the server is busy"),
            Err(error) => tracing::warn!(%error, "cannot add a returned connection to the epoll"),
        }
    }

    fn handoff(&self, fd: OwnedFd, client: ClientAddress, bytes: &[u8]) -> HandoffConnection {
        HandoffConnection { fd, bytes: bytes.to_vec(), client, hops: self.hops + 1, declined: 0 }
    }

    /// Responds with a status and one line, and ends the connection.
    pub(super) fn refuse(&mut self, id: SocketId, status: u16, reason: &str) {
        self.sockets.answer_and_end(id, &[refusal(status, reason, false)]);
    }
}
