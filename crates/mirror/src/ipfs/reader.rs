//! Reads blocks, files and folders from IPFS peers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use watchfire_bitswap::Want;
use watchfire_content::{Block, Cid, FileReader, Lookup, LookupStep};
use watchfire_p2p::{BlockSession, SessionEvent};
use watchfire_store::ReadBlocks as _;

use super::{Ipfs, IpfsError};
use crate::store::{BlockHash, hash_of};

/// How long to wait for the next block. It is shorter than a client waits, so that the client gets the reason.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes that are requested ahead, and the most blocks for them.
const WINDOW_BYTES: u64 = 16 << 20;
const WINDOW_BLOCKS: usize = 64;

/// Requests blocks. The host verifies each by its hash.
pub(super) struct Reader {
    pub(super) ipfs: Arc<Ipfs>,
    session: BlockSession,
    wanted: HashSet<BlockHash>,
    arrived: HashMap<BlockHash, Block>,
}

impl Reader {
    pub(super) async fn open(ipfs: Arc<Ipfs>) -> Result<Self, IpfsError> {
        let session = ipfs.host.open_session().await.map_err(|_| IpfsError::Stopped)?;
        Ok(Reader { ipfs, session, wanted: HashSet::new(), arrived: HashMap::new() })
    }

    /// A block of the store that is public, or of a peer. Blocks that are needed next are requested with it.
    async fn get(&mut self, cid: &Cid, next: Vec<Cid>) -> Result<Block, IpfsError> {
        // A block takes a millisecond: less than handing it to another thread is worth.
        let stored =
            |cid: &Cid| Block::from_cid(cid).or_else(|| self.ipfs.published.get(cid).ok()?);
        if let Some(block) = stored(cid) {
            return Ok(block);
        }
        let unavailable = || IpfsError::NoBlock { cid: cid.clone(), waited: BLOCK_TIMEOUT };
        let hash = hash_of(cid).ok_or_else(unavailable)?;
        let mut wants = Vec::new();
        for cid in [cid.clone()].into_iter().chain(next) {
            if hash_of(&cid).is_some_and(|hash| self.wanted.insert(hash)) {
                wants.push(Want::new(cid));
            }
        }
        self.session.want(wants).await.map_err(|_| IpfsError::Stopped)?;
        loop {
            if let Some(block) = self.arrived.remove(&hash) {
                self.wanted.remove(&hash);
                return Ok(block);
            }
            let block = async {
                loop {
                    match self.session.next().await {
                        Some(SessionEvent::Block { block, .. }) => return Ok(block),
                        Some(SessionEvent::Searching(_)) => {}
                        None => return Err(IpfsError::Stopped),
                    }
                }
            };
            let block = timeout(BLOCK_TIMEOUT, block).await.map_err(|_| unavailable())??;
            self.arrived.extend(hash_of(block.cid()).map(|hash| (hash, block)));
        }
    }

    /// The CID at a path below a folder.
    pub(super) async fn resolve(&mut self, root: &Cid, path: &[&str]) -> Result<Cid, IpfsError> {
        let invalid = |cause: String| IpfsError::NotImage { cid: root.clone(), cause };
        let mut at = root.clone();
        for name in path {
            let mut lookup = Lookup::new(at, name);
            at = loop {
                let block = self.get(&lookup.next().clone(), Vec::new()).await?;
                match lookup.take(&block).map_err(|error| invalid(error.to_string()))? {
                    LookupStep::Found(entry) => break entry.cid,
                    LookupStep::Continue => {}
                    LookupStep::NotFound => {
                        return Err(invalid(format!("it has no {}", path.join("/"))));
                    }
                }
            };
        }
        Ok(at)
    }

    /// A whole file of at most `bytes_max` bytes.
    pub(super) async fn read(self, root: Cid, bytes_max: u64) -> Result<Bytes, IpfsError> {
        let mut file = FileStream::new(self, root, (0, u64::MAX), bytes_max);
        let mut content = Vec::new();
        while let Some(bytes) = file.next().await? {
            content.extend_from_slice(&bytes);
        }
        Ok(content.into())
    }
}

/// Reads a file, or a part of it, in order.
pub(super) struct FileStream {
    reader: Reader,
    file: FileReader,
    root: Cid,
    next: u64,
    end: u64,
}

impl FileStream {
    /// Reads from byte `next` to before byte `end`. A file with more than `bytes_max` bytes is an error.
    pub(super) fn new(reader: Reader, root: Cid, (next, end): (u64, u64), bytes_max: u64) -> Self {
        FileStream { reader, file: FileReader::new(root.clone(), bytes_max), root, next, end }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, IpfsError> {
        loop {
            self.file.skip_to(self.next);
            let Some(cid) = self.file.next().cloned().filter(|_| self.next < self.end) else {
                return Ok(None);
            };
            let until = self.end.min(self.next + WINDOW_BYTES);
            let ahead = self.file.wanted_until(until).take(WINDOW_BLOCKS).cloned().collect();
            let block = self.reader.get(&cid, ahead).await?;
            let at = self.file.read_bytes();
            let bytes = self.file.take(&block).map_err(|error| IpfsError::NotImage {
                cid: self.root.clone(),
                cause: error.to_string(),
            })?;
            let from = self.next.saturating_sub(at).min(bytes.len() as u64) as usize;
            let to = (self.end - at).min(bytes.len() as u64) as usize;
            if from < to {
                self.next = at + to as u64;
                return Ok(Some(bytes.slice(from..to)));
            }
        }
    }
}
