//! Fetches manifests by their digest from the registries, each once for all that ask at the same time.
//!
//! The questions of clients have flights of their own (`http/manifests.rs`), with the key repository, tag and
//! accepted media types, because the same tag may name different manifests for different clients. **That is not
//! enough.** The tags `1`, `1.27` and `latest` often name one manifest, an engine asks again by digest, and in a
//! fleet other hosts ask too. Each of these questions would fetch the same bytes.
//!
//! So a question first learns the digest with `HEAD`, which Docker Hub does not count as a pull, and the bytes are
//! fetched here, with the key repository and digest. In a fleet each host asks the host that is closest to the
//! digest (`Fleet::fetch_manifest`), and only that one fetches. For 200 hosts that pull a new tag, the registry
//! gets 200 `HEAD` requests and one `GET`. When the closest host does not answer within 1.5 s, the asking host
//! fetches the manifest itself: a slow member costs a second `GET`, and no pull fails.
//!
//! The repository is a part of the key, although the digest alone names the bytes: a client gets a manifest only
//! if the registry let this mirror pull it from that repository. A fetched manifest is verified, stored, and noted
//! in the catalog for that repository.
//!
//! The bound: as for [`Flights`]; a manifest has at most 4 MiB.

use std::sync::Arc;
use std::time::Duration;

use super::accept::Accept;
use super::access::Pull;
use super::catalog::{Catalog, RepositoryId};
use super::flights::Flights;
use crate::oci::{Digest, Manifest, Reference};
use crate::store::{Manifests, StoreError};
use crate::upstream::{Upstream, UpstreamError};

#[derive(Clone, Debug)]
pub(crate) enum ManifestError {
    Upstream(UpstreamError),
    Store(Arc<StoreError>),
    Stopped,
}

impl From<UpstreamError> for ManifestError {
    fn from(error: UpstreamError) -> Self {
        ManifestError::Upstream(error)
    }
}

impl From<StoreError> for ManifestError {
    fn from(error: StoreError) -> Self {
        ManifestError::Store(Arc::new(error))
    }
}

/// Fetches manifests for the clients of this host, and for other hosts of the fleet.
#[derive(Debug)]
pub(crate) struct ManifestFetcher {
    upstreams: Vec<Arc<Upstream>>,
    manifests: Manifests,
    catalog: Arc<Catalog>,
    fetches: Arc<Flights<(RepositoryId, Digest), Result<Manifest, ManifestError>>>,
}

impl ManifestFetcher {
    pub(crate) fn new(
        upstreams: Vec<Arc<Upstream>>,
        manifests: Manifests,
        catalog: Arc<Catalog>,
    ) -> Self {
        ManifestFetcher { upstreams, manifests, catalog, fetches: Arc::default() }
    }

    /// The repository at its registry; `None` if the registry is not mirrored.
    pub(crate) fn pull(&self, id: &RepositoryId) -> Option<Pull> {
        let upstream = self.upstreams.iter().find(|one| one.registry().name() == id.registry)?;
        Some(Pull { upstream: upstream.clone(), repository: id.repository.clone() })
    }

    pub(crate) async fn fetch(
        self: &Arc<Self>,
        pull: &Pull,
        digest: &Digest,
    ) -> Result<Manifest, ManifestError> {
        let (fetcher, from, name) = (self.clone(), pull.clone(), digest.clone());
        let fetch = async move { fetcher.fetch_alone(&from, name).await };
        let fetched = self.fetches.join((pull.id(), digest.clone()), fetch).await;
        fetched.unwrap_or(Err(ManifestError::Stopped))
    }

    async fn fetch_alone(&self, pull: &Pull, digest: Digest) -> Result<Manifest, ManifestError> {
        let Pull { upstream, repository } = pull;
        let reference = Reference::Digest(digest);
        // The manifest of a digest does not depend on what is accepted.
        let accept = Accept::default();
        let manifest = upstream.manifest(repository, &reference, &accept.header).await?;
        self.manifests.put(&manifest);
        let named = (&manifest.digest, &*manifest.bytes);
        self.catalog.note_manifest(&pull.id(), &reference, &accept.key, named, Duration::ZERO);
        Ok(manifest)
    }
}
