//! Answers the requests of other hosts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use watchfire_fleet::Report;
use watchfire_p2p::PeerId;

use super::announcements::COORDINATORS;
use super::hashes::of_complete;
use super::lookup::Lookup;
use super::message::{ANNOUNCEMENTS_MAX, AccessProof, Contact, Request, Response, decode, encode};
use super::{ANSWERS_MAX, COORDINATOR_TIMEOUT, Fleet, Spreading};
use crate::images::{RepositoryId, may_serve};
use crate::oci::{Digest, Manifest, Reference, Tag};
use crate::store::{BLOCK_BYTES, StartOrder};

/// How long a host waits for a holder of a small blob.
const HOLDER_WAIT: Duration = Duration::from_millis(400);
/// How long a host waits for new hashes.
const HASHES_WAIT: Duration = Duration::from_secs(5);
/// Hashes that arrive within this time are sent together.
const HASHES_BATCH: Duration = Duration::from_millis(20);
/// How long the former coordinators of a blob may take.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_millis(500);
/// Holders that one answer names.
const HOLDERS_MAX: usize = 8;

/// Answers requests until the host stops.
pub(super) async fn answer_all(fleet: Arc<Fleet>) {
    let Ok(mut requests) = fleet.host.inbound_requests().await else { return };
    let permits = Arc::new(Semaphore::new(ANSWERS_MAX));
    let mut running = JoinSet::new();
    while let Some(request) = requests.recv().await {
        while running.try_join_next().is_some() {}
        // Without a permit the request is dropped, so it fails at the peer.
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let fleet = fleet.clone();
        running.spawn(async move {
            let (response, body) = match decode::<Request>(&request.bytes) {
                Ok((head, _)) => answer(&fleet, request.peer, head).await,
                Err(error) => {
                    tracing::debug!(peer = %request.peer, %error, "an invalid request");
                    // A host of a later version may ask something new. Without an answer it would stop
                    // asking this one.
                    (Response::Absent, Bytes::new())
                }
            };
            // The peer may be gone.
            let _ = request.reply.send(encode(&response, &body));
            drop(permit);
        });
    }
}

fn note_announcements(fleet: &Fleet, from: PeerId, keys: &[String]) {
    let now = fleet.now();
    let mut coordinator = fleet.coordinator.lock();
    for key in keys.iter().take(ANNOUNCEMENTS_MAX).filter_map(|key| key.parse().ok()) {
        coordinator.handle_announcement(now, &key, from);
    }
    drop(coordinator);
    fleet.reported.notify_waiters();
}

fn other_holders(fleet: &Fleet, from: PeerId, digest: &Digest) -> Response {
    // One more, because the asking host may be among them.
    let holders = fleet.coordinator.lock().holders(digest, HOLDERS_MAX + 1);
    let others = holders.into_iter().filter(|holder| *holder != from).take(HOLDERS_MAX);
    Response::Holders { hosts: others.map(|peer| fleet.contact(peer)).collect() }
}

