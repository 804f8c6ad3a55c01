//! The transfer of one page's blocks in one direction.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use watchfire::internal::OwnClientKey;
use watchfire_bitswap::Want;
use watchfire_content::dag_pb::Node;
use watchfire_content::{Block, Cid, Codec, Multihash};
use watchfire_p2p::{BlockSession, Host, PeerId, SessionEvent, Stopped};
use watchfire_page_client::{Connector, Have, PageClient, PageClientOptions};

use super::block_buffer::{BlockBuffer, TransferId};
use super::page_source::PageSource;
use super::router::{Direction, GatewayRouter, NewTransfer};
use crate::page::Availability;

/// How often a transfer checks whether it is still needed.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// How long a transfer stays open without a want, unless both sides have the page.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long after a want the peers are asked whether one has the whole page. Each pause until they are asked again is
/// twice as long.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// When no wanted block arrives for this long, the wanted blocks count as unavailable.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct TransferShared {
    pub host: Arc<Host>,
    pub router: Arc<GatewayRouter>,
    pub buffer: Arc<BlockBuffer>,
    pub availability: Arc<Availability>,
    pub connector: Arc<dyn Connector>,
    pub key: OwnClientKey,
}

/// Transfers one page's blocks in one direction, for as long as a peer wants them.
pub(super) struct PageTransfer {
    shared: Arc<TransferShared>,
    id: TransferId,
    direction: Direction,
    page: Cid,
    name: Arc<str>,
    wants: mpsc::Receiver<Cid>,
    /// The known blocks of the page: their CIDs in it, and their sizes.
    known: HashMap<Multihash, Known>,
    /// Wanted blocks that were not requested yet, because the buffer had no room.
    waiting: VecDeque<Multihash>,
    /// The CIDs under which each block is wanted. Empty for a root that only the transfer wants.
    wanted: HashMap<Multihash, Vec<Cid>>,
    page_client: Option<PageClient>,
    /// Whether a libp2p peer has the page.
    source: PageSource,
    last_looked_at: Instant,
    look_pause: Duration,
    /// Whether the buffer keeps its blocks only as its cache, because no peer wants any.
    is_released: bool,
    last_want_at: Instant,
    last_block_at: Instant,
}

struct Known {
    cid: Cid,
    bytes: Option<u32>,
    /// Whether its links are known blocks too.
    is_read: bool,
}

impl PageTransfer {
    pub fn new(shared: Arc<TransferShared>, opened: NewTransfer) -> Self {
        let NewTransfer { id, direction, page, wants } = opened;
        let root = Known { cid: page.clone(), bytes: None, is_read: false };
        PageTransfer {
            source: PageSource::new(shared.host.clone(), page.clone()),
            shared,
            id,
            direction,
            name: page.to_string().into(),
            known: [(page.hash().clone(), root)].into(),
            page,
            wants,
            waiting: VecDeque::new(),
            wanted: HashMap::new(),
            page_client: None,
            last_looked_at: Instant::now(),
            look_pause: LOOK_PERIOD,
            is_released: false,
            last_want_at: Instant::now(),
            last_block_at: Instant::now(),
        }
    }

    /// Runs until no peer wants the page.
    pub async fn run(mut self) {
        tracing::debug!(page = &*self.name, direction = ?self.direction, "page transfer started");
        // Both fail only when the host has stopped.
        let _ = self.transfer().await;
        let _ = self.end().await;
        tracing::debug!(page = &*self.name, direction = ?self.direction, "page transfer ended");
    }

    async fn transfer(&mut self) -> Result<(), Stopped> {
        let mut session = self.shared.host.open_session().await?;
        match self.direction {
            Direction::ToPeers => self.page_client = Some(self.start_page_client(Have::None)),
            Direction::ToBrowsers => self.request_root(&session).await?,
        }
        let mut check = interval(CHECK_PERIOD);
        let shared = self.shared.clone();
        loop {
            // Enabled before the check for room, so that no notification is missed.
            let freed = shared.buffer.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            self.request_waiting(&session).await?;
            tokio::select! {
                Some(cid) = self.wants.recv() => self.want(cid).await?,
                event = session.next() => match event {
                    Some(SessionEvent::Block { block, from }) => {
                        self.handle_block(&block, from).await?;
                    }
                    Some(SessionEvent::Searching(_)) => {}
                    None => return Err(Stopped),
                },
                has_page = self.source.asked() => match (self.direction, &self.page_client) {
                    (Direction::ToBrowsers, _) if !has_page => {
                        session = self.handle_source_lost().await?;
                    }
                    // The browsers are told that a peer has the page as well, or has it no longer.
                    (Direction::ToPeers, Some(client)) => {
                        client.set_have(if has_page { Have::All } else { Have::None });
                    }
                    _ => {}
                },
                () = freed => {}
                _ = check.tick() => {
                    if self.is_over() || (self.is_stalled() && self.direction == Direction::ToPeers)
                    {
                        return Ok(());
                    }
                    if self.is_idle() && !std::mem::replace(&mut self.is_released, true) {
                        shared.buffer.end(self.id);
                    }
                    if self.is_stalled() {
                        session = self.handle_source_lost().await?;
                    } else if self.lacks_root() {
                        // A browser sent it, which says nothing about libp2p peers.
                        self.request_root(&session).await?;
                    } else if self.direction == Direction::ToPeers {
                        self.look_for_peers();
                    }
                }
            }
        }
    }

