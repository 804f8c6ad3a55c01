//! A visit: joins a page, and joins it again whenever the connection is lost.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bitswap::Protocol;
use content::Cid;
use futures::{SinkExt, StreamExt};
use p2p::{Carrier, Errand, Guest, Host, Scope};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use vocab::{Instant as CoreInstant, PeerId};

use crate::site::{Connection, Door};
use crate::talk::{Output, Talk};
use crate::told::{Counts, Have};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(15);
/// How long the server may take to read what is written to it.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// The first wait before connecting again; doubled each time, up to the next.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);
/// Longest message of the server; a relayed frame has 64 KiB.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Which page to visit, and how.
pub struct Plan {
    /// The way to the server.
    pub door: Arc<dyn Door>,
    /// The root of the page.
    pub page: Cid,
    /// How much of it is here at first.
    pub have: Have,
    /// Blocks that its peers may be asked for; all when there is none.
    pub scope: Option<Scope>,
    /// Goes along with the join, for a server that knows what to do with it.
    pub extra: Value,
}

/// How a visit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// On the way.
    Connecting,
    /// We are on the page.
    Joined,
    /// The server does not let us in, for this reason. It is asked again.
    Refused(String),
    /// The server cannot be reached, for this reason. It is tried again.
    Away(String),
}

/// What is known of a page that is visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// How the visit goes.
    pub standing: Standing,
    /// Who watches the page.
    pub counts: Counts,
    /// Peers that we can talk to.
    pub peers: usize,
}

/// A peer of a page. It stays until it is dropped.
#[derive(Debug)]
pub struct Visit {
    have: watch::Sender<Have>,
    news: watch::Receiver<News>,
    task: JoinHandle<()>,
}

impl Visit {
    /// Visits a page, so that `host` exchanges blocks with the page's peers. To be called within a
    /// tokio runtime.
    pub fn begin(host: &Host, plan: Plan) -> Self {
        let (have, has) = watch::channel(plan.have);
        let news = News { standing: Standing::Connecting, counts: Counts::default(), peers: 0 };
        let (teller, news) = watch::channel(news);
        let visitor = Visitor {
            door: plan.door,
            page: page_of(&plan.page).to_string(),
            scope: plan.scope,
            extra: plan.extra,
            has,
            teller,
            carrier: host.carrier(),
            guests: HashMap::new(),
            peers: HashMap::new(),
            started_at: Instant::now(),
        };
        Visit { have, news, task: tokio::spawn(visitor.run()) }
    }

    /// How much of the page is here from now on.
    pub fn set_have(&self, have: Have) {
        self.have.send_if_modified(|before| std::mem::replace(before, have) != have);
    }

