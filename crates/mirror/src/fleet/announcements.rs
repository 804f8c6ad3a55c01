//! Tells the coordinators what this host has completely.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use watchfire_fleet::ANNOUNCEMENT_TIME;

use super::access::{cid_key, tag_key};
use super::message::{ANNOUNCEMENTS_MAX, Request};
use super::{COORDINATOR_TIMEOUT, Fleet};
use crate::oci::Digest;
use crate::proxy::url_key;

/// The coordinator and the hosts that would replace it.
pub(super) const COORDINATORS: usize = 3;
/// Announcements within this time are sent together.
const BATCH: Duration = Duration::from_millis(100);
/// How often everything is announced again.
const INTERVAL: Duration = Duration::from_secs(ANNOUNCEMENT_TIME.as_secs() / 3);
/// How often to look for new hosts at the start, when few are known.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);
const FIRST_ROUNDS: u32 = 5;

/// The announcements that wait. It is bounded by what the store contains.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    waiting: Mutex<BTreeSet<String>>,
    /// Blobs that this host was asked for and does not have any more.
    gone: Mutex<BTreeSet<Digest>>,
    added: Notify,
}

impl Announcements {
    pub(super) fn add(&self, key: String) {
        self.waiting.lock().insert(key);
        self.added.notify_one();
    }

    pub(super) fn add_gone(&self, digest: &Digest) {
        self.gone.lock().insert(digest.clone());
        self.added.notify_one();
    }
}

/// Announces new content, and the blobs that are gone, within [`BATCH`], and everything from time to time.
pub(super) async fn announce_all(fleet: Arc<Fleet>) {
    let mut all_at = Instant::now();
    let mut rounds = 0;
    let mut known_before = 0;
    loop {
        tokio::select! {
            () = fleet.announcements.added.notified() => tokio::time::sleep(BATCH).await,
            () = tokio::time::sleep_until(all_at) => {
                let known = fleet.lookup.known().await;
                let is_start = rounds < FIRST_ROUNDS;
                // At the start a host knows few others, so its coordinators change.
                if !is_start || known != known_before {
                    fleet.announcements.waiting.lock().extend(all_keys(&fleet));
                }
                known_before = known;
                rounds += 1;
                all_at = Instant::now() + if is_start { FIRST_INTERVAL } else { INTERVAL };
            }
        }
        let gone = std::mem::take(&mut *fleet.announcements.gone.lock());
        let is_absent = |digest: &Digest| !fleet.downloads.lock().contains_key(digest);
        let gone: Vec<_> = gone.into_iter().filter(is_absent).collect();
        futures::future::join_all(gone.iter().map(|digest| fleet.leave(digest))).await;
        let keys = std::mem::take(&mut *fleet.announcements.waiting.lock());
        let mut of_hosts: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for key in keys {
            for host in fleet.lookup.closest(&key, COORDINATORS).await {
                of_hosts.entry(host).or_default().push(key.clone());
            }
        }
        let addresses = fleet.addresses();
        let requests = of_hosts.into_iter().flat_map(|(host, keys)| {
            let parts: Vec<_> = keys.chunks(ANNOUNCEMENTS_MAX).map(<[_]>::to_vec).collect();
            parts.into_iter().map(move |keys| (host, keys))
        });
        let sent = requests.map(|(host, keys)| {
            let request = Request::Announce { keys, addresses: addresses.clone() };
            let fleet = &fleet;
            async move {
                if let Err(error) = fleet.ask(host, &request, COORDINATOR_TIMEOUT).await {
                    tracing::debug!(%host, %error, "cannot announce content");
                }
            }
        });
        futures::future::join_all(sent).await;
    }
}

/// All keys under which this host announces what it has.
fn all_keys(fleet: &Fleet) -> Vec<String> {
    let blobs = fleet.blobs.digests().into_iter();
    let blobs = blobs.filter(|digest| !fleet.blobs.has_part(digest)).map(|one| one.to_string());
    let of_containerd = fleet.blobs.containerd_digests().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list the blobs of containerd");
        Vec::new()
    });
    // Content that was not pulled through this mirror is not given away.
    let of_containerd = of_containerd
        .into_iter()
        .filter(|digest| !fleet.catalog.repositories_with(digest).is_empty())
        .map(|digest| digest.to_string());
    let tags = fleet
        .catalog
        .tags()
        .into_iter()
        .map(|(id, tag)| tag_key(&id.registry, id.repository.as_str(), &tag).to_string());
    let manifests = fleet.manifests.digests().into_iter().map(|digest| digest.to_string());
    let files = fleet.files.urls().into_iter().map(|url| url_key(&url).to_string());
    let cids = fleet.ipfs.iter().flat_map(|ipfs| ipfs.known_digests());
    let cids = cids.map(|digest| cid_key(&digest).to_string());
    blobs.chain(of_containerd).chain(tags).chain(manifests).chain(files).chain(cids).collect()
}
