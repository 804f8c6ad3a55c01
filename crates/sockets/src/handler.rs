//! The trait that a server implements to handle the sockets of a shard.

use std::net::SocketAddr;

use watchfire_types::{Instant, NodeId, ShardId, SocketId};

use crate::close_cause::CloseCause;
use crate::handoff::{HandoffConnection, HandoffTarget};
use crate::head::RequestHead;
use crate::shard_sockets::Sockets;

/// Handles the requests and messages of one shard's sockets. Each shard has one, called only on the
/// shard's own thread.
///
/// Calls never nest. When a handler closes a socket, or a send overflows its queue, the call of
/// [`SocketHandler::handle_close`] comes later, never inside the first call.
pub trait SocketHandler: 'static {
    /// The result of [`SocketHandler::route`] that `handle_open` or `handle_park` needs.
    type Ticket: 'static;
    /// Messages that other threads send to this shard through its [`crate::ShardSender`].
    type Message: Send + 'static;

    /// Decide what to do with a request, from its head alone. Nothing has been answered yet.
    fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Route<Self::Ticket>;

    /// A websocket's handshake is done. Returns the key that later calls about it carry.
    fn handle_open(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket)
    -> u32;

    /// A GET is parked until [`Sockets::answer`]. Returns the key that a `close` will carry.
    fn handle_park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket)
    -> u32;

    /// A whole text message arrived, known to be UTF-8.
    fn handle_text(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, text: &str);

    /// A whole binary message arrived.
    fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, bytes: &[u8]);

    /// An open or still parked socket is gone. Once for each `open`; for each `park` only when
    /// the client left before its answer. The id is no longer valid for sending.
    fn handle_close(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        key: u32,
        cause: CloseCause,
    );

    /// A message from another thread.
    fn handle_message(&mut self, sockets: &mut Sockets, message: Self::Message);

    /// Called ten times a second.
    fn handle_tick(&mut self, sockets: &mut Sockets, now: Instant);

    /// Do a slice of pending work (some 2,000 sends); true when more is waiting. The shard lets
    /// HTTP and its other sockets run between two slices.
    fn run_pending_work(&mut self, sockets: &mut Sockets) -> bool;

    /// Hand a connection over to another process, whose [`crate::Adopter`] takes it in. Nothing of
    /// it is answered yet.
    ///
    /// [`HandoffTarget::Owner`] is what [`SocketHandler::route`] said; a connection that comes back is answered 503.
    /// A client that just arrived while this shard is nearly full (97 % of its share of
    /// `sockets_max`) may go to any with more room, and is kept here as long as there is room when
    /// it comes back. Once this process is full, or another gave it one that is too much, anyone
    /// with room may have it; it is answered 503 when that comes back, or after some 16 offers.
    fn hand_off(
        &mut self,
        to: HandoffTarget,
        handoff: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        let _ = to;
        Err(handoff)
    }

    /// The shard is draining: no request will be routed any more.
    fn handle_drain(&mut self, sockets: &mut Sockets);
}

/// A decision about a request.
pub enum Route<T> {
    /// Let the HTTP router answer it.
    Http,
    /// Another shard owns what it asks for: move the connection there, bytes and all.
    Move(ShardId),
    /// Another process owns what it asks for: [`SocketHandler::hand_off`] follows, bytes and all.
    HandOff(NodeId),
    /// Answer it at once with an empty or short plain-text body, and close the connection.
    Refuse {
        /// The HTTP status, such as 403.
        status: u16,
        /// One line for a person, or nothing.
        body: &'static str,
    },
    /// Upgrade it to a websocket. Only for a head whose [`RequestHead::websocket_key`] is `Ok`.
    Upgrade {
        /// The subprotocol to echo.
        protocol: Option<Box<str>>,
        /// Comes back in [`SocketHandler::handle_open`].
        ticket: T,
    },
    /// Park it: a GET without a body that is answered later.
    Park {
        /// Comes back in [`SocketHandler::handle_park`].
        ticket: T,
    },
}
