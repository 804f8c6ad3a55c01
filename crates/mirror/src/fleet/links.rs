//! Links to other regions, from which this region takes blobs that are cheaper there than at the registry.
//!
//! The host with the lease of a segment asks the linked regions whether they have the blob, all at the same time.
//! It fetches the segment from the cheapest that has it, over Bitswap, and otherwise from the registry. So the
//! leases keep the copies that cross into a region near one, as they do for the registry, and no host of a region
//! collects for the others.
//!
//! A host of another region is asked as a member of its network, whose key this host derives from the fleet's key.
//! It has the blob, or names the holders in its region. A holder checks the rights ([`super::access`]) and sends
//! the hashes of the blocks, without which nobody can request them. The hash of a blob of one block is no secret, so
//! the holder sends such a blob itself.
//!
//! A region gives only complete blobs. Therefore no two regions can wait for each other: a region that gives a blob
//! waits for nobody.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::select_ok;
use futures::stream::FuturesOrdered;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use watchfire_fleet::COMPLETE_LIST;
use watchfire_p2p::{AddressPart, BlockSession, Dht, Host, HostSettings, PeerId};
use watchfire_store::{LockedMemoryStore, Stores};

use super::message::{BlockHash, Contact, Request, Response, decode, encode};
use super::{COORDINATOR_TIMEOUT, Fleet, FleetError, FleetSettings, Region, multiaddr};
use crate::images::RepositoryId;
use crate::oci::Digest;

const PRICE: f64 = 1.0;
/// How long a region counts as having a blob.
const FOUND_FOR: Duration = Duration::from_secs(60);
/// How long a region counts as not having a blob.
const ABSENT_FOR: Duration = Duration::from_secs(2);
/// How long a region that does not answer, or sends nothing, is not asked again.
const FAILED_FOR: Duration = Duration::from_secs(10);
/// Answers that are kept. When the limit is reached, all are forgotten.
const ANSWERS_KEPT_MAX: usize = 1_000;
/// Addresses of one region that are dialled at the same time.
const DIALS_MAX: usize = 4;
/// Holders that are asked for hashes, one after the other.
const HOLDERS_ASKED_MAX: usize = 3;

/// A host of another region, and the price of what that region sends.
///
/// ```
/// use watchfire_mirror::RegionLink;
/// let link: RegionLink = "us-east-1=mirrors.example:5001,price=0.5".parse().unwrap();
/// assert_eq!((link.address.as_str(), link.price), ("mirrors.example:5001", 0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RegionLink {
    pub region: Region,
    /// An address or a DNS name, with the port of `--peer-listen` there.
    pub address: String,
    /// It is compared with the prices of other links and of the registry.
    pub price: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid region link {0:?}: write <region>=<host>:<port>, or <region>=<host>:<port>,price=<number>, such as us-east-1=10.1.0.7:5001,price=2"
)]
pub struct RegionLinkError(String);

impl FromStr for RegionLink {
    type Err = RegionLinkError;

    fn from_str(text: &str) -> Result<Self, RegionLinkError> {
        let parse = || {
            let (region, rest) = text.split_once('=')?;
            let (address, price) = match rest.split_once(",price=") {
                Some((address, price)) => (address, price.parse().ok()?),
                None => (rest, PRICE),
            };
            let (host, port) = address.rsplit_once(':')?;
            let is_valid = !host.is_empty()
                && !address.contains([',', '=', ' '])
                && port.parse::<u16>().is_ok()
                && price >= 0.0
                && f64::is_finite(price);
            let region = region.parse().ok()?;
            is_valid.then(|| RegionLink { region, address: address.to_owned(), price })
        };
        parse().ok_or_else(|| RegionLinkError(text.to_owned()))
    }
}

/// A linked region, and the bytes that this host got from it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RegionStatus {
    pub name: String,
    pub price: f64,
    /// Bytes of blobs that hosts of the region sent to this host.
    pub received_bytes: u64,
}

