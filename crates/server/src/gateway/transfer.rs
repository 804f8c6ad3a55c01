//! One page's blocks on their direction, one direction.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use watchfire_bitswap::Want;
use watchfire_content::dag_pb::Node;
use watchfire_content::{Block, Cid, Codec, Multihash};
use watchfire_p2p::{BlockSession, Host, SessionEvent, Stopped};
use watchfire_page_client::{Connector, Have, PageClient, PageClientOptions};
use watchfire_store::ReadBlocks;

use super::block_buffer::{BlockBuffer, TransferId};
use super::router::{Direction, GatewayRouter, NewTransfer};
use crate::pages::{Availability, OwnClientKey};

/// How often a transfer looks whether it is still of use.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a transfer stays that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How long nothing may come of what is wanted, before it is held not to be there.
const NOTHING_MAX: Duration = Duration::from_secs(20);

/// What all transfers share.
pub(super) struct TransferShared {
    pub host: Arc<Host>,
    pub router: Arc<GatewayRouter>,
    pub buffer: Arc<BlockBuffer>,
    pub availability: Arc<Availability>,
    pub connector: Arc<dyn Connector>,
    pub key: OwnClientKey,
}

/// Carries one page's blocks one direction, for as long as somebody wants them.
pub(super) struct PageTransfer {
    shared: Arc<TransferShared>,
    id: TransferId,
    direction: Direction,
    page: Cid,
    name: String,
    wants: mpsc::Receiver<Cid>,
    /// The blocks of the page that are known: what the page calls them, and how long they are.
    known: HashMap<Multihash, Known>,
    /// What is wanted and not yet asked for.
    waiting: VecDeque<Multihash>,
    /// What is asked for, and by which names it was wanted.
    wanted: HashMap<Multihash, Wanted>,
    page_client: Option<PageClient>,
    used_at: Instant,
    moved_at: Instant,
}

struct Known {
    cid: Cid,
    bytes: Option<u32>,
}

#[derive(Default)]
struct Wanted {
    names: Vec<Cid>,
    is_asked: bool,
}

impl PageTransfer {
    pub fn new(shared: Arc<TransferShared>, opened: NewTransfer) -> Self {
        let NewTransfer { id, direction, page, wants } = opened;
        let root = Known { cid: page.clone(), bytes: None };
        PageTransfer {
            shared,
            id,
            direction,
            name: page.to_string(),
            known: [(page.hash().clone(), root)].into(),
            page,
            wants,
            waiting: VecDeque::new(),
            wanted: HashMap::new(),
            page_client: None,
            used_at: Instant::now(),
            moved_at: Instant::now(),
        }
    }

    /// Carries until nobody wants anything any more.
    pub async fn run(mut self) {
        tracing::debug!(page = self.name, direction = ?self.direction, "a page opens to another world");
        // A host that has stopped needs nothing more from us.
        let _ = self.carry().await;
        let _ = self.end().await;
        tracing::debug!(page = self.name, direction = ?self.direction, "and closes");
    }

    async fn carry(&mut self) -> Result<(), Stopped> {
        let mut seeker = self.shared.host.open_session().await?;
        match self.direction {
            Direction::ToPeers => self.page_client = Some(self.start_page_client(Have::None)),
            Direction::ToBrowsers => self.seek_root(&seeker).await?,
        }
        let mut look = interval(LOOK_EVERY);
        let shared = self.shared.clone();
        loop {
            // Before looking for room, lest it come in between.
            let freed = shared.buffer.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            self.ask(&seeker).await?;
            tokio::select! {
                Some(cid) = self.wants.recv() => self.want(cid).await?,
                sought = seeker.next() => match sought {
                    Some(SessionEvent::Block(block)) => self.arrived(&block).await?,
                    Some(SessionEvent::Searching(_)) => {}
                    None => return Err(Stopped),
                },
                () = freed => {}
                _ = look.tick() => {
                    if self.is_over() {
                        return Ok(());
                    }
                    if self.comes_nothing() {
                        if self.direction == Direction::ToPeers {
                            return Ok(());
                        }
                        // Whoever had it is gone: the page is dark again, and sought anew.
                        self.page_client = None;
                        self.lack_all().await?;
                        seeker = self.shared.host.open_session().await?;
                        self.seek_root(&seeker).await?;
                    }
                }
            }
        }
    }

    /// Wants the root, for no other reason than to know who has it.
    async fn seek_root(&mut self, seeker: &BlockSession) -> Result<(), Stopped> {
        let root = self.page.hash().clone();
        self.wanted.entry(root).or_default().is_asked = true;
        seeker.want(vec![Want::new(self.page.clone())]).await
    }

    fn start_page_client(&self, have: Have) -> PageClient {
        let (router, id) = (self.shared.router.clone(), self.id);
        let plan = PageClientOptions {
            connector: self.shared.connector.clone(),
            page: self.page.clone(),
            have,
            // What is sought elsewhere is none of this page's business.
            request_filter: Some(Arc::new(move |cid| router.is_of(id, cid))),
            join_params: self.shared.key.to_json(),
        };
        PageClient::start(&self.shared.host, plan)
    }