    /// How it goes.
    pub fn news(&self) -> watch::Receiver<News> {
        self.news.clone()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The name of the page that has this root: pages are called by CIDs of version 1.
pub fn page_of(root: &Cid) -> Cid {
    Cid::v1(root.codec(), root.hash().clone())
}

struct Visitor {
    door: Arc<dyn Door>,
    page: String,
    scope: Option<Scope>,
    extra: Value,
    has: watch::Receiver<Have>,
    teller: watch::Sender<News>,
    carrier: Carrier,
    guests: HashMap<PeerId, Guest>,
    peers: HashMap<Guest, PeerId>,
    started_at: Instant,
}

/// Why a connection ended.
enum End {
    /// It can be tried again.
    Lost(String),
    /// We were not let in.
    Refused(String),
    /// The host is gone, and all this with it.
    Stopped,
}

impl From<p2p::Stopped> for End {
    fn from(_: p2p::Stopped) -> Self {
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

impl Visitor {
    async fn run(mut self) {
        let mut tries = 0;
        loop {
            let end = self.stay(&mut tries).await;
            if self.part().await.is_err() {
                return;
            }
            let standing = match end {
                Ok(()) | Err(End::Stopped) => return,
                Err(End::Lost(reason)) => Standing::Away(reason),
                Err(End::Refused(reason)) => Standing::Refused(reason),
            };
            tracing::debug!(page = self.page, ?standing, "left a page");
            self.teller.send_modify(|news| {
                *news = News { standing, counts: Counts::default(), peers: 0 };
            });
            tries += 1;
            sleep(again_after(tries, dice())).await;
        }
    }

    fn now(&self) -> CoreInstant {
        let nanos = self.started_at.elapsed().as_nanos();
        CoreInstant::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
    }

    /// One connection, from its beginning to its end.
    async fn stay(&mut self, tries: &mut u32) -> Result<(), End> {
        let mut socket = self.connect().await?;
        let have = *self.has.borrow_and_update();
        let mut talk = Talk::begin(self.now(), &self.page, have, self.extra.clone());
        loop {
            self.do_outputs(&mut talk, &mut socket, tries).await?;
            let wake = talk.next_wake().since(CoreInstant::ZERO);
            tokio::select! {
                message = socket.next() => match message {
                    Some(message) => self.heard(&mut talk, message?)?,
                    None => return Err(End::Lost("the server closed the connection".to_owned())),
                },
                errand = self.carrier.next() => self.errand(&mut talk, errand),
                changed = self.has.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let have = *self.has.borrow_and_update();
                    talk.set_have(self.now(), have);
                }
                () = sleep_until(self.started_at + wake) => talk.handle_tick(self.now()),
            }
        }
    }

    async fn connect(&self) -> Result<Socket, End> {
        let connecting = async {
            let connection = self.door.open().await?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE_BYTES_MAX))
                .max_frame_size(Some(MESSAGE_BYTES_MAX));
            let address = self.door.address();
            let (socket, _) = client_async_with_config(address, connection, Some(config)).await?;
            Ok(socket)
        };
        let late = |_| End::Lost("the server does not answer".to_owned());
        timeout(CONNECT_MAX, connecting).await.map_err(late)?
    }

    fn heard(&self, talk: &mut Talk, message: Message) -> Result<(), End> {
        match message {
            Message::Text(text) => talk.heard_text(self.now(), text.as_str()),
            Message::Binary(bytes) => talk.heard_binary(self.now(), &bytes),
            Message::Close(_) => {
                return Err(End::Lost("the server closed the connection".to_owned()));
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    fn errand(&mut self, talk: &mut Talk, errand: Errand) {
        match errand {
            Errand::Send { guest, message } => {
                if let Some(peer) = self.peers.get(&guest) {
                    talk.say(self.now(), *peer, message);
                }
            }
            Errand::Dismiss { guest } => {
                if let Some(peer) = self.peers.remove(&guest) {
                    self.guests.remove(&peer);
                    talk.ban(peer);
                }
            }
        }
    }

    async fn do_outputs(
        &mut self,
        talk: &mut Talk,
        socket: &mut Socket,
        tries: &mut u32,
    ) -> Result<(), End> {
        let mut is_written = false;
        while let Some(output) = talk.poll_output() {
            match output {
                Output::Text(text) => {
                    write(socket.feed(Message::text(text))).await?;
                    is_written = true;
                }
                Output::Binary(bytes) => {
                    write(socket.feed(Message::binary(bytes))).await?;
                    is_written = true;
                }
                Output::Joined => {
                    *tries = 0;
                    self.teller.send_modify(|news| news.standing = Standing::Joined);
                }
                Output::Refused { reason } => return Err(End::Refused(reason)),
                Output::Met { peer, have } => {
                    tracing::trace!(%peer, ?have, "met");
                    let guest = self.carrier.connect(Protocol::V1_2, self.scope.clone()).await?;
                    self.guests.insert(peer, guest);
                    self.peers.insert(guest, peer);
                    self.tell_peers();
                }
                Output::Lost { peer } => {
                    if let Some(guest) = self.guests.remove(&peer) {
                        self.peers.remove(&guest);
                        self.carrier.disconnect(guest).await?;
                        self.tell_peers();
                    }
                }
                Output::Message { peer, bytes } => {
                    if let Some(guest) = self.guests.get(&peer)
                        && let Err(error) = self.carrier.received(*guest, &bytes).await?
                    {
                        tracing::debug!(%peer, %error, "a message that cannot be read");
                    }
                }
                Output::Arriving { peer } => {
                    if let Some(guest) = self.guests.get(&peer) {
                        self.carrier.arriving(*guest).await?;
                    }
                }
                Output::Malformed { peer } => {
                    if let Some(guest) = self.guests.get(&peer) {
                        self.carrier.malformed(*guest).await?;
                    }
                }
                Output::Sent { peer, bytes } => {
                    if let Some(guest) = self.guests.get(&peer) {
                        self.carrier.sent(*guest, bytes).await?;
                    }
                }
                Output::Counts(counts) => self.teller.send_modify(|news| news.counts = counts),
                Output::Broken { reason } => return Err(End::Lost(reason.to_owned())),
            }
        }
        if is_written {
            write(socket.flush()).await?;
        }
        Ok(())
    }

    fn tell_peers(&self) {
        self.teller.send_modify(|news| news.peers = self.guests.len());
    }

    /// All peers of the connection are gone.
    async fn part(&mut self) -> Result<(), p2p::Stopped> {
        self.peers.clear();
        for (_, guest) in self.guests.drain() {
            self.carrier.disconnect(guest).await?;
        }
        Ok(())
    }
}

async fn write(writing: impl Future<Output = Result<(), tungstenite::Error>>) -> Result<(), End> {
    let late = |_| End::Lost("the server does not read".to_owned());
    Ok(timeout(WRITE_MAX, writing).await.map_err(late)??)
}

/// The wait before the nth try again, n from 1: between half of it and all, so that a server that
/// comes back meets a drizzle.
fn again_after(tries: u32, dice: u16) -> Duration {
    let longest = AGAIN_AFTER.saturating_mul(1 << (tries - 1).min(16)).min(AGAIN_AFTER_MAX);
    longest / 2 + (longest / 2).mul_f64(f64::from(dice) / f64::from(u16::MAX))
}

fn dice() -> u16 {
    // Without randomness all come back at once, which is no reason not to come back.
    getrandom::u32().map_or(u16::MAX, |number| number as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_connect_waits_ever_longer_and_never_as_long_as_all_others() {
        let waits: Vec<_> = (1..9).map(|tries| again_after(tries, u16::MAX).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(again_after(1, 0).as_millis(), 125);
        assert_eq!(again_after(u32::MAX, 0).as_millis(), 5000);
    }

    #[test]
    fn a_page_is_called_by_a_cid_of_version_1() {
        let root: Cid = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH".parse().unwrap();
        assert!(page_of(&root).to_string().starts_with("bafybei"));
        assert_eq!(page_of(&page_of(&root)), page_of(&root));
    }
}
