//! Where the bytes of one download come from, which hosts of the fleet were asked, and whether it goes on.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use watchfire_p2p::PeerId;

use crate::fleet::FleetError;

/// Asked hosts that are kept for one download. When the limit is reached, the one that was asked first
/// is forgotten.
const HOSTS_MAX: usize = 32;
/// Hosts of which the bytes are counted for one download, and those that its line in the log names. Further hosts are
/// counted together.
const SENDERS_MAX: usize = 1_024;
const NAMED_SENDERS_MAX: usize = 16;

/// The last answer of a host that was asked for a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HostAnswer {
    Waiting,
    /// The host knows blocks of the blob.
    Hashes {
        /// The hashes of blocks that it has told so far.
        count: u64,
    },
    /// The host sent the whole blob, which is small.
    Blob,
    /// The host has nothing of the blob, or nothing more than it told before.
    Absent,
    Error {
        cause: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningDownload {
    pub digest: String,
    /// The repository for which the download was started, with its registry; or the URL of a file.
    pub repository: String,
    pub seconds: f64,
    /// The size of the blob; `None` while it is unknown.
    pub bytes: Option<u64>,
    /// Bytes that are in the store, some perhaps from before the start.
    pub present_bytes: u64,
    pub registry_bytes: u64,
    pub host_bytes: u64,
    /// Hosts of the fleet that were asked for the blob.
    pub hosts: Vec<AskedHost>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedHost {
    pub id: String,
    pub addresses: Vec<String>,
    #[serde(flatten)]
    pub answer: HostAnswer,
}

/// Counts the arrivals of a download: bytes of the registry, and hashes and blocks of other hosts. While
/// the count grows, the rest will arrive.
#[derive(Debug, Default)]
pub struct Progress {
    here: AtomicU64,
    elsewhere: AtomicU64,
}

impl Progress {
    pub(super) fn note(&self) {
        self.here.fetch_add(1, Ordering::Relaxed);
    }

    /// Something arrived at another host that fetches the same blob.
    pub(super) fn note_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// Arrivals at this host.
    pub(super) fn here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }

    pub fn count(&self) -> u64 {
        self.here() + self.elsewhere.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Sources {
    pub(super) started_at: Instant,
    registry_bytes: AtomicU64,
    host_bytes: AtomicU64,
    senders: Mutex<HashMap<PeerId, u64>>,
    hosts: Mutex<Vec<(PeerId, HostAnswer)>>,
}

impl Sources {
    pub(super) fn new() -> Self {
        Sources {
            started_at: Instant::now(),
            registry_bytes: AtomicU64::new(0),
            host_bytes: AtomicU64::new(0),
            senders: Mutex::default(),
            hosts: Mutex::default(),
        }
    }

    pub(super) fn count_registry(&self, bytes: usize) {
        self.registry_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_host(&self, peer: Option<PeerId>, bytes: usize) {
        self.host_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut senders = self.senders.lock();
        if let Some(peer) = peer
            && (senders.len() < SENDERS_MAX || senders.contains_key(&peer))
        {
            *senders.entry(peer).or_default() += bytes as u64;
        }
    }

    /// The hosts that sent bytes, as `<id>=<bytes>`, the one that sent most first.
    pub(super) fn senders(&self) -> String {
        let mut senders: Vec<_> = self.senders.lock().clone().into_iter().collect();
        senders.sort_unstable_by_key(|(peer, bytes)| Reverse((*bytes, *peer)));
        senders.truncate(NAMED_SENDERS_MAX);
        let named: u64 = senders.iter().map(|(_, bytes)| bytes).sum();
        let mut parts: Vec<_> =
            senders.iter().map(|(peer, bytes)| format!("{peer}={bytes}")).collect();
        let others = self.host_bytes().saturating_sub(named);
        if others > 0 {
            parts.push(format!("others={others}"));
        }
        parts.join(" ")
    }

    pub(super) fn note_asked(&self, peer: PeerId) {
        let mut hosts = self.hosts.lock();
        if hosts.iter().any(|(host, _)| *host == peer) {
            return;
        }
        if hosts.len() >= HOSTS_MAX {
            hosts.remove(0);
        }
        hosts.push((peer, HostAnswer::Waiting));
    }

    /// A host told hashes; `None`: it has no more.
    pub(super) fn note_hashes(&self, peer: PeerId, hashes: Result<Option<usize>, &FleetError>) {
        let change = |before: &HostAnswer| match (hashes, before) {
            (Ok(Some(new)), HostAnswer::Hashes { count }) => {
                HostAnswer::Hashes { count: count + new as u64 }
            }
            (Ok(Some(new)), _) => HostAnswer::Hashes { count: new as u64 },
            // The earlier answer says more.
            (Ok(None), HostAnswer::Hashes { count }) => HostAnswer::Hashes { count: *count },
            (Ok(None), _) => HostAnswer::Absent,
            (Err(error), _) => HostAnswer::Error { cause: error.to_string() },
        };
        self.change(peer, change);
    }

    /// A host answered the request for a whole blob.
    pub(super) fn note_answer(&self, peer: PeerId, answer: HostAnswer) {
        self.change(peer, |_| answer.clone());
    }

    fn change(&self, peer: PeerId, change: impl FnOnce(&HostAnswer) -> HostAnswer) {
        let mut hosts = self.hosts.lock();
        if let Some((_, answer)) = hosts.iter_mut().find(|(host, _)| *host == peer) {
            *answer = change(answer);
        }
    }

    pub(crate) fn registry_bytes(&self) -> u64 {
        self.registry_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        self.host_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn hosts(&self) -> Vec<(PeerId, HostAnswer)> {
        self.hosts.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_of_each_host_is_kept() {
        let sources = Sources::new();
        let peers: Vec<PeerId> = (0..3).map(|_| PeerId::random()).collect();
        peers.iter().for_each(|peer| sources.note_asked(*peer));
        sources.note_hashes(peers[0], Ok(Some(3)));
        sources.note_hashes(peers[0], Ok(Some(4)));
        sources.note_asked(peers[0]);
        sources.note_hashes(peers[0], Ok(None));
        sources.note_hashes(peers[1], Err(&FleetError::Answer));
        let cause = FleetError::Answer.to_string();
        let expected =
            [HostAnswer::Hashes { count: 7 }, HostAnswer::Error { cause }, HostAnswer::Waiting];
        assert_eq!(sources.hosts(), peers.into_iter().zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn the_hosts_that_sent_most_are_named_with_their_bytes() {
        let sources = Sources::new();
        assert_eq!(sources.senders(), "");
        let peers: Vec<PeerId> = (0..SENDERS_MAX + 5).map(|_| PeerId::random()).collect();
        sources.count_host(Some(peers[1]), 5);
        sources.count_host(Some(peers[0]), 3);
        sources.count_host(Some(peers[1]), 1);
        assert_eq!(sources.senders(), format!("{}=6 {}=3", peers[1], peers[0]));
        sources.count_host(None, 4);
        peers.iter().for_each(|peer| sources.count_host(Some(*peer), 1));
        let text = sources.senders();
        let parts: Vec<&str> = text.split(' ').collect();
        assert_eq!(parts[..2], [format!("{}=7", peers[1]), format!("{}=4", peers[0])]);
        let others = 4 + peers.len() - NAMED_SENDERS_MAX;
        assert_eq!((parts.len(), parts[NAMED_SENDERS_MAX]), (17, &*format!("others={others}")));
    }

    #[test]
    fn the_number_of_hosts_is_bounded() {
        let sources = Sources::new();
        let peers: Vec<PeerId> = (0..HOSTS_MAX + 5).map(|_| PeerId::random()).collect();
        for peer in &peers {
            sources.note_asked(*peer);
            sources.note_hashes(*peer, Ok(None));
        }
        let kept: Vec<PeerId> = sources.hosts().into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(kept, peers[5..]);
        // An answer of a host that was forgotten.
        sources.note_hashes(peers[0], Ok(Some(1)));
        assert_eq!(sources.hosts().len(), HOSTS_MAX);
    }
}
