//! The trait through which features send to clients.

use super::address::ChannelAddress;
use super::parking::ParkedRequest;
use super::payload::Body;
use crate::cluster::SendError;

/// Sends to clients. A feature's state gets this trait and not the whole [`super::Endpoint`], so
/// that a test can replace it.
pub trait ClientSender: Send + Sync {
    /// Sends to every subscriber of a topic at this process.
    fn broadcast_here(&self, topic: &str, event: &str, body: Body);

    /// Sends to one channel, in any process.
    fn push(&self, to: ChannelAddress, event: &str, body: Body) -> Result<(), SendError>;

    /// Makes the shard of a parked request answer it.
    fn wake(&self, request: ParkedRequest) -> Result<(), SendError>;
}
