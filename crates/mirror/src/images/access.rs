//! Whether this mirror may serve stored content under a repository.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::catalog::{Catalog, RepositoryId};
use crate::oci::{Digest, Repository};
use crate::store::StoreError;
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
/// It may if the registry lets this mirror pull the content from that repository. So a client cannot
/// get the content of a private repository by its digest alone, not even through a public one.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) catalog: Arc<Catalog>,
    /// How long an answer of the registry holds.
    pub(crate) ttl: Duration,
    /// Whether an older answer holds while the registry is down.
    pub(crate) offline_ok: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Access {
    /// Checks that a blob may be served under a repository. Returns its size, if it is known.
    ///
    /// `limit` is how long a registry may take to answer before an older answer holds.
    pub(crate) async fn check_blob(
        &self,
        pull: &Pull,
        digest: &Digest,
        limit: Duration,
    ) -> Result<Option<u64>, AccessError> {
        let Pull { upstream, repository } = pull;
        let id = pull.id();
        let age = self.catalog.member(&id, digest);
        if age.is_some_and(|age| age < self.ttl) {
            return Ok(self.catalog.size(&id, digest));
        }
        let asked = upstream.blob_size(repository, digest);
        let answer = match self.offline_ok && age.is_some() {
            true => timeout(limit, asked).await.unwrap_or_else(|_| {
                Err(UpstreamError::no_answer(upstream.registry().name(), limit))
            }),
            false => asked.await,
        };
        match answer {
            Ok(size) => {
                self.catalog.note_member(&id, digest)?;
                Ok(size.or_else(|| self.catalog.size(&id, digest)))
            }
            Err(error) if self.holds_while_down(age, &error) => {
                tracing::warn!(%repository, %digest, %error, "serving a blob from the store while the registry is down");
                Ok(self.catalog.size(&id, digest))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an answer of any age is enough, because the registry is down.
    pub(crate) fn holds_while_down(&self, age: Option<Duration>, error: &UpstreamError) -> bool {
        self.offline_ok && age.is_some() && error.is_outage()
    }
}
