//! The running fetches of a host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};
use watchfire_bitswap::{Exchange, SessionId};
use watchfire_content::{Block, Cid};
use watchfire_store::{Stores, WriteBlocks};
use watchfire_types::Instant;

use super::local_blocks::LocalBlocks;
use super::peer_numbers::PeerNumber;
use crate::fetch::{
    Fetch, FetchError, FetchEvent, FetchId, FetchInput, FetchScope, FetchWorker, Fetched, Progress,
};
use crate::settings::FetchLimits;

/// Events of workers that wait for the host. When the queue is full, workers wait.
const EVENTS_MAX: usize = 256;

pub(super) struct Fetches {
    running: BTreeMap<FetchId, RunningFetch>,
    by_session: BTreeMap<SessionId, FetchId>,
    next_id: u64,
    /// Bytes of blocks that workers have not written yet.
    unwritten_bytes: usize,
    events_sender: mpsc::Sender<FetchEvent>,
    events: mpsc::Receiver<FetchEvent>,
    /// Yields each fetch whose handle was dropped.
    dropped: FuturesUnordered<BoxFuture<'static, FetchId>>,
}

struct RunningFetch {
    session: SessionId,
    worker: Sender<FetchInput>,
    outcome: oneshot::Sender<Result<Fetched, FetchError>>,
    unwritten_bytes: usize,
}

pub(super) enum FetchUpdate {
    Event(FetchEvent),
    Dropped(FetchId),
}

impl Fetches {
    pub(super) fn new() -> Self {
        let (events_sender, events) = mpsc::channel(EVENTS_MAX);
        Fetches {
            running: BTreeMap::new(),
            by_session: BTreeMap::new(),
            next_id: 0,
            unwritten_bytes: 0,
            events_sender,
            events,
            dropped: FuturesUnordered::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether a session is of a fetch that runs.
    pub(super) fn has_session(&self, session: SessionId) -> bool {
        self.by_session.contains_key(&session)
    }

    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    pub(super) fn start(
        &mut self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        blocks: &LocalBlocks,
        limits: FetchLimits,
        (root, scope, store): (Cid, FetchScope, Arc<dyn WriteBlocks>),
    ) -> Result<(SessionId, Fetch), FetchError> {
        let id = FetchId(self.next_id);
        let (worker_sender, inputs) = channel();
        let (progress_sender, progress) = watch::channel(Progress::default());
        let (outcome_sender, outcome) = oneshot::channel();
        let (handle, handle_dropped) = oneshot::channel::<()>();
        let worker = FetchWorker {
            fetch: id,
            root,
            scope,
            limits,
            stores: Stores::new(vec![blocks.stores().clone(), Arc::new(store.clone())]),
            store,
            inputs,
            events: self.events_sender.clone(),
            progress: progress_sender,
        };
        let name = format!("p2p-fetch-{}", id.0);
        thread::Builder::new().name(name).spawn(move || worker.run())?;

        self.next_id += 1;
        let session = exchange.start_session(now);
        self.by_session.insert(session, id);
        let running = RunningFetch {
            session,
            worker: worker_sender,
            outcome: outcome_sender,
            unwritten_bytes: 0,
        };
        self.running.insert(id, running);
        self.dropped.push(Box::pin(async move {
            let _ = handle_dropped.await;
            id
        }));
        Ok((session, Fetch { progress, outcome, _handle: handle }))
    }

    /// Waits for the next update. Cancelling the wait loses no update.
    pub(super) async fn next(&mut self) -> FetchUpdate {
        tokio::select! {
            Some(event) = self.events.recv() => FetchUpdate::Event(event),
            Some(fetch) = self.dropped.next() => FetchUpdate::Dropped(fetch),
        }
    }

    /// Returns the next update if one is waiting.
    pub(super) fn try_next(&mut self) -> Option<FetchUpdate> {
        self.events.try_recv().ok().map(FetchUpdate::Event)
    }

    pub(super) fn handle(
        &mut self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        blocks: &LocalBlocks,
        update: FetchUpdate,
    ) {
        let event = match update {
            FetchUpdate::Event(event) => event,
            FetchUpdate::Dropped(fetch) => return drop(self.end(exchange, now, fetch)),
        };
        match event {
            FetchEvent::Want { fetch, wants } => {
                if let Some(running) = self.running.get(&fetch) {
                    exchange.want(now, running.session, wants);
                }
            }
            FetchEvent::Node { fetch, block } => {
                if let Some(running) = self.running.get(&fetch)
                    && let Some(links) = blocks.links_of(&block)
                {
                    exchange.open_node(now, running.session, block.cid(), links);
                }
            }
            FetchEvent::Written { fetch, cid, bytes } => {
                if let Some(running) = self.running.get_mut(&fetch) {
                    running.unwritten_bytes -= bytes;
                    self.unwritten_bytes -= bytes;
                }
                // The block may be in a store that the host does not serve.
                if let Some(len) = blocks.len_of(&cid) {
                    exchange.handle_stored(now, &cid, len);
                }
            }
            FetchEvent::Ended { fetch, outcome } => {
                if let Some(running) = self.end(exchange, now, fetch) {
                    // Fails only if the handle was dropped.
                    let _ = running.outcome.send(outcome);
                }
            }
        }
    }

    /// Sends a block to the fetches among `sessions`.
    pub(super) fn send_block(&mut self, sessions: &[SessionId], block: &Block, from: PeerNumber) {
        for id in sessions.iter().filter_map(|session| self.by_session.get(session)) {
            let Some(running) = self.running.get_mut(id) else { continue };
            let input = FetchInput::Block { block: block.clone(), from: from.0 };
            // Fails only if the worker has just ended.
            if running.worker.send(input).is_ok() {
                running.unwritten_bytes += block.bytes().len();
                self.unwritten_bytes += block.bytes().len();
            }
        }
    }

    /// Notifies the fetch of this session, if any, that the host searches for other peers.
    pub(super) fn send_searching(&self, session: SessionId) {
        let running = self.by_session.get(&session).and_then(|id| self.running.get(id));
        if let Some(running) = running {
            let _ = running.worker.send(FetchInput::Searching);
        }
    }

    fn end(
        &mut self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        id: FetchId,
    ) -> Option<RunningFetch> {
        let running = self.running.remove(&id)?;
        self.by_session.remove(&running.session);
        exchange.stop_session(now, running.session);
        // The blocks in the worker's queue are dropped with it.
        self.unwritten_bytes -= running.unwritten_bytes;
        Some(running)
    }
}
