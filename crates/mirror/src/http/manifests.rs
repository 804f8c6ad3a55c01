//! Requests for manifests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, Method, header};
use tokio::time::timeout;

use super::{SOURCE, Shared};
use crate::fleet::tag_key;
use crate::images::{Accept, ManifestError, Pull, RepositoryId, TagRecord, may_serve};
use crate::oci::{ApiError, Digest, ErrorCode, Manifest, Reference, Tag};
use crate::upstream::UpstreamError;

pub(super) enum Source {
    /// IPFS peers sent it.
    Ipfs,
    /// The registry sent it for this request.
    Registry,
    /// Another host of the fleet sent it, and the registry named it there this long ago.
    Fleet(Duration),
    /// The store has it, and the registry named it this long ago.
    Store(Duration),
}

pub(super) async fn answer(
    shared: &Arc<Shared>,
    pull: &Pull,
    reference: &Reference,
    request: &Parts,
) -> Result<Response, ApiError> {
    let accept = Accept::of_lines(request.headers.get_all(header::ACCEPT).iter());
    // A client that follows a tag wants to know what the registry names now.
    let is_new = request.headers.get(header::CACHE_CONTROL).is_some_and(|one| one == "no-cache");
    let tag_ttl = if is_new { Duration::ZERO } else { shared.settings.tag_ttl };
    let lookup = Lookup { shared: shared.clone(), pull: pull.clone(), accept, tag_ttl };
    let found = match reference {
        Reference::Tag(tag) => lookup.by_tag(tag).await,
        Reference::Digest(digest) => lookup.by_digest(digest).await,
    };
    let (manifest, source) = found?;
    if request.method == Method::GET {
        shared.downloads.note_image(pull, &manifest.bytes);
    }
    Ok(response(manifest, &source))
}

