//! The pictures of sprites. Each is a page of one block, which this program serves while it keeps the picture.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use watchfire_content::{Block, Cid, Codec};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{Have, PageClient, ServerUrl};
use watchfire_store::{ReadBlocks, StoreError, Stores, WriteBlocks};

use super::image::{self, Pixels};
use crate::link::PagePlace;
use crate::page_clients::join_page;

/// The largest picture, in bytes.
const PICTURE_BYTES_MAX: usize = 64 << 10;
/// Own pictures that are kept, and as many of neighbours. Beyond it, the oldest is forgotten.
const KEPT_MAX: usize = 16;

/// A picture of a neighbour has arrived.
pub struct Arrived {
    pub cid: String,
    pub pixels: Pixels,
}

pub struct Pictures {
    host: Arc<Host>,
    blocks: Arc<Blocks>,
    site: ServerUrl,
    kept: VecDeque<Kept>,
    arrived: mpsc::Sender<Arrived>,
}

/// A picture, and the peer of its page. Dropping it leaves the page.
struct Kept {
    cid: String,
    is_own: bool,
    _client: Arc<PageClient>,
    fetch: Option<AbortHandle>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(fetch) = &self.fetch {
            fetch.abort();
        }
    }
}

impl Pictures {
    pub async fn start(site: &ServerUrl, arrived: mpsc::Sender<Arrived>) -> anyhow::Result<Self> {
        let blocks = Arc::new(Blocks::default());
        let host = Host::start(HostSettings::default(), Stores::default(), blocks.clone()).await?;
        let (host, site) = (Arc::new(host), site.clone());
        Ok(Pictures { host, blocks, site, kept: VecDeque::new(), arrived })
    }

    /// Serves an own picture, and returns the CID of its page.
    pub fn add(&mut self, page: Vec<u8>) -> anyhow::Result<String> {
        let block = Block::raw(page.into())?;
        let cid = block.cid().to_string();
        if !self.keeps(&cid) {
            self.blocks.put(&block)?;
            let client = Arc::new(self.join(block.cid(), Have::All)?);
            self.keep(Kept { cid: cid.clone(), is_own: true, _client: client, fetch: None });
        }
        Ok(cid)
    }

    pub fn keeps(&self, cid: &str) -> bool {
        self.kept.iter().any(|kept| kept.cid == cid)
    }

    /// Whether a picture of a neighbour can be fetched, and is not kept. Only CIDs of one block name such pictures.
    fn lacks(&self, cid: &str) -> bool {
        root_of(cid).is_some() && !self.keeps(cid)
    }

    /// Begins to fetch a picture that is missing. `wanted` has the pictures of sprites, the newest first. Of more than
    /// are kept, the oldest are not fetched: each would replace one that is wanted too.
    pub fn fetch_missing<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let missing = wanted.take(KEPT_MAX).find(|cid| self.lacks(cid));
        missing.map_or(Ok(()), |cid| self.fetch(cid))
    }

    fn fetch(&mut self, cid: &str) -> anyhow::Result<()> {
        let Some(root) = root_of(cid) else { return Ok(()) };
        let client = Arc::new(self.join(&root, Have::None)?);
        let task = Fetch {
            host: Arc::clone(&self.host),
            blocks: Arc::clone(&self.blocks),
            client: Arc::clone(&client),
            arrived: self.arrived.clone(),
        };
        let fetch = Some(tokio::spawn(task.run(root)).abort_handle());
        self.keep(Kept { cid: cid.to_owned(), is_own: false, _client: client, fetch });
        Ok(())
    }

    fn join(&self, root: &Cid, have: Have) -> anyhow::Result<PageClient> {
        join_page(&self.host, None, PagePlace { site: &self.site, at: &[], root }, have)
    }

    fn keep(&mut self, kept: Kept) {
        let is_alike = |old: &Kept| old.is_own == kept.is_own;
        let is_full = self.kept.iter().filter(|old| is_alike(old)).count() >= KEPT_MAX;
        let oldest = self.kept.iter().position(is_alike).filter(|_| is_full);
        if let Some(oldest) = oldest.and_then(|at| self.kept.remove(at)) {
            self.blocks.lock().remove(&oldest.cid);
        }
        self.kept.push_back(kept);
    }
}

/// The root of a page of one block.
fn root_of(cid: &str) -> Option<Cid> {
    cid.parse().ok().filter(|cid: &Cid| *cid == Cid::v1(Codec::RAW, cid.hash().clone()))
}

struct Fetch {
    host: Arc<Host>,
    blocks: Arc<Blocks>,
    client: Arc<PageClient>,
    arrived: mpsc::Sender<Arrived>,
}

impl Fetch {
    async fn run(self, root: Cid) {
        let Ok(mut fetch) = self.host.fetch_block(root.clone()).await else { return };
        if fetch.finished().await.is_err() {
            return;
        }
        let Ok(Some(block)) = self.blocks.get(&root) else { return };
        // A picture that may not be shown is not given to others.
        let Some(pixels) = image::of_neighbour(block.bytes()) else { return };
        self.client.set_have(Have::All);
        let _ = self.arrived.send(Arrived { cid: root.to_string(), pixels }).await;
    }
}

/// The blocks of the pictures that are kept, by the text of their CIDs.
#[derive(Default)]
struct Blocks(Mutex<HashMap<String, Block>>);

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Block>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

impl ReadBlocks for Blocks {
    fn get(&self, cid: &Cid) -> Result<Option<Block>, StoreError> {
        Ok(self.lock().get(&cid.to_string()).cloned())
    }

    fn len_of(&self, cid: &Cid) -> Option<u64> {
        self.lock().get(&cid.to_string()).map(|block| block.bytes().len() as u64)
    }
}

impl WriteBlocks for Blocks {
    fn put(&self, block: &Block) -> Result<(), StoreError> {
        let (needed, max) = (block.bytes().len() as u64, PICTURE_BYTES_MAX as u64);
        if needed > max {
            return Err(StoreError::Full { needed, held: 0, max });
        }
        self.lock().insert(block.cid().to_string(), block.clone());
        Ok(())
    }
}
