//! Whether a host may get a blob from another one.
//!
//! A host that sends credentials to a registry gives what it pulled there only to hosts with the same
//! credentials. So a member of the fleet cannot get by its digest what its own credentials do not
//! reach.
//!
//! A host may get other credentials, or none any more, while its store stays: it now belongs to somebody else, for
//! example. The catalog remembers when that was, and what the registry said before is not told to other hosts. Nor is what
//! an earlier process stored without noting its credentials, such as one outside a fleet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use watchfire_p2p::PeerId;

use super::message::AccessProof;
use crate::images::{Catalog, IPFS, RepositoryId};
use crate::oci::Digest;
use crate::upstream::Upstream;

/// How long credentials are used before their file is read again.
const CREDENTIALS_TTL: Duration = Duration::from_secs(60);

/// Repositories whose credentials are kept in memory. When the limit is reached, all are read again.
const REPOSITORIES_MAX: usize = 10_000;

/// The credentials of this host, hashed.
#[derive(Debug)]
pub(super) struct Credentials {
    upstreams: Vec<Arc<Upstream>>,
    catalog: Arc<Catalog>,
    hashes: Mutex<HashMap<RepositoryId, ReadCredential>>,
}

/// A credential that was read; its hash is `None` if there is none.
#[derive(Clone, Copy, Debug)]
struct ReadCredential {
    read_at: Instant,
    hash: Option<[u8; 32]>,
}

impl Credentials {
    pub(super) fn new(upstreams: Vec<Arc<Upstream>>, catalog: Arc<Catalog>) -> Self {
        Credentials { upstreams, catalog, hashes: Mutex::default() }
    }

    /// A proof for another host that this host has the credentials for a repository. `None`: it has
    /// none, and needs none for what is public.
    pub(super) async fn prove(
        &self,
        from: PeerId,
        to: PeerId,
        name: &str,
        repository: &RepositoryId,
    ) -> Option<AccessProof> {
        let hash = self.of(repository).await??;
        let proof = proof(&hash, from, to, name);
        Some(AccessProof { registry: repository.registry.clone(), proof })
    }

    /// Whether a host may get content that this host pulled from any of these repositories.
    pub(super) async fn allows(
        &self,
        repositories: &[RepositoryId],
        from: PeerId,
        to: PeerId,
        name: &str,
        given: Option<&AccessProof>,
    ) -> bool {
        for repository in repositories {
            match (self.of(repository).await, given) {
                (Some(None), _) => return true,
                (Some(Some(hash)), Some(given)) => {
                    if given.registry == repository.registry
                        && given.proof == proof(&hash, from, to, name)
                    {
                        return true;
                    }
                }
                (Some(Some(_)), None) | (None, _) => {}
            }
        }
        false
    }

    /// The hash of the credentials for a repository; `None` if its registry is unknown or the
    /// credentials cannot be read, and `Some(None)` if it is used without credentials.
    pub(super) async fn of(&self, repository: &RepositoryId) -> Option<Option<[u8; 32]>> {
        if repository.registry == IPFS {
            return Some(None);
        }
        let hash = self.read(repository).await?;
        // 32 bits tell that they have changed, and not what they are.
        let short = hash.map(Sha256::digest);
        let short = short.and_then(|hash| hash.first_chunk().copied()).map(u32::from_be_bytes);
        self.catalog.note_credentials(repository, short.unwrap_or_default());
        Some(hash)
    }

    async fn read(&self, repository: &RepositoryId) -> Option<Option<[u8; 32]>> {
        let read = self.hashes.lock().get(repository).copied();
        if let Some(read) = read.filter(|read| read.read_at.elapsed() < CREDENTIALS_TTL) {
            return Some(read.hash);
        }
        let registry = &repository.registry;
        let upstream = self.upstreams.iter().find(|one| one.registry().name() == registry)?;
        let hash = match upstream.credential_text(repository.repository.as_str()).await {
            Ok(text) => text.map(|text| Sha256::digest(format!("{registry}\0{text}")).into()),
            Err(error) => {
                tracing::warn!(registry, %error, "cannot read credentials: nothing of this registry is sent to other hosts");
                return None;
            }
        };
        let mut hashes = self.hashes.lock();
        if hashes.len() >= REPOSITORIES_MAX {
            hashes.clear();
        }
        hashes.insert(repository.clone(), ReadCredential { read_at: Instant::now(), hash });
        Some(hash)
    }
}

/// It is of use only between these two hosts, whose ids the connection has verified.
fn proof(credentials: &[u8; 32], from: PeerId, to: PeerId, name: &str) -> [u8; 32] {
    let text = format!("watchfire mirror access\0{from}\0{to}\0{name}\0");
    let inner = Sha256::new().chain_update(credentials).chain_update(text).finalize();
    Sha256::new().chain_update(credentials).chain_update(inner).finalize().into()
}

/// The name under which hosts find a manifest of a tag.
pub(crate) fn tag_key(registry: &str, repository: &str, tag: &str) -> Digest {
    Digest::sha256(format!("tag {registry}/{repository}:{tag}").as_bytes())
}

/// The name under which hosts find those that know the CID of a blob.
pub(super) fn cid_key(digest: &Digest) -> Digest {
    Digest::sha256(format!("cid {digest}").as_bytes())
}
