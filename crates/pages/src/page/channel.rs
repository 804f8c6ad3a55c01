//! `page:<cid>`: joins, progress, relayed segments and signals of one page.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Value, json};
use watchfire::feature::Direction;
use watchfire::internal::{ForwardKind, Metrics, OwnClientKey, retry_after_ms};
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use watchfire_tracker::{Have, JoinError, QuotaExceeded, RelayRefusal};
use watchfire_types::PeerId;

use super::Elsewhere;
use super::name::{TOPIC_PREFIX, check_cid};
use super::peer_json::{KnownPeer, PeerKind, counts_json};
use super::peer_key::PeerKey;
use super::relay_counts::RelayCounts;
use super::replicated::{JoinRefusal, JoiningPeer, RelayError, ReplicatedPages};
use super::trace_report::TraceReports;
use crate::stun::Announced;

/// Each relayed segment begins with a peer id of this many bytes.
const PEER_BYTES: usize = 8;

/// A segment to this id goes to the first peer of the join reply that has the whole page. So a
/// client can request its first block with the join, before it knows any peer.
const FIRST_HOLDER: PeerId = PeerId(0);

/// A client on a page.
pub(super) struct Member {
    peer: PeerId,
    kind: PeerKind,
    /// The first peer in the reply to its join that had the whole page.
    first_holder: Option<PeerId>,
}

/// The channel of the topics `page:<cid>`.
pub(super) struct PageChannel {
    pub pages: Arc<ReplicatedPages>,
    pub metrics: Arc<Metrics>,
    pub relay_frame_bytes_max: u32,
    pub signal_bytes_max: u32,
    pub segments: ForwardKind,
    pub signals: ForwardKind,
    pub counts: Arc<RelayCounts>,
    /// Where browsers reach STUN; empty while nothing answers there.
    pub stun: Arc<OnceLock<Announced>>,
    pub own_client_key: OwnClientKey,
    pub elsewhere: Arc<Elsewhere>,
    pub trace_reports: TraceReports,
}

/// How much of the page a client has.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HaveText {
    None,
    Some,
    All,
}

#[derive(Deserialize)]
struct Progress {
    have: HaveText,
}

#[derive(Deserialize)]
struct JoinPayload {
    have: HaveText,
    /// The kind of the client. An unknown kind counts as a tab.
    #[serde(default)]
    kind: Value,
    /// Sent by the page clients of this server.
    own_client_key: Option<String>,
    /// Without a key, the peer gets a random id.
    peer_key: Option<PeerKey>,
}

impl From<HaveText> for Have {
    fn from(text: HaveText) -> Have {
        match text {
            HaveText::None => Have::Nothing,
            HaveText::Some => Have::Some,
            HaveText::All => Have::All,
        }
    }
}

impl Channel for PageChannel {
    type State = Member;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<Member>, Refusal> {
        let page = page_cid(socket.topic());
        check_cid(page).map_err(|message| {
            Refusal::with(json!({ "reason": "not a CID", "message": message }))
        })?;
        let Ok(JoinPayload { have, kind, own_client_key, peer_key }) = payload.json() else {
            return Err(Refusal::with(json!({
                "reason": "bad join",
                "message": "the join needs {\"have\": \"all\" | \"some\" | \"none\"}, and a \"peer_key\" is a text of 16 to 64 bytes",
            })));
        };
        let random = PeerId(getrandom::u64().map_err(|_| Refusal::because("no randomness"))?);
        let of_key = peer_key.map(|key| key.peer).filter(|peer| *peer != FIRST_HOLDER);
        let is_own_client = own_client_key.is_some_and(|key| self.own_client_key.matches(&key));
        let (address, from, have) = (socket.address(), socket.counted_address(), have.into());
        let kind = if kind == "node" { PeerKind::Node } else { PeerKind::Tab };
        let joining = JoiningPeer { of_key, random, address, from, have, kind, is_own_client };
        let joined =
            self.pages.join(socket.now(), page, joining).map_err(|error| self.refuse(error))?;
        let peer = joined.peer;
        let mut response = json!({
            "peer": peer.to_string(),
            "peers": peers_json(&joined.peers),
            "counts": counts_json(joined.counts),
        });
        if let Some(ago) = joined.last_available {
            response["last_available"] = ago.as_secs().into();
        }
        if let Some(stun) = self.stun.get() {
            response["stun"] = stun.to_json();
        }
        // After the page was joined: a later change is broadcast, and arrives after the reply.
        if let Some(servers) = self.elsewhere.lock().get(page) {
            response["elsewhere"] = json!(servers);
        }
        let first_holder = joined.peers.iter().find(|known| known.have == Have::All);
        if is_program(kind, socket) {
            self.metrics.programs_now.add(1);
        }
        let member = Member { peer, kind, first_holder: first_holder.map(|known| known.peer) };
        Ok(Joined::with(member).response(response))
    }

