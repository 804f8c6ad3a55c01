//! The end of an event loop by a panic.

use std::any::Any;

use tokio::sync::watch;
use watchfire_types::ShardId;

/// An event loop that ended by a panic. Its connections ended with it, and no one else serves its
/// listener.
///
/// No input of a client may cause one, so it is a fault of this program or of its handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event loop {} panicked: {reason}", shard.0)]
pub struct LoopPanic {
    /// The shard of the event loop.
    pub shard: ShardId,
    /// The message of the panic.
    pub reason: String,
}

impl LoopPanic {
    /// A panic with what it threw.
    pub(crate) fn new(shard: ShardId, thrown: &(dyn Any + Send)) -> Self {
        let text = thrown.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let reason = text.or_else(|| thrown.downcast_ref::<String>().cloned());
        LoopPanic { shard, reason: reason.unwrap_or_else(|| "a value without a text".into()) }
    }
}

/// Receives the first panic of an event loop.
#[derive(Clone)]
pub(crate) struct LoopPanics(pub watch::Receiver<Option<LoopPanic>>);

impl LoopPanics {
    /// The first panic. Pending while all event loops run, and after they have ended in order.
    pub async fn first(mut self) -> LoopPanic {
        if let Ok(panic) = self.0.wait_for(Option::is_some).await
            && let Some(panic) = &*panic
        {
            return panic.clone();
        }
        std::future::pending().await
    }
}
