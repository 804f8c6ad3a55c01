//! Sprites' polls over plain HTTP: parked here, woken by the planes.

use edge::{RequestHead, Route, Sockets};
use slab::Slab;
use vocab::{Instant, PeerId, SocketId};

use super::longpoll::{CONTENT_TYPE, SWEEP_TICKS};
use super::{Shard, Ticket};
use crate::planes::{Connection, PollAnswer};
use crate::token::Place;

/// Keys of these polls, among those of clients: a shard has fewer than two billion of either.
const KEY_BIT: u32 = 1 << 31;

/// The polls of one shard that wait.
#[derive(Default)]
pub(super) struct SpritePolls {
    waiting: Slab<WaitingPoll>,
    /// The slot that the sweep looked at last.
    swept: usize,
}

struct WaitingPoll {
    socket: SocketId,
    peer: PeerId,
    since: Instant,
}

/// Whether a tenant's key is that of a sprites' poll.
pub(super) fn is_sprite_poll(key: u32) -> bool {
    key & KEY_BIT != 0
}

/// The plane of `/sprites/<plane>/poll`.
fn polled_plane(path: &str) -> Option<&str> {
    let plane = path.strip_prefix("/sprites/")?.strip_suffix("/poll")?;
    (!plane.contains('/')).then_some(plane)
}

impl Shard {
    /// A poll waits at the process and in the shard where it is told to; the router refuses one
    /// without a token of ours.
    pub(super) fn route_sprite_poll(&self, head: &RequestHead<'_>) -> Option<Route<Ticket>> {
        self.world.planes.as_ref()?;
        let plane = polled_plane(head.path()).filter(|_| head.method() == "GET")?;
        let token = super::longpoll::token(None, head.query())?;
        let Place { peer, node } = self.world.places.open_place(token)?;
        if node != self.world.cluster.me() {
            return self.world.cluster.is_up(node).then_some(Route::Away(node));
        }
        Some(Route::Park { ticket: Ticket::SpritePoll { plane: plane.into(), peer } })
    }

    pub(super) fn park_sprite_poll(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        plane: &str,
        peer: PeerId,
    ) -> u32 {
        let now = sockets.now();
        let poll = WaitingPoll { socket, peer, since: now };
        let key = self.sprite_polls.waiting.insert(poll) as u32 | KEY_BIT;
        let connection = Connection { shard: self.id, key, socket };
        let planes = self.world.planes.as_ref().expect("only planes have polls");
        if let Some(ready) = planes.park(now, plane, peer, connection) {
            self.sprite_polls.waiting.remove((key & !KEY_BIT) as usize);
            answer(sockets, socket, ready);
        }
        key
    }

    pub(super) fn answer_sprite_poll(
        &mut self,
        sockets: &mut Sockets,
        peer: PeerId,
        connection: Connection,
    ) {
        let slot = (connection.key & !KEY_BIT) as usize;
        let poll = self.sprite_polls.waiting.get(slot);
        // Its client may have hung up, or it was answered for its age, while the mail was under way.
        if poll.is_some_and(|poll| poll.socket == connection.socket && poll.peer == peer) {
            self.sprite_polls.waiting.remove(slot);
            let planes = self.world.planes.as_ref().expect("only planes have polls");
            answer(sockets, connection.socket, planes.unpark(sockets.now(), peer, connection));
        }
    }

    pub(super) fn sprite_poll_gone(&mut self, sockets: &Sockets, key: u32, socket: SocketId) {
        let slot = (key & !KEY_BIT) as usize;
        if self.sprite_polls.waiting.get(slot).is_some_and(|poll| poll.socket == socket) {
            let poll = self.sprite_polls.waiting.remove(slot);
            let planes = self.world.planes.as_ref().expect("only planes have polls");
            let connection = Connection { shard: self.id, key, socket };
            planes.poll_gone(sockets.now(), poll.peer, connection);
        }
    }

    /// Look at a tenth of the polls, so that each one's age is checked once a second.
    pub(super) fn sweep_sprite_polls(&mut self, sockets: &mut Sockets, now: Instant) {
        let window = self.world.settings.socket.sprites_window;
        let slots = self.sprite_polls.waiting.capacity();
        for _ in 0..slots.div_ceil(SWEEP_TICKS) {
            let slot = self.sprite_polls.swept + 1;
            self.sprite_polls.swept = if slot < slots { slot } else { 0 };
            let slot = self.sprite_polls.swept;
            if let Some(poll) = self.sprite_polls.waiting.get(slot)
                && now.since(poll.since) >= window
            {
                let (peer, socket) = (poll.peer, poll.socket);
                let key = slot as u32 | KEY_BIT;
                let connection = Connection { shard: self.id, key, socket };
                self.answer_sprite_poll(sockets, peer, connection);
            }
        }
    }

    /// The server stops: who polls learns that it has no place any more.
    pub(super) fn end_sprite_polls(&mut self, sockets: &mut Sockets) {
        for poll in self.sprite_polls.waiting.drain() {
            answer(sockets, poll.socket, PollAnswer::NoPlace);
        }
    }
}

fn answer(sockets: &mut Sockets, socket: SocketId, with: PollAnswer) {
    let (status, body) = with.into_response();
    let reason = match status {
        200 => "OK",
        409 => "Conflict",
        _ => "Gone",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {CONTENT_TYPE}\r\ncache-control: no-store\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    sockets.answer(socket, &[head.into(), body.into()]);
}
