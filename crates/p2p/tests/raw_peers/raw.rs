//! A peer made by hand: it says what a test says, byte by byte, and hears all.

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

/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_secs(30);

type Open = oneshot::Sender<SubstreamBox>;

/// A stream of a peer's on which it says things.
pub type Out = Negotiated<SubstreamBox>;

/// A peer of one host.
pub struct Raw {
    protocols: &'static [&'static str],
    open: mpsc::UnboundedSender<Open>,
    /// Ends with the connection.
    pub heard: mpsc::UnboundedReceiver<Message>,
    /// Messages that were heard and not asked for yet.
    kept: VecDeque<Message>,
    out: Option<Out>,
    task: JoinHandle<()>,
}

impl Raw {
    /// A peer that speaks these versions and nothing else.
    pub async fn dial(address: Multiaddr, protocols: &'static [&'static str]) -> Raw {
        let muxer = dial(address).await;
        let (open, to_open) = mpsc::unbounded_channel();
        let (tell, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(carry(muxer, protocols, to_open, tell));
        Raw { protocols, open, heard, kept: VecDeque::new(), out: None, task }
    }

    /// A new stream to the host, in the first version that this peer speaks.
    pub async fn stream(&self) -> Out {
        let (reply, stream) = oneshot::channel();
        self.open.send(reply).expect("the connection is open");
        let stream = within(stream).await.expect("a stream can be opened");
        let (_, out) = within(dialer_select_proto(stream, self.protocols, Version::V1))
            .await
            .expect("the host speaks it");
        out
    }

    /// Says bytes on the stream that stays open.
    pub async fn say_bytes(&mut self, bytes: &[u8]) {
        let mut out = match self.out.take() {
            Some(out) => out,
            None => self.stream().await,
        };
        within(out.write_all(bytes)).await.expect("it can be written");
        within(out.flush()).await.expect("it can be written");
        self.out = Some(out);
    }

    /// Says a message.
    pub async fn say(&mut self, message: &Message) {
        let protocol = match self.protocols[0] {
            "/ipfs/bitswap/1.0.0" => Protocol::V1_0,
            "/ipfs/bitswap/1.1.0" => Protocol::V1_1,
            _ => Protocol::V1_2,
        };
        self.say_bytes(&encode_framed(message, protocol)).await;
    }

    /// Says that it wants these.
    pub async fn want(&mut self, wants: Vec<WantEntry>) {
        self.say(&Message { wants, ..Message::default() }).await;
    }

    /// Hears until so many presences and blocks have come; all that was heard up to there.
    pub async fn hear_many(&mut self, count: usize) -> Heard {
        let mut heard = Heard::default();
        while heard.haves.len() + heard.dont_haves.len() + heard.blocks.len() < count {
            heard.add(self.hear().await);
        }
        heard
    }

    /// The next message that was heard.
    pub async fn hear(&mut self) -> Message {
        match self.kept.pop_front() {
            Some(message) => message,
            None => within(self.heard.recv()).await.expect("the connection is open"),
        }
    }

    /// Hears until a presence or a block answers for `cid`; all that was heard up to there.
    pub async fn hear_of(&mut self, cid: &Cid) -> Heard {
        let mut heard = Heard::default();
        while !heard.names(cid) {
            heard.add(self.hear().await);
        }
        heard
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a host said.
#[derive(Debug, Default)]
pub struct Heard {
    pub haves: BTreeSet<Cid>,
    pub dont_haves: BTreeSet<Cid>,
    pub blocks: Vec<Block>,
}

impl Heard {
    fn add(&mut self, message: Message) {
        for presence in message.presences {
            let set = if presence.is_here { &mut self.haves } else { &mut self.dont_haves };
            set.insert(presence.cid);
        }
        self.blocks.extend(message.blocks);
    }

    fn names(&self, cid: &Cid) -> bool {
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
    timeout(PATIENCE, future).await.expect("it takes too long")
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
    // Whoever answers there.
    address.pop();
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    let dial = transport.dial(address, options).expect("an address");
    within(dial).await.expect("the host answers")
}

enum Happened {
    Inbound(SubstreamBox),
    Outbound(SubstreamBox),
    Asked(Open),
    End,
}

/// Carries a connection until it ends.
async fn carry(
    mut muxer: StreamMuxerBox,
    protocols: &'static [&'static str],
    mut to_open: mpsc::UnboundedReceiver<Open>,
    tell: mpsc::UnboundedSender<Message>,
) {
    let mut opening: VecDeque<Open> = VecDeque::new();
    loop {
        let happened = poll_fn(|cx| {
            if let Poll::Ready(asked) = to_open.poll_recv(cx) {
                return Poll::Ready(asked.map_or(Happened::End, Happened::Asked));
            }
            if let Poll::Ready(stream) = muxer.poll_inbound_unpin(cx) {
                return Poll::Ready(stream.map_or(Happened::End, Happened::Inbound));
            }
            if !opening.is_empty()
                && let Poll::Ready(stream) = muxer.poll_outbound_unpin(cx)
            {
                return Poll::Ready(stream.map_or(Happened::End, Happened::Outbound));
            }
            match muxer.poll_unpin(cx) {
                Poll::Ready(Err(_)) => Poll::Ready(Happened::End),
                _ => Poll::Pending,
            }
        });
        match happened.await {
            Happened::Asked(open) => opening.push_back(open),
            Happened::Outbound(stream) => {
                if let Some(open) = opening.pop_front() {
                    let _ = open.send(stream);
                }
            }
            Happened::Inbound(stream) => {
                drop(tokio::spawn(listen(stream, protocols, tell.clone())))
            }
            Happened::End => return,
        }
    }
}

/// Hears one stream to its end.
async fn listen(
    stream: SubstreamBox,
    protocols: &'static [&'static str],
    tell: mpsc::UnboundedSender<Message>,
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
            if tell.send(message).is_err() {
                return;
            }
        }
    }
}
