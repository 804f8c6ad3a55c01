//! A live page that this peer reads or publishes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use watchfire_content::live::{Entry, History, LiveError, NewEntry, Offer, PublisherKey};
use watchfire_content::{Block, Cid, Codec, Version};
use watchfire_p2p::{FetchError, Host};
use watchfire_store::{StoreError, WriteBlocks};
use watchfire_types::PeerId;

use crate::heads::{HeadMessage, HeadReceiver, LiveHeads, ReceivedHeads, head_queue};
use crate::messages::Have;
use crate::page_client::PageClient;

/// Nodes and contents that are fetched at the same time.
const FETCHES_MAX: usize = 16;
/// A peer with more invalid heads is banned.
const INVALID_MAX: u32 = 16;
/// Peers whose invalid heads are counted. When another one sends an invalid head, all counts begin again.
const COUNTED_PEERS_MAX: usize = 256;
/// A content of at most this many bytes goes with the head of its entry.
const VOUCHED_CONTENT_BYTES_MAX: u64 = 2048;

/// The ends of the channels by which a [`PageClient`] and a [`LivePage`] exchange heads.
#[derive(Debug)]
pub struct LiveChannel {
    heads: watch::Sender<HeadMessage>,
    received: HeadReceiver,
}

impl LiveChannel {
    /// Returns the end of the page, and the end of its client.
    pub fn new() -> (Self, LiveHeads) {
        let (heads, current) = watch::channel(HeadMessage::default());
        let (sender, received) = head_queue();
        (LiveChannel { heads, received }, LiveHeads { current, received: sender })
    }
}

/// A live page, as one of its peers.
///
/// It verifies the heads of other peers, fetches the entries and their content, and passes heads on.
pub struct LivePage {
    host: Arc<Host>,
    store: Arc<dyn WriteBlocks>,
    client: PageClient,
    channel: LiveChannel,
    history: History,
    fetches: JoinSet<(Cid, Result<(), FetchError>)>,
    fetching: HashSet<Cid>,
    /// The contents of the entries that were not reported yet, up to `planned`, and whether all their blocks
    /// are here.
    contents: BTreeMap<u32, Content>,
    /// The number of the last entry whose content is fetched or here.
    planned: u32,
    /// The number of the last entry that was reported.
    reported: u32,
    end: Option<LiveEnd>,
    invalid_heads: HashMap<PeerId, u32>,
}

