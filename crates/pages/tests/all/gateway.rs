//! Pages of several servers whose gateways are connected: a page is available on each of them while a
//! peer on one of them has it, and no longer.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::timeout;
use watchfire::RunningServer;
use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_p2p::{Host, HostSettings};
use watchfire_page_client::{Have, PageClient, PageClientOptions, PageStatus, ServerUrl};
use watchfire_pages::{DhtRole, P2pSettings};
use watchfire_store::{LockedMemoryStore, ReadBlocks, Stores, WriteBlocks};
use watchfire_testkit::{DEADLINE, eventually_async};

use crate::start;
use crate::support::settings;

/// Enough for a busy machine.
const FILE_BYTES: usize = 3_000_000;

fn gateway_addresses(server: &RunningServer) -> Vec<String> {
    let pages = server.running::<watchfire_pages::RunningPages>().expect("the server has pages");
    pages.gateway_addresses()
}

/// A server with a gateway that is connected to those of other servers.
fn server(neighbours: &[&RunningServer]) -> RunningServer {
    server_with(neighbours, |_| {})
}

/// The same, with further settings of the gateway.
fn server_with(
    neighbours: &[&RunningServer],
    change: impl FnOnce(&mut P2pSettings),
) -> RunningServer {
    let mut settings = settings();
    settings.server.shards = 1;
    let p2p = settings.section_mut::<P2pSettings>();
    p2p.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
    p2p.bootstrap = neighbours.iter().flat_map(|server| gateway_addresses(server)).collect();
    assert_eq!(p2p.bootstrap.len(), neighbours.len());
    change(p2p);
    start(settings)
}

/// A peer of a page on one server, as a tab or a terminal is.
struct Peer {
    host: Host,
    store: Arc<LockedMemoryStore>,
    page: Option<PageClient>,
}

impl Peer {
    async fn new() -> Peer {
        let store = Arc::new(LockedMemoryStore::new(64 << 20));
        let host = Host::start(HostSettings::default(), Stores::default(), store.clone()).await;
        Peer { host: host.expect("the host starts"), store, page: None }
    }

    async fn sharing(server: &RunningServer) -> (Peer, Cid) {
        let mut peer = Peer::new().await;
        let root = peer.write_file();
        peer.join(server, &root, Have::All);
        (peer, root)
    }

    async fn watching(server: &RunningServer, root: &Cid) -> Peer {
        let mut peer = Peer::new().await;
        peer.join(server, root, Have::None);
        peer
    }

    fn write_file(&self) -> Cid {
        let mut builder = FileBuilder::new(Profile::UNIXFS_V1_2025).expect("a profile");
        let mut put = |block: Block| self.store.put(&block);
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 1000 % 251) as u8).collect();
        builder.write(&bytes, &mut put).expect("there is room");
        builder.finish(&mut put).expect("there is room").cid
    }

    fn join(&mut self, server: &RunningServer, root: &Cid, have: Have) {
        let url: ServerUrl = format!("http://{}", server.address()).parse().expect("a URL");
        let options = PageClientOptions {
            connector: url.connector().expect("no certificates are needed"),
            home: None,
            at: Vec::new(),
            page: root.clone(),
            have,
            request_filter: None,
            join_params: Value::Null,
            live: None,
            direct: None,
        };
        self.page = Some(PageClient::start(&self.host, options));
    }

    fn leave(&mut self) {
        self.page = None;
    }

    async fn fetch(&self, root: &Cid) {
        let mut fetch = self.host.fetch(root.clone()).await.expect("the host runs");
        let fetched = timeout(DEADLINE, fetch.finished()).await.expect("the page arrives");
        fetched.expect("the page is valid");
    }

    /// Waits until the server says that the page has holders, or none.
    async fn sees(&self, has_holders: bool) {
        let mut status = self.page.as_ref().expect("joined").status();
        let is_so = |status: &PageStatus| {
            status.counts.watching > 0 && (status.counts.holders > 0) == has_holders
        };
        let waited = timeout(DEADLINE, status.wait_for(is_so)).await;
        drop(waited.expect("the server tells it in time").expect("the client runs"));
    }
}

