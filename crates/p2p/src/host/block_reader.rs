//! The thread that reads blocks from the stores.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::mpsc;
use watchfire_content::{Block, Cid};
use watchfire_store::ReadBlocks;

use super::peer_numbers::PeerNumber;

/// Reads blocks on its own thread, because disk reads block.
///
/// The exchange bounds the queue: it requests no more than
/// [`watchfire_bitswap::Limits::reading_bytes_max`], and a few nodes for each peer.
pub(super) struct BlockReader {
    requests: Sender<ReadRequest>,
}

struct ReadRequest {
    purpose: ReadPurpose,
    cid: Cid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadPurpose {
    Send(PeerNumber),
    ListLinks,
}

/// A block that was read; `None` if the stores could not return it.
pub(super) struct BlockRead {
    pub(super) purpose: ReadPurpose,
    pub(super) cid: Cid,
    pub(super) block: Option<Block>,
}

impl BlockReader {
    pub(super) fn start(
        stores: Arc<dyn ReadBlocks>,
        results: mpsc::Sender<BlockRead>,
    ) -> io::Result<Self> {
        let (requests, requested) = channel();
        thread::Builder::new()
            .name("p2p-read".to_owned())
            .spawn(move || read_all(&stores, &requested, &results))?;
        Ok(BlockReader { requests })
    }

    pub(super) fn read(&self, purpose: ReadPurpose, cid: Cid) {
        // The thread ends only after this sender is dropped.
        let _ = self.requests.send(ReadRequest { purpose, cid });
    }
}

fn read_all(
    stores: &Arc<dyn ReadBlocks>,
    requests: &Receiver<ReadRequest>,
    results: &mpsc::Sender<BlockRead>,
) {
    while let Ok(ReadRequest { purpose, cid }) = requests.recv() {
        let block = stores.get(&cid).unwrap_or_else(|error| {
            tracing::warn!(%cid, %error, "cannot read a block to serve");
            None
        });
        if results.blocking_send(BlockRead { purpose, cid, block }).is_err() {
            return;
        }
    }
}
