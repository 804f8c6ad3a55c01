//! Page clients on a real server: two hosts that are connected only through a page.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};
use watchfire::{RunningServer, Server, Settings};
use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{
    ConnectionState, Have, LiveChannel, PageClient, PageClientOptions, PageStatus, ServerUrl,
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
    PageClient::start(host, options(url, page, have))
}

fn options(url: &ServerUrl, page: &Cid, have: Have) -> PageClientOptions {
    PageClientOptions {
        connector: url.connector().expect("a connector"),
        home: Some(url.clone()),
        at: Vec::new(),
        page: page.clone(),
        have,
        request_filter: None,
        join_params: Value::Null,
        live: None,
        direct: None,
    }
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

/// A server of which a page needs only the join and what the test pushes.
struct StandIn {
    listener: TcpListener,
    url: ServerUrl,
}

/// A client that has joined the page at a stand-in.
struct Visit {
    socket: WebSocketStream<TcpStream>,
    topic: Value,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        StandIn { listener, url: url.parse().expect("a server URL") }
    }

    /// Waits for a client that joins, and sends it this reply.
    async fn replies(&self, status: &str, response: Value) -> Visit {
        let visit = async {
            let (stream, _) = self.listener.accept().await.expect("a client");
            let socket = accept_async(stream).await.expect("a WebSocket");
            let mut visit = Visit { socket, topic: Value::Null };
            let join = visit.next("phx_join").await.expect("it joins");
            visit.topic = join[2].clone();
            let payload = json!({ "status": status, "response": response });
            visit.send(json!([join[0], join[1], join[2], "phx_reply", payload])).await;
            visit
        };
        timeout(TIMEOUT, visit).await.expect("in time")
    }

    /// Accepts a client that joins.
    async fn joined(&self, watching: u64, peers: Value, elsewhere: &[&str]) -> Visit {
        let counts = json!({ "watching": watching, "holders": 0, "partial": 0 });
        let me = "00000000000000ff";
        let reply = json!({ "peer": me, "peers": peers, "counts": counts, "elsewhere": elsewhere });
        self.replies("ok", reply).await
    }
}

impl Visit {
    async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.expect("the client reads");
    }

    async fn push(&mut self, event: &str, payload: Value) {
        self.send(json!([null, null, self.topic, event, payload])).await;
    }

    /// The next frame with this event; `None` if the client leaves first.
    async fn next(&mut self, event: &str) -> Option<Value> {
        loop {
            let message = timeout(TIMEOUT, self.socket.next()).await.expect("in time")?.ok()?;
            let frame: Value = serde_json::from_str(message.to_text().ok()?).ok()?;
            if frame[3] == event {
                return Some(frame);
            }
        }
    }

    async fn leaves(mut self) {
        assert_eq!(self.next("nothing").await, None);
    }
}

#[tokio::test]
async fn a_page_is_joined_at_three_servers_that_its_own_one_names_and_left_when_they_have_no_peers()
{
    let [home, a, b, refusing, fourth] = [(); 5].map(|()| StandIn::start());
    let (home, a, b) = (home.await, a.await, b.await);
    let (refusing, fourth) = (refusing.await, fourth.await);
    let (store, root) = store_with_file(1_000);
    let host = host(store).await;
    let client = join(&host, &home.url, &root, Have::None);
    let urls = [&home, &a, &b, &refusing, &fourth].map(|server| server.url.to_string());
    let named: Vec<&str> = ["no origin"].into_iter().chain(urls.iter().map(|url| &**url)).collect();
    let mut at_home = home.joined(2, json!([]), &named).await;
    let bob = json!({ "peer": "000000000000000b", "have": "all" });
    let mut at_a = a.joined(3, json!([bob]), &[]).await;
    let mut at_b = b.joined(1, json!([]), &[]).await;
    let early = timeout(Duration::ZERO, fourth.listener.accept()).await;
    assert!(early.is_err(), "it is one more than three");
    let _refused = refusing.replies("error", json!({ "reason": "page full" })).await;
    let at_fourth = fourth.joined(1, json!([]), &[]).await;
    wait_for(&client, |status| status.counts.watching == 3 && status.peers == 1).await;
    assert_eq!(client.status().borrow().connection, ConnectionState::Joined);

    client.set_have(Have::Some);
    for visit in [&mut at_home, &mut at_a, &mut at_b] {
        let have = visit.next("have").await.expect("it stays");
        assert_eq!(have[4], json!({ "have": "some" }));
    }

    at_home.push("elsewhere", json!({ "servers": [] })).await;
    at_b.leaves().await;
    at_fourth.leaves().await;
    at_a.push("peer_left", bob).await;
    at_a.leaves().await;
    wait_for(&client, |status| status.counts.watching == 2 && status.peers == 0).await;
    drop(client);
    at_home.leaves().await;
}