    /// No libp2p peer has the page any more: it is unavailable until another is found.
    async fn handle_source_lost(&mut self) -> Result<BlockSession, Stopped> {
        tracing::debug!(page = &*self.name, "no libp2p peer has the page any more");
        self.page_client = None;
        self.source = PageSource::new(self.shared.host.clone(), self.page.clone());
        self.shared.router.set_has_source(self.id, false);
        self.reject_wanted().await?;
        self.forget_if_gone();
        let session = self.shared.host.open_session().await?;
        self.request_root(&session).await?;
        Ok(session)
    }

    /// Asks whether a peer has the whole page now, once none wants a block of it. The transfer to browsers, if
    /// there is one, knows already, and the peers count once.
    fn look_for_peers(&mut self) {
        if self.last_want_at > self.last_looked_at {
            self.look_pause = LOOK_PERIOD;
        }
        let last = self.last_looked_at.max(self.last_want_at);
        let is_due = last.elapsed() >= self.look_pause;
        let is_unknown = !self.has_wants() && !self.source.is_known();
        if is_due && is_unknown && !self.shared.router.is_open(&self.name, Direction::ToBrowsers) {
            self.last_looked_at = Instant::now();
            self.look_pause *= 2;
            self.source.look();
        }
    }

    /// Whether a transfer to browsers neither has a source nor searches for one.
    fn lacks_root(&self) -> bool {
        self.direction == Direction::ToBrowsers
            && self.page_client.is_none()
            && !self.wanted.contains_key(self.page.hash())
    }

    /// Drops the blocks of the page unless a browser here has all of it.
    fn forget_if_gone(&self) {
        if !self.shared.availability.of(&self.name).is_available {
            self.shared.buffer.forget(&self.name);
        }
    }

    /// Whether the page is available on the side from which its blocks come.
    fn has_source(&self) -> bool {
        match self.direction {
            Direction::ToPeers => self.shared.availability.of(&self.name).is_available,
            Direction::ToBrowsers => self.page_client.is_some(),
        }
    }

    /// Requests the root, to find out whether a libp2p peer has the page.
    async fn request_root(&mut self, session: &BlockSession) -> Result<(), Stopped> {
        let root = self.page.hash().clone();
        self.wanted.entry(root).or_default();
        session.want(vec![Want::new(self.page.clone())]).await
    }

    fn start_page_client(&self, have: Have) -> PageClient {
        let (router, id) = (self.shared.router.clone(), self.id);
        let options = PageClientOptions {
            connector: self.shared.connector.clone(),
            // A gateway joins pages at its own server only.
            home: None,
            at: Vec::new(),
            page: self.page.clone(),
            have,
            // The page's peers must not see requests for blocks of other content.
            request_filter: Some(Arc::new(move |cid| router.is_part_of(id, cid))),
            join_params: self.shared.key.to_json(),
            live: None,
            direct: None,
        };
        PageClient::start(&self.shared.host, options)
    }

    async fn want(&mut self, cid: Cid) -> Result<(), Stopped> {
        self.last_want_at = Instant::now();
        self.is_released = false;
        let hash = cid.hash().clone();
        // The block may have arrived in the meantime, or in an earlier transfer of the page.
        if self.has_source()
            && let Some(block) = self.shared.buffer.peek(&cid)
        {
            self.learn_links(&block);
            self.shared.buffer.store(self.id, &self.name, &block);
            return self.notify_obtained(cid, block.bytes().len()).await;
        }
        if !self.known.contains_key(&hash) {
            return self.notify_unavailable(cid).await;
        }
        if self.wanted.is_empty() {
            self.last_block_at = Instant::now();
        }
        let cids = self.wanted.entry(hash.clone()).or_insert_with(|| {
            self.waiting.push_back(hash);
            Vec::new()
        });
        if !cids.contains(&cid) {
            cids.push(cid);
        }
        Ok(())
    }