/// Asks the gateways for each block, as any libp2p peer can. Returns whether one of them has a block.
async fn any_gateway_has(servers: &[&RunningServer], blocks: &Peer, root: &Cid) -> bool {
    let stranger = Peer::new().await;
    for server in servers {
        let [address] = &gateway_addresses(server)[..] else { panic!("one address") };
        let connected = stranger.host.connect(address.parse().expect("an address")).await;
        connected.expect("the gateway accepts connections");
    }
    connected_to(&stranger.host, servers.len()).await;
    for cid in cids_of(blocks, root) {
        let asked = timeout(DEADLINE, stranger.host.ask(None, cid)).await;
        if asked.expect("the gateways answer").expect("the host runs").is_some() {
            return true;
        }
    }
    false
}

/// Waits until Bitswap streams are open to so many peers.
async fn connected_to(host: &Host, peers: usize) {
    eventually_async("the streams open", async || {
        host.stats().await.expect("the host runs").peers >= peers
    })
    .await;
}

/// The blocks of the page that a peer has: the root, and its leaves.
fn cids_of(peer: &Peer, root: &Cid) -> Vec<Cid> {
    let node = peer.store.get(root).expect("the store works").expect("the root is there");
    let node = watchfire_content::dag_pb::Node::decode(node.bytes()).expect("a node");
    let mut cids = vec![root.clone()];
    cids.extend(node.links.into_iter().map(|link| link.cid));
    assert!(cids.len() > 3);
    cids
}

#[tokio::test]
async fn a_page_is_gone_on_two_servers_when_its_last_holder_has_left() {
    let east = server(&[]);
    let west = server(&[&east]);
    let (mut sharer, root) = Peer::sharing(&east).await;
    let waiting_east = Peer::watching(&east, &root).await;
    let waiting_west = Peer::watching(&west, &root).await;
    waiting_west.sees(true).await;
    // This viewer gets the page through both gateways, and leaves.
    let mut viewer = Peer::watching(&west, &root).await;
    viewer.fetch(&root).await;
    viewer.leave();
    assert!(any_gateway_has(&[&east], &sharer, &root).await);

    sharer.leave();
    waiting_east.sees(false).await;
    waiting_west.sees(false).await;
    assert!(!any_gateway_has(&[&east, &west], &sharer, &root).await);

    // The page comes back with its holder, whichever server it joins.
    sharer.join(&west, &root, Have::All);
    waiting_west.sees(true).await;
    waiting_east.sees(true).await;
    waiting_east.fetch(&root).await;
}

#[tokio::test]
async fn a_page_stays_on_three_servers_while_one_of_them_has_a_holder() {
    let east = server(&[]);
    let west = server(&[&east]);
    let north = server(&[&east, &west]);
    let (mut sharer, root) = Peer::sharing(&east).await;
    let mut viewer = Peer::watching(&west, &root).await;
    viewer.fetch(&root).await;
    viewer.page.as_ref().expect("joined").set_have(Have::All);
    let waiting_east = Peer::watching(&east, &root).await;
    let waiting_north = Peer::watching(&north, &root).await;
    waiting_north.sees(true).await;

    // Without the sharer, the blocks come from the viewer on another server.
    sharer.leave();
    waiting_east.fetch(&root).await;
    waiting_north.fetch(&root).await;

    // The two have all of the page, but have not told their servers.
    viewer.leave();
    for waiting in [&waiting_east, &waiting_north] {
        waiting.sees(false).await;
    }
    assert!(!any_gateway_has(&[&east, &west, &north], &sharer, &root).await);
}

#[tokio::test]
async fn a_page_is_found_over_servers_in_a_row_that_share_a_dht() {
    let in_dht = |neighbours: &[&RunningServer]| {
        server_with(neighbours, |p2p| {
            p2p.dht = DhtRole::Server;
            p2p.dht_protocol = "/watchfire/test/kad/1.0.0".into();
        })
    };
    let east = in_dht(&[]);
    let middle = in_dht(&[&east]);
    let west = in_dht(&[&middle]);
    let (_sharer, root) = Peer::sharing(&east).await;
    let viewer = Peer::watching(&west, &root).await;
    viewer.sees(true).await;
    viewer.fetch(&root).await;
}