    fn handle_in(
        &self,
        member: &mut Member,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        let page = page_cid(socket.topic()).to_owned();
        Ok(match (event, payload) {
            ("relay", Payload::Binary(data)) => self.relay(member, &page, socket, data),
            ("signal", Payload::Binary(data)) => self.signal(member.peer, &page, socket, data),
            ("relay" | "signal", Payload::Json(_)) => {
                Outcome::Reply(Reply::because(&format!("{event} takes bytes")))
            }
            ("have", payload) => match payload.json::<Progress>() {
                Ok(Progress { have }) => {
                    let (now, address) = (socket.now(), socket.address());
                    self.pages.progress(now, &page, member.peer, address, have.into());
                    Outcome::Reply(Reply::ok(json!({})))
                }
                Err(error) => Outcome::Reply(Reply::because(&error.to_string())),
            },
            ("trace", Payload::Json(report)) => match self.trace_reports.record(&page, report) {
                Ok(()) => Outcome::Reply(Reply::ok(json!({}))),
                Err(refusal) => Outcome::Reply(Reply::because(&refusal.to_string())),
            },
            ("more_peers", _) => {
                let peers = peers_json(&self.pages.peers(&page, member.peer));
                Outcome::Reply(Reply::ok(json!({ "peers": peers })))
            }
            _ => Outcome::Reply(Reply::because("unknown event")),
        })
    }

    fn leave(&self, Member { peer, kind, .. }: Member, socket: &mut Socket<'_>) {
        if is_program(kind, socket) {
            self.metrics.programs_now.sub(1);
        }
        let (now, address, from) = (socket.now(), socket.address(), socket.counted_address());
        self.pages.leave(now, page_cid(socket.topic()), peer, address, from);
    }
}

impl PageChannel {
    fn relay(&self, from: &Member, page: &str, socket: &mut Socket<'_>, data: &[u8]) -> Outcome {
        let Member { peer: from, first_holder, .. } = *from;
        let max = self.relay_frame_bytes_max;
        if data.len() > max as usize {
            self.metrics.refused("relay_frame_too_large");
            let response = json!({ "reason": "relay frame too large", "max": max });
            return Outcome::Reply(Reply::error(response));
        }
        let Some((to, segment)) = data.split_first_chunk::<PEER_BYTES>() else {
            return Outcome::Reply(Reply::because("a relay frame begins with a peer id"));
        };
        let to = match (PeerId::from_bytes(*to), first_holder) {
            (FIRST_HOLDER, Some(holder)) => holder,
            // Not counted as a refusal: the client cannot know that nobody has the whole page.
            (FIRST_HOLDER, None) => return Outcome::Reply(Reply::because("peer gone")),
            (named, _) => named,
        };
        let sender = (from, socket.counted_address());
        match self.pages.relay(socket.now(), page, sender, to, segment.len()) {
            Ok(address) => {
                socket.guest().inspect(|guest| guest.count_bytes(Direction::Received, data.len()));
                // The reply follows when the destination's queue has taken or refused the segment.
                socket.forward(self.segments, address, from_peer(from, segment));
                Outcome::NoReply
            }
            Err(RelayError::Refused(RelayRefusal::NoSuchPeer)) => {
                self.metrics.refused("relay_peer_gone");
                Outcome::Reply(Reply::because("peer gone"))
            }
            Err(RelayError::Refused(
                RelayRefusal::PageBudget { retry_after } | RelayRefusal::PeerBudget { retry_after },
            )) => {
                self.metrics.refused("relay_budget");
                Outcome::Reply(over_budget(retry_after))
            }
            Err(RelayError::QuotaExceeded(over)) => {
                self.metrics.refused("relay_quota");
                Outcome::Reply(match over {
                    QuotaExceeded::RelayRate { retry_after }
                    | QuotaExceeded::RelayDay { retry_after } => over_budget(retry_after),
                    QuotaExceeded::Pages { .. } => Reply::because(&over.to_string()),
                })
            }
        }
    }

