//! Requests for single blocks, which go into no store.

use tokio::sync::mpsc;
use watchfire_bitswap::{SessionId, Want};
use watchfire_content::Cid;

use crate::command::{Command, SessionEvent};
use crate::error::Stopped;

/// Requests single blocks from all peers of a host. Dropping it cancels its requests.
#[derive(Debug)]
pub struct BlockSession {
    pub(crate) id: SessionId,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Bounded by the session's own requests: one block and a few searches for each.
    pub(crate) events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl BlockSession {
    /// Requests more blocks.
    pub async fn want(&self, wants: Vec<Want>) -> Result<(), Stopped> {
        let command = Command::Want { session: self.id, wants };
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// Sets whether more blocks will be requested, whose CIDs are not known yet. Call it with `false`
    /// after the last of them, so that slow peers do not delay the end.
    pub async fn set_growing(&self, is_growing: bool) -> Result<(), Stopped> {
        let command = Command::SetGrowing { session: self.id, is_growing };
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// Cancels requests. A block that is on its way may still arrive.
    pub async fn cancel(&self, cids: Vec<Cid>) -> Result<(), Stopped> {
        let command = Command::CancelWants { session: self.id, cids };
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// Waits for the next event; `None` when the host has stopped.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.events.recv().await
    }
}
