use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use content::{Cid, Version};
use pages::{Have, JoinError, OverQuota, RelayRefusal};
use serde::Deserialize;
use serde_json::{Value, json};
use vocab::PeerId;

use crate::app::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Relayed, Reply, Socket};
use crate::metrics::Metrics;
use crate::page_board::{
    Known, Newcomer, NotJoined, NotRelayed, PageBoard, PeerKind, TOPIC_PREFIX, counts_json,
    peer_json, retry_after_ms,
};
use crate::stun_desk::Announced;
use crate::worlds::VisitKey;

/// The bytes of a peer id before each relayed segment.
const PEER_BYTES: usize = 8;

/// `page:<cid>`: who has a page open, who holds it, and the relay between them.
pub(crate) struct PageChannel {
    pub board: Arc<PageBoard>,
    pub metrics: Arc<Metrics>,
    pub relay_frame_bytes_max: u32,
    pub signal_bytes_max: u32,
    /// Where browsers are told to ask how they are seen from outside; empty where nobody answers.
    pub stun: Arc<OnceLock<Announced>>,
    pub visit_key: VisitKey,
}

/// What a client says of its own copy.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Copy {
    None,
    Some,
    All,
}

#[derive(Deserialize)]
struct Announcement {
    have: Copy,
}

/// What a client joins with.
#[derive(Deserialize)]
struct Arrival {
    have: Copy,
    /// What it is; of a kind that is not known nothing is told, as of a tab.
    #[serde(default)]
    kind: Value,
    /// Said by our own visits.
    visit: Option<String>,
}

impl From<Copy> for Have {
    fn from(copy: Copy) -> Have {
        match copy {
            Copy::None => Have::Nothing,
            Copy::Some => Have::Some,
            Copy::All => Have::All,
        }
    }
}

impl Channel for PageChannel {
    /// The peer that this client is on the page.
    type State = PeerId;

    fn join(
        &self,
        socket: &mut Socket<'_>,
        payload: Payload<'_>,
    ) -> Result<Joined<PeerId>, Refusal> {
        let page = page_of(socket.topic());
        check_cid(page).map_err(|message| {
            Refusal::with(json!({ "reason": "not a CID", "message": message }))
        })?;
        let Ok(Arrival { have, kind, visit }) = payload.json() else {
            return Err(Refusal::with(json!({
                "reason": "bad join",
                "message": "the join needs {\"have\": \"all\" | \"some\" | \"none\"}",
            })));
        };
        let peer = PeerId(getrandom::u64().map_err(|_| Refusal::because("no randomness"))?);
        let is_visit = visit.is_some_and(|said| self.visit_key.is(&said));
        let (address, from, have) = (socket.address(), socket.counted, have.into());
        let kind = if kind == "node" { PeerKind::Node } else { PeerKind::Tab };
        let newcomer = Newcomer { peer, address, from, have, kind, is_visit };
        let welcome =
            self.board.join(socket.now(), page, newcomer).map_err(|error| self.refuse(error))?;
        let mut response = json!({
            "peer": peer.to_string(),
            "peers": peers_json(&welcome.peers),
            "counts": counts_json(welcome.counts),
        });
        if let Some(ago) = welcome.last_lit {
            response["last_lit"] = ago.as_secs().into();
        }
        if let Some(stun) = self.stun.get() {
            response["stun"] = stun.to_json();
        }
        Ok(Joined::with(peer).response(response))
    }

    fn handle_in(
        &self,
        peer: &mut PeerId,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        let page = page_of(socket.topic()).to_owned();
        Ok(match (event, payload) {
            ("relay", Payload::Binary(data)) => self.relay(*peer, &page, socket, data),
            ("signal", Payload::Binary(data)) => self.signal(*peer, &page, socket, data),
            ("relay" | "signal", Payload::Json(_)) => {
                Outcome::Reply(Reply::because(&format!("{event} takes bytes")))
            }
            ("have", payload) => match payload.json::<Announcement>() {
                Ok(Announcement { have }) => {
                    self.board.progress(socket.now(), &page, *peer, have.into());
                    Outcome::Reply(Reply::ok(json!({})))
                }
                Err(error) => Outcome::Reply(Reply::because(&error.to_string())),
            },
            ("more_peers", _) => {
                let peers = peers_json(&self.board.peers(&page, *peer));
                Outcome::Reply(Reply::ok(json!({ "peers": peers })))
            }
            _ => Outcome::Reply(Reply::because("unknown event")),
        })
    }

