//! Polls over plain HTTP: what waits for them, and what they are answered with.

use vocab::{Instant, PeerId};

use super::Planes;
use super::seat::{Carrier, Connection, Parked, PollAnswer, Seat};
use crate::presence::lock;

impl Planes {
    /// A peer's poll waits on this connection, unless there is an answer already.
    pub fn park(
        &self,
        now: Instant,
        plane: &str,
        peer: PeerId,
        connection: Connection,
    ) -> Option<PollAnswer> {
        let mut state = lock(&self.state);
        let Ok(poll) = state.poll_of(plane, peer) else { return Some(PollAnswer::NoPlace) };
        poll.heard_at = now;
        let older = poll.parked.take().and_then(Parked::wake);
        let has_news = poll.has_news();
        if !has_news {
            poll.parked = Some(Parked { connection, is_woken: false });
        }
        if let Some(older) = older {
            self.answer_soon(&mut state.late, peer, older);
        }
        has_news.then(|| state.news(peer))
    }

    /// The answer of a poll that waits on this connection and is to wait no longer.
    pub fn unpark(&self, now: Instant, peer: PeerId, connection: Connection) -> PollAnswer {
        let mut state = lock(&self.state);
        let Some(Seat { carrier: Carrier::Poll(poll), .. }) = state.seats.get_mut(&peer) else {
            return PollAnswer::NoPlace;
        };
        if !poll.waits_on(connection) {
            return PollAnswer::Superseded;
        }
        poll.parked = None;
        poll.heard_at = now;
        state.news(peer)
    }

    /// The client of a poll hung up.
    pub fn poll_gone(&self, now: Instant, peer: PeerId, connection: Connection) {
        let mut state = lock(&self.state);
        if let Some(Seat { carrier: Carrier::Poll(poll), .. }) = state.seats.get_mut(&peer)
            && poll.waits_on(connection)
        {
            poll.parked = None;
            poll.heard_at = now;
        }
    }
}
