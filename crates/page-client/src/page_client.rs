//! The page client: joins a page, and joins it again whenever the connection is lost.

mod elsewhere;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use watchfire_bitswap::Protocol;
use watchfire_content::Cid;
use watchfire_p2p::{ExternalPeer, ExternalTransport, Host, RequestFilter, TransportCommand};
use watchfire_types::{Instant as CoreInstant, PeerId};

use elsewhere::Elsewhere;

use crate::direct::{DirectConnections, DirectOptions, DirectSockets, StreamLinks};
use crate::heads::{self, HeadExchange, LiveHeads};
use crate::messages::{Counts, Have, StunServer};
use crate::page_protocol::{Output, PageProtocol};
use crate::server_url::{Connection, Connector, ServerUrl};

/// How long connecting may take, including the WebSocket handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a write to the server may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the lookup of the STUN server may take, and how many of its addresses are kept.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
const STUN_ADDRESSES_MAX: usize = 8;
/// The first pause before a reconnect. It doubles with each attempt, up to [`RECONNECT_AFTER_MAX`].
const RECONNECT_AFTER: Duration = Duration::from_millis(250);
const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(10);
/// Largest WebSocket message that is accepted from the server. A relayed frame has 64 KiB.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Peers that wait to be banned. Beyond it, the first ones are banned when they misbehave again.
const BANS_MAX: usize = 16;