    async fn want(&mut self, cid: Cid) -> Result<(), Stopped> {
        self.used_at = Instant::now();
        let hash = cid.hash().clone();
        if let Some(len) = self.shared.buffer.len_of(&cid) {
            // It came in the meantime.
            return self
                .shared
                .host
                .notify_block_stored(cid, usize::try_from(len).unwrap_or(usize::MAX))
                .await;
        }
        if !self.known.contains_key(&hash) {
            return self.shared.host.notify_block_unavailable(cid).await;
        }
        if self.wanted.is_empty() {
            self.moved_at = Instant::now();
        }
        let wanted = self.wanted.entry(hash.clone()).or_insert_with(|| {
            self.waiting.push_back(hash);
            Wanted::default()
        });
        if !wanted.names.contains(&cid) {
            wanted.names.push(cid);
        }
        Ok(())
    }

    /// Asks for as much as there is room for.
    async fn ask(&mut self, seeker: &BlockSession) -> Result<(), Stopped> {
        let mut wants = Vec::new();
        while let Some(hash) = self.waiting.front() {
            let Some(Known { cid, bytes }) = self.known.get(hash) else { break };
            if !self.shared.buffer.begin(self.id, cid, *bytes) {
                break;
            }
            wants.push(Want { len: *bytes, ..Want::new(cid.clone()) });
            if let Some(wanted) = self.wanted.get_mut(hash) {
                wanted.is_asked = true;
            }
            self.waiting.pop_front();
        }
        if wants.is_empty() { Ok(()) } else { seeker.want(wants).await }
    }

    async fn arrived(&mut self, block: &Block) -> Result<(), Stopped> {
        self.moved_at = Instant::now();
        self.learn(block);
        self.shared.buffer.arrived(self.id, block);
        let is_root = block.cid().hash() == self.page.hash();
        if is_root && self.direction == Direction::ToBrowsers && self.page_client.is_none() {
            self.used_at = Instant::now();
            self.page_client = Some(self.start_page_client(Have::All));
        }
        let Some(Wanted { names, .. }) = self.wanted.remove(block.cid().hash()) else {
            return Ok(());
        };
        for name in names {
            self.shared.host.notify_block_stored(name, block.bytes().len()).await?;
        }
        Ok(())
    }

    /// What a node links to belongs to the page too.
    fn learn(&mut self, block: &Block) {
        let Some(known) = self.known.get(block.cid().hash()) else { return };
        if known.cid.codec() != Codec::DAG_PB {
            return;
        }
        // What is no node has no links; who fetches it will find out.
        let links = Node::decode(block.bytes()).map(|node| node.links).unwrap_or_default();
        for link in links {
            if !self.shared.router.learn(self.id, &link.cid) {
                tracing::debug!(page = self.name, "has more blocks than can cross");
                break;
            }
            // Of a leaf that is its length; of anything else it says nothing here.
            let is_leaf = link.cid.codec() == Codec::RAW;
            let bytes = link.tsize.filter(|_| is_leaf).and_then(|bytes| bytes.try_into().ok());
            let bytes = bytes.filter(|bytes| *bytes as usize <= watchfire_content::BLOCK_BYTES_MAX);
            let hash = link.cid.hash().clone();
            self.known.entry(hash).or_insert(Known { cid: link.cid, bytes });
        }
    }

    fn is_over(&self) -> bool {
        let available = self.shared.availability.of(&self.name);
        let is_idle = self.is_at_rest() && self.used_at.elapsed() > IDLE_MAX;
        match self.direction {
            Direction::ToPeers => !available.is_available || is_idle,
            Direction::ToBrowsers => !available.is_watched || (available.is_available && is_idle),
        }
    }

    fn is_at_rest(&self) -> bool {
        self.wanted.values().all(|wanted| wanted.names.is_empty())
    }

    fn comes_nothing(&self) -> bool {
        !self.is_at_rest() && self.moved_at.elapsed() > NOTHING_MAX
    }

    /// Whoever waits for anything is told that it is not here.
    async fn lack_all(&mut self) -> Result<(), Stopped> {
        self.waiting.clear();
        for (hash, wanted) in std::mem::take(&mut self.wanted) {
            if let Some(known) = self.known.get(&hash) {
                self.shared.buffer.abandon(&known.cid);
            }
            for name in wanted.names {
                self.shared.host.notify_block_unavailable(name).await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Stopped> {
        self.page_client = None;
        self.shared.router.close(self.id);
        self.wants.close();
        self.lack_all().await?;
        while let Ok(cid) = self.wants.try_recv() {
            self.shared.host.notify_block_unavailable(cid).await?;
        }
        self.shared.buffer.end(self.id);
        Ok(())
    }
}
