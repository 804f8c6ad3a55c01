//! The timeout of a lent connection that makes no progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// A timeout that runs only while reads or writes are pending.
pub(super) struct Stall {
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(super) fn new(limit: Duration) -> Self {
        Stall { limit, sleep: None }
    }

    /// Return the result of a read or write, or an error if it was pending for `limit`.
    pub(super) fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if polled.is_ready() {
            self.sleep = None;
            return polled;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(std::io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}
