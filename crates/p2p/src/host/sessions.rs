//! The open [`BlockSession`](crate::BlockSession)s of a host.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use libp2p::PeerId;
use tokio::sync::mpsc;
use watchfire_bitswap::SessionId;
use watchfire_content::{Block, Cid};

use crate::command::SessionEvent;

#[derive(Default)]
pub(super) struct BlockSessions {
    events: BTreeMap<SessionId, mpsc::UnboundedSender<SessionEvent>>,
    /// Yields each session whose handle was dropped.
    dropped: FuturesUnordered<BoxFuture<'static, SessionId>>,
}

impl BlockSessions {
    pub(super) fn open(&mut self, id: SessionId, events: mpsc::UnboundedSender<SessionEvent>) {
        self.events.insert(id, events.clone());
        self.dropped.push(Box::pin(async move {
            events.closed().await;
            id
        }));
    }

    pub(super) fn is_open(&self, id: SessionId) -> bool {
        self.events.contains_key(&id)
    }

    /// Waits until a handle is dropped, and removes its session; `None` while no session is open.
    pub(super) async fn next_dropped(&mut self) -> Option<SessionId> {
        let id = self.dropped.next().await?;
        self.events.remove(&id);
        Some(id)
    }

    /// Sends a block to the sessions among `sessions` that are open here.
    pub(super) fn send_block(&self, sessions: &[SessionId], block: &Block, from: Option<PeerId>) {
        for events in sessions.iter().filter_map(|id| self.events.get(id)) {
            // A dropped handle is reported by `next_dropped`.
            let _ = events.send(SessionEvent::Block { block: block.clone(), from });
        }
    }

    /// Notifies a session, if it is open here, that the host searches for other peers.
    pub(super) fn send_searching(&self, id: SessionId, cid: &Cid) {
        if let Some(events) = self.events.get(&id) {
            let _ = events.send(SessionEvent::Searching(cid.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_gets_its_blocks_until_its_handle_is_dropped() {
        let mut sessions = BlockSessions::default();
        let (sender, mut events) = mpsc::unbounded_channel();
        let (mine, other) = (SessionId(1), SessionId(2));
        sessions.open(mine, sender);
        let block = Block::raw("hi".into()).expect("a short block");
        sessions.send_block(&[other, mine], &block, None);
        sessions.send_searching(other, block.cid());
        let received = events.try_recv();
        assert!(matches!(received, Ok(SessionEvent::Block { block: found, .. }) if found == block));
        assert!(events.try_recv().is_err());

        drop(events);
        assert_eq!(sessions.next_dropped().await, Some(mine));
        assert!(!sessions.is_open(mine));
    }
}
