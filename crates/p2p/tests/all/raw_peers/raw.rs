//! A Bitswap peer that sends exactly the messages of a test, and collects all received messages.

use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::core::Endpoint;
use libp2p::core::muxing::{StreamMuxerBox, StreamMuxerExt, SubstreamBox};
use libp2p::core::transport::{DialOpts, PortUse};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{Transport, noise, tcp, yamux};
use multistream_select::{Negotiated, dialer_select_proto, listener_select_proto};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use watchfire_bitswap::message::{FrameReader, decode, encode_framed};
use watchfire_bitswap::{Message, Protocol, WantEntry, WantKind};
use watchfire_content::{Block, Cid};
use watchfire_p2p::Multiaddr;

/// The longest wait for any expected event.
const TIMEOUT: Duration = Duration::from_secs(30);

type OpenReply = oneshot::Sender<SubstreamBox>;

pub type OutStream = Negotiated<SubstreamBox>;

pub struct RawPeer {
    protocols: &'static [&'static str],
    open: mpsc::UnboundedSender<OpenReply>,
    /// All received messages. The channel closes with the connection.
    pub received: mpsc::UnboundedReceiver<Message>,
    out: Option<OutStream>,
    task: JoinHandle<()>,
}

impl RawPeer {
    /// Dials a host with a peer that supports only these versions.
    pub async fn dial(address: Multiaddr, protocols: &'static [&'static str]) -> RawPeer {
        let muxer = dial(address).await;
        let (open, open_requests) = mpsc::unbounded_channel();
        let (messages, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(run_connection(muxer, protocols, open_requests, messages));
        RawPeer { protocols, open, received, out: None, task }
    }

    /// Opens a stream to the host, in the first version that both support.
    pub async fn stream(&self) -> OutStream {
        let (reply, stream) = oneshot::channel();
        self.open.send(reply).expect("the connection is open");
        let stream = within(stream).await.expect("a stream can be opened");
        let (_, out) = within(dialer_select_proto(stream, self.protocols, Version::V1))
            .await
            .expect("the host supports a version");
        out
    }

    /// Sends bytes on the stream that stays open.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let mut out = match self.out.take() {
            Some(out) => out,
            None => self.stream().await,
        };
        within(out.write_all(bytes)).await.expect("the stream is writable");
        within(out.flush()).await.expect("the stream is writable");
        self.out = Some(out);
    }

    pub async fn send(&mut self, message: &Message) {
        let protocol = match self.protocols[0] {
            "/ipfs/bitswap/1.0.0" => Protocol::V1_0,
            "/ipfs/bitswap/1.1.0" => Protocol::V1_1,
            _ => Protocol::V1_2,
        };
        self.send_bytes(&encode_framed(message, protocol)).await;
    }

    pub async fn want(&mut self, wants: Vec<WantEntry>) {
        self.send(&Message { wants, ..Message::default() }).await;
    }

    /// Receives messages until they contain this number of presences and blocks.
    pub async fn receive_count(&mut self, count: usize) -> Received {
        let mut received = Received::default();
        while received.haves.len() + received.dont_haves.len() + received.blocks.len() < count {
            received.add(self.receive().await);
        }
        received
    }

    pub async fn receive(&mut self) -> Message {
        within(self.received.recv()).await.expect("the connection is open")
    }

    /// Receives messages until a presence or a block of `cid`.
    pub async fn receive_until(&mut self, cid: &Cid) -> Received {
        let mut received = Received::default();
        while !received.contains(cid) {
            received.add(self.receive().await);
        }
        received
    }
}

impl Drop for RawPeer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The presences and blocks that a host sent.
#[derive(Debug, Default)]
pub struct Received {
    pub haves: BTreeSet<Cid>,
    pub dont_haves: BTreeSet<Cid>,
    pub blocks: Vec<Block>,
}

impl Received {
    fn add(&mut self, message: Message) {
        for presence in message.presences {
            let set = if presence.has_block { &mut self.haves } else { &mut self.dont_haves };
            set.insert(presence.cid);
        }
        self.blocks.extend(message.blocks);
    }

