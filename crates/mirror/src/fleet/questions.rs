//! The questions of this host to other hosts: to a coordinator, or to a holder.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use watchfire_content::Cid;
use watchfire_fleet::{Assignment, Report};
use watchfire_p2p::{AddressPart, PeerId};

use super::access::{cid_key, tag_key};
use super::lookup::Lookup;
use super::message::{AccessProof, Request, Response, decode, encode};
use super::{COORDINATOR_TIMEOUT, Fleet, FleetError, REQUEST_TIMEOUT, answers};
use crate::images::{Pull, RepositoryId};
use crate::oci::{Digest, Manifest, Reference};
use crate::proxy::{Version, url_key};
use crate::upstream::UpstreamError;

const COORDINATORS_MAX: usize = 10;
/// How long another host may take to ask a registry about a blob, before this host asks it too.
const ACCESS_WAIT: Duration = Duration::from_millis(400);
/// How long a coordinator that has answered lately may take. On full links, messages wait behind blocks, and another
/// coordinator would know no lease of the other hosts: the registry would send each segment again.
const BUSY_COORDINATOR_TIMEOUT: Duration = Duration::from_secs(4);

impl Fleet {
    pub(crate) async fn report(
        &self,
        digest: &Digest,
        report: &Report,
    ) -> Result<Assignment<PeerId>, FleetError> {
        let addresses = self.addresses();
        let request = |is_final| Request::Report {
            digest: digest.clone(),
            report: Report { lag_ms: self.lag.get().as_millis() as u64, ..report.clone() },
            addresses: addresses.clone(),
            is_final,
        };
        match self.ask_coordinator(&digest.to_string(), request).await? {
            (Response::Assignment { leases, hosts, holder, progress, report_within_ms }, _) => {
                let hosts = hosts.into_iter().map(|host| self.note_contact(host)).collect();
                let holder = holder.map(|host| self.note_contact(host));
                let report_within = Duration::from_millis(report_within_ms.min(60_000));
                Ok(Assignment { leases, hosts, holder, progress, report_within })
            }
            _ => Err(FleetError::Answer),
        }
    }

    /// Tells the coordinator that this host fetches a blob no more.
    pub(crate) async fn leave(&self, digest: &Digest) {
        let request = |_| Request::Leave { digest: digest.clone() };
        // Without it, the coordinator notices the silence.
        let _ = self.ask_coordinator(&digest.to_string(), request).await;
    }

    /// Asks a host for the hashes of a blob's blocks.
    pub(crate) async fn ask_hashes(
        &self,
        peer: PeerId,
        digest: &Digest,
        repository: Option<&RepositoryId>,
        list: u64,
        after: usize,
    ) -> Result<Option<(u64, Vec<(u32, [u8; 32])>)>, FleetError> {
        let access = self.prove(peer, &digest.to_string(), repository).await;
        let request =
            Request::Hashes { digest: digest.clone(), list, after, is_whole: false, access };
        match self.ask(peer, &request, REQUEST_TIMEOUT).await? {
            (Response::Hashes { list, hashes, order }, _) => {
                let known =
                    self.downloads.lock().get(digest).map(|download| download.known.clone());
                if let Some(known) = known.filter(|_| !order.is_empty()) {
                    known.start_order().learn(order);
                }
                let hashes = hashes.into_iter().map(|hash| (hash.0, hash.1));
                Ok(Some((list, hashes.collect())))
            }
            (Response::Absent, _) => Ok(None),
            _ => Err(FleetError::Answer),
        }
    }

    /// Asks a host for a whole small blob. The caller verifies it.
    pub(crate) async fn ask_blob(
        &self,
        peer: PeerId,
        digest: &Digest,
        repository: Option<&RepositoryId>,
        timeout: Duration,
    ) -> Result<Option<Bytes>, FleetError> {
        let access = self.prove(peer, &digest.to_string(), repository).await;
        let request = Request::Blob { digest: digest.clone(), access };
        match self.ask(peer, &request, timeout).await? {
            (Response::Blob, body) => Ok(Some(body)),
            (Response::Absent, _) => Ok(None),
            _ => Err(FleetError::Answer),
        }
    }