#[derive(Clone)]
pub struct PageClientOptions {
    pub connector: Arc<dyn Connector>,
    /// The address of the server, if the client also joins the page at other servers that this one
    /// names. `None`: it stays at this one.
    pub home: Option<ServerUrl>,
    /// Other servers at which the page may be, such as those of its link. With `home`, the client also joins it
    /// there while its own server is lost or has no holder of the page.
    pub at: Vec<ServerUrl>,
    pub page: Cid,
    /// The part of the page that is stored here at the start.
    pub have: Have,
    /// The blocks that may be requested from the peers of the page; `None` allows all blocks.
    pub request_filter: Option<RequestFilter>,
    /// Members of this JSON object are added to the parameters of the join. `Null` adds nothing.
    pub join_params: Value,
    /// The heads that the peers of a live page exchange.
    pub live: Option<LiveHeads>,
    /// The direct connections to browsers. `None`: every message uses the relay.
    pub direct: Option<DirectOptions>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The client connects for the first time.
    Connecting,
    Joined,
    /// The server rejected the join for this reason. The client tries again.
    Rejected(String),
    /// The server cannot be reached for this reason. The client tries again.
    Disconnected(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageStatus {
    /// The connection to the server itself, not to others that it names.
    pub connection: ConnectionState,
    /// The numbers of peers and holders of the page, at the server with most peers of it.
    pub counts: Counts,
    /// The number of peers that the client can exchange messages with, at all servers.
    pub peers: usize,
    /// The other servers at which the page is available, as the server itself last said.
    pub elsewhere: Vec<ServerUrl>,
    /// The misbehaviour for which the client last dropped a peer while connecting directly.
    pub last_drop: Option<&'static str>,
}

impl PageStatus {
    fn new(connection: ConnectionState) -> Self {
        let (counts, elsewhere) = (Counts::default(), Vec::new());
        PageStatus { connection, counts, peers: 0, elsewhere, last_drop: None }
    }
}

/// A peer of a page. It stays joined until it is dropped.
#[derive(Debug)]
pub struct PageClient {
    have: watch::Sender<Have>,
    bans: broadcast::Sender<PeerId>,
    status: watch::Receiver<PageStatus>,
    /// Dropping it ends them.
    _tasks: JoinSet<()>,
}

impl PageClient {
    /// Joins a page, so that `host` exchanges blocks with the peers of the page. Must be called
    /// within a tokio runtime.
    pub fn start(host: &Host, options: PageClientOptions) -> Self {
        Self::start_on(host.external_transport(), options)
    }

    pub(crate) fn start_on(transport: ExternalTransport, options: PageClientOptions) -> Self {
        let (have, local_have) = watch::channel(options.have);
        let (bans, banned) = broadcast::channel(BANS_MAX);
        let (status_sender, mut status) =
            watch::channel(PageStatus::new(ConnectionState::Connecting));
        let mut tasks = JoinSet::new();
        if let Some(home) = options.home.clone() {
            let transport = transport.another();
            let options = PageClientOptions { home: None, ..options.clone() };
            let elsewhere = Elsewhere { home, transport, options };
            let (all_status, shown) = watch::channel(status.borrow().clone());
            tasks.spawn(elsewhere.run(status, have.subscribe(), bans.subscribe(), all_status));
            status = shown;
        }
        let listener = options.direct.as_ref().and_then(|direct| direct.web_transport.clone());
        let driver = Driver {
            connector: options.connector,
            page: page_cid(&options.page).to_string(),
            request_filter: options.request_filter,
            join_params: options.join_params,
            direct: options.direct,
            sockets: Arc::new(DirectSockets::default()),
            streams: StreamLinks::new(listener),
            local_have,
            banned,
            live: options.live,
            status: status_sender,
            transport,
            external_peers: HashMap::new(),
            peers: HashMap::new(),
            started_at: Instant::now(),
        };
        tasks.spawn(driver.run());
        PageClient { have, bans, status, _tasks: tasks }
    }

    /// Sets the part of the page that is stored here.
    pub fn set_have(&self, have: Have) {
        self.have.send_if_modified(|before| std::mem::replace(before, have) != have);
    }

    /// Disconnects a peer that misbehaves, and ignores it from now on.
    pub fn ban(&self, peer: PeerId) {
        let _ = self.bans.send(peer);
    }

    /// The current status, and its changes.
    pub fn status(&self) -> watch::Receiver<PageStatus> {
        self.status.clone()
    }
}

/// The CID that names the page of this root: its version 1 CID.
pub fn page_cid(root: &Cid) -> Cid {
    Cid::v1(root.codec(), root.hash().clone())
}

/// The task of a [`PageClient`].
struct Driver {
    connector: Arc<dyn Connector>,
    page: String,
    request_filter: Option<RequestFilter>,
    join_params: Value,
    direct: Option<DirectOptions>,
    sockets: Arc<DirectSockets>,
    streams: StreamLinks,
    local_have: watch::Receiver<Have>,
    banned: broadcast::Receiver<PeerId>,
    live: Option<LiveHeads>,
    status: watch::Sender<PageStatus>,
    transport: ExternalTransport,
    external_peers: HashMap<PeerId, ExternalPeer>,
    peers: HashMap<ExternalPeer, PeerId>,
    started_at: Instant,
}

enum End {
    /// The connection failed. The client reconnects.
    Lost(String),
    Rejected(String),
    /// The host has stopped, so the client stops too.
    Stopped,
}

impl From<watchfire_p2p::Stopped> for End {
    fn from(_: watchfire_p2p::Stopped) -> Self {
        End::Stopped
    }
}

impl From<tungstenite::Error> for End {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Http(response) => {
                End::Lost(format!("the server answered {}", response.status()))
            }
            error => End::Lost(error.to_string()),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Lost(error.to_string())
    }
}

type Socket = WebSocketStream<Box<dyn Connection>>;

impl Driver {
    async fn run(mut self) {
        let mut attempts = 0;
        loop {
            let end = self.run_connection(&mut attempts).await;
            if self.disconnect_peers().await.is_err() {
                return;
            }
            let connection = match end {
                Ok(()) | Err(End::Stopped) => return,
                Err(End::Lost(reason)) => ConnectionState::Disconnected(reason),
                Err(End::Rejected(reason)) => ConnectionState::Rejected(reason),
            };
            tracing::debug!(page = self.page, ?connection, "left a page");
            self.status.send_modify(|status| {
                // The others stay joined while this server cannot be reached.
                let (elsewhere, last_drop) =
                    (std::mem::take(&mut status.elsewhere), status.last_drop);
                *status = PageStatus { elsewhere, last_drop, ..PageStatus::new(connection) };
            });
            attempts += 1;
            sleep(reconnect_delay(attempts, random_jitter())).await;
        }
    }

    fn now(&self) -> CoreInstant {
        let nanos = self.started_at.elapsed().as_nanos();
        CoreInstant::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
    }

