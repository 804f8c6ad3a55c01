//! The token with which a socket connected.

use std::sync::Arc;

use parking_lot::Mutex;

use super::claims::Grant;

/// The token with which a socket connected. All channels of the socket use it, except those that
/// were joined with a token of their own.
pub(crate) struct SocketToken(Mutex<Arc<Grant>>);

impl SocketToken {
    pub fn new(grant: Grant) -> Self {
        SocketToken(Mutex::new(Arc::new(grant)))
    }

    /// The rights of the last valid token.
    pub fn grant(&self) -> Arc<Grant> {
        self.0.lock().clone()
    }

    /// Replaces the token.
    pub fn replace(&self, grant: Arc<Grant>) {
        *self.0.lock() = grant;
    }
}
