//! The trait that a server implements to handle the sockets of a shard.

use std::net::SocketAddr;

use bytes::Bytes;
use watchfire_types::{Instant, NodeId, ShardId, SocketId};

use crate::counters::CloseCause;
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

    /// Decides what to do with a request, from its head alone. No response has been sent yet.
    fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Route<Self::Ticket>;

    /// A WebSocket is open. Returns the key that is passed to later calls for this socket.
    fn handle_open(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket)
    -> u32;

    /// A GET is parked until [`Sockets::answer`] or [`Sockets::begin_stream`]; an upgrade request until [`Sockets::open_parked`] or
    /// [`Sockets::refuse_parked`]. Returns the key that is passed to
    /// [`SocketHandler::handle_close`].
    fn handle_park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket)
    -> u32;

    /// Answers a request with its whole body, for which [`SocketHandler::route`] returned
    /// [`Route::Answer`]. Returns the head and the body of a complete HTTP response; `None`: the
    /// router answers.
    fn handle_request(
        &mut self,
        sockets: &mut Sockets,
        ticket: Self::Ticket,
        body: &[u8],
    ) -> Option<[Bytes; 2]> {
        let _ = (sockets, ticket, body);
        None
    }

    /// A complete text message arrived. It is valid UTF-8.
    fn handle_text(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, text: &str);

    /// A complete binary message arrived.
    fn handle_binary(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, bytes: &[u8]);

    /// An open or parked socket is gone. Called once for each open WebSocket and event stream, and for a parked
    /// request only if the client left before its answer. The id is no longer valid for sending.
    fn handle_close(
        &mut self,
        sockets: &mut Sockets,
        socket: SocketId,
        key: u32,
        cause: CloseCause,
    );

    /// A message arrived through a [`crate::ShardSender`].
    fn handle_message(&mut self, sockets: &mut Sockets, message: Self::Message);

    /// Called ten times a second.
    fn handle_tick(&mut self, sockets: &mut Sockets, now: Instant);

    /// The queue of at least one socket got shorter: [`Sockets::is_awaited`] may have become false.
    fn handle_relief(&mut self, sockets: &mut Sockets) {
        let _ = sockets;
    }

    /// Does one slice of pending work (about 2,000 sends); true if more is pending. The shard
    /// serves HTTP and its other sockets between two slices.
    fn run_pending_work(&mut self, sockets: &mut Sockets) -> bool;

    /// Hands a connection over to another process, where [`crate::Adopter`] receives it. No
    /// response has been sent yet. An `Err` returns a connection that no process took.
    ///
    /// - [`HandoffTarget::Owner`]: [`SocketHandler::route`] returned [`Route::HandOff`]. A returned
    ///   connection is answered 503.
    /// - [`HandoffTarget::LessLoaded`]: a new connection, while this shard is nearly full (97 % of
    ///   its share of `sockets_max`). A returned connection stays in this process.
    /// - [`HandoffTarget::AnyWithRoom`]: a new connection, or one that another process handed over,
    ///   while this process is full. It is answered 503 if it is returned, or after 16 offers.
    fn hand_off(
        &mut self,
        to: HandoffTarget,
        handoff: HandoffConnection,
    ) -> Result<(), HandoffConnection> {
        let _ = to;
        Err(handoff)
    }

    /// The shard is draining. No further request is routed.
    fn handle_drain(&mut self, sockets: &mut Sockets);
}

/// A decision about a request.
pub enum Route<T> {
    /// The HTTP router answers the request.
    Http,
    /// The handler may answer the request immediately, in [`SocketHandler::handle_request`]. The
    /// router answers it if the body has not arrived with the head, or is chunked.
    Answer {
        /// Passed to [`SocketHandler::handle_request`].
        ticket: T,
    },
    /// Another shard owns the resource: move the connection there, with the bytes that were read.
    Move(ShardId),
    /// Another process owns the resource: the shard calls [`SocketHandler::hand_off`].
    HandOff(NodeId),
    /// Answer immediately with a plain-text body, and close the connection.
    Refuse {
        /// The HTTP status, such as 403.
        status: u16,
        /// One line for a person, or an empty string.
        body: &'static str,
    },
    /// Upgrade to a WebSocket. Only for a head whose [`RequestHead::websocket_key`] is `Ok`.
    Upgrade {
        /// The subprotocol to send in the response.
        protocol: Option<Box<str>>,
        /// Passed to [`SocketHandler::handle_open`].
        ticket: T,
    },
    /// Park a GET without a body, to be answered later. It may be an upgrade request.
    Park {
        /// Passed to [`SocketHandler::handle_park`].
        ticket: T,
    },
}
