//! Whether a libp2p peer has the page of a transfer.
//!
//! A peer that has sent a page does not say when it has the page no longer: in Bitswap, only a request
//! is answered. Without more, this server would tell its visitors for minutes that a page is available
//! whose last holder, on another server, has left.
//!
//! So the transfer asks its sources, every two seconds in which they sent no block. When none of them
//! has the page any more, it asks all peers once. When none of these has it either, the page is gone:
//! at most about nine seconds after its holder left, and usually after two. A question costs some 50
//! bytes for each source.
//!
//! A transfer to libp2p peers asks too, once its blocks have been fetched. While one of them has the page,
//! the visitors are not told that only they have it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use watchfire_content::Cid;
use watchfire_p2p::{Host, PeerId};

/// The time from a confirmation to the next question.
const CONFIRM_PERIOD: Duration = Duration::from_secs(2);
/// How long the sources may take to answer.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the other peers may take to answer.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(2);
/// Sources that are remembered. At the limit, the one that sent a block first is forgotten.
const SOURCES_MAX: usize = 8;

/// The libp2p peers that have a page.
pub(super) struct PageSource {
    host: Arc<Host>,
    page: Cid,
    sources: VecDeque<PeerId>,
    state: State,
}

type Answer = Pin<Box<dyn Future<Output = Option<PeerId>> + Send>>;

enum State {
    /// No peer is known to have the page.
    Lost,
    /// A peer had the page then.
    Confirmed(Instant),
    AskingSources(Answer),
    AskingOthers(Answer),
}

impl PageSource {
    pub fn new(host: Arc<Host>, page: Cid) -> Self {
        PageSource { host, page, sources: VecDeque::new(), state: State::Lost }
    }

    /// Whether a peer is known to have the page.
    pub fn is_known(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Asks all peers for the page, unless they are asked already or one is known to have it.
    pub fn look(&mut self) {
        if matches!(self.state, State::Lost) {
            self.state = State::AskingOthers(self.ask(None, OTHERS_TIMEOUT));
        }
    }

    /// A peer sent a block of the page, and so has the page.
    pub fn note_block(&mut self, peer: PeerId) {
        self.sources.retain(|source| *source != peer);
        self.sources.push_front(peer);
        self.sources.truncate(SOURCES_MAX);
        self.state = State::Confirmed(Instant::now());
    }

    /// Waits until all peers have been asked for the page, and returns whether one has it. Waits for
    /// ever if none is known to have it and nobody looks. Cancelling the wait loses nothing.
    pub async fn asked(&mut self) -> bool {
        loop {
            match &mut self.state {
                State::Lost => std::future::pending().await,
                State::Confirmed(at) => {
                    sleep_until(*at + CONFIRM_PERIOD).await;
                    let sources = self.sources.iter().copied().collect();
                    self.state = State::AskingSources(self.ask(Some(sources), SOURCES_TIMEOUT));
                }
                State::AskingSources(answer) => match answer.await {
                    Some(peer) => self.note_block(peer),
                    None => self.state = State::AskingOthers(self.ask(None, OTHERS_TIMEOUT)),
                },
                State::AskingOthers(answer) => match answer.await {
                    Some(peer) => {
                        self.sources.clear();
                        self.note_block(peer);
                        return true;
                    }
                    None => {
                        self.sources.clear();
                        self.state = State::Lost;
                        return false;
                    }
                },
            }
        }
    }

    fn ask(&self, peers: Option<Vec<PeerId>>, time: Duration) -> Answer {
        let (host, page) = (self.host.clone(), self.page.clone());
        Box::pin(async move {
            // A host that has stopped has no peers.
            timeout(time, host.ask(peers, page)).await.ok()?.ok()?
        })
    }
}
