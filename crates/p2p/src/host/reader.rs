use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use content::{Block, Cid};
use store::ReadBlocks;
use tokio::sync::mpsc;

/// A thread that reads blocks to serve, since disks make it wait.
///
/// What waits for it is bounded by the exchange: it asks for no more than
/// [`bitswap::Limits::reading_bytes_max`], and a bounded number of nodes for each peer.
pub(super) struct Reader<P> {
    asks: Sender<Ask<P>>,
}

struct Ask<P> {
    whose: Whose<P>,
    cid: Cid,
}

/// What a block is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<P> {
    /// To be sent to a peer.
    Peer(P),
    /// For what it links to.
    List,
}

/// A block that was read, if it could be.
pub(super) struct BlockRead<P> {
    pub(super) whose: Whose<P>,
    pub(super) cid: Cid,
    pub(super) block: Option<Block>,
}

impl<P: Copy + Send + 'static> Reader<P> {
    pub(super) fn start(
        stores: Arc<dyn ReadBlocks>,
        done: mpsc::Sender<BlockRead<P>>,
    ) -> io::Result<Self> {
        let (asks, asked) = channel();
        thread::Builder::new()
            .name("p2p-read".to_owned())
            .spawn(move || read_all(&stores, &asked, &done))?;
        Ok(Reader { asks })
    }

    /// Reads a block.
    pub(super) fn read(&self, whose: Whose<P>, cid: Cid) {
        // Its thread ends after this one.
        let _ = self.asks.send(Ask { whose, cid });
    }
}

fn read_all<P>(
    stores: &Arc<dyn ReadBlocks>,
    asked: &Receiver<Ask<P>>,
    done: &mpsc::Sender<BlockRead<P>>,
) {
    while let Ok(Ask { whose, cid }) = asked.recv() {
        let block = stores.get(&cid).unwrap_or_else(|error| {
            tracing::warn!(%cid, %error, "cannot serve a block");
            None
        });
        if done.blocking_send(BlockRead { whose, cid, block }).is_err() {
            return;
        }
    }
}
