//! Requests for manifests.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, header};
use tokio::time::timeout;

use super::{SOURCE, Shared};
use crate::fleet::tag_key;
use crate::oci::{ApiError, Digest, ErrorCode, Reference, Tag};
use crate::pull::Pull;
use crate::store::{Manifest, StoreError};
use crate::upstream::{ManifestAnswer, UpstreamError};

/// The media types that are asked for when a client names none.
const DEFAULT_ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json, */*";

/// Where a manifest is from.
enum Source {
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
    let lookup = Lookup { shared, pull, accept: accept(request) };
    let found = match reference {
        Reference::Tag(tag) => lookup.by_tag(tag).await,
        Reference::Digest(digest) => lookup.by_digest(digest).await,
    };
    let (manifest, source) = found?;
    Ok(response(manifest, &source))
}

/// The client's media types. A client may send several headers, and a registry looks at all of them.
/// Some registries do not understand that `*/*` includes the types of OCI, so it is replaced by a list.
fn accept(request: &Parts) -> HeaderValue {
    let lines = request.headers.get_all(header::ACCEPT);
    let lines: Vec<_> = lines.iter().filter_map(|line| line.to_str().ok()).collect();
    if lines.iter().all(|line| line.trim() == "*/*") {
        return HeaderValue::from_static(DEFAULT_ACCEPT);
    }
    match HeaderValue::from_str(&lines.join(", ")) {
        Ok(accept) if !accept.is_empty() => accept,
        _ => HeaderValue::from_static(DEFAULT_ACCEPT),
    }
}

/// Whether a list of media types has one.
fn accepts(accept: &HeaderValue, media_type: &str) -> bool {
    let accept = accept.to_str().unwrap_or_default();
    accept.split(',').any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range == "*/*" || range.eq_ignore_ascii_case(media_type) || range == "application/*"
    })
}

fn response(manifest: Manifest, source: &Source) -> Response {
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

/// One search for a manifest.
struct Lookup<'a> {
    shared: &'a Arc<Shared>,
    pull: &'a Pull,
    accept: HeaderValue,
}

impl Lookup<'_> {
    async fn by_tag(&self, tag: &Tag) -> Result<(Manifest, Source), ApiError> {
        let id = self.pull.id();
        let known = self.shared.catalog.tag(&id, tag);
        if let Some(known) = &known
            && known.age < self.shared.settings.tag_ttl
            && let Some(manifest) = self.stored(&known.digest)?
        {
            return Ok((manifest, Source::Store(known.age)));
        }
        match self.ask_registry(&Reference::Tag(tag.clone()), None).await {
            Ok(manifest) => Ok((manifest, Source::Registry)),
            Err(Failure::Upstream(error)) => {
                if matches!(error, UpstreamError::NotFound { .. }) {
                    self.shared.catalog.remove_tag(&id, tag).map_err(|error| failed(&error))?;
                }
                let age = known.as_ref().map(|known| known.age);
                if let Some(known) = known
                    && self.shared.access.holds_while_down(age, &error)
                    && let Some(manifest) = self.stored(&known.digest)?
                {
                    tracing::warn!(repository = %self.pull.repository, %tag, age = ?known.age, %error, "serving a tag from the store while the registry is down");
                    return Ok((manifest, Source::Store(known.age)));
                }
                if let Some(found) = self.of_fleet(&Reference::Tag(tag.clone()), &error).await? {
                    return Ok(found);
                }
                Err(error.to_api_error(ErrorCode::ManifestUnknown))
            }
            Err(Failure::Store(error)) => Err(failed(&error)),
        }
    }

    async fn by_digest(&self, digest: &Digest) -> Result<(Manifest, Source), ApiError> {
        let id = self.pull.id();
        let age = self.shared.catalog.member(&id, digest);
        let stored = self.shared.manifests.get(digest).map_err(|error| failed(&error))?;
        if let (Some(age), Some(manifest)) = (age, &stored)
            && age < self.shared.access.ttl
        {
            return Ok((manifest.clone(), Source::Store(age)));
        }
        let reference = Reference::Digest(digest.clone());
        match (self.ask_registry(&reference, stored.as_ref()).await, stored) {
            (Ok(manifest), _) => Ok((manifest, Source::Registry)),
            (Err(Failure::Upstream(error)), Some(manifest))
                if self.shared.access.holds_while_down(age, &error) =>
            {
                tracing::warn!(repository = %self.pull.repository, %digest, %error, "serving a manifest from the store while the registry is down");
                Ok((manifest, Source::Store(age.unwrap_or_default())))
            }
            (Err(Failure::Upstream(error)), _) => match self.of_fleet(&reference, &error).await? {
                Some(found) => Ok(found),
                None => Err(error.to_api_error(ErrorCode::ManifestUnknown)),
            },
            (Err(Failure::Store(error)), _) => Err(failed(&error)),
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
        let found = fleet.find_manifest(&self.pull.id(), reference).await;
        let Some((manifest, age)) = found else { return Ok(None) };
        if !accepts(&self.accept, &manifest.media_type) {
            return Ok(None);
        }
        tracing::warn!(repository = %self.pull.repository, %reference, ?age, %error, "serving a manifest of another host while the registry is down");
        self.shared.manifests.put(&manifest).map_err(|error| failed(&error))?;
        self.note(reference, &manifest).map_err(|error| failed(&error))?;
        Ok(Some((manifest, Source::Fleet(age))))
    }

    /// Asks the registry for a manifest. A registry that does not answer in time counts as down.
    /// `stored` is the manifest of a digest.
    async fn ask_registry(
        &self,
        reference: &Reference,
        stored: Option<&Manifest>,
    ) -> Result<Manifest, Failure> {
        let limit = self.shared.answer_timeout();
        let answer = timeout(limit, self.request(reference, stored)).await;
        answer.unwrap_or_else(|_| Err(self.pull.upstream.no_answer(limit).into()))
    }

    /// Requests a manifest. The registry sends the manifest only if the store lacks it: a `HEAD`
    /// request costs less, and Docker Hub does not count it as a pull. `stored` is that of a digest.
    async fn request(
        &self,
        reference: &Reference,
        stored: Option<&Manifest>,
    ) -> Result<Manifest, Failure> {
        let Pull { upstream, repository } = self.pull;
        if matches!(reference, Reference::Digest(_)) && stored.is_none() {
            return self.fetch(reference).await;
        }
        let named = upstream.manifest_head(repository, reference, &self.accept).await?;
        let stored = match (stored, &named) {
            (Some(manifest), _) => Some(manifest.clone()),
            (None, Some(digest)) => self.shared.manifests.get(digest)?,
            (None, None) => None,
        };
        match stored {
            Some(manifest) => {
                self.note(reference, &manifest)?;
                Ok(manifest)
            }
            None => self.fetch(reference).await,
        }
    }

    async fn fetch(&self, reference: &Reference) -> Result<Manifest, Failure> {
        let Pull { upstream, repository } = self.pull;
        let answer = upstream.manifest(repository, reference, &self.accept).await?;
        let ManifestAnswer { media_type, digest, bytes } = answer;
        let manifest = Manifest { digest, media_type, bytes };
        self.shared.manifests.put(&manifest)?;
        self.note(reference, &manifest)?;
        Ok(manifest)
    }

    fn note(&self, reference: &Reference, manifest: &Manifest) -> Result<(), StoreError> {
        let Manifest { digest, bytes, .. } = manifest;
        let id = self.pull.id();
        self.shared.catalog.note_manifest(&id, reference, digest, bytes)?;
        if let Some(fleet) = &self.shared.fleet {
            fleet.announce(digest);
            if let Reference::Tag(tag) = reference {
                fleet.announce(&tag_key(&id.registry, id.repository.as_str(), tag.as_str()));
            }
        }
        Ok(())
    }

    /// The stored manifest, if the client accepts its type.
    fn stored(&self, digest: &Digest) -> Result<Option<Manifest>, ApiError> {
        let manifest = self.shared.manifests.get(digest).map_err(|error| failed(&error))?;
        Ok(manifest.filter(|manifest| accepts(&self.accept, &manifest.media_type)))
    }
}

enum Failure {
    Upstream(UpstreamError),
    Store(StoreError),
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Failure::Upstream(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

fn failed(error: &StoreError) -> ApiError {
    tracing::error!(%error, "the store failed");
    ApiError::new(ErrorCode::Unavailable, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_accept_headers_are_one_list() {
        let request = axum::http::Request::builder()
            .header("accept", "application/a")
            .header("accept", "application/b;q=0.5, text/plain")
            .body(())
            .unwrap();
        let accept = accept(&request.into_parts().0);
        assert_eq!(accept, "application/a, application/b;q=0.5, text/plain");
        assert!(accepts(&accept, "application/b") && !accepts(&accept, "application/c"));
        for builder in
            [axum::http::Request::builder(), axum::http::Request::builder().header("accept", "*/*")]
        {
            let accept = super::accept(&builder.body(()).unwrap().into_parts().0);
            assert_eq!(accept, DEFAULT_ACCEPT);
            assert!(accepts(&accept, "anything/else"));
        }
    }
}
