//! One page's blocks on their way, one way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bitswap::Want;
use content::dag_pb::Node;
use content::{Block, Cid, Codec, Multihash};
use p2p::{Host, Seeker, Sought, Stopped};
use store::ReadBlocks;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use visit::{Door, Have, Plan, Visit};

use super::crossings::{Crossings, Opened, Way};
use super::door::VisitKey;
use super::standings::Standings;
use super::transit::{LaneId, Transit};

/// How often a lane looks whether it is still of use.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a lane stays that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How long nothing may come of what is wanted, before it is held not to be there.
const NOTHING_MAX: Duration = Duration::from_secs(20);

/// What all lanes share.
pub(super) struct Roads {
    pub host: Arc<Host>,
    pub crossings: Arc<Crossings>,
    pub transit: Arc<Transit>,
    pub standings: Arc<Standings>,
    pub door: Arc<dyn Door>,
    pub key: VisitKey,
}

/// Carries one page's blocks one way, for as long as somebody wants them.
pub(super) struct Lane {
    roads: Arc<Roads>,
    id: LaneId,
    way: Way,
    page: Cid,
    name: String,
    wants: mpsc::Receiver<Cid>,
    /// The blocks of the page that are known: what the page calls them, and how long they are.
    known: HashMap<Multihash, Known>,
    /// What is wanted and not yet asked for.
    waiting: VecDeque<Multihash>,
    /// What is asked for, and by which names it was wanted.
    wanted: HashMap<Multihash, Wanted>,
    visit: Option<Visit>,
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

impl Lane {
    pub fn new(roads: Arc<Roads>, opened: Opened) -> Self {
        let Opened { id, way, page, wants } = opened;
        let root = Known { cid: page.clone(), bytes: None };
        Lane {
            roads,
            id,
            way,
            name: page.to_string(),
            known: [(page.hash().clone(), root)].into(),
            page,
            wants,
            waiting: VecDeque::new(),
            wanted: HashMap::new(),
            visit: None,
            used_at: Instant::now(),
            moved_at: Instant::now(),
        }
    }

    /// Carries until nobody wants anything any more.
    pub async fn run(mut self) {
        tracing::debug!(page = self.name, way = ?self.way, "a page opens to another world");
        // A host that has stopped needs nothing more from us.
        let _ = self.carry().await;
        let _ = self.end().await;
        tracing::debug!(page = self.name, way = ?self.way, "and closes");
    }

    async fn carry(&mut self) -> Result<(), Stopped> {
        let mut seeker = self.roads.host.seek().await?;
        match self.way {
            Way::Out => self.visit = Some(self.begin_visit(Have::None)),
            Way::In => self.seek_root(&seeker).await?,
        }
        let mut look = interval(LOOK_EVERY);
        let roads = self.roads.clone();
        loop {
            // Before looking for room, lest it come in between.
            let freed = roads.transit.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            self.ask(&seeker).await?;
            tokio::select! {
                Some(cid) = self.wants.recv() => self.want(cid).await?,
                sought = seeker.next() => match sought {
                    Some(Sought::Here(block)) => self.arrived(&block).await?,
                    Some(Sought::Searching(_)) => {}
                    None => return Err(Stopped),
                },
                () = freed => {}
                _ = look.tick() => {
                    if self.is_over() {
                        return Ok(());
                    }
                    if self.comes_nothing() {
                        if self.way == Way::Out {
                            return Ok(());
                        }
                        // Whoever had it is gone: the page is dark again, and sought anew.
                        self.visit = None;
                        self.lack_all().await?;
                        seeker = self.roads.host.seek().await?;
                        self.seek_root(&seeker).await?;
                    }
                }
            }
        }
    }

    /// Wants the root, for no other reason than to know who has it.
    async fn seek_root(&mut self, seeker: &Seeker) -> Result<(), Stopped> {
        let root = self.page.hash().clone();
        self.wanted.entry(root).or_default().is_asked = true;
        seeker.want(vec![Want::new(self.page.clone())]).await
    }

    fn begin_visit(&self, have: Have) -> Visit {
        let (crossings, id) = (self.roads.crossings.clone(), self.id);
        let plan = Plan {
            door: self.roads.door.clone(),
            page: self.page.clone(),
            have,
            // What is sought elsewhere is none of this page's business.
            scope: Some(Arc::new(move |cid| crossings.is_of(id, cid))),
            extra: self.roads.key.to_json(),
        };
        Visit::begin(&self.roads.host, plan)
    }

    async fn want(&mut self, cid: Cid) -> Result<(), Stopped> {
        self.used_at = Instant::now();
        let hash = cid.hash().clone();
        if let Some(len) = self.roads.transit.len_of(&cid) {
            // It came in the meantime.
            return self.roads.host.have(cid, usize::try_from(len).unwrap_or(usize::MAX)).await;
        }
        if !self.known.contains_key(&hash) {
            return self.roads.host.lacks(cid).await;
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
    async fn ask(&mut self, seeker: &Seeker) -> Result<(), Stopped> {
        let mut wants = Vec::new();
        while let Some(hash) = self.waiting.front() {
            let Some(Known { cid, bytes }) = self.known.get(hash) else { break };
            if !self.roads.transit.begin(self.id, cid, *bytes) {
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
        self.roads.transit.arrived(self.id, block);
        let is_root = block.cid().hash() == self.page.hash();
        if is_root && self.way == Way::In && self.visit.is_none() {
            self.used_at = Instant::now();
            self.visit = Some(self.begin_visit(Have::All));
        }
        let Some(Wanted { names, .. }) = self.wanted.remove(block.cid().hash()) else {
            return Ok(());
        };
        for name in names {
            self.roads.host.have(name, block.bytes().len()).await?;
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
            if !self.roads.crossings.learn(self.id, &link.cid) {
                tracing::debug!(page = self.name, "has more blocks than can cross");
                break;
            }
            // Of a leaf that is its length; of anything else it says nothing here.
            let is_leaf = link.cid.codec() == Codec::RAW;
            let bytes = link.tsize.filter(|_| is_leaf).and_then(|bytes| bytes.try_into().ok());
            let bytes = bytes.filter(|bytes| *bytes as usize <= content::BLOCK_BYTES_MAX);
            let hash = link.cid.hash().clone();
            self.known.entry(hash).or_insert(Known { cid: link.cid, bytes });
        }
    }

    fn is_over(&self) -> bool {
        let light = self.roads.standings.light(&self.name);
        let is_idle = self.is_at_rest() && self.used_at.elapsed() > IDLE_MAX;
        match self.way {
            Way::Out => !light.is_held || is_idle,
            Way::In => !light.is_watched || (light.is_held && is_idle),
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
                self.roads.transit.abandon(&known.cid);
            }
            for name in wanted.names {
                self.roads.host.lacks(name).await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Stopped> {
        self.visit = None;
        self.roads.crossings.close(self.id);
        self.wants.close();
        self.lack_all().await?;
        while let Ok(cid) = self.wants.try_recv() {
            self.roads.host.lacks(cid).await?;
        }
        self.roads.transit.end(self.id);
        Ok(())
    }
}
