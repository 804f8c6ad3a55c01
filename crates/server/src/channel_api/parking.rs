//! HTTP requests that a feature answers in a shard, immediately or later.
//!
//! A request that waits in the router costs a task and its buffers. A parked request costs one
//! record in its shard. Long polls of channels are part of the shard itself; a feature answers its
//! own requests with [`Parking`].

use std::time::Duration;

use watchfire_sockets::RequestHead;
use watchfire_types::{Instant, NodeId, ShardId, SocketId};

/// A request that waits in a shard. It names the connection for as long as the request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedRequest {
    /// The shard in which it waits.
    pub shard: ShardId,
    /// The shard's own number for the request.
    pub key: u32,
    /// Its connection.
    pub socket: SocketId,
    /// The feature's number for the client that waits.
    pub client: u64,
}

/// The place where a request is answered. Gates judge the request before that; the layers of the router
/// do not see it.
pub enum ParkRoute {
    /// In the shard that received it, with [`Parking::answer`].
    Answer {
        /// The name of the resource that the request is about.
        name: Box<str>,
    },
    /// To another process.
    HandOff(NodeId),
    /// Into the shard that received it.
    Park {
        /// The name of the resource that the client waits for.
        name: Box<str>,
        /// The feature's number for the client.
        client: u64,
    },
}

/// The response to a request in a shard.
pub struct ParkResponse {
    /// The status of the response.
    pub status: u16,
    /// JSON.
    pub body: String,
}

/// A feature that answers requests in their shard.
pub trait Parking: Send + Sync {
    /// Decides from a request's head where it is answered; `None` for requests of the router.
    fn route(&self, head: &RequestHead<'_>) -> Option<ParkRoute>;

    /// Answers a request with its whole body, for which [`Parking::route`] returned
    /// [`ParkRoute::Answer`]. `None`: the router answers. A request whose body arrives later, one that
    /// is logged, and one that is traced go to the router anyway.
    fn answer(&self, _name: &str, _body: &[u8]) -> Option<ParkResponse> {
        None
    }

    /// Parks a request. Returns a response instead if there is one already.
    fn park(&self, now: Instant, name: &str, request: ParkedRequest) -> Option<ParkResponse>;

    /// The response for a request that was woken, or that waited for [`Parking::window`].
    fn unpark(&self, now: Instant, request: ParkedRequest) -> ParkResponse;

    /// Called when the client of a parked request closed its connection.
    fn request_gone(&self, now: Instant, request: ParkedRequest);

    /// The response for a request that waits when the server stops.
    fn stopping(&self) -> ParkResponse;

    /// How long a request waits at most.
    fn window(&self) -> Duration;
}