    /// Runs one connection from its start to its end. A successful join resets `attempts`.
    async fn run_connection(&mut self, attempts: &mut u32) -> Result<(), End> {
        let mut socket = self.connect().await?;
        let have = *self.local_have.borrow_and_update();
        let mut protocol = PageProtocol::start(
            self.now(),
            &self.page,
            have,
            self.join_params.clone(),
            self.direct(),
            random_seed(),
        );
        let mut exchange = HeadExchange::default();
        let mut heads_at = self.started_at;
        loop {
            self.handle_outputs(&mut protocol, &mut socket, &mut exchange, attempts).await?;
            let wake = protocol.next_wake().since(CoreInstant::ZERO);
            tokio::select! {
                message = socket.next() => match message {
                    Some(message) => self.handle_message(&mut protocol, message?)?,
                    None => return Err(End::Lost("the server closed the connection".to_owned())),
                },
                datagrams = self.sockets.receive() => {
                    let now = self.now();
                    datagrams.iter().for_each(|datagram| protocol.handle_datagram(now, datagram));
                }
                (secret, event) = self.streams.receive() => {
                    protocol.handle_stream_event(self.now(), secret, event);
                }
                command = self.transport.next() => self.handle_command(&mut protocol, command),
                changed = self.local_have.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let have = *self.local_have.borrow_and_update();
                    protocol.set_have(self.now(), have);
                }
                Ok(peer) = self.banned.recv() => protocol.ban(self.now(), peer),
                () = new_heads(&mut self.live, heads_at) => {
                    heads_at = Instant::now() + heads::SEND_INTERVAL;
                    self.announce_heads(&mut protocol, &exchange);
                }
                () = sleep_until(self.started_at + wake) => protocol.handle_tick(self.now()),
            }
        }
    }

    fn direct(&self) -> Option<DirectConnections> {
        let limit = self.direct.as_ref()?.limit.clone();
        let sockets = Arc::clone(&self.sockets);
        let local_addresses = Box::new(move || sockets.addresses());
        let direct = DirectConnections::new(self.started_at.into_std(), limit, local_addresses);
        Some(direct.with_streams(Box::new(self.streams.offers())))
    }

    async fn connect(&self) -> Result<Socket, End> {
        let connecting = async {
            let connection = self.connector.connect().await?;
            Ok(open_websocket(&*self.connector, connection).await?)
        };
        let timed_out = |_| End::Lost("the server does not answer".to_owned());
        timeout(CONNECT_TIMEOUT, connecting).await.map_err(timed_out)?
    }

