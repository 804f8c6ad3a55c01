//! Parks requests for features, and answers them: see [`Parking`].

use bytes::Bytes;
use watchfire_sockets::{RequestHead, Route, Sockets};
use watchfire_types::{Instant, SocketId};

use super::client::Ticket;
use super::session::{CONTENT_TYPE, SWEEP_TICKS};
use super::state::Shard;
use super::waiting::{ParkedRequests, WaitingRequest};
use crate::channel_api::{ParkResponse, ParkRoute, ParkedRequest, Parking};

impl Shard {
    /// Where a request belongs that a feature may park; `None` for a request of the router.
    pub(super) fn route_parked(&self, head: &RequestHead<'_>) -> Option<Route<Ticket>> {
        Some(match self.shared.parking.as_ref()?.route(head)? {
            ParkRoute::Answer { .. } if self.shared.is_watched(head.path()) => Route::Http,
            ParkRoute::Answer { name } => Route::Answer { ticket: Ticket::Answered { name } },
            ParkRoute::HandOff(node) => Route::HandOff(node),
            ParkRoute::Park { name, client } => {
                Route::Park { ticket: Ticket::Parked { name, client } }
            }
        })
    }

    fn parking(&self) -> &dyn Parking {
        self.shared.parking.as_deref().expect("a feature parked the request")
    }

    /// Answers a request in this shard. `None`: the router answers it.
    pub(super) fn answer_request(&mut self, ticket: Ticket, body: &[u8]) -> Option<[Bytes; 2]> {
        let Ticket::Answered { name } = ticket else {
            unreachable!("only such a ticket has a request with its body")
        };
        self.parking().answer(&name, body).map(response_of)
    }

    pub(super) fn park_request(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        name: &str,
        client: u64,
    ) -> u32 {
        let now = sockets.now();
        let key = self.parked.insert(WaitingRequest { socket, client, since: now });
        let request = ParkedRequest { shard: self.id, key, socket, client };
        if let Some(response) = self.parking().park(now, name, request) {
            self.parked.waiting.remove(ParkedRequests::index_of(key));
            respond(sockets, socket, response);
        }
        key
    }

    /// Answers a parked request that its feature woke, or that waited long enough.
    pub(super) fn answer_parked(&mut self, sockets: &mut Sockets, request: ParkedRequest) {
        let index = ParkedRequests::index_of(request.key);
        let waiting = self.parked.waiting.get(index);
        // Its client may be gone, or the sweep answered it, while the message was on its way.
        let is_same = |w: &WaitingRequest| w.socket == request.socket && w.client == request.client;
        if waiting.is_some_and(is_same) {
            self.parked.waiting.remove(index);
            let response = self.parking().unpark(sockets.now(), request);
            respond(sockets, request.socket, response);
        }
    }

    /// The client of a parked request closed its connection.
    pub(super) fn parked_request_closed(&mut self, sockets: &Sockets, key: u32, socket: SocketId) {
        let index = ParkedRequests::index_of(key);
        if self.parked.waiting.get(index).is_some_and(|waiting| waiting.socket == socket) {
            let WaitingRequest { client, .. } = self.parked.waiting.remove(index);
            let request = ParkedRequest { shard: self.id, key, socket, client };
            self.parking().request_gone(sockets.now(), request);
        }
    }

    /// Checks a tenth of the parked requests, so that the age of each is checked once a second.
    pub(super) fn sweep_parked(&mut self, sockets: &mut Sockets, now: Instant) {
        let Some(window) = self.shared.parking.as_ref().map(|parking| parking.window()) else {
            return;
        };
        let capacity = self.parked.waiting.capacity();
        for _ in 0..capacity.div_ceil(SWEEP_TICKS) {
            let next = self.parked.swept + 1;
            let index = if next < capacity { next } else { 0 };
            self.parked.swept = index;
            if let Some(WaitingRequest { socket, client, since }) = self.parked.waiting.get(index)
                && now.since(*since) >= window
            {
                let (key, socket, client) = (ParkedRequests::key_of(index), *socket, *client);
                self.answer_parked(sockets, ParkedRequest { shard: self.id, key, socket, client });
            }
        }
    }

    /// The server stops: answers every parked request.
    pub(super) fn end_parked(&mut self, sockets: &mut Sockets) {
        let Some(parking) = self.shared.parking.clone() else { return };
        for waiting in self.parked.waiting.drain() {
            respond(sockets, waiting.socket, parking.stopping());
        }
    }
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