pub(super) async fn answer(fleet: &Fleet, from: PeerId, request: Request) -> (Response, Bytes) {
    let empty = |response| (response, Bytes::new());
    match request {
        Request::Report { digest, report, addresses, is_final } => {
            if let Some(closer) = closer(fleet, &digest, is_final).await {
                return empty(closer);
            }
            if from != fleet.host.peer_id() {
                fleet.note_contact(Contact { id: from, addresses });
            }
            // The next report may be late because of this host's link too.
            let lag_ms = report.lag_ms.max(fleet.lag.get().as_millis() as u64);
            empty(assign(fleet, from, &digest, &Report { lag_ms, ..report }).await)
        }
        Request::Leave { digest } => {
            fleet.coordinator.lock().handle_left(&digest, from);
            empty(Response::Done)
        }
        Request::Announce { keys, addresses } => {
            if from != fleet.host.peer_id() {
                fleet.note_contact(Contact { id: from, addresses });
            }
            note_announcements(fleet, from, &keys);
            empty(Response::Done)
        }
        Request::Holders { digest, is_final } => {
            if let Some(closer) = closer(fleet, &digest, is_final).await {
                return empty(closer);
            }
            // A new coordinator asks with `is_final`. If the asked host asked others in turn, the
            // requests would go in a circle.
            if from == fleet.host.peer_id() || !is_final {
                ask_successors(fleet, &digest).await;
            }
            empty(other_holders(fleet, from, &digest))
        }
        Request::Hashes { digest, list, after, is_whole, access } => {
            let running = fleet.downloads.lock().get(&digest).filter(|_| !is_whole).cloned();
            let position = (list, after);
            empty(hashes(fleet, from, &digest, position, is_whole, running, access.as_ref()).await)
        }
        Request::Find { digest } => {
            // This host may be the coordinator, and asks itself.
            let holders = Box::pin(fleet.holders(&digest)).await.into_iter();
            empty(Response::Holders { hosts: holders.map(|peer| fleet.contact(peer)).collect() })
        }
        Request::Blob { digest, access } => {
            match blob(fleet, from, &digest, access.as_ref()).await {
                Some(bytes) => (Response::Blob, bytes),
                None => empty(Response::Absent),
            }
        }
        Request::Cid { digest } => {
            let known = fleet.ipfs.as_ref().and_then(|ipfs| ipfs.known(&digest));
            let known = known.map(|(cid, bytes)| Response::Cid { cid: cid.to_string(), bytes });
            empty(known.unwrap_or(Response::Absent))
        }
        Request::File { url } => empty(match fleet.files.get(&url) {
            Some(version) => {
                let age_seconds = version.age().as_secs();
                Response::File { version: Box::new((*version).clone()), age_seconds }
            }
            None => Response::Absent,
        }),
        Request::Manifest { registry, repository, reference, accept, fetches, access } => {
            let repository = repository.parse().ok();
            let id = repository.map(|repository| RepositoryId { registry, repository });
            let found = match (id, reference.parse().ok()) {
                (Some(id), Some(reference)) => {
                    let question = ManifestQuestion { id, reference, accept, fetches };
                    manifest(fleet, from, question, access).await
                }
                _ => None,
            };
            found.unwrap_or_else(|| empty(Response::Absent))
        }
        Request::Access { registry, repository, digest, asks, access } => {
            let repository = repository.parse().ok();
            let id = repository.map(|repository| RepositoryId { registry, repository });
            let known = match id {
                Some(id) => known_access(fleet, from, &id, &digest, asks, access.as_ref()).await,
                None => None,
            };
            empty(known.unwrap_or(Response::Absent))
        }
    }
}

/// The answer of this host about a blob of a repository: it knows, or asks the registry.
async fn known_access(
    fleet: &Fleet,
    from: PeerId,
    id: &RepositoryId,
    digest: &Digest,
    asks: bool,
    access: Option<&AccessProof>,
) -> Option<Response> {
    let name = format!("{}/{}@{digest}", id.registry, id.repository);
    if !allows(fleet, from, std::slice::from_ref(id), &name, access).await {
        return None;
    }
    if asks {
        let pull = fleet.manifest_fetcher.pull(id)?;
        let checked = fleet.access.check_blob(&pull, digest, COORDINATOR_TIMEOUT);
        timeout_at(Instant::now() + COORDINATOR_TIMEOUT, checked).await.ok()?.ok()?;
    }
    let age_seconds = told(fleet, id, fleet.catalog.member(id, digest)?)?.as_secs();
    Some(Response::Access { age_seconds, size: fleet.catalog.size(id, digest) })
}

/// A host that is closer to a digest than this one, if this one knows any.
async fn closer(fleet: &Fleet, digest: &Digest, is_final: bool) -> Option<Response> {
    if is_final {
        return None;
    }
    let (key, own) = (digest.to_string(), fleet.host.peer_id());
    let closest = fleet.lookup.closest(&key, 3).await;
    let closer: Vec<_> =
        closest.into_iter().filter(|peer| Lookup::is_closer(&key, *peer, own)).collect();
    if closer.is_empty() {
        return None;
    }
    let known = fleet.host.known_peers().await.unwrap_or_default();
    let hosts = known.into_iter().filter(|peer| closer.contains(&peer.peer));
    let mut hosts: Vec<_> =
        hosts.map(|peer| Contact { id: peer.peer, addresses: peer.addresses }).collect();
    hosts.sort_by_key(|host| closer.iter().position(|peer| *peer == host.id));
    (!hosts.is_empty()).then_some(Response::Closer { hosts })
}

