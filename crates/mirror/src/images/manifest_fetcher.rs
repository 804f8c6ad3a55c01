//! Fetches manifests by their digest from the registries, each once for all that ask at the same time.

use std::sync::Arc;

use super::accept::Accept;
use super::access::Pull;
use super::catalog::{Catalog, RepositoryId};
use super::flights::Flights;
use crate::oci::{Digest, Reference};
use crate::store::{Manifest, Manifests, StoreError};
use crate::upstream::{ManifestAnswer, Upstream, UpstreamError};

/// Why there is no manifest.
#[derive(Clone, Debug)]
pub(crate) enum ManifestError {
    /// The registry did not send it.
    Upstream(UpstreamError),
    /// The store failed.
    Store(Arc<StoreError>),
    /// The mirror is stopping.
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

    /// Fetches a manifest from its registry, and stores it.
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
        let answer = upstream.manifest(repository, &reference, &accept.header).await?;
        let ManifestAnswer { media_type, digest, bytes } = answer;
        let manifest = Manifest { digest, media_type, bytes };
        self.manifests.put(&manifest)?;
        let Manifest { digest, bytes, .. } = &manifest;
        self.catalog.note_manifest(&pull.id(), &reference, &accept.key, digest, bytes)?;
        Ok(manifest)
    }
}