/// Another region, and this host as a guest in its network.
pub(crate) struct LinkedRegion {
    region: Region,
    addresses: Vec<String>,
    price: f64,
    host: Host,
    /// The host of the region that answers.
    gate: tokio::sync::Mutex<Option<PeerId>>,
    /// Until when the region is not asked, because it did not answer.
    failed_until: Mutex<Option<Instant>>,
    answers: Mutex<HashMap<Digest, Answer>>,
    received_bytes: AtomicU64,
}

/// A question to a region: whether it has a blob and gives it to this host.
#[derive(Clone, Copy)]
struct Question<'a> {
    fleet: &'a Fleet,
    digest: &'a Digest,
    blocks: usize,
    repository: Option<&'a RepositoryId>,
}

/// Whether a region has a blob, and until when that counts.
#[derive(Clone)]
struct Answer {
    until: Instant,
    content: Option<RegionContent>,
}

/// The answer of a holder of a complete blob.
#[derive(Clone, Debug)]
pub(crate) enum RegionContent {
    /// The hashes of all blocks.
    Hashes(Arc<[[u8; 32]]>),
    /// The only block, which the caller verifies.
    Small(Bytes),
}

/// A complete blob of another region.
#[derive(Debug)]
pub(crate) struct RegionCopy {
    pub(crate) region: Arc<LinkedRegion>,
    pub(crate) content: RegionContent,
}

impl fmt::Debug for LinkedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkedRegion").field(&self.region).finish_non_exhaustive()
    }
}

/// Joins the networks of the linked regions that are cheaper than the registry, as a guest that no host of them
/// counts as a member. The cheapest is the first.
pub(super) async fn open_links(
    settings: &FleetSettings,
) -> Result<Vec<Arc<LinkedRegion>>, watchfire_p2p::StartError> {
    let mut links: Vec<RegionLink> = settings
        .links
        .iter()
        .filter(|link| link.price < settings.registry_price)
        .cloned()
        .collect();
    links.sort_by(|one, other| one.price.total_cmp(&other.price));
    let mut regions: Vec<LinkedRegion> = Vec::new();
    for RegionLink { region, address, price } in links {
        if let Some(known) = regions.iter_mut().find(|known| known.region == region) {
            known.addresses.push(address);
            continue;
        }
        let guest = HostSettings {
            listen: Vec::new(),
            bootstrap: Vec::new(),
            local_discovery: false,
            identity: None,
            dht: Dht::Off,
            ..settings.host(Some(&region))
        };
        let host = Host::start(guest, Stores::new(Vec::new()), Arc::new(LockedMemoryStore::new(0)))
            .await?;
        regions.push(LinkedRegion {
            region,
            addresses: vec![address],
            price,
            host,
            gate: tokio::sync::Mutex::default(),
            failed_until: Mutex::default(),
            answers: Mutex::default(),
            received_bytes: AtomicU64::new(0),
        });
    }
    Ok(regions.into_iter().map(Arc::new).collect())
}

impl Fleet {
    /// The cheapest region that has a blob and gives it to this host. All regions are asked at the same time.
    pub(crate) async fn find_in_regions(
        &self,
        digest: &Digest,
        blocks: usize,
        repository: Option<&RepositoryId>,
    ) -> Option<RegionCopy> {
        let question = Question { fleet: self, digest, blocks, repository };
        let asked = self.links.iter().map(|region| async move {
            let content = region.find(question).await?;
            Some(RegionCopy { region: region.clone(), content })
        });
        let found: FuturesOrdered<_> = asked.collect();
        std::pin::pin!(found.filter_map(std::future::ready)).next().await
    }
}