/// Answers a report. A host that needs a holder waits for one for a moment.
async fn assign(fleet: &Fleet, from: PeerId, digest: &Digest, report: &Report) -> Response {
    ask_successors(fleet, digest).await;
    let deadline = Instant::now() + HOLDER_WAIT;
    loop {
        // Registered before the look, so that no change is missed.
        let changed = fleet.reported.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let now = fleet.now();
        let assignment = fleet.coordinator.lock().handle_report(now, digest, from, report);
        if !report.present.is_empty() {
            fleet.reported.notify_waiters();
        }
        let is_waiting =
            report.wants_holder && assignment.holder.is_none() && assignment.leases.is_empty();
        if is_waiting && timeout_at(deadline, changed).await.is_ok() {
            continue;
        }
        return Response::Assignment {
            leases: assignment.leases,
            hosts: assignment.hosts.into_iter().map(|peer| fleet.contact(peer)).collect(),
            holder: assignment.holder.map(|peer| fleet.contact(peer)),
            progress: assignment.progress,
            report_within_ms: assignment.report_within.as_millis() as u64,
        };
    }
}

/// A host that coordinates a blob for the first time asks the hosts that did it before: they had the
/// announcements.
async fn ask_successors(fleet: &Fleet, digest: &Digest) {
    if fleet.coordinator.lock().has(digest) {
        return;
    }
    let own = fleet.host.peer_id();
    let closest = fleet.lookup.closest(&digest.to_string(), COORDINATORS + 1).await;
    let asked = closest.into_iter().filter(|peer| *peer != own).map(|peer| async move {
        let request = Request::Holders { digest: digest.clone(), is_final: true };
        fleet.ask(peer, &request, SUCCESSOR_TIMEOUT).await
    });
    for answer in futures::future::join_all(asked).await.into_iter().flatten() {
        let (Response::Holders { hosts }, _) = answer else { continue };
        for host in hosts.into_iter().filter(|host| host.id != own) {
            let holder = fleet.note_contact(host);
            fleet.coordinator.lock().handle_announcement(fleet.now(), digest, holder);
        }
    }
}

async fn hashes(
    fleet: &Fleet,
    from: PeerId,
    digest: &Digest,
    (list, after): (u64, usize),
    is_whole: bool,
    running: Option<Spreading>,
    access: Option<&AccessProof>,
) -> Response {
    if let Some(download) = running {
        if let Some(repository) = download.repository
            && !allows(fleet, from, &[repository], &digest.to_string(), access).await
        {
            return Response::Absent;
        }
        // When the queue is full, a later request of this host adds it.
        let _ = download.askers.try_send(from);
        let known = download.known;
        let waited = tokio::time::timeout(HASHES_WAIT, known.after(list, after)).await;
        let (list, hashes) = match waited {
            Ok(_) => {
                tokio::time::sleep(HASHES_BATCH).await;
                known.after(list, after).await
            }
            Err(_) => (list, Vec::new()),
        };
        let order = first_order(known.start_order(), after);
        return Response::Hashes { list, hashes, order };
    }
    if !allows_blob(fleet, from, digest, access).await {
        return Response::Absent;
    }
    match fleet.blobs.find_complete(digest).await {
        Ok(Some(blob)) => {
            let (list, hashes) = of_complete(&blob, list, after);
            if hashes.is_empty() && !is_whole {
                // The host has them all, and asks again only because it fetches still.
                tokio::time::sleep(HASHES_WAIT).await;
            }
            let order = first_order(blob.start_order(), after);
            Response::Hashes { list, hashes, order }
        }
        Ok(None) => {
            fleet.announcements.add_gone(digest);
            Response::Absent
        }
        Err(error) => {
            tracing::warn!(%digest, %error, "cannot read a blob for another host");
            Response::Absent
        }
    }
}

/// The order of a blob, for a host that asks for the first time.
fn first_order(start: &StartOrder, after: usize) -> Vec<u32> {
    if after == 0 { start.order() } else { Vec::new() }
}

