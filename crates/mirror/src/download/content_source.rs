//! The server that has the bytes of a download.

use crate::images::{Pull, RepositoryId};
use crate::ipfs::IpfsFile;
use crate::oci::{ByteRange, Digest};
use crate::proxy::OriginFile;
use crate::store::Check;
use crate::upstream::{BlobBody, UpstreamError};

#[derive(Clone, Debug)]
pub(crate) enum ContentSource {
    Registry(Pull),
    /// A server that is named as a proxy host, for a version of a file.
    File(OriginFile),
    /// The IPFS peers that have a public blob.
    Ipfs(IpfsFile),
}

impl ContentSource {
    pub(super) fn server(&self) -> &str {
        match self {
            ContentSource::Registry(pull) => pull.upstream.registry().name(),
            ContentSource::File(file) => file.server(),
            ContentSource::Ipfs(_) => "IPFS",
        }
    }

    /// The repository with its registry, the URL, or the CID.
    pub(super) fn name(&self) -> String {
        match self {
            ContentSource::Registry(pull) => {
                let id = pull.id();
                format!("{}/{}", id.registry, id.repository)
            }
            ContentSource::File(file) => file.version().url.clone(),
            ContentSource::Ipfs(file) => file.name(),
        }
    }

    /// The repository whose credentials another host needs for the content. `None`: files and
    /// what IPFS peers have are public.
    pub(super) fn repository(&self) -> Option<RepositoryId> {
        match self {
            ContentSource::Registry(pull) => Some(pull.id()),
            ContentSource::File(_) | ContentSource::Ipfs(_) => None,
        }
    }

    /// How to verify the content with this name.
    pub(super) fn check(&self, digest: &Digest) -> Check {
        match self {
            ContentSource::Registry(_) | ContentSource::Ipfs(_) => Check::Whole(digest.clone()),
            ContentSource::File(file) => file.check(),
        }
    }

    /// The server sent all of the content, and it had the digest or not.
    pub(super) fn note_digest(&self, is_right: bool) {
        match self {
            ContentSource::Registry(_) | ContentSource::Ipfs(_) => {}
            ContentSource::File(file) => file.note_digest(is_right),
        }
    }

    /// Asks for the size. `None`: the server does not tell it.
    pub(super) async fn size(&self, digest: &Digest) -> Result<Option<u64>, UpstreamError> {
        match self {
            ContentSource::Registry(pull) => {
                pull.upstream.blob_size(&pull.repository, digest).await
            }
            ContentSource::File(file) => Ok(Some(file.version().length)),
            ContentSource::Ipfs(file) => Ok(Some(file.bytes)),
        }
    }

    /// Requests the content, or a range of it. A server without ranges sends all. `known` is the size, as
    /// far as it is known.
    pub(super) async fn request(
        &self,
        digest: &Digest,
        range: Option<ByteRange>,
        known: Option<u64>,
    ) -> Result<BlobBody, UpstreamError> {
        match self {
            ContentSource::Registry(pull) => {
                pull.upstream.blob(&pull.repository, digest, range, known).await
            }
            ContentSource::File(file) => file.request(range).await,
            ContentSource::Ipfs(file) => file.request(range).await,
        }
    }
}