pub(super) fn response(manifest: Manifest, source: &Source) -> Response {
    let length = manifest.bytes.len();
    let mut response = Response::new(Body::from(manifest.bytes));
    let headers = response.headers_mut();
    let text = |text: &str| HeaderValue::from_str(text).ok();
    for (name, value) in [
        (header::CONTENT_TYPE, text(&manifest.media_type)),
        (header::ETAG, text(&format!("\"{}\"", manifest.digest))),
        ("docker-content-digest".parse().expect("a header"), text(&manifest.digest.to_string())),
    ] {
        value.map(|value| headers.insert(name, value));
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    match source {
        Source::Ipfs => headers.insert(SOURCE, HeaderValue::from_static("ipfs")),
        Source::Registry => headers.insert(SOURCE, HeaderValue::from_static("registry")),
        Source::Store(age) => {
            headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
            headers.insert(SOURCE, HeaderValue::from_static("store"))
        }
        Source::Fleet(age) => {
            headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
            headers.insert(SOURCE, HeaderValue::from_static("fleet"))
        }
    };
    response
}

#[derive(Clone)]
struct Lookup {
    shared: Arc<Shared>,
    pull: Pull,
    accept: Accept,
    tag_ttl: Duration,
}

/// A question to a registry: two with the same key get one answer. The last part is the key of what is
/// accepted.
pub(super) type QuestionKey = (RepositoryId, String, String);

pub(super) type RegistryAnswer = Result<Manifest, ManifestError>;

impl Lookup {
    async fn by_tag(&self, tag: &Tag) -> Result<(Manifest, Source), ApiError> {
        let id = self.pull.id();
        let known = self.shared.catalog.tag(&id, tag, &self.accept.key);
        if let Some(known) = &known
            && known.age < self.tag_ttl
            && let Some(manifest) = self.stored(&known.digest)?
        {
            return Ok((manifest, Source::Store(known.age)));
        }
        match self.ask_registry(&Reference::Tag(tag.clone()), None).await {
            Ok(manifest) => Ok((manifest, Source::Registry)),
            Err(ManifestError::Upstream(error)) => self.by_tag_while_down(tag, known, error).await,
            Err(error) => Err(failed(&error)),
        }
    }

    /// The registry did not name the manifest of a tag. An answer of any age serves while it is down.
    async fn by_tag_while_down(
        &self,
        tag: &Tag,
        known: Option<TagRecord>,
        error: UpstreamError,
    ) -> Result<(Manifest, Source), ApiError> {
        let id = self.pull.id();
        if matches!(error, UpstreamError::NotFound { .. }) {
            self.shared.catalog.remove_tag(&id, tag, &self.accept.key);
        }
        let others = self.shared.catalog.tag_records(&id, tag);
        for known in known.into_iter().chain(others) {
            if self.shared.access.holds_while_down(Some(known.age), &error)
                && let Some(manifest) = self.stored(&known.digest)?
                && (known.accept == self.accept.key
                    || may_serve(&known.accept, &self.accept.key, &manifest.media_type))
            {
                tracing::warn!(repository = %self.pull.repository, %tag, age = ?known.age, %error, "serving a tag from the store while the registry is down");
                return Ok((manifest, Source::Store(known.age)));
            }
        }
        if let Some(found) = self.of_fleet(&Reference::Tag(tag.clone()), &error).await? {
            return Ok(found);
        }
        Err(error.to_api_error(ErrorCode::ManifestUnknown))
    }

    async fn by_digest(&self, digest: &Digest) -> Result<(Manifest, Source), ApiError> {
        let id = self.pull.id();
        let age = self.shared.catalog.member(&id, digest);
        let stored = self.shared.manifests.get(digest);
        let stored = stored.map_err(|error| failed(&error.into()))?;
        if let (Some(age), Some(manifest)) = (age, &stored)
            && age < self.shared.access.ttl
        {
            return Ok((manifest.clone(), Source::Store(age)));
        }
        let reference = Reference::Digest(digest.clone());
        match (self.ask_registry(&reference, stored.as_ref()).await, stored) {
            (Ok(manifest), _) => Ok((manifest, Source::Registry)),
            (Err(ManifestError::Upstream(error)), Some(manifest))
                if self.shared.access.holds_while_down(age, &error) =>
            {
                tracing::warn!(repository = %self.pull.repository, %digest, %error, "serving a manifest from the store while the registry is down");
                Ok((manifest, Source::Store(age.unwrap_or_default())))
            }
            (Err(ManifestError::Upstream(error)), _) => {
                match self.of_fleet(&reference, &error).await? {
                    Some(found) => Ok(found),
                    None => Err(error.to_api_error(ErrorCode::ManifestUnknown)),
                }
            }
            (Err(error), _) => Err(failed(&error)),
        }
    }

    /// Asks other hosts for a manifest, if the registry is down and the settings allow old content.
    async fn of_fleet(
        &self,
        reference: &Reference,
        error: &UpstreamError,
    ) -> Result<Option<(Manifest, Source)>, ApiError> {
        let Some(fleet) = &self.shared.fleet else { return Ok(None) };
        if !self.shared.access.offline_ok || !error.is_outage() {
            return Ok(None);
        }
        let found = fleet.find_manifest(&self.pull.id(), reference, &self.accept.key).await;
        let Some((manifest, age)) = found else { return Ok(None) };
        if !self.accept.accepts(&manifest.media_type) {
            return Ok(None);
        }
        tracing::warn!(repository = %self.pull.repository, %reference, ?age, %error, "serving a manifest of another host while the registry is down");
        self.shared.manifests.put(&manifest);
        self.note(reference, &manifest, age);
        Ok(Some((manifest, Source::Fleet(age))))
    }

    /// Asks the registry for a manifest, together with all other clients that ask for it now. A registry
    /// that does not answer in time counts as down. `stored` is the manifest of a digest.
    async fn ask_registry(
        &self,
        reference: &Reference,
        stored: Option<&Manifest>,
    ) -> RegistryAnswer {
        let key = (self.pull.id(), reference.to_string(), self.accept.key.clone());
        let (lookup, reference, stored) = (self.clone(), reference.clone(), stored.cloned());
        let ask = async move {
            let limit = lookup.shared.answer_timeout();
            let answer = timeout(limit, lookup.request(&reference, stored.as_ref())).await;
            answer.unwrap_or_else(|_| {
                Err(UpstreamError::no_answer(lookup.pull.upstream.registry().name(), limit).into())
            })
        };
        let answer = self.shared.questions.join(key, ask).await;
        answer.unwrap_or(Err(ManifestError::Stopped))
    }

    /// Requests a manifest. The registry sends the manifest only if the store lacks it: a `HEAD`
    /// request costs less, and Docker Hub does not count it as a pull. `stored` is the manifest of a digest.
    async fn request(&self, reference: &Reference, stored: Option<&Manifest>) -> RegistryAnswer {
        let Pull { upstream, repository } = &self.pull;
        if let (Reference::Digest(digest), None) = (reference, stored) {
            return self.fetch_digest(digest).await;
        }
        // The answer to the same question may have arrived since the store was searched.
        if let Reference::Tag(tag) = reference
            && let Some(known) = self.shared.catalog.tag(&self.pull.id(), tag, &self.accept.key)
            && known.age < self.tag_ttl
            && let Some(manifest) = self.shared.manifests.get(&known.digest)?
        {
            return Ok(manifest);
        }
        let named = match upstream.manifest_head(repository, reference, &self.accept.header).await {
            Ok(named) => named,
            // Some registries refuse `HEAD`, and one that lacks the manifest says so again.
            Err(error) if error.may_be_of_head() => return self.fetch(reference).await,
            Err(error) => return Err(error.into()),
        };
        let stored = match (stored, &named) {
            (Some(manifest), _) => Some(manifest.clone()),
            (None, Some(digest)) => self.shared.manifests.get(digest)?,
            (None, None) => None,
        };
        if let Some(manifest) = stored {
            self.note(reference, &manifest, Duration::ZERO);
            return Ok(manifest);
        }
        // Other tags and other hosts may ask for the same manifest.
        if let Some(digest) = named
            && let Ok(manifest) = self.fetch_digest(&digest).await
        {
            self.note(reference, &manifest, Duration::ZERO);
            return Ok(manifest);
        }
        self.fetch(reference).await
    }

    /// Fetches the manifest of a digest, in a fleet through the host that fetches it for all.
    async fn fetch_digest(&self, digest: &Digest) -> RegistryAnswer {
        let reference = Reference::Digest(digest.clone());
        if let Some(fleet) = &self.shared.fleet
            && let Some((manifest, age)) = fleet.fetch_manifest(&self.pull.id(), digest).await
            && age < self.shared.access.ttl
        {
            self.shared.manifests.put(&manifest);
            self.note(&reference, &manifest, age);
            return Ok(manifest);
        }
        let manifest = self.shared.manifest_fetcher.fetch(&self.pull, digest).await?;
        self.note(&reference, &manifest, Duration::ZERO);
        Ok(manifest)
    }

    async fn fetch(&self, reference: &Reference) -> RegistryAnswer {
        let Pull { upstream, repository } = &self.pull;
        let manifest = upstream.manifest(repository, reference, &self.accept.header).await?;
        self.shared.manifests.put(&manifest);
        self.note(reference, &manifest, Duration::ZERO);
        Ok(manifest)
    }

    /// The registry named a manifest so long ago.
    fn note(&self, reference: &Reference, manifest: &Manifest, age: Duration) {
        let Manifest { digest, bytes, .. } = manifest;
        let (id, named) = (self.pull.id(), (digest, &**bytes));
        self.shared.catalog.note_manifest(&id, reference, &self.accept.key, named, age);
        if let Some(fleet) = &self.shared.fleet {
            fleet.announce(digest);
            if let Reference::Tag(tag) = reference {
                fleet.announce(&tag_key(&id.registry, id.repository.as_str(), tag.as_str()));
            }
        }
    }

    /// The stored manifest, if the client accepts its type.
    fn stored(&self, digest: &Digest) -> Result<Option<Manifest>, ApiError> {
        let manifest = self.shared.manifests.get(digest);
        let manifest = manifest.map_err(|error| failed(&error.into()))?;
        Ok(manifest.filter(|manifest| self.accept.accepts(&manifest.media_type)))
    }
}

fn failed(error: &ManifestError) -> ApiError {
    match error {
        ManifestError::Upstream(error) => error.to_api_error(ErrorCode::ManifestUnknown),
        ManifestError::Store(error) => {
            tracing::error!(%error, "the store failed");
            ApiError::new(ErrorCode::Unavailable, error.to_string())
        }
        ManifestError::Stopped => {
            ApiError::new(ErrorCode::Unavailable, "the mirror is stopping: ask again")
        }
    }
}