async fn blob(
    fleet: &Fleet,
    from: PeerId,
    digest: &Digest,
    access: Option<&AccessProof>,
) -> Option<Bytes> {
    if !allows_blob(fleet, from, digest, access).await {
        return None;
    }
    let blob = fleet.blobs.find_complete(digest).await.ok().flatten();
    let bytes = match blob {
        Some(blob) if blob.size() > BLOCK_BYTES as u64 => return None,
        Some(blob) if blob.size() == 0 => Some(Bytes::new()),
        Some(blob) => fleet.blobs.read(&blob, 0).ok().flatten().map(|block| block.into_parts().1),
        None => None,
    };
    if bytes.is_none() {
        fleet.announcements.add_gone(digest);
    }
    bytes
}

struct ManifestQuestion {
    id: RepositoryId,
    reference: Reference,
    accept: String,
    fetches: bool,
}

async fn manifest(
    fleet: &Fleet,
    from: PeerId,
    question: ManifestQuestion,
    access: Option<AccessProof>,
) -> Option<(Response, Bytes)> {
    let ManifestQuestion { id, reference, accept, fetches } = question;
    let name = format!("{}/{}:{reference}", id.registry, id.repository);
    if !allows(fleet, from, std::slice::from_ref(&id), &name, access.as_ref()).await {
        return None;
    }
    let (manifest, age) = match &reference {
        Reference::Tag(tag) => manifest_of_tag(fleet, &id, tag, &accept)?,
        Reference::Digest(digest) => manifest_of_digest(fleet, &id, digest, fetches).await?,
    };
    let head = Response::Manifest {
        digest: manifest.digest.to_string(),
        media_type: manifest.media_type,
        age_seconds: age.as_secs(),
    };
    Some((head, manifest.bytes))
}

/// The newest manifest of a tag that may serve a client which accepts this.
fn manifest_of_tag(
    fleet: &Fleet,
    id: &RepositoryId,
    tag: &Tag,
    accept: &str,
) -> Option<(Manifest, Duration)> {
    fleet.catalog.tag_records(id, tag).into_iter().find_map(|record| {
        let manifest = fleet.manifests.get(&record.digest).ok().flatten()?;
        let may_serve =
            record.accept == accept || may_serve(&record.accept, accept, &manifest.media_type);
        may_serve.then_some((manifest, told(fleet, id, record.age)?))
    })
}

async fn manifest_of_digest(
    fleet: &Fleet,
    id: &RepositoryId,
    digest: &Digest,
    fetches: bool,
) -> Option<(Manifest, Duration)> {
    if let Some(age) = fleet.catalog.member(id, digest)
        && let Some(age) = told(fleet, id, age)
        && let Some(manifest) = fleet.manifests.get(digest).ok().flatten()
    {
        return Some((manifest, age));
    }
    if !fetches {
        return None;
    }
    let pull = fleet.manifest_fetcher.pull(id)?;
    match fleet.manifest_fetcher.fetch(&pull, digest).await {
        Ok(manifest) => {
            fleet.announce(digest);
            Some((manifest, Duration::ZERO))
        }
        // The other host asks the registry itself.
        Err(error) => {
            tracing::debug!(%digest, ?error, "cannot fetch a manifest for another host");
            None
        }
    }
}

/// Whether a host may get stored content. Files are stored only if they are public.
async fn allows_blob(
    fleet: &Fleet,
    from: PeerId,
    digest: &Digest,
    access: Option<&AccessProof>,
) -> bool {
    let mut repositories = fleet.catalog.repositories_with(digest);
    for id in &repositories {
        // It notes whether they have changed.
        fleet.credentials.of(id).await;
    }
    repositories.retain(|id| {
        let age = fleet.catalog.member(id, digest);
        age.is_some_and(|age| told(fleet, id, age).is_some())
    });
    fleet.files.has(digest) || allows(fleet, from, &repositories, &digest.to_string(), access).await
}

/// The age of a registry's answer, if other hosts may know the answer.
fn told(fleet: &Fleet, id: &RepositoryId, age: Duration) -> Option<Duration> {
    fleet.catalog.is_for_own_credentials(id, age).then_some(age)
}

async fn allows(
    fleet: &Fleet,
    from: PeerId,
    repositories: &[RepositoryId],
    name: &str,
    access: Option<&AccessProof>,
) -> bool {
    let own = fleet.host.peer_id();
    fleet.credentials.allows(repositories, from, own, name, access).await
}