    fn handle_message(&self, protocol: &mut PageProtocol, message: Message) -> Result<(), End> {
        match message {
            Message::Text(text) => protocol.handle_text(self.now(), text.as_str()),
            Message::Binary(bytes) => protocol.handle_binary(self.now(), &bytes),
            Message::Close(_) => {
                return Err(End::Lost("the server closed the connection".to_owned()));
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    fn handle_command(&mut self, protocol: &mut PageProtocol, command: TransportCommand) {
        match command {
            TransportCommand::Send { peer, message, has_blocks } => {
                if let Some(peer) = self.peers.get(&peer) {
                    match has_blocks {
                        true => protocol.send_blocks(self.now(), *peer, message),
                        false => protocol.send(self.now(), *peer, message),
                    }
                }
            }
            TransportCommand::Ban { peer } => {
                if let Some(peer) = self.peers.remove(&peer) {
                    self.external_peers.remove(&peer);
                    protocol.ban(self.now(), peer);
                }
            }
        }
    }

    async fn handle_outputs(
        &mut self,
        protocol: &mut PageProtocol,
        socket: &mut Socket,
        exchange: &mut HeadExchange,
        attempts: &mut u32,
    ) -> Result<(), End> {
        let mut has_written = false;
        while let Some(output) = protocol.poll_output() {
            has_written |= matches!(output, Output::Text(_) | Output::Binary(_));
            match output {
                Output::Text(text) => write(socket.feed(Message::text(text))).await?,
                Output::Binary(bytes) => write(socket.feed(Message::binary(bytes))).await?,
                Output::Joined => {
                    *attempts = 0;
                    self.status.send_modify(|status| status.connection = ConnectionState::Joined);
                }
                Output::Rejected { reason } => return Err(End::Rejected(reason)),
                Output::PeerConnected { peer, have } => {
                    tracing::trace!(%peer, ?have, "peer connected");
                    self.connect_peer(peer).await?;
                    self.send_heads(protocol, peer);
                }
                Output::PeerDisconnected { peer } => {
                    exchange.forget(peer);
                    self.disconnect_peer(peer).await?;
                }
                Output::Message { peer, bytes } => {
                    self.receive_heads(protocol, exchange, peer, &bytes);
                    self.receive(peer, &bytes).await?;
                }
                Output::Receiving { peer } => self.note_receiving(peer).await?,
                Output::Malformed { peer } => self.note_malformed(peer).await?,
                Output::Sent { peer, bytes } => self.note_sent(peer, bytes).await?,
                Output::Acknowledged { peer, messages } => {
                    self.note_acknowledged(peer, messages).await?;
                }
                Output::Counts(counts) => {
                    self.status.send_modify(|status| status.counts = counts);
                }
                Output::Elsewhere(servers) => {
                    self.status.send_modify(|status| status.elsewhere = servers);
                }
                Output::FindStun(stun) => {
                    let servers = self.find_stun(stun).await;
                    protocol.set_stun_servers(servers);
                }
                Output::Dropped { reason } => {
                    self.status.send_modify(|status| status.last_drop = Some(reason));
                }
                Output::Datagram(datagram) => self.sockets.send(&datagram).await,
                Output::StreamFrame { secret, frame } => self.streams.write(secret, frame),
                Output::CloseStream { secret } => self.streams.close(secret),
                Output::Broken { reason } => return Err(End::Lost(reason.to_owned())),
            }
        }
        if has_written {
            write(socket.flush()).await?;
        }
        Ok(())
    }

    async fn connect_peer(&mut self, peer: PeerId) -> Result<(), watchfire_p2p::Stopped> {
        let filter = self.request_filter.clone();
        let external = self.transport.connect(Protocol::V1_2, filter).await?;
        self.external_peers.insert(peer, external);
        self.peers.insert(external, peer);
        self.publish_peer_count();
        Ok(())
    }

    async fn disconnect_peer(&mut self, peer: PeerId) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.remove(&peer) else { return Ok(()) };
        self.peers.remove(&external);
        self.transport.disconnect(external).await?;
        self.publish_peer_count();
        Ok(())
    }

    /// Adds the entries of a live page that a message announces, and answers with ours if the peer misses some.
    fn receive_heads(
        &mut self,
        protocol: &mut PageProtocol,
        exchange: &mut HeadExchange,
        peer: PeerId,
        message: &Bytes,
    ) {
        let now = self.now();
        if let Some(live) = &self.live
            && exchange.handle(now, peer, message, live)
        {
            self.send_heads(protocol, peer);
        }
    }

    async fn note_receiving(&self, peer: PeerId) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.get(&peer) else { return Ok(()) };
        self.transport.receiving(*external).await
    }

    async fn note_malformed(&self, peer: PeerId) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.get(&peer) else { return Ok(()) };
        self.transport.malformed(*external).await
    }

