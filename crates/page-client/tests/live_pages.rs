//! Live pages on a real server, with publishers and readers in this process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use watchfire::{RunningServer, Server, Settings};
use watchfire_content::live::{Beginning, Form, Head, History, NewEntry, PublisherKey};
use watchfire_content::{Block, Version};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{
    ConnectionState, Have, HeadMessage, HeadSender, LiveChannel, LiveEnd, LiveEvent, LivePage,
    PageClient, PageClientOptions, ReceivedHeads, ServerUrl,
};
use watchfire_store::{LockedMemoryStore, ReadBlocks as _, Stores, WriteBlocks as _};
use watchfire_types::PeerId;

const TIMEOUT: Duration = Duration::from_secs(30);

fn start_server() -> (RunningServer, ServerUrl) {
    let mut settings = Settings::default();
    settings.server.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    settings.server.shards = 2;
    settings.server.drain_period = Duration::from_millis(100);
    let server = Server::new(settings).with(watchfire_pages::Pages::new());
    let server = server.start().expect("the server starts");
    let url = format!("http://{}", server.address()).parse().expect("a server URL");
    (server, url)
}

fn key() -> PublisherKey {
    PublisherKey::from_seed(&[9; 32])
}

fn beginning() -> Beginning {
    Beginning { key: key().public(), time_ms: 1_790_000_000_000, title: "Log".to_owned() }
}

/// The content of an entry, and the entry. The same text gives the same entry.
fn text_entry(text: &str) -> (Block, NewEntry) {
    let block = Block::raw(text.to_owned().into()).expect("a short text");
    let new = NewEntry {
        time_ms: 1_790_000_001_000,
        form: Form::Text,
        name: String::new(),
        content: block.cid().clone(),
        content_bytes: block.bytes().len() as u64,
    };
    (block, new)
}

/// A peer of the page, and the store of its blocks.
struct Peer {
    page: LivePage,
    host: Arc<Host>,
    store: Arc<LockedMemoryStore>,
    heads: HeadSender,
}

impl Peer {
    /// Joins the page with these texts of the publisher.
    async fn join(url: &ServerUrl, texts: &[&str]) -> Peer {
        let store = Arc::new(LockedMemoryStore::new(64 << 20));
        let block = beginning().block().expect("a short title");
        store.put(&block).expect("there is room");
        let mut history = History::new(block.cid().clone(), beginning());
        for text in texts {
            let (content, new) = text_entry(text);
            let (node, _) = history.append(&key(), new).expect("an entry");
            store.put(&content).expect("there is room");
            store.put(&node).expect("there is room");
        }
        let host = Host::start(HostSettings::default(), Stores::default(), store.clone());
        let host = Arc::new(host.await.expect("the host starts"));
        let (channel, heads) = LiveChannel::new();
        let received = heads.received.clone();
        let options = PageClientOptions {
            connector: url.connector().expect("a connector"),
            home: None,
            at: Vec::new(),
            page: block.cid().clone(),
            have: Have::All,
            request_filter: None,
            join_params: Value::Null,
            live: Some(heads),
            direct: None,
        };
        let client = PageClient::start(&host, options);
        let mut status = client.status();
        let joined = status.wait_for(|status| status.connection == ConnectionState::Joined);
        timeout(TIMEOUT, joined).await.expect("in time").expect("it joins");
        let page = LivePage::new(host.clone(), store.clone(), client, channel, history);
        Peer { page, host, store, heads: received }
    }

    /// Appends a text as the publisher.
    async fn append(&mut self, text: &str) {
        let (block, new) = text_entry(text);
        let (cid, len) = (block.cid().clone(), block.bytes().len());
        self.store.put(&block).expect("there is room");
        self.host.notify_block_stored(cid, len).await.expect("a running host");
        self.page.append(&key(), new).await.expect("an entry");
    }

    /// Takes a head as if a peer had sent it.
    fn offer(&mut self, peer: PeerId, head: &Head, blocks: &[&Block]) {
        let bytes = head.bytes().to_vec().into();
        let vouched = blocks.iter().map(|block| block.bytes().clone()).collect();
        let message = HeadMessage { heads: vec![bytes], vouched };
        self.heads.put(ReceivedHeads { peer, message });
    }

    async fn next(&mut self) -> LiveEvent {
        timeout(TIMEOUT, self.page.next()).await.expect("in time").expect("a running host")
    }

    async fn reads(&mut self, number: u32) {
        match self.next().await {
            LiveEvent::Entry(entry) => assert_eq!(entry.number, number),
            event => panic!("entry {number} and not {event:?}"),
        }
    }
}

#[tokio::test]
async fn a_key_that_is_used_in_two_places_is_reported_to_all() {
    let (server, url) = start_server();
    let mut thief = Peer::join(&url, &["1", "2", "3"]).await;
    let mut reader = Peer::join(&url, &[]).await;
    thief.append("a forged 4").await;
    for number in 1..=4 {
        reader.reads(number).await;
    }
    // The publisher comes back, and does not know the forged entry.
    let mut publisher = Peer::join(&url, &["1", "2", "3", "4", "5"]).await;
    let split = LiveEvent::End(LiveEnd::Split { number: 4 });
    assert_eq!(reader.next().await, split);
    assert_eq!(publisher.next().await, split);
    assert_eq!(thief.next().await, split);
    server.drain().await;
}

#[tokio::test]
async fn a_publisher_with_an_invalid_entry_ends_the_page_before_it() {
    let (server, url) = start_server();
    let bad = Block::dag_pb(Version::V1, "no entry".into()).expect("a short block");
    let page = beginning().block().expect("a short title");
    let head: Head = key().sign(page.cid(), 1, bad.cid()).expect("a number from 1");
    let mut reader = Peer::join(&url, &[]).await;
    reader.store.put(&bad).expect("there is room");
    reader.offer(PeerId(1), &head, &[]);
    assert_eq!(reader.next().await, LiveEvent::End(LiveEnd::Invalid { number: 1 }));
    server.drain().await;
}

#[tokio::test]
async fn an_entry_that_comes_with_its_head_is_not_requested() {
    let (server, url) = start_server();
    let page = beginning().block().expect("a short title");
    let mut history = History::new(page.cid().clone(), beginning());
    let (first, new) = text_entry("first");
    let (first_node, first_head) = history.append(&key(), new).expect("an entry");
    let (second, new) = text_entry("second");
    let (second_node, second_head) = history.append(&key(), new).expect("an entry");
    // No other peer has the page.
    let mut reader = Peer::join(&url, &[]).await;
    reader.offer(PeerId(1), &first_head, &[&first_node, &first]);
    reader.reads(1).await;
    // Blocks of another entry are dropped.
    reader.offer(PeerId(1), &second_head, &[&first_node, &first]);
    reader.offer(PeerId(2), &second_head, &[&second_node, &second]);
    assert!(timeout(Duration::from_millis(200), reader.page.next()).await.is_err());
    assert!(reader.store.get(second_node.cid()).expect("it is memory").is_none());
    server.drain().await;
}