    fn refuse(&self, error: JoinRefusal) -> Refusal {
        Refusal::with(match error {
            JoinRefusal::Full(JoinError::PageFull { max }) => {
                json!({ "reason": "page full", "max": max })
            }
            JoinRefusal::Full(JoinError::TooManyPages { max }) => {
                json!({ "reason": "too many pages", "max": max })
            }
            JoinRefusal::Denied => {
                self.metrics.refused("page_denied");
                json!({ "reason": "denied" })
            }
            JoinRefusal::QuotaExceeded(QuotaExceeded::Pages { max }) => {
                self.metrics.refused("pages_per_address");
                json!({ "reason": "too many pages of this address", "max": max })
            }
            JoinRefusal::QuotaExceeded(over) => json!({ "reason": over.to_string() }),
        })
    }

    /// Sends a signal to another peer. The server does not read it.
    fn signal(&self, from: PeerId, page: &str, socket: &mut Socket<'_>, data: &[u8]) -> Outcome {
        let Some((to, signal)) = data.split_first_chunk::<PEER_BYTES>() else {
            return Outcome::Reply(Reply::because("a signal begins with a peer id"));
        };
        let max = self.signal_bytes_max;
        if signal.len() > max as usize {
            self.metrics.refused("signal_too_large");
            let response = json!({ "reason": "signal too large", "max": max });
            return Outcome::Reply(Reply::error(response));
        }
        let to = PeerId::from_bytes(*to);
        match self.pages.signal(socket.now(), page, from, to) {
            Ok(address) => {
                // The operator's page warns if such browsers signal and none of them reaches STUN.
                if socket.counted_address().is_some_and(|address| !address.is_loopback()) {
                    self.counts.signals_outside.inc();
                }
                socket.forward(self.signals, address, from_peer(from, signal));
                Outcome::NoReply
            }
            Err(RelayRefusal::NoSuchPeer) => {
                self.metrics.refused("signal_peer_gone");
                Outcome::Reply(Reply::because("peer gone"))
            }
            Err(
                RelayRefusal::PageBudget { retry_after } | RelayRefusal::PeerBudget { retry_after },
            ) => {
                self.metrics.refused("signals_too_fast");
                let retry_after_ms = retry_after_ms(retry_after);
                let response =
                    json!({ "reason": "too many signals", "retry_after_ms": retry_after_ms });
                Outcome::Reply(Reply::error(response))
            }
        }
    }
}

/// Whether the client counts as a program and not as a person. A guest never does.
fn is_program(kind: PeerKind, socket: &Socket<'_>) -> bool {
    kind == PeerKind::Node && socket.guest().is_none()
}

/// A relayed message as its destination receives it: the sender's peer id, then the data.
fn from_peer(from: PeerId, data: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(PEER_BYTES + data.len());
    message.put_slice(&from.to_bytes());
    message.put_slice(data);
    message.freeze()
}

fn page_cid(topic: &str) -> &str {
    topic.strip_prefix(TOPIC_PREFIX).expect("this channel handles page topics only")
}

fn peers_json(peers: &[KnownPeer]) -> Vec<Value> {
    peers.iter().copied().map(KnownPeer::to_json).collect()
}

/// Refuses a frame that would pass after a while.
fn over_budget(retry_after: Duration) -> Reply {
    let retry_after_ms = retry_after_ms(retry_after);
    Reply::error(json!({ "reason": "relay budget", "retry_after_ms": retry_after_ms }))
}
