//! The repository from which a client pulls.

use std::sync::Arc;

use crate::catalog::RepositoryId;
use crate::oci::Repository;
use crate::upstream::Upstream;

/// A repository of an upstream registry, from which a client pulls.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    /// The registry.
    pub(crate) upstream: Arc<Upstream>,
    /// The repository's full name there.
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