    /// Asks the fleet for a manifest, and how long ago its registry named it.
    pub(crate) async fn find_manifest(
        &self,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
    ) -> Option<(Manifest, Duration)> {
        let key = match reference {
            Reference::Tag(tag) => tag_key(&id.registry, id.repository.as_str(), tag.as_str()),
            Reference::Digest(digest) => digest.clone(),
        };
        for peer in self.holders(&key).await {
            let found = self.ask_manifest(peer, id, reference, accept, false).await;
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A manifest through the host that is closest to its digest, which fetches it once for all. `None`:
    /// it is this host, or that one has no manifest in time.
    pub(crate) async fn fetch_manifest(
        &self,
        id: &RepositoryId,
        digest: &Digest,
    ) -> Option<(Manifest, Duration)> {
        let closest = self.lookup.closest(&digest.to_string(), 1).await;
        let peer = closest.first().copied().filter(|peer| *peer != self.host.peer_id())?;
        self.ask_manifest(peer, id, &Reference::Digest(digest.clone()), "", true).await
    }

    /// Asks a host for a manifest. `accept` is what the client accepts, which matters for a tag.
    async fn ask_manifest(
        &self,
        peer: PeerId,
        id: &RepositoryId,
        reference: &Reference,
        accept: &str,
        fetches: bool,
    ) -> Option<(Manifest, Duration)> {
        let name = format!("{}/{}:{reference}", id.registry, id.repository);
        let access = self.prove(peer, &name, Some(id)).await;
        let request = Request::Manifest {
            registry: id.registry.clone(),
            repository: id.repository.to_string(),
            reference: reference.to_string(),
            accept: accept.to_owned(),
            fetches,
            access,
        };
        let answer = self.ask(peer, &request, self.extend(COORDINATOR_TIMEOUT)).await;
        let Ok((Response::Manifest { digest, media_type, age_seconds }, bytes)) = answer else {
            return None;
        };
        let digest = digest.parse::<Digest>().ok().filter(|digest| digest.is_of(&bytes))?;
        let is_asked = match reference {
            Reference::Tag(_) => true,
            Reference::Digest(asked) => *asked == digest,
        };
        let age = Duration::from_secs(age_seconds);
        is_asked.then_some((Manifest { digest, media_type, bytes }, age))
    }

    /// Checks that a blob may be served under a repository. The host that is closest to the blob asks the
    /// registry, once for all hosts.
    ///
    /// `limit` is how long a registry may take to answer before older answers hold.
    pub(crate) async fn check_blob(
        &self,
        pull: &Pull,
        digest: &Digest,
        limit: Duration,
    ) -> Result<Option<u64>, UpstreamError> {
        let (id, own) = (pull.id(), self.host.peer_id());
        self.credentials.of(&id).await;
        if !self.access.is_fresh(&id, digest) {
            let closest = self.lookup.closest(&digest.to_string(), 1).await;
            if let Some(peer) = closest.into_iter().find(|peer| *peer != own) {
                let asked = self.learn_access(peer, &id, digest, true);
                // Without an answer in time, or with one that is too old, this host asks the registry itself.
                let _ = timeout(self.extend(ACCESS_WAIT), asked).await;
            }
        }
        let checked = self.access.check_blob(pull, digest, limit);
        let checked = match self.access.offline_ok {
            true => timeout(limit, checked).await.unwrap_or_else(|_| {
                Err(UpstreamError::no_answer(pull.upstream.registry().name(), limit))
            }),
            false => checked.await,
        };
        let error = match checked {
            Err(error) if self.access.offline_ok && error.is_outage() => error,
            checked => return checked,
        };
        for peer in self.holders(digest).await {
            if self.learn_access(peer, &id, digest, false).await {
                tracing::warn!(repository = %pull.repository, %digest, %error, "serving a blob that another host may serve while the registry is down");
                return Ok(self.catalog.size(&id, digest));
            }
        }
        Err(error)
    }

    /// Asks a host what the registry told it about a blob of a repository. Returns whether it may be served.
    async fn learn_access(
        &self,
        peer: PeerId,
        id: &RepositoryId,
        digest: &Digest,
        asks: bool,
    ) -> bool {
        let name = format!("{}/{}@{digest}", id.registry, id.repository);
        let request = Request::Access {
            registry: id.registry.clone(),
            repository: id.repository.to_string(),
            digest: digest.clone(),
            asks,
            access: self.prove(peer, &name, Some(id)).await,
        };
        let answer = self.ask(peer, &request, COORDINATOR_TIMEOUT).await;
        let Ok((Response::Access { age_seconds, size }, _)) = answer else { return false };
        let age = Duration::from_secs(age_seconds);
        self.catalog.note_member(id, digest, size, age);
        true
    }

    /// Asks the fleet for the version of a file that a host got from its server most recently.
    pub(crate) async fn find_version(&self, url: &str) -> Option<Version> {
        let mut found: Option<Version> = None;
        for peer in self.holders(&url_key(url)).await {
            let request = Request::File { url: url.to_owned() };
            let answer = self.ask(peer, &request, COORDINATOR_TIMEOUT).await;
            if let Ok((Response::File { version, age_seconds }, _)) = answer
                && version.url == url
                && version.is_valid()
            {
                let version = version.checked_before(Duration::from_secs(age_seconds));
                if found.as_ref().is_none_or(|other| other.checked_at < version.checked_at) {
                    found = Some(version);
                }
            }
        }
        found
    }

    /// Asks the fleet for the CID of a public blob, and its size.
    pub(crate) async fn find_cid(&self, digest: &Digest) -> Option<(Cid, u64)> {
        for peer in self.holders(&cid_key(digest)).await {
            let request = Request::Cid { digest: digest.clone() };
            let answer = self.ask(peer, &request, COORDINATOR_TIMEOUT).await;
            if let Ok((Response::Cid { cid, bytes }, _)) = answer
                && let Ok(cid) = cid.parse()
            {
                return Some((cid, bytes));
            }
        }
        None
    }

    /// The hosts that announced a key, as its coordinator names them.
    pub(super) async fn holders(&self, key: &Digest) -> Vec<PeerId> {
        let request = |is_final| Request::Holders { digest: key.clone(), is_final };
        match self.ask_coordinator(&key.to_string(), request).await {
            Ok((Response::Holders { hosts }, _)) => {
                hosts.into_iter().map(|host| self.note_contact(host)).collect()
            }
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    async fn prove(
        &self,
        to: PeerId,
        name: &str,
        repository: Option<&RepositoryId>,
    ) -> Option<AccessProof> {
        let repository = repository?;
        self.credentials.prove(self.host.peer_id(), to, name, repository).await
    }

    /// Sends a request to the coordinator of a key. If it does not answer, the next closest host answers
    /// this request.
    async fn ask_coordinator(
        &self,
        key: &str,
        request: impl Fn(bool) -> Request,
    ) -> Result<(Response, Bytes), FleetError> {
        let own = self.host.peer_id();
        let mut error = FleetError::Stopped;
        let mut target = None;
        let mut is_final = false;
        let mut silent = Vec::new();
        for _ in 0..COORDINATORS_MAX {
            let peer = match target.take() {
                Some(peer) => peer,
                None => {
                    let closest = self.lookup.closest(key, COORDINATORS_MAX).await;
                    closest.into_iter().find(|host| !silent.contains(host)).unwrap_or(own)
                }
            };
            match self.ask(peer, &request(is_final || peer == own), COORDINATOR_TIMEOUT).await {
                Ok((Response::Closer { hosts }, _)) => {
                    // Each step comes closer to the key, so answers cannot lead in a circle.
                    let closer = hosts
                        .into_iter()
                        .filter(|host| Lookup::is_closer(key, host.id, peer))
                        .find(|host| {
                            !silent.contains(&host.id) && !self.lookup.has_failed(host.id)
                        });
                    is_final = closer.is_none();
                    target = Some(closer.map_or(peer, |host| self.note_contact(host)));
                }
                Ok(answer) => return Ok(answer),
                Err(failed) => {
                    tracing::debug!(%peer, error = %failed, "a coordinator does not answer");
                    silent.push(peer);
                    error = failed;
                }
            }
        }
        Err(error)
    }

    pub(super) async fn ask(
        &self,
        peer: PeerId,
        request: &Request,
        timeout: Duration,
    ) -> Result<(Response, Bytes), FleetError> {
        if peer == self.host.peer_id() {
            return Ok(answers::answer(self, peer, request.clone()).await);
        }
        let least = match request {
            // A client waits for a small blob, and no segment of it is fetched twice.
            Request::Report { report, .. }
                if !report.wants_holder && self.lookup.has_answered_lately(peer) =>
            {
                BUSY_COORDINATOR_TIMEOUT
            }
            _ => Duration::ZERO,
        };
        let timeout = self.lag.extend(timeout).max(least);
        let sent = async {
            let contact = self.contacts.lock().get(&peer).cloned();
            let bytes = encode(request, b"");
            match self.host.request(peer, bytes.clone()).await {
                Err(_) if contact.is_some() => {
                    // The address may be unknown to the host.
                    for address in contact.into_iter().flatten() {
                        let address = address.with(AddressPart::P2p(peer));
                        if self.host.connect(address).await.is_ok() {
                            break;
                        }
                    }
                    self.host.request(peer, bytes).await
                }
                answer => answer,
            }
        };
        let asked_at = Instant::now();
        let answer = tokio::time::timeout(timeout, sent).await;
        // Other requests may wait at the host on purpose, which says nothing about its lag. A
        // timeout counts as well: on a slow machine the next requests get more time.
        if request.is_answered_at_once() {
            self.lag.note_round_trip(asked_at.elapsed());
        }
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.lookup.note_failed(peer);
                return Err(error.into());
            }
            Err(_) => {
                // A host that is slow keeps its leases: passed over, its reports would go to a coordinator that
                // knows none of them.
                if !least.is_zero() || !self.lookup.has_answered_lately(peer) {
                    self.lookup.note_failed(peer);
                }
                return Err(FleetError::Timeout(timeout));
            }
        };
        self.lookup.note_answered(peer);
        decode(&answer).map_err(|error| {
            tracing::debug!(%peer, %error, "an invalid answer");
            FleetError::Answer
        })
    }
}
