//! Visits to a real server: two hosts that meet on a page alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{ConnectionState, Have, PageClient, PageClientOptions, ServerUrl};
use watchfire_server::{RunningServer, Server, Settings};
use watchfire_store::{LockedMemoryStore, ReadBlocks as _, Stores, WriteBlocks as _};

const SOON: Duration = Duration::from_secs(30);

fn serve(change: impl FnOnce(&mut Settings)) -> (RunningServer, ServerUrl) {
    let mut settings = Settings::default();
    settings.server.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    settings.server.shards = 2;
    settings.server.drain_period = Duration::from_millis(100);
    change(&mut settings);
    let server = Server::new(settings).with_pages().start().expect("it starts");
    let site = format!("http://{}", server.address()).parse().expect("a server");
    (server, site)
}

/// A file of blocks like no other.
fn shared(bytes: usize) -> (Arc<LockedMemoryStore>, Cid) {
    let store = Arc::new(LockedMemoryStore::new(64 << 20));
    let content: Vec<u8> = (0..bytes / 8).flat_map(|n| (n as u64).to_le_bytes()).collect();
    let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025).expect("a good profile");
    let mut put = |block: Block| store.put(&block);
    builder.write(&content, &mut put).expect("there is room");
    let root = builder.finish(&mut put).expect("there is room");
    (store, root.cid)
}

async fn host(store: Arc<LockedMemoryStore>) -> Host {
    Host::start(HostSettings::default(), Stores::default(), store).await.expect("it starts")
}

fn visit(host: &Host, site: &ServerUrl, page: &Cid, have: Have) -> PageClient {
    let connector = site.connector().expect("a way");
    let plan = PageClientOptions {
        connector,
        page: page.clone(),
        have,
        request_filter: None,
        join_params: Value::Null,
    };
    PageClient::start(host, plan)
}

async fn is(visit: &PageClient, wanted: impl Fn(&watchfire_page_client::PageStatus) -> bool) {
    let mut status = visit.status();
    let status = timeout(SOON, status.wait_for(|status| wanted(status))).await;
    assert!(status.expect("in time").is_ok());
}

#[tokio::test]
async fn blocks_go_from_one_to_another_through_a_page() {
    let (server, site) = serve(|_| {});
    let (store, root) = shared(5_000_000);
    let giver = host(store.clone()).await;
    let given = visit(&giver, &site, &root, Have::All);
    is(&given, |status| status.connection == ConnectionState::Joined).await;

    let kept = Arc::new(LockedMemoryStore::new(64 << 20));
    let taker = host(kept.clone()).await;
    let taken = visit(&taker, &site, &root, Have::None);
    let mut fetch = taker.fetch(root.clone()).await.expect("a fetch");
    timeout(SOON, fetch.finished()).await.expect("in time").expect("all of it");
    assert_eq!(kept.lock().len(), store.lock().len());
    taken.set_have(Have::All);
    is(&given, |status| status.counts.holders == 2).await;

    drop(taken);
    is(&given, |status| status.counts.watching == 1 && status.peers == 0).await;
    let stats = taker.stats().await.expect("it runs");
    assert_eq!(stats.peers, 0, "the guests of a visit are gone with it");
    server.drain().await;
}

#[tokio::test]
async fn small_frames_small_budgets_and_lost_connections_only_cost_time() {
    let (server, site) = serve(|settings| {
        settings.limits.relay_frame_bytes_max = 20_000;
        settings.limits.relay_bytes_per_second_per_peer = 4 << 20;
        settings.limits.queued_bytes_max = 128 << 10;
    });
    let (store, root) = shared(9_000_000);
    let giver = host(store.clone()).await;
    let given = visit(&giver, &site, &root, Have::All);
    let kept = Arc::new(LockedMemoryStore::new(64 << 20));
    let taker = host(kept.clone()).await;
    let _taken = visit(&taker, &site, &root, Have::None);
    let mut fetch = taker.fetch(root.clone()).await.expect("a fetch");
    while fetch.progress().fetched_blocks < 2 {
        timeout(SOON, fetch.next()).await.expect("in time").expect("not the end");
    }
    // Who holds it loses the connection, and comes back.
    drop(given);
    let _given = visit(&giver, &site, &root, Have::All);
    timeout(SOON, fetch.finished()).await.expect("in time").expect("all of it");
    assert!(kept.has(&root));
    let stats = taker.stats().await.expect("it runs");
    assert_eq!(stats.dropped_peers, 0);
    server.drain().await;
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why() {
    let (server, site) = serve(|settings| settings.limits.peers_per_page_max = 0);
    let (store, root) = shared(1000);
    let giver = host(store).await;
    let given = visit(&giver, &site, &root, Have::All);
    is(&given, |status| status.connection == ConnectionState::Rejected("page full".into())).await;
    server.drain().await;
    is(&given, |status| matches!(status.connection, ConnectionState::Disconnected(_))).await;
}