    /// Requests as many waiting blocks as the buffer has room for.
    async fn request_waiting(&mut self, session: &BlockSession) -> Result<(), Stopped> {
        let mut wants = Vec::new();
        while let Some(hash) = self.waiting.front() {
            let Some(Known { cid, bytes, .. }) = self.known.get(hash) else { break };
            if !self.shared.buffer.reserve(self.id, cid, *bytes) {
                break;
            }
            wants.push(Want { len: *bytes, ..Want::new(cid.clone()) });
            self.waiting.pop_front();
        }
        if wants.is_empty() { Ok(()) } else { session.want(wants).await }
    }

    async fn handle_block(&mut self, block: &Block, from: Option<PeerId>) -> Result<(), Stopped> {
        self.last_block_at = Instant::now();
        self.learn_links(block);
        self.shared.buffer.store(self.id, &self.name, block);
        if self.direction == Direction::ToBrowsers
            && let Some(peer) = from
        {
            self.handle_block_of_source(block, peer);
        }
        for cid in self.wanted.remove(block.cid().hash()).unwrap_or_default() {
            self.notify_obtained(cid, block.bytes().len()).await?;
        }
        Ok(())
    }

    /// A libp2p peer sent a block. With the root, the page is available to browsers.
    fn handle_block_of_source(&mut self, block: &Block, peer: PeerId) {
        let is_root = block.cid().hash() == self.page.hash();
        if is_root && self.page_client.is_none() {
            self.last_want_at = Instant::now();
            self.page_client = Some(self.start_page_client(Have::All));
            self.shared.router.set_has_source(self.id, true);
        }
        if self.page_client.is_some() {
            self.source.note_block(peer);
        }
    }

    async fn notify_obtained(&mut self, cid: Cid, bytes: usize) -> Result<(), Stopped> {
        let receivers = self.direction.receivers();
        self.shared.host.notify_block_obtained(cid, bytes, receivers).await
    }

    async fn notify_unavailable(&mut self, cid: Cid) -> Result<(), Stopped> {
        self.shared.host.notify_block_unavailable(cid, self.direction.receivers()).await
    }

    /// Adds the links of a node to the known blocks of the page.
    fn learn_links(&mut self, block: &Block) {
        let Some(known) = self.known.get_mut(block.cid().hash()) else { return };
        if known.cid.codec() != Codec::DAG_PB || std::mem::replace(&mut known.is_read, true) {
            return;
        }
        // An invalid node has no links. The peer that receives it rejects it.
        let links = Node::decode(block.bytes()).map(|node| node.links).unwrap_or_default();
        for link in links {
            if !self.shared.router.learn(self.id, &link.cid) {
                tracing::debug!(page = &*self.name, "too many blocks for one transfer");
                break;
            }
            // Only for a leaf is `tsize` the length of the block.
            let is_leaf = link.cid.codec() == Codec::RAW;
            let bytes = link.tsize.filter(|_| is_leaf).and_then(|bytes| bytes.try_into().ok());
            let bytes = bytes.filter(|bytes| *bytes as usize <= watchfire_content::BLOCK_BYTES_MAX);
            let hash = link.cid.hash().clone();
            self.known.entry(hash).or_insert(Known { cid: link.cid, bytes, is_read: false });
        }
    }

    fn is_over(&self) -> bool {
        let available = self.shared.availability.of(&self.name);
        // While both sides have the page, each counts the other one.
        let is_counted =
            || self.source.is_known() && self.shared.router.is_half_empty(self.direction);
        let is_unneeded = || self.is_idle() && !is_counted();
        match self.direction {
            Direction::ToPeers => !available.is_available || is_unneeded(),
            Direction::ToBrowsers => {
                !available.is_watched || (available.is_available && is_unneeded())
            }
        }
    }

    fn is_idle(&self) -> bool {
        !self.has_wants() && self.last_want_at.elapsed() > IDLE_TIMEOUT
    }

    fn has_wants(&self) -> bool {
        self.wanted.values().any(|cids| !cids.is_empty())
    }

    fn is_stalled(&self) -> bool {
        self.has_wants() && self.last_block_at.elapsed() > STALL_TIMEOUT
    }

    /// Reports all wanted blocks as unavailable.
    async fn reject_wanted(&mut self) -> Result<(), Stopped> {
        self.waiting.clear();
        for (hash, cids) in std::mem::take(&mut self.wanted) {
            if let Some(known) = self.known.get(&hash) {
                self.shared.buffer.abandon(&known.cid);
            }
            for cid in cids {
                self.notify_unavailable(cid).await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Stopped> {
        self.page_client = None;
        self.shared.router.close(self.id);
        self.wants.close();
        self.reject_wanted().await?;
        while let Ok(cid) = self.wants.try_recv() {
            self.notify_unavailable(cid).await?;
        }
        self.shared.buffer.end(self.id);
        // A block may have arrived after the page was gone.
        self.forget_if_gone();
        Ok(())
    }
}