    fn leave(&self, peer: PeerId, socket: &mut Socket<'_>) {
        self.board.leave(socket.now(), page_of(socket.topic()), peer, socket.counted);
    }
}

impl PageChannel {
    fn relay(&self, from: PeerId, page: &str, socket: &mut Socket<'_>, data: &[u8]) -> Outcome {
        let max = self.relay_frame_bytes_max;
        if data.len() > max as usize {
            self.metrics.refused("relay_frame_too_large");
            let response = json!({ "reason": "relay frame too large", "max": max });
            return Outcome::Reply(Reply::error(response));
        }
        let Some((to, segment)) = data.split_first_chunk::<PEER_BYTES>() else {
            return Outcome::Reply(Reply::because("a relay frame begins with a peer id"));
        };
        let to = PeerId::from_bytes(*to);
        let sender = (from, socket.counted);
        match self.board.relay(socket.now(), page, sender, to, segment.len()) {
            Ok(address) => {
                // Answered when its destination has accepted or refused it.
                socket.relay(Relayed::Segment, address, from_peer(from, segment));
                Outcome::NoReply
            }
            Err(NotRelayed::Refused(RelayRefusal::NoSuchPeer)) => {
                self.metrics.refused("relay_peer_gone");
                Outcome::Reply(Reply::because("peer gone"))
            }
            Err(NotRelayed::Refused(
                RelayRefusal::PageBudget { retry_after } | RelayRefusal::PeerBudget { retry_after },
            )) => {
                self.metrics.refused("relay_budget");
                Outcome::Reply(over_budget(retry_after))
            }
            Err(NotRelayed::OverQuota(over)) => {
                self.metrics.refused("relay_quota");
                Outcome::Reply(match over {
                    OverQuota::RelayRate { retry_after } | OverQuota::RelayDay { retry_after } => {
                        over_budget(retry_after)
                    }
                    OverQuota::Pages { .. } => Reply::because(&over.to_string()),
                })
            }
        }
    }

    fn refuse(&self, error: NotJoined) -> Refusal {
        Refusal::with(match error {
            NotJoined::Full(JoinError::PageFull { max }) => {
                json!({ "reason": "page full", "max": max })
            }
            NotJoined::Full(JoinError::TooManyPages { max }) => {
                json!({ "reason": "too many pages", "max": max })
            }
            NotJoined::Denied => {
                self.metrics.refused("page_denied");
                json!({ "reason": "denied" })
            }
            NotJoined::OverQuota(OverQuota::Pages { max }) => {
                self.metrics.refused("pages_per_address");
                json!({ "reason": "too many pages of this address", "max": max })
            }
            NotJoined::OverQuota(over) => json!({ "reason": over.to_string() }),
        })
    }

    /// Pass on what two peers say to find a direct path. What it says is their own affair.
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
        match self.board.signal(socket.now(), page, from, to) {
            Ok(address) => {
                socket.relay(Relayed::Signal, address, from_peer(from, signal));
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

/// What a peer hears: who says it, and what.
fn from_peer(from: PeerId, said: &[u8]) -> Bytes {
    let mut passed_on = BytesMut::with_capacity(PEER_BYTES + said.len());
    passed_on.put_slice(&from.to_bytes());
    passed_on.put_slice(said);
    passed_on.freeze()
}

fn page_of(topic: &str) -> &str {
    topic.strip_prefix(TOPIC_PREFIX).expect("this channel answers for page topics only")
}

/// A page's name is one text for one content: the canonical text of a CIDv1.
pub(crate) fn check_cid(page: &str) -> Result<(), String> {
    let cid: Cid = page.parse().map_err(|error: content::CidError| error.to_string())?;
    match cid.version() {
        Version::V0 => Err("a page is named by a CIDv1, not a CIDv0".into()),
        Version::V1 if cid.to_string() != page => Err(format!("written as {cid}, it would be one")),
        Version::V1 => Ok(()),
    }
}

fn peers_json(peers: &[Known]) -> Vec<Value> {
    peers.iter().copied().map(peer_json).collect()
}

/// The same frame would pass after a while.
fn over_budget(retry_after: Duration) -> Reply {
    let retry_after_ms = retry_after_ms(retry_after);
    Reply::error(json!({ "reason": "relay budget", "retry_after_ms": retry_after_ms }))
}