impl LinkedRegion {
    pub(super) fn status(&self) -> RegionStatus {
        RegionStatus {
            name: self.region.to_string(),
            price: self.price,
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) async fn stop(&self) {
        self.host.stop().await;
    }

    pub(crate) async fn open_session(&self) -> Result<BlockSession, FleetError> {
        self.host.open_session().await.map_err(|_| FleetError::Stopped)
    }

    /// Grows while hosts of the region send parts of messages.
    pub(crate) fn parts_received(&self) -> u64 {
        self.host.parts_received()
    }

    pub(crate) fn count_received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The region does not send a blob that it has.
    pub(crate) fn note_failed(&self, digest: &Digest) {
        tracing::warn!(region = %self.region, %digest, "a region sends nothing more of a blob; fetching from elsewhere");
        self.keep(digest, FAILED_FOR, None);
    }

    fn keep(&self, digest: &Digest, time: Duration, content: Option<RegionContent>) {
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_KEPT_MAX {
            answers.clear();
        }
        answers.insert(digest.clone(), Answer { until: Instant::now() + time, content });
    }

    /// The content of a blob, if the region has all of it and this host may get it.
    async fn find(self: &Arc<Self>, question: Question<'_>) -> Option<RegionContent> {
        let (now, digest) = (Instant::now(), question.digest);
        let kept = self.answers.lock().get(digest).cloned();
        if let Some(kept) = kept.filter(|kept| kept.until > now) {
            return kept.content;
        }
        if self.has_failed() {
            return None;
        }
        let limit = question.fleet.extend(COORDINATOR_TIMEOUT);
        let asked = timeout(limit, self.ask(question)).await;
        let asked = match asked.unwrap_or(Err(FleetError::Timeout(limit))) {
            // It concerns this blob only, for example because its size is wrong.
            Err(FleetError::Answer) => Ok(None),
            asked => asked,
        };
        match asked {
            Ok(content) => {
                match &content {
                    Some(RegionContent::Hashes(_)) => {
                        self.keep(digest, FOUND_FOR, content.clone());
                    }
                    // It is written now, and not asked for again.
                    Some(RegionContent::Small(_)) => {}
                    None => self.keep(digest, ABSENT_FOR, None),
                }
                content
            }
            Err(error) => {
                tracing::warn!(region = %self.region, %error, "a region does not answer; fetching from elsewhere");
                self.pause();
                None
            }
        }
    }

    /// Whether the region did not answer a short time ago.
    fn has_failed(&self) -> bool {
        self.failed_until.lock().is_some_and(|until| until > Instant::now())
    }

    fn pause(&self) {
        *self.failed_until.lock() = Some(Instant::now() + FAILED_FOR);
    }

    async fn ask(
        self: &Arc<Self>,
        question: Question<'_>,
    ) -> Result<Option<RegionContent>, FleetError> {
        let mut gate = self.gate(None).await.ok_or(FleetError::Unreachable)?;
        let contact = |id| Contact { id, addresses: Vec::new() };
        // It is connected, so it answers after one round trip.
        let asked = match self.ask_holder(&contact(gate), question).await {
            Err(FleetError::Request(_)) => {
                gate = self.gate(Some(gate)).await.ok_or(FleetError::Unreachable)?;
                self.ask_holder(&contact(gate), question).await
            }
            asked => asked,
        };
        match asked {
            Ok(Some(content)) => return Ok(Some(content)),
            Ok(None) | Err(FleetError::Answer) => {}
            Err(error) => return Err(error),
        }
        let request = Request::Find { digest: question.digest.clone() };
        let (Response::Holders { mut hosts }, _) = self.request(gate, &request).await? else {
            return Err(FleetError::Answer);
        };
        // The hosts of this region ask different holders.
        let start = usize::from(self.host.peer_id().to_bytes()[9]) % hosts.len().max(1);
        hosts.rotate_left(start);
        for holder in hosts.into_iter().take(HOLDERS_ASKED_MAX) {
            match self.ask_holder(&holder, question).await {
                Ok(Some(content)) => return Ok(Some(content)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(peer = %holder.id, %error, "a holder does not answer")
                }
            }
        }
        Ok(None)
    }

    /// The host of the region that answers for it, another one than `failed`.
    async fn gate(self: &Arc<Self>, failed: Option<PeerId>) -> Option<PeerId> {
        let region = self.clone();
        // On a long path the caller stops to wait before the dial ends. The next caller needs it.
        let dialled = tokio::spawn(async move {
            let mut gate = region.gate.lock().await;
            if gate.is_none() || *gate == failed {
                // Many callers may wait for the lock. While the region counts as failed, they do not dial again.
                if region.has_failed() {
                    return None;
                }
                *gate = region.dial().await;
                if gate.is_none() {
                    region.pause();
                }
            }
            *gate
        });
        dialled.await.ok().flatten()
    }

    /// Connects to the first host of the region that answers.
    async fn dial(&self) -> Option<PeerId> {
        let mut addresses = Vec::new();
        for address in &self.addresses {
            match tokio::net::lookup_host(address).await {
                Ok(found) => addresses.extend(found),
                Err(error) => {
                    tracing::warn!(address, %error, "cannot look up a host of a region");
                }
            }
        }
        let dialled = addresses.into_iter().take(DIALS_MAX);
        let dialled: Vec<_> =
            dialled.map(|address| Box::pin(self.host.connect(multiaddr(address)))).collect();
        if dialled.is_empty() {
            return None;
        }
        select_ok(dialled).await.ok().map(|(peer, _)| peer)
    }

    async fn request(
        &self,
        peer: PeerId,
        request: &Request,
    ) -> Result<(Response, Bytes), FleetError> {
        let answer = self.host.request(peer, encode(request, b"")).await?;
        decode(&answer).map_err(|_| FleetError::Answer)
    }

    /// Asks a holder for all hashes of a blob, or for a blob of one block. `None`: it does not have the blob, or not for this host.
    async fn ask_holder(
        &self,
        holder: &Contact,
        question: Question<'_>,
    ) -> Result<Option<RegionContent>, FleetError> {
        let Question { fleet, digest, blocks, repository } = question;
        for address in &holder.addresses {
            let address = address.clone().with(AddressPart::P2p(holder.id));
            if self.host.connect(address).await.is_ok() {
                break;
            }
        }
        let name = digest.to_string();
        let (guest, credentials) = (self.host.peer_id(), &fleet.credentials);
        let mut hashes = Vec::new();
        while hashes.len() < blocks {
            let access = match repository {
                Some(id) => credentials.prove(guest, holder.id, &name, id).await,
                None => None,
            };
            let (digest, after) = (digest.clone(), hashes.len());
            let request = match blocks {
                1 => Request::Blob { digest, access },
                _ => Request::Hashes { digest, list: COMPLETE_LIST, after, is_whole: true, access },
            };
            match self.request(holder.id, &request).await? {
                (Response::Blob, bytes) if blocks == 1 => {
                    return Ok(Some(RegionContent::Small(bytes)));
                }
                (Response::Hashes { list: COMPLETE_LIST, hashes: next, .. }, _)
                    if !next.is_empty() =>
                {
                    for BlockHash(block, hash) in next {
                        if block as usize != hashes.len() {
                            return Err(FleetError::Answer);
                        }
                        hashes.push(hash);
                    }
                }
                // A blob of another size has fewer blocks.
                (Response::Absent | Response::Hashes { list: COMPLETE_LIST, .. }, _) => {
                    return Ok(None);
                }
                _ => return Err(FleetError::Answer),
            }
        }
        Ok((hashes.len() == blocks).then(|| RegionContent::Hashes(hashes.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_region_an_address_and_perhaps_a_price() {
        let link = |text: &str| text.parse::<RegionLink>();
        let plain = link("us-east-1=10.1.0.7:5001").unwrap();
        assert_eq!((plain.region.to_string().as_str(), plain.price), ("us-east-1", 1.0));
        assert_eq!(link("us=[::1]:5001,price=0").unwrap().price, 0.0);
        for text in [
            "us",
            "US=10.1.0.7:5001",
            "us=10.1.0.7",
            "us=:5001",
            "us=a:99999",
            "us=a:1,price=",
            "us=a:1,price=-1",
            "us=a:1,price=NaN",
            "us=a:1,price=inf",
            "us=a:1,cost=2",
        ] {
            let error = link(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
