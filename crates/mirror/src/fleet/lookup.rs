//! Which host coordinates a blob: the closest one to its digest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use watchfire_p2p::{Host, PeerId};

/// How old the list of known hosts may be.
const KNOWN_AGE_MAX: Duration = Duration::from_millis(500);
/// How long a host that did not answer is passed over.
const FAILED_FOR: Duration = Duration::from_secs(15);
/// How long ago a host may have answered that is slow and not gone.
const ANSWERED_LATELY: Duration = Duration::from_secs(10);

/// Finds the hosts that are closest to a key, among those that this host knows.
#[derive(Debug)]
pub(super) struct Lookup {
    host: Arc<Host>,
    known: Mutex<KnownHosts>,
    failed: Mutex<HashMap<PeerId, Instant>>,
    /// The hosts that answered lately.
    answered: Mutex<HashMap<PeerId, Instant>>,
}

/// The hosts of the routing table and this host, each with its place.
#[derive(Debug, Default)]
struct KnownHosts {
    read_at: Option<Instant>,
    places: Vec<(PeerId, [u8; 32])>,
}

impl Lookup {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Lookup {
            host,
            known: Mutex::default(),
            failed: Mutex::default(),
            answered: Mutex::default(),
        }
    }

    /// The known hosts that are closest to a key and that answered so far, and this host among them.
    pub(super) async fn closest(&self, key: &str, hosts_max: usize) -> Vec<PeerId> {
        self.refresh().await;
        let key: [u8; 32] = Sha256::digest(key).into();
        let failed = self.failed.lock();
        let known = self.known.lock();
        let mut hosts: Vec<_> = known
            .places
            .iter()
            .filter(|(peer, _)| failed.get(peer).is_none_or(|at| at.elapsed() >= FAILED_FOR))
            .map(|(peer, place)| (distance(place, &key), *peer))
            .collect();
        hosts.sort_unstable();
        hosts.into_iter().take(hosts_max).map(|(_, peer)| peer).collect()
    }

    pub(super) fn is_closer(key: &str, first: PeerId, second: PeerId) -> bool {
        let key: [u8; 32] = Sha256::digest(key).into();
        distance(&place_of(first), &key) < distance(&place_of(second), &key)
    }

    pub(super) async fn known(&self) -> usize {
        self.refresh().await;
        self.known.lock().places.len().saturating_sub(1)
    }

    /// Passes over a host for a while.
    pub(super) fn note_failed(&self, peer: PeerId) {
        let mut failed = self.failed.lock();
        failed.retain(|_, at| at.elapsed() < FAILED_FOR);
        failed.insert(peer, Instant::now());
    }

    pub(super) fn has_failed(&self, peer: PeerId) -> bool {
        self.failed.lock().get(&peer).is_some_and(|at| at.elapsed() < FAILED_FOR)
    }

    /// A host that answers is not passed over.
    pub(super) fn note_answered(&self, peer: PeerId) {
        self.failed.lock().remove(&peer);
        let mut answered = self.answered.lock();
        answered.retain(|_, at| at.elapsed() < ANSWERED_LATELY);
        answered.insert(peer, Instant::now());
    }

    pub(super) fn has_answered_lately(&self, peer: PeerId) -> bool {
        self.answered.lock().get(&peer).is_some_and(|at| at.elapsed() < ANSWERED_LATELY)
    }

    async fn refresh(&self) {
        {
            let known = self.known.lock();
            // A host that knows no other looks again each time.
            let is_recent = known.read_at.is_some_and(|at| at.elapsed() < KNOWN_AGE_MAX);
            if is_recent && known.places.len() > 1 {
                return;
            }
        }
        // It fails only while the mirror stops.
        let peers = self.host.known_peers().await.unwrap_or_default();
        let own = self.host.peer_id();
        let peers = peers.into_iter().map(|peer| peer.peer).filter(|peer| *peer != own);
        let places = peers.chain([own]).map(|peer| (peer, place_of(peer))).collect();
        *self.known.lock() = KnownHosts { read_at: Some(Instant::now()), places };
    }
}

fn place_of(peer: PeerId) -> [u8; 32] {
    Sha256::digest(peer.to_bytes()).into()
}

fn distance(place: &[u8; 32], key: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|byte| place[byte] ^ key[byte])
}
