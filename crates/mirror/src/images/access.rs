//! Whether this mirror may serve stored content under a repository.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::catalog::{Catalog, RepositoryId};
use super::flights::Flights;
use crate::oci::{Digest, Repository};
use crate::upstream::{Upstream, UpstreamError};

/// A repository of an upstream registry, from which a client pulls.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) upstream: Arc<Upstream>,
    /// Its full name at the registry.
    pub(crate) repository: Repository,
}

impl Pull {
    /// The name under which the catalog has the repository.
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId {
            registry: self.upstream.registry().name().to_owned(),
            repository: self.repository.clone(),
        }
    }
}

/// Whether this mirror may serve stored content under a repository.
///
/// It may if the registry let this mirror pull the content from that repository. So a client cannot
/// get the content of a private repository by its digest alone, not even through a public one whose manifest
/// names it.
#[derive(Debug)]
pub(crate) struct Access {
    catalog: Arc<Catalog>,
    /// How long an answer of the registry holds.
    pub(crate) ttl: Duration,
    /// Whether an older answer holds while the registry is down.
    pub(crate) offline_ok: bool,
    /// The questions to registries, each asked once for all clients and hosts that wait for its answer.
    questions: Arc<Flights<(RepositoryId, Digest), Result<(), UpstreamError>>>,
}

impl Access {
    pub(crate) fn new(catalog: Arc<Catalog>, ttl: Duration, offline_ok: bool) -> Self {
        Access { catalog, ttl, offline_ok, questions: Arc::default() }
    }

    /// Whether the registry has answered recently that a blob may be served under a repository.
    pub(crate) fn is_fresh(&self, id: &RepositoryId, digest: &Digest) -> bool {
        self.catalog.member(id, digest).is_some_and(|age| age < self.ttl)
    }

    /// Checks that a blob may be served under a repository. Returns its size, if it is known.
    ///
    /// `limit` is how long a registry may take to answer before an older answer holds.
    pub(crate) async fn check_blob(
        &self,
        pull: &Pull,
        digest: &Digest,
        limit: Duration,
    ) -> Result<Option<u64>, UpstreamError> {
        let id = pull.id();
        if self.is_fresh(&id, digest) {
            return Ok(self.catalog.size(&id, digest));
        }
        let age = self.catalog.member(&id, digest);
        let asked = self.ask(pull, digest);
        // Without an older answer to fall back to, a limit would only cause an error.
        let answer = match self.offline_ok && age.is_some() {
            true => timeout(limit, asked).await.unwrap_or_else(|_| {
                Err(UpstreamError::no_answer(pull.upstream.registry().name(), limit))
            }),
            false => asked.await,
        };
        match answer {
            Ok(()) => {}
            Err(error) if self.holds_while_down(age, &error) => {
                tracing::warn!(repository = %pull.repository, %digest, %error, "serving a blob from the store while the registry is down");
            }
            Err(error) => {
                // Only these two are answers about the blob. An outage says nothing about it.
                if matches!(error, UpstreamError::NotFound { .. } | UpstreamError::Refused { .. }) {
                    self.catalog.remove_member(&id, digest);
                }
                return Err(error);
            }
        }
        Ok(self.catalog.size(&id, digest))
    }

    async fn ask(&self, pull: &Pull, digest: &Digest) -> Result<(), UpstreamError> {
        let (from, name, catalog) = (pull.clone(), digest.clone(), self.catalog.clone());
        let ask = async move {
            let size = from.upstream.blob_size(&from.repository, &name).await?;
            // Also when nobody waits any more: the next request finds it.
            catalog.note_member(&from.id(), &name, size, Duration::ZERO);
            Ok(())
        };
        let answer = self.questions.join((pull.id(), digest.clone()), ask).await;
        answer.unwrap_or_else(|| {
            let cause = "the question to it was dropped";
            Err(UpstreamError::invalid(pull.upstream.registry().name(), cause))
        })
    }

    /// Whether an answer of any age is enough, because the registry is down.
    pub(crate) fn holds_while_down(&self, age: Option<Duration>, error: &UpstreamError) -> bool {
        self.offline_ok && age.is_some() && error.is_outage()
    }
}