#[tokio::test]
async fn the_servers_of_a_link_are_joined_while_the_own_one_is_lost_or_nobody_there_has_the_page() {
    let (home, other) = (StandIn::start().await, StandIn::start().await);
    let (store, root) = store_with_file(1_000);
    let host = host(store).await;
    let at = vec![other.url.clone()];
    let options = PageClientOptions { at, ..options(&home.url, &root, Have::None) };
    let _client = PageClient::start(&host, options);
    let mut at_home = home.joined(1, json!([]), &[]).await;
    let there = other.joined(1, json!([]), &[]).await;
    at_home.push("counts", json!({ "watching": 2, "holders": 1, "partial": 0 })).await;
    there.leaves().await;
    drop((home, at_home));
    other.joined(1, json!([]), &[]).await;
}

#[tokio::test]
async fn a_live_page_stays_at_a_server_that_is_not_named_any_more() {
    let (home, other) = (StandIn::start().await, StandIn::start().await);
    let (store, root) = store_with_file(1_000);
    let host = host(store).await;
    let (_channel, heads) = LiveChannel::new();
    let options = PageClientOptions { live: Some(heads), ..options(&home.url, &root, Have::None) };
    let client = PageClient::start(&host, options);
    let mut at_home = home.joined(1, json!([]), &[&other.url.to_string()]).await;
    let mut there = other.joined(1, json!([]), &[]).await;
    at_home.push("elsewhere", json!({ "servers": [] })).await;
    wait_for(&client, |status| status.elsewhere.is_empty()).await;
    client.set_have(Have::All);
    assert!(there.next("have").await.is_some(), "it left the other server");
}

#[tokio::test]
async fn blocks_come_from_another_server_while_the_own_one_is_lost_and_a_third_is_down() {
    let (server, url) = start_server(|_| {});
    let (store, root) = store_with_file(1_000_000);
    let provider = host(store.clone()).await;
    let _holder = join(&provider, &url, &root, Have::All);
    let (home, down) = (StandIn::start().await, StandIn::start().await.url);
    let leecher_store = Arc::new(LockedMemoryStore::new(64 << 20));
    let leecher = host(leecher_store.clone()).await;
    let visitor = join(&leecher, &home.url, &root, Have::None);
    let named = [down.to_string(), url.to_string()];
    let at_home = home.joined(1, json!([]), &named.each_ref().map(|name| &**name)).await;
    wait_for(&visitor, |status| status.peers == 1).await;
    drop((home, at_home));
    wait_for(&visitor, |status| status.connection != ConnectionState::Joined).await;
    let mut fetch = leecher.fetch(root.clone()).await.expect("a fetch");
    timeout(TIMEOUT, fetch.finished()).await.expect("in time").expect("a complete fetch");
    assert_eq!(leecher_store.lock().len(), store.lock().len());
    assert_eq!(visitor.status().borrow().elsewhere.len(), 2);
    server.drain().await;
}