    fn contains(&self, cid: &Cid) -> bool {
        self.haves.contains(cid) || self.dont_haves.contains(cid) || self.has_block(cid)
    }

    pub fn has_block(&self, cid: &Cid) -> bool {
        self.blocks.iter().any(|block| block.cid() == cid)
    }
}

pub fn want(cid: &Cid, kind: WantKind, send_dont_have: bool) -> WantEntry {
    WantEntry { cid: cid.clone(), priority: 1, cancel: false, kind, send_dont_have }
}

pub fn cancel(cid: &Cid) -> WantEntry {
    WantEntry { cancel: true, ..want(cid, WantKind::Block, false) }
}

pub async fn within<F: Future>(future: F) -> F::Output {
    timeout(TIMEOUT, future).await.expect("no timeout")
}

async fn dial(address: Multiaddr) -> StreamMuxerBox {
    let keypair = Keypair::generate_ed25519();
    let noise = noise::Config::new(&keypair).expect("a key");
    let mut transport = tcp::tokio::Transport::new(tcp::Config::default())
        .upgrade(Version::V1)
        .authenticate(noise)
        .multiplex(yamux::Config::default())
        .map(|(_, muxer), _| StreamMuxerBox::new(muxer))
        .boxed();
    let mut address = address;
    // Without the peer id, so that any host is accepted.
    address.pop();
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    let dial = transport.dial(address, options).expect("an address");
    within(dial).await.expect("the host accepts the connection")
}

enum ConnectionEvent {
    Inbound(SubstreamBox),
    Outbound(SubstreamBox),
    OpenRequested(OpenReply),
    End,
}

/// Drives a connection until it ends.
async fn run_connection(
    mut muxer: StreamMuxerBox,
    protocols: &'static [&'static str],
    mut open_requests: mpsc::UnboundedReceiver<OpenReply>,
    messages: mpsc::UnboundedSender<Message>,
) {
    let mut opening: VecDeque<OpenReply> = VecDeque::new();
    loop {
        let event = poll_fn(|cx| {
            if let Poll::Ready(reply) = open_requests.poll_recv(cx) {
                return Poll::Ready(
                    reply.map_or(ConnectionEvent::End, ConnectionEvent::OpenRequested),
                );
            }
            if let Poll::Ready(stream) = muxer.poll_inbound_unpin(cx) {
                return Poll::Ready(stream.map_or(ConnectionEvent::End, ConnectionEvent::Inbound));
            }
            if !opening.is_empty()
                && let Poll::Ready(stream) = muxer.poll_outbound_unpin(cx)
            {
                return Poll::Ready(stream.map_or(ConnectionEvent::End, ConnectionEvent::Outbound));
            }
            match muxer.poll_unpin(cx) {
                Poll::Ready(Err(_)) => Poll::Ready(ConnectionEvent::End),
                _ => Poll::Pending,
            }
        });
        match event.await {
            ConnectionEvent::OpenRequested(open) => opening.push_back(open),
            ConnectionEvent::Outbound(stream) => {
                if let Some(open) = opening.pop_front() {
                    let _ = open.send(stream);
                }
            }
            ConnectionEvent::Inbound(stream) => {
                drop(tokio::spawn(read_stream(stream, protocols, messages.clone())))
            }
            ConnectionEvent::End => return,
        }
    }
}

async fn read_stream(
    stream: SubstreamBox,
    protocols: &'static [&'static str],
    messages: mpsc::UnboundedSender<Message>,
) {
    let Ok((_, mut stream)) = listener_select_proto(stream, protocols.iter().copied()).await else {
        return;
    };
    let mut reader = FrameReader::default();
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len @ 1..) = stream.read(&mut bytes).await {
        reader.push(&bytes[..len]);
        while let Some(frame) = reader.next_frame().expect("a message") {
            let message = decode(&frame).expect("a message");
            if messages.send(message).is_err() {
                return;
            }
        }
    }
}
