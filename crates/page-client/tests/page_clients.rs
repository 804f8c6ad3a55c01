//! Page clients on a real server: two hosts that are connected only through a page.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;
use watchfire::{RunningServer, Server, Settings};
use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{
    ConnectionState, Have, PageClient, PageClientOptions, PageStatus, ServerUrl,
};
use watchfire_store::{LockedMemoryStore, ReadBlocks as _, Stores, WriteBlocks as _};

const TIMEOUT: Duration = Duration::from_secs(30);

fn start_server(change: impl FnOnce(&mut Settings)) -> (RunningServer, ServerUrl) {
    let mut settings = Settings::default();
    settings.server.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    settings.server.shards = 2;
    settings.server.drain_period = Duration::from_millis(100);
    change(&mut settings);
    let server = Server::new(settings)
        .with(watchfire_pages::Pages::new())
        .start()
        .expect("the server starts");
    let url = format!("http://{}", server.address()).parse().expect("a server URL");
    (server, url)
}

/// A store with a file of this length, whose blocks all differ.
fn store_with_file(bytes: usize) -> (Arc<LockedMemoryStore>, Cid) {
    let store = Arc::new(LockedMemoryStore::new(64 << 20));
    let content: Vec<u8> = (0..bytes / 8).flat_map(|n| (n as u64).to_le_bytes()).collect();
    let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025).expect("a valid profile");
    let mut put = |block: Block| store.put(&block);
    builder.write(&content, &mut put).expect("there is room");
    let root = builder.finish(&mut put).expect("there is room");
    (store, root.cid)
}

async fn host(store: Arc<LockedMemoryStore>) -> Host {
    Host::start(HostSettings::default(), Stores::default(), store).await.expect("the host starts")
}

fn join(host: &Host, url: &ServerUrl, page: &Cid, have: Have) -> PageClient {
    let connector = url.connector().expect("a connector");
    let options = PageClientOptions {
        connector,
        page: page.clone(),
        have,
        request_filter: None,
        join_params: Value::Null,
        live: None,
        direct: None,
    };
    PageClient::start(host, options)
}

async fn wait_for(client: &PageClient, condition: impl Fn(&PageStatus) -> bool) {
    let mut status = client.status();
    let status = timeout(TIMEOUT, status.wait_for(|status| condition(status))).await;
    assert!(status.expect("in time").is_ok());
}

#[tokio::test]
async fn the_request_for_a_socket_names_the_program() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().expect("a server URL");
    let (store, root) = store_with_file(1_000);
    let host = host(store).await;
    let _client = join(&host, &url, &root, Have::All);
    let (stream, _) =
        timeout(TIMEOUT, listener.accept()).await.expect("in time").expect("a client");
    let mut lines = BufReader::new(stream).lines();
    let agent = format!("user-agent: {}", watchfire_types::USER_AGENT);
    loop {
        let line = timeout(TIMEOUT, lines.next_line()).await.expect("in time").unwrap();
        assert!(line.as_deref().is_some_and(|line| !line.is_empty()), "the head has a User-Agent");
        if line.unwrap().to_lowercase() == agent {
            return;
        }
    }
}

#[tokio::test]
async fn blocks_are_transferred_through_a_page() {
    let (server, url) = start_server(|_| {});
    let (store, root) = store_with_file(5_000_000);
    let provider = host(store.clone()).await;
    let holder = join(&provider, &url, &root, Have::All);
    wait_for(&holder, |status| status.connection == ConnectionState::Joined).await;

    let leecher_store = Arc::new(LockedMemoryStore::new(64 << 20));
    let leecher = host(leecher_store.clone()).await;
    let visitor = join(&leecher, &url, &root, Have::None);
    let mut fetch = leecher.fetch(root.clone()).await.expect("a fetch");
    timeout(TIMEOUT, fetch.finished()).await.expect("in time").expect("a complete fetch");
    assert_eq!(leecher_store.lock().len(), store.lock().len());
    visitor.set_have(Have::All);
    wait_for(&holder, |status| status.counts.holders == 2).await;

    drop(visitor);
    wait_for(&holder, |status| status.counts.watching == 1 && status.peers == 0).await;
    let stats = leecher.stats().await.expect("a running host");
    assert_eq!(stats.peers, 0, "the peers of a dropped client are disconnected");
    server.drain().await;
}

#[tokio::test]
async fn a_fetch_completes_with_small_frames_small_budgets_and_a_lost_connection() {
    let (server, url) = start_server(|settings| {
        settings.section_mut::<watchfire_pages::PageLimits>().relay_frame_bytes_max = 20_000;
        settings.section_mut::<watchfire_pages::PageLimits>().relay_bytes_per_second_per_peer =
            4 << 20;
        settings.limits.queued_bytes_max = 128 << 10;
    });
    let (store, root) = store_with_file(9_000_000);
    let provider = host(store.clone()).await;
    let holder = join(&provider, &url, &root, Have::All);
    let leecher_store = Arc::new(LockedMemoryStore::new(64 << 20));
    let leecher = host(leecher_store.clone()).await;
    let _visitor = join(&leecher, &url, &root, Have::None);
    let mut fetch = leecher.fetch(root.clone()).await.expect("a fetch");
    while fetch.progress().fetched_blocks < 2 {
        timeout(TIMEOUT, fetch.next()).await.expect("in time").expect("a running fetch");
    }
    // The holder disconnects and joins again.
    drop(holder);
    let _holder = join(&provider, &url, &root, Have::All);
    timeout(TIMEOUT, fetch.finished()).await.expect("in time").expect("a complete fetch");
    assert!(leecher_store.has(&root));
    let stats = leecher.stats().await.expect("a running host");
    assert_eq!(stats.dropped_peers, 0);
    server.drain().await;
}

#[tokio::test]
async fn a_rejected_join_reports_its_reason() {
    let (server, url) = start_server(|settings| {
        settings.section_mut::<watchfire_pages::PageLimits>().peers_per_page_max = 0
    });
    let (store, root) = store_with_file(1000);
    let provider = host(store).await;
    let holder = join(&provider, &url, &root, Have::All);
    wait_for(&holder, |status| status.connection == ConnectionState::Rejected("page full".into()))
        .await;
    server.drain().await;
    wait_for(&holder, |status| matches!(status.connection, ConnectionState::Disconnected(_))).await;
}