    async fn note_sent(&self, peer: PeerId, bytes: usize) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.get(&peer) else { return Ok(()) };
        self.transport.sent(*external, bytes).await
    }

    async fn note_acknowledged(
        &self,
        peer: PeerId,
        messages: u64,
    ) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.get(&peer) else { return Ok(()) };
        self.transport.acknowledged(*external, messages).await
    }

    async fn receive(&self, peer: PeerId, message: &Bytes) -> Result<(), watchfire_p2p::Stopped> {
        let Some(external) = self.external_peers.get(&peer) else { return Ok(()) };
        if let Err(error) = self.transport.received(*external, message).await? {
            tracing::debug!(%peer, %error, "received a malformed message");
        }
        Ok(())
    }

    /// Sends the current heads of a live page to a peer.
    fn send_heads(&self, protocol: &mut PageProtocol, peer: PeerId) {
        let Some(live) = &self.live else { return };
        let message = heads::encode(&live.current.borrow().heads, &[]);
        if !message.is_empty() {
            protocol.send(self.now(), peer, message);
        }
    }

    /// Sends new heads of a live page to all peers that have not sent them, with the blocks of the newest entry.
    fn announce_heads(&self, protocol: &mut PageProtocol, exchange: &HeadExchange) {
        let Some(live) = &self.live else { return };
        let current = live.current.borrow();
        let message = heads::encode(&current.heads, &current.vouched);
        for peer in self.external_peers.keys() {
            if !exchange.knows(*peer, &current) {
                protocol.send(self.now(), *peer, message.clone());
            }
        }
    }

    /// The addresses of the STUN server; none if they cannot be looked up.
    async fn find_stun(&self, stun: StunServer) -> Vec<SocketAddr> {
        let url: Option<Uri> = self.connector.websocket_url().parse().ok();
        let of_server = || Some(url.as_ref()?.host()?.trim_matches(['[', ']']).to_owned());
        let Some(host) = stun.host.or_else(of_server) else { return Vec::new() };
        match timeout(LOOKUP_TIMEOUT, lookup_host((host.as_str(), stun.port))).await {
            Ok(Ok(addresses)) => addresses.take(STUN_ADDRESSES_MAX).collect(),
            Ok(Err(_)) | Err(_) => {
                tracing::debug!(host, "cannot look up the STUN server");
                Vec::new()
            }
        }
    }

    fn publish_peer_count(&self) {
        self.status.send_modify(|status| status.peers = self.external_peers.len());
    }

    /// Disconnects all peers of the connection from the host.
    async fn disconnect_peers(&mut self) -> Result<(), watchfire_p2p::Stopped> {
        self.streams.close_all();
        self.peers.clear();
        for (_, external) in self.external_peers.drain() {
            self.transport.disconnect(external).await?;
        }
        Ok(())
    }
}

/// Makes the WebSocket handshake with a server. The largest message from it has 4 MiB.
pub async fn open_websocket(
    connector: &dyn Connector,
    connection: Box<dyn Connection>,
) -> Result<WebSocketStream<Box<dyn Connection>>, tungstenite::Error> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let mut request = connector.websocket_url().into_client_request()?;
    let name = HeaderValue::from_static(watchfire_types::USER_AGENT);
    request.headers_mut().insert(USER_AGENT, name);
    Ok(client_async_with_config(request, connection, Some(config)).await?.0)
}

/// Waits for new heads, and until they may be sent. Without a live page it waits forever.
async fn new_heads(live: &mut Option<LiveHeads>, not_before: Instant) {
    if let Some(live) = live {
        // The receiver itself counts as unchanged only at the end, because this future may be dropped.
        let mut current = live.current.clone();
        if current.changed().await.is_ok() {
            sleep_until(not_before).await;
            live.current.mark_unchanged();
            return;
        }
    }
    std::future::pending().await
}

async fn write(writing: impl Future<Output = Result<(), tungstenite::Error>>) -> Result<(), End> {
    let timed_out = |_| End::Lost("the server does not read".to_owned());
    Ok(timeout(WRITE_TIMEOUT, writing).await.map_err(timed_out)??)
}

/// The pause before a reconnect: the first attempt is number 1. `jitter` selects a value between
/// half of the pause and all of it, so that the clients of a restarted server do not reconnect at
/// once.
fn reconnect_delay(attempt: u32, jitter: u16) -> Duration {
    let longest =
        RECONNECT_AFTER.saturating_mul(1 << (attempt - 1).min(16)).min(RECONNECT_AFTER_MAX);
    longest / 2 + (longest / 2).mul_f64(f64::from(jitter) / f64::from(u16::MAX))
}

/// Without a random number, peers that know this client from before may ignore its first messages.
fn random_seed() -> u64 {
    getrandom::u64().unwrap_or_default()
}

fn random_jitter() -> u16 {
    // Without a random number the client waits for the full pause.
    getrandom::u32().map_or(u16::MAX, |number| number as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reconnect_delay_grows_to_its_limit_and_is_jittered_by_half() {
        let delays: Vec<_> =
            (1..9).map(|attempt| reconnect_delay(attempt, u16::MAX).as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(reconnect_delay(1, 0).as_millis(), 125);
        assert_eq!(reconnect_delay(u32::MAX, 0).as_millis(), 5000);
    }

    #[test]
    fn a_page_is_named_by_a_version_1_cid() {
        let root: Cid = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH".parse().unwrap();
        assert!(page_cid(&root).to_string().starts_with("bafybei"));
        assert_eq!(page_cid(&page_cid(&root)), page_cid(&root));
    }
}
