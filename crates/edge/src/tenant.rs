//! What lives behind the sockets: the trait that a server implements, once per shard.

use std::net::SocketAddr;

use vocab::{Instant, NodeId, ShardId, SocketId};

use crate::head::RequestHead;
use crate::parcel::{Parcel, Taker};
use crate::sockets::Sockets;

/// What a shard's sockets talk to. One per shard, called only on the shard's own thread.
///
/// Calls never nest: what a tenant does to a socket in one call (a close, an overflow) comes back
/// as a later call, never inside the first.
pub trait Tenant: 'static {
    /// What [`Tenant::route`] found out about a request and `open` or `park` needs again.
    type Ticket: 'static;
    /// What other threads send to this shard, through its [`crate::Mailbox`].
    type Mail: Send + 'static;

    /// Say what a request is, from its head alone. Called before a byte is answered.
    fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        head: &RequestHead<'_>,
    ) -> Route<Self::Ticket>;

    /// A websocket's handshake is done. Returns the key that later calls about it carry.
    fn open(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket) -> u32;

    /// A GET is parked until [`Sockets::answer`]. Returns the key that a `close` will carry.
    fn park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Self::Ticket) -> u32;

    /// A whole text message arrived, known to be UTF-8.
    fn text(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, text: &str);

    /// A whole binary message arrived.
    fn binary(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, bytes: &[u8]);

    /// An open or still parked socket is gone. Once for each `open`; for each `park` only when
    /// the client left before its answer. The id is no longer valid for sending.
    fn close(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, cause: CloseCause);

    /// Another thread's mail.
    fn mail(&mut self, sockets: &mut Sockets, mail: Self::Mail);

    /// Called ten times a second.
    fn tick(&mut self, sockets: &mut Sockets, now: Instant);

    /// Do a slice of pending work (some 2,000 sends); true when more is waiting. The shard lets
    /// HTTP and its other sockets run between two slices.
    fn work(&mut self, sockets: &mut Sockets) -> bool;

    /// Hand a connection over to another process, whose [`crate::Adopter`] takes it in. Nothing of
    /// it is answered yet.
    ///
    /// [`Taker::Owner`] is what [`Tenant::route`] said; a parcel that comes back is answered 503.
    /// A client that just arrived while this shard is nearly full (97 % of its share of
    /// `sockets_max`) may go to any with more room, and is kept here as long as there is room when
    /// it comes back. Once this process is full, or another gave it one that is too much, anyone
    /// with room may have it; it is answered 503 when that comes back, or after some 16 offers.
    fn hand_over(&mut self, to: Taker, parcel: Parcel) -> Result<(), Parcel> {
        let _ = to;
        Err(parcel)
    }

    /// The shard is draining: no request will be routed any more.
    fn drain(&mut self, sockets: &mut Sockets);
}

/// What to do with a request.
pub enum Route<T> {
    /// Let the HTTP router answer it.
    Http,
    /// Another shard owns what it asks for: move the connection there, bytes and all.
    Move(ShardId),
    /// Another process owns what it asks for: [`Tenant::hand_over`] follows, bytes and all.
    Away(NodeId),
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
        /// Comes back in [`Tenant::open`].
        ticket: T,
    },
    /// Park it: a GET without a body that is answered later.
    Park {
        /// Comes back in [`Tenant::park`].
        ticket: T,
    },
}

/// Why a socket is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCause {
    /// The client closed, or its connection ended.
    ByPeer,
    /// We closed it: [`Sockets::close`], with this code.
    ByUs(u16),
    /// It broke RFC 6455 or sent bad UTF-8.
    Protocol,
    /// A message passed `message_bytes_max`.
    TooBig,
    /// Nothing came for `idle_timeout`.
    Idle,
    /// It did not read: its queue was full, or stayed unread for `slow_timeout`.
    Slow,
    /// The shard drained.
    Drained,
}