struct Content {
    cid: Cid,
    /// `None` while blocks are missing.
    fetched: Option<Result<(), String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveEvent {
    /// The next entry is here with all its content.
    Entry(Entry),
    /// The next entry is here, but its content is invalid.
    Unreadable { entry: Entry, cause: String },
    /// No entry follows that all readers agree on.
    End(LiveEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveEnd {
    /// The key of the page was used in two places. Entries from this number on are disputed.
    Split { number: u32 },
    /// The entry with this number is invalid: the publisher's program has made it.
    Invalid { number: u32 },
}

#[derive(Debug, thiserror::Error)]
pub enum LivePageError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LivePage {
    /// Begins to exchange heads. `client` has joined the page with the other end of `channel`, and `host`
    /// serves `store`. The entries of `history` are in the store, and are not reported.
    pub fn new(
        host: Arc<Host>,
        store: Arc<dyn WriteBlocks>,
        client: PageClient,
        channel: LiveChannel,
        history: History,
    ) -> Self {
        let reported = history.last();
        let page = LivePage {
            host,
            store,
            client,
            channel,
            history,
            fetches: JoinSet::new(),
            fetching: HashSet::new(),
            contents: BTreeMap::new(),
            planned: reported,
            reported,
            end: None,
            invalid_heads: HashMap::new(),
        };
        page.announce(Vec::new());
        page
    }

    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Takes the head of an earlier run. Its entries are fetched, from the store as far as they are there, and reported.
    pub fn begin_with(&mut self, head: &[u8]) {
        match self.history.offer(head) {
            Ok(_) => self.announce(Vec::new()),
            Err(error) => tracing::debug!(%error, "ignored the stored head of a live page"),
        }
    }

    /// Appends an entry as the publisher. All blocks of its content are served already.
    pub async fn append(&mut self, key: &PublisherKey, new: NewEntry) -> Result<(), LivePageError> {
        let is_short =
            new.content.codec() == Codec::RAW && new.content_bytes <= VOUCHED_CONTENT_BYTES_MAX;
        let content = if is_short { self.store.get(&new.content)? } else { None };
        let (block, _) = self.history.append(key, new)?;
        self.store.put(&block)?;
        let vouched = [Some(&block), content.as_ref()].into_iter().flatten();
        let vouched = vouched.map(|block| block.bytes().clone()).collect();
        let (cid, len) = (block.cid().clone(), block.bytes().len());
        self.host.notify_block_stored(cid, len).await.map_err(|_| FetchError::Stopped)?;
        self.reported = self.history.last();
        self.planned = self.reported;
        self.announce(vouched);
        Ok(())
    }

    /// Waits for the next event, in the order of the entries. It may be dropped while it waits.
    pub async fn next(&mut self) -> Result<LiveEvent, LivePageError> {
        loop {
            self.start_fetches();
            if let Some(event) = self.take_event() {
                return Ok(event);
            }
            tokio::select! {
                Some(received) = self.channel.received.take() => self.handle_heads(received).await?,
                Some(fetched) = self.fetches.join_next() => {
                    let (cid, result) = fetched.map_err(|_| FetchError::Stopped)?;
                    self.fetching.remove(&cid);
                    self.handle_fetched(&cid, result)?;
                }
                else => return Err(FetchError::Stopped.into()),
            }
        }
    }

    async fn handle_heads(&mut self, received: ReceivedHeads) -> Result<(), LivePageError> {
        let ReceivedHeads { peer, message: HeadMessage { heads, vouched } } = received;
        for head in &heads {
            match self.history.offer(head) {
                Ok(Offer::Newer) => self.take_vouched(&vouched).await?,
                Ok(_) => self.announce(Vec::new()),
                Err(error) => {
                    tracing::debug!(%peer, %error, "received an invalid head");
                    self.note_invalid_head(peer);
                }
            }
        }
        Ok(())
    }

    fn note_invalid_head(&mut self, peer: PeerId) {
        let is_counted = self.invalid_heads.contains_key(&peer);
        if !is_counted && self.invalid_heads.len() == COUNTED_PEERS_MAX {
            self.invalid_heads.clear();
        }
        let invalid = self.invalid_heads.entry(peer).or_default();
        *invalid += 1;
        if *invalid > INVALID_MAX {
            self.invalid_heads.remove(&peer);
            self.client.ban(peer);
        }
    }

    /// Takes the blocks that came with the newest head, if they are those of its entry, and passes them on with it. Blocks that are
    /// missing are fetched.
    async fn take_vouched(&mut self, vouched: &[Bytes]) -> Result<(), LivePageError> {
        let blocks = self.verify_vouched(vouched);
        for block in &blocks {
            self.store.put(block)?;
        }
        self.announce(blocks.iter().map(|block| block.bytes().clone()).collect());
        if let Some(node) = blocks.first()
            && let Err(error) = self.history.insert(node)
        {
            tracing::debug!(cid = %node.cid(), %error, "an entry of a live page is invalid");
        }
        for block in &blocks {
            let (cid, len) = (block.cid().clone(), block.bytes().len());
            self.host.notify_block_stored(cid, len).await.map_err(|_| FetchError::Stopped)?;
        }
        Ok(())
    }

    /// Returns the node that the newest head vouches for and its content, as far as they are among these blocks.
    fn verify_vouched(&self, vouched: &[Bytes]) -> Vec<Block> {
        let mut bytes = vouched.iter().cloned();
        let newest = self.history.heads().next();
        let node = bytes.next().and_then(|node| Block::dag_pb(Version::V1, node).ok());
        let (Some(newest), Some(node)) = (newest, node) else { return Vec::new() };
        if newest.entry != *node.cid() {
            return Vec::new();
        }
        let content = bytes.next().and_then(|content| Block::raw(content).ok());
        let entry = Entry::decode(node.bytes()).ok();
        let content = content
            .filter(|content| entry.as_ref().is_some_and(|entry| entry.content == *content.cid()));
        [node].into_iter().chain(content).collect()
    }

    fn handle_fetched(
        &mut self,
        cid: &Cid,
        result: Result<(), FetchError>,
    ) -> Result<(), LivePageError> {
        let mut contents =
            self.contents.values_mut().filter(|content| content.cid == *cid).peekable();
        match result {
            Err(error @ FetchError::Dag(_)) if contents.peek().is_some() => {
                contents.for_each(|content| content.fetched = Some(Err(error.to_string())));
                return Ok(());
            }
            result => result?,
        }
        contents.for_each(|content| content.fetched = Some(Ok(())));
        let Some(block) = self.store.get(cid)? else { return Ok(()) };
        if let Err(error) = self.history.insert(&block) {
            tracing::debug!(%cid, %error, "an entry of a live page is invalid");
        }
        self.announce(Vec::new());
        Ok(())
    }

    /// Fetches what is missing: nodes first, then the contents of the first entries.
    fn start_fetches(&mut self) {
        let mut pending =
            self.contents.values().filter(|content| content.fetched.is_none()).count();
        while pending < FETCHES_MAX
            && let Some(entry) = self.history.entry(self.planned + 1)
        {
            let content = Content { cid: entry.content.clone(), fetched: None };
            self.contents.insert(entry.number, content);
            self.planned = entry.number;
            pending += 1;
        }
        let nodes = self.history.missing().map(|cid| (cid, false));
        let contents = self.contents.values().filter(|content| content.fetched.is_none());
        let contents = contents.map(|content| (&content.cid, true));
        let room = FETCHES_MAX - self.fetching.len();
        let wanted = nodes.chain(contents).filter(|(cid, _)| !self.fetching.contains(cid));
        let wanted: Vec<(Cid, bool)> =
            wanted.take(room).map(|(cid, is)| (cid.clone(), is)).collect();
        for (cid, is_content) in wanted {
            self.fetching.insert(cid.clone());
            let host = Arc::clone(&self.host);
            self.fetches.spawn(async move {
                let result = fetch(&host, &cid, is_content).await;
                (cid, result)
            });
        }
        let has_contents = pending == 0 && self.planned == self.history.last();
        let is_complete = self.history.is_complete() && has_contents;
        self.client.set_have(if is_complete { Have::All } else { Have::Some });
    }

    fn take_event(&mut self) -> Option<LiveEvent> {
        let split = self.history.split().map(|split| LiveEnd::Split { number: split.number });
        let invalid = self.history.invalid().map(|number| LiveEnd::Invalid { number });
        let end = split.or(invalid);
        let number = self.reported + 1;
        let is_disputed = matches!(end, Some(LiveEnd::Split { number: first }) if number >= first);
        if !is_disputed && let Some(event) = self.take_entry(number) {
            self.reported = number;
            return Some(event);
        }
        if end.is_some() && end != self.end {
            self.end = end;
            return end.map(LiveEvent::End);
        }
        None
    }

    /// Takes the entry with this number, if all of it is here.
    fn take_entry(&mut self, number: u32) -> Option<LiveEvent> {
        let fetched = self.contents.get(&number)?.fetched.clone()?;
        let entry = self.history.entry(number)?.clone();
        self.contents.remove(&number);
        Some(match fetched {
            Ok(()) => LiveEvent::Entry(entry),
            Err(cause) => LiveEvent::Unreadable { entry, cause },
        })
    }

    /// Makes the heads that peers should have those of the history. `vouched`: the blocks of the newest entry.
    fn announce(&self, vouched: Vec<Bytes>) {
        let heads: Vec<Bytes> =
            self.history.heads().map(|head| Bytes::copy_from_slice(head.bytes())).collect();
        self.channel.heads.send_if_modified(|before| {
            let is_new = before.heads != heads;
            if is_new {
                *before = HeadMessage { heads, vouched };
            }
            is_new
        });
    }
}

/// Fetches all blocks of a content, or one node.
async fn fetch(host: &Host, cid: &Cid, is_content: bool) -> Result<(), FetchError> {
    let mut fetch = match is_content {
        true => host.fetch(cid.clone()).await?,
        false => host.fetch_block(cid.clone()).await?,
    };
    fetch.finished().await?;
    Ok(())
}
