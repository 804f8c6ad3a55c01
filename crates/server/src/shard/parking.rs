//! Parks requests for features, and answers them: see [`Parking`].

use std::sync::Arc;

use bytes::Bytes;
use slab::Slab;
use watchfire_sockets::{RequestHead, Route, Sockets};
use watchfire_types::{Instant, ShardId, SocketId};

use super::client::Ticket;
use super::process_state::ProcessState;
use super::session::{CONTENT_TYPE, SWEEP_TICKS};
use crate::channel_api::{ParkResponse, ParkRoute, ParkedRequest, Parking};

/// Set in the keys of requests that a feature parked, so that these differ from the keys of clients. The
/// keys of upgrade requests that wait have another bit (`upgrades.rs`). A shard has fewer than a billion of any.
const PARKED_BIT: u32 = 1 << 31;

/// The requests that features parked.
pub(super) struct ParkedRequests {
    shard: ShardId,
    /// `None` when no feature parks requests.
    parking: Option<Arc<dyn Parking>>,
    waiting: Slab<WaitingRequest>,
    /// The index that the sweep checked last.
    swept: usize,
}

struct WaitingRequest {
    socket: SocketId,
    client: u64,
    since: Instant,
}

impl ParkedRequests {
    pub fn new(shard: ShardId, parking: Option<Arc<dyn Parking>>) -> Self {
        ParkedRequests { shard, parking, waiting: Slab::new(), swept: 0 }
    }

    /// Whether this is the key of a parked request, rather than of a client.
    pub fn has_form(key: u32) -> bool {
        key & PARKED_BIT != 0
    }

    /// Answers a request in this shard. `None`: the router answers it.
    pub fn answer(&self, name: &str, body: &[u8]) -> Option<[Bytes; 2]> {
        self.parking().answer(name, body).map(response_of)
    }

    pub fn park(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        name: &str,
        client: u64,
    ) -> u32 {
        let now = sockets.now();
        let index = self.waiting.insert(WaitingRequest { socket, client, since: now });
        let request = self.request(index);
        if let Some(response) = self.parking().park(now, name, request) {
            self.waiting.remove(index);
            respond(sockets, socket, response);
        }
        request.key
    }

    /// Answers a parked request that its feature woke, or that waited long enough.
    pub fn wake(&mut self, sockets: &mut Sockets, request: ParkedRequest) {
        let index = index_of(request.key);
        let waiting = self.waiting.get(index);
        // Its client may be gone, or the sweep answered it, while the message was on its way.
        let is_same = |w: &WaitingRequest| w.socket == request.socket && w.client == request.client;
        if waiting.is_some_and(is_same) {
            self.waiting.remove(index);
            let response = self.parking().unpark(sockets.now(), request);
            respond(sockets, request.socket, response);
        }
    }

    /// The client of a parked request closed its connection.
    pub fn handle_close(&mut self, sockets: &Sockets, key: u32, socket: SocketId) {
        let index = index_of(key);
        if self.waiting.get(index).is_some_and(|waiting| waiting.socket == socket) {
            let request = self.request(index);
            self.waiting.remove(index);
            self.parking().request_gone(sockets.now(), request);
        }
    }

    /// Checks a tenth of the parked requests, so that the age of each is checked once a second.
    pub fn sweep(&mut self, sockets: &mut Sockets, now: Instant) {
        let Some(window) = self.parking.as_ref().map(|parking| parking.window()) else { return };
        let capacity = self.waiting.capacity();
        for _ in 0..capacity.div_ceil(SWEEP_TICKS as usize) {
            self.swept = if self.swept + 1 < capacity { self.swept + 1 } else { 0 };
            let waiting = self.waiting.get(self.swept);
            if waiting.is_some_and(|waiting| now.since(waiting.since) >= window) {
                self.wake(sockets, self.request(self.swept));
            }
        }
    }

    /// The server stops: answers every parked request.
    pub fn end_all(&mut self, sockets: &mut Sockets) {
        let Some(parking) = &self.parking else { return };
        for waiting in self.waiting.drain() {
            respond(sockets, waiting.socket, parking.stopping());
        }
    }

    fn parking(&self) -> &dyn Parking {
        self.parking.as_deref().expect("a feature parked the request")
    }

    fn request(&self, index: usize) -> ParkedRequest {
        let WaitingRequest { socket, client, .. } = self.waiting[index];
        ParkedRequest { shard: self.shard, key: index as u32 | PARKED_BIT, socket, client }
    }
}

fn index_of(key: u32) -> usize {
    (key & !PARKED_BIT) as usize
}

/// Where a request belongs that a feature may park; `None` for a request of the router.
pub(super) fn route_parked(shared: &ProcessState, head: &RequestHead<'_>) -> Option<Route<Ticket>> {
    Some(match shared.parking.as_ref()?.route(head)? {
        ParkRoute::Answer { .. } if shared.is_watched(head.path()) => Route::Http,
        ParkRoute::Answer { name } => Route::Answer { ticket: Ticket::Answered { name } },
        ParkRoute::HandOff(node) => Route::HandOff(node),
        ParkRoute::Park { name, client } => Route::Park { ticket: Ticket::Parked { name, client } },
    })
}

fn respond(sockets: &mut Sockets, socket: SocketId, response: ParkResponse) {
    sockets.answer(socket, &response_of(response));
}

fn response_of(response: ParkResponse) -> [Bytes; 2] {
    let ParkResponse { status, body } = response;
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        409 => "Conflict",
        _ => "Gone",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {CONTENT_TYPE}\r\ncache-control: no-store\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into(), body.into()]
}
