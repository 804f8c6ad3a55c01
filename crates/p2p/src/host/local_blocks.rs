//! The blocks that a host can serve.

use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_bitswap::Exchange;
use watchfire_content::dag_pb::{Link, Node};
use watchfire_content::{Block, Cid, Codec};
use watchfire_store::ReadBlocks;
use watchfire_types::Instant;

use super::block_reader::{BlockRead, BlockReader, ReadPurpose};
use super::peer_numbers::PeerNumber;
use crate::fallback::{FallbackSource, RequestOrigin};

/// Blocks that were read and wait for the host. When the queue is full, the reading thread waits.
const READ_BLOCKS_MAX: usize = 16;

/// The stores of a host, and its source for blocks that no store has.
pub(super) struct LocalBlocks {
    stores: Arc<dyn ReadBlocks>,
    fallback: Arc<dyn FallbackSource>,
    reader: BlockReader,
    read_blocks: mpsc::Receiver<BlockRead>,
}

impl LocalBlocks {
    pub(super) fn new(
        stores: Arc<dyn ReadBlocks>,
        fallback: Arc<dyn FallbackSource>,
    ) -> io::Result<Self> {
        let (sender, read_blocks) = mpsc::channel(READ_BLOCKS_MAX);
        let reader = BlockReader::start(stores.clone(), sender)?;
        Ok(LocalBlocks { stores, fallback, reader, read_blocks })
    }

    pub(super) fn stores(&self) -> &Arc<dyn ReadBlocks> {
        &self.stores
    }

    /// Returns the length of a block in bytes if it is in a store.
    pub(super) fn len_of(&self, cid: &Cid) -> Option<usize> {
        let len = match Block::from_cid(cid) {
            Some(block) => block.bytes().len() as u64,
            None => self.stores.len_of(cid)?,
        };
        usize::try_from(len).ok()
    }

    /// Returns the links of a node, and whether each linked block is in a store; `None` if the
    /// block is not a node.
    pub(super) fn links_of(&self, block: &Block) -> Option<Vec<(Cid, bool)>> {
        let node = (block.cid().codec() == Codec::DAG_PB).then(|| Node::decode(block.bytes()))?;
        let with_presence = |link: Link| {
            let has_block = self.len_of(&link.cid).is_some();
            (link.cid, has_block)
        };
        Some(node.ok()?.links.into_iter().map(with_presence).collect())
    }

    /// Like [`LocalBlocks::len_of`], for a peer of this kind.
    fn len_for(&self, cid: &Cid, origin: RequestOrigin) -> Option<usize> {
        self.len_of(cid).filter(|_| self.is_served(cid, origin))
    }

    /// Whether peers of this kind may have a block that a store has. A CID that contains its block
    /// says all that there is to say.
    fn is_served(&self, cid: &Cid, origin: RequestOrigin) -> bool {
        Block::from_cid(cid).is_some() || self.fallback.is_served(cid, origin)
    }

    /// Reports to the exchange whether a store has a block. If the fallback source tries to obtain
    /// the block, the report follows later.
    pub(super) fn look_up(
        &self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        cid: &Cid,
        origin: RequestOrigin,
    ) {
        let len = self.len_for(cid, origin);
        if len.is_some() {
            return exchange.handle_lookup(now, cid, len);
        }
        if self.fallback.can_obtain(cid, origin) && exchange.handle_obtainable(now, cid) {
            return;
        }
        match self.fallback.request(cid, origin) {
            true => exchange.defer_lookup(now, cid),
            false => exchange.handle_lookup(now, cid, None),
        }
    }

    pub(super) fn read(
        &self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        (peer, origin): (PeerNumber, RequestOrigin),
        cid: Cid,
    ) {
        match Block::from_cid(&cid) {
            Some(block) => exchange.handle_read(now, peer, &cid, Some(block)),
            None if !self.is_served(&cid, origin) => exchange.handle_read(now, peer, &cid, None),
            None => self.reader.read(ReadPurpose::Send(peer), cid),
        }
    }

    /// Reads a node to list its links. Only libp2p peers have lists.
    pub(super) fn read_links(&self, exchange: &mut Exchange<PeerNumber>, now: Instant, node: Cid) {
        match self.is_served(&node, RequestOrigin::Libp2p) {
            true => self.reader.read(ReadPurpose::ListLinks, node),
            false => exchange.handle_links(now, &node, None),
        }
    }

    /// Waits for the next block that was read; `None` if the reading thread has ended.
    pub(super) async fn next_read(&mut self) -> Option<BlockRead> {
        self.read_blocks.recv().await
    }

    pub(super) fn handle_read(
        &self,
        exchange: &mut Exchange<PeerNumber>,
        now: Instant,
        BlockRead { purpose, cid, block }: BlockRead,
    ) {
        match purpose {
            ReadPurpose::Send(peer) => exchange.handle_read(now, peer, &cid, block),
            ReadPurpose::ListLinks => {
                // Another block of the same hash is not the node that was requested.
                let block = block.filter(|block| *block.cid() == cid);
                let mut links = block.and_then(|block| self.links_of(&block));
                for (cid, has_block) in links.iter_mut().flatten() {
                    *has_block &= self.is_served(cid, RequestOrigin::Libp2p);
                }
                exchange.handle_links(now, &cid, links);
            }
        }
    }
}
