//! The client of one upstream registry.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Response, Url};
use tokio::time::Instant;

use super::blob_body::{BlobBody, content_range};
use super::challenge::Challenge;
use super::credentials::{Credential, CredentialFiles, CredentialsError};
use super::error::UpstreamError;
use super::guard::RedirectRules;
use super::registry::Registry;
use super::server::{ServerClient, unreachable};
use super::tokens::{Token, TokenAnswer, Tokens};
use crate::oci::{ByteRange, Digest, Manifest, Reference, Repository};

/// The largest manifest, as registries limit it.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;
/// The largest list of tags or referrers, and the largest answer of a token server.
const LIST_BYTES_MAX: usize = 4 << 20;
/// The longest pause within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const DIGEST_HEADER: &str = "docker-content-digest";
/// The headers of a list that clients get.
const LIST_HEADERS: [HeaderName; 3] =
    [header::CONTENT_TYPE, header::LINK, HeaderName::from_static("oci-filters-applied")];

#[derive(Debug)]
pub struct Upstream {
    registry: Registry,
    server: ServerClient,
    credentials: CredentialFiles,
    tokens: Tokens,
}

impl Upstream {
    /// The client of a registry. It sends nothing yet.
    ///
    /// Fails if the certificates of the system cannot be used for TLS.
    pub fn new(
        registry: Registry,
        credentials: CredentialFiles,
        redirects: Arc<RedirectRules>,
        tls: rustls::ClientConfig,
    ) -> Result<Self, UpstreamError> {
        let (name, url) = (registry.name(), registry.base_url());
        let server = ServerClient::new(name, url, redirects, tls, READ_TIMEOUT)?;
        Ok(Upstream { server, credentials, tokens: Tokens::default(), registry })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The credential for a repository as one text; `None` if there is none.
    pub async fn credential_text(
        &self,
        repository: &str,
    ) -> Result<Option<String>, CredentialsError> {
        let found = self.credentials.find(self.registry.name(), repository).await?;
        Ok(found.map(|credential| match credential {
            Credential::Basic { user, password } => format!("basic {user}:{password}"),
            Credential::IdentityToken(token) => format!("token {token}"),
        }))
    }

    /// Requests a manifest. `accept` is the client's list of media types.
    pub async fn manifest(
        &self,
        repository: &Repository,
        reference: &Reference,
        accept: &HeaderValue,
    ) -> Result<Manifest, UpstreamError> {
        let response = self.request_manifest(Method::GET, repository, reference, accept).await?;
        let named = media_type(&response);
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        if let Some(encoding) =
            encoding.filter(|one| !one.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            // Nothing is unpacked here, and the digest names the bytes of the manifest itself.
            return Err(self.server.invalid(format!("the manifest has the encoding {encoding:?}")));
        }
        let bytes = self.read(response, MANIFEST_BYTES_MAX).await?;
        // HTTP lets a server leave the header out, and most manifests name their type.
        let media_type = named
            .or_else(|| own_media_type(&bytes))
            .ok_or_else(|| self.server.invalid("a manifest without a media type".into()))?;
        let digest = match reference {
            Reference::Digest(digest) if digest.is_of(&bytes) => digest.clone(),
            Reference::Digest(digest) => {
                return Err(self.server.invalid(format!("the manifest is not {digest}")));
            }
            Reference::Tag(_) => Digest::sha256(&bytes),
        };
        Ok(Manifest { media_type, digest, bytes })
    }

    /// Requests the digest of a manifest. `None`: the registry has the manifest, but does not name its
    /// digest.
    pub async fn manifest_head(
        &self,
        repository: &Repository,
        reference: &Reference,
        accept: &HeaderValue,
    ) -> Result<Option<Digest>, UpstreamError> {
        let response = self.request_manifest(Method::HEAD, repository, reference, accept).await?;
        let digest = response.headers().get(DIGEST_HEADER);
        Ok(digest.and_then(|digest| digest.to_str().ok()?.parse().ok()))
    }

    async fn request_manifest(
        &self,
        method: Method,
        repository: &Repository,
        reference: &Reference,
        accept: &HeaderValue,
    ) -> Result<Response, UpstreamError> {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept.clone())]);
        self.request(method, &path, repository, headers).await
    }

    /// The size of a blob, without its bytes. `None`: the registry has the blob, but does not tell its
    /// size. A registry that refuses `HEAD` is asked for one byte.
    pub async fn blob_size(
        &self,
        repository: &Repository,
        digest: &Digest,
    ) -> Result<Option<u64>, UpstreamError> {
        let path = format!("/v2/{repository}/blobs/{digest}");
        let headed = self.request(Method::HEAD, &path, repository, HeaderMap::new()).await;
        let response = match headed {
            Ok(response) => response,
            Err(error) if error.may_be_of_head() => {
                let one_byte = ByteRange { start: 0, end: 0 }.to_header();
                let headers = HeaderMap::from_iter([(header::RANGE, one_byte)]);
                match self.request(Method::GET, &path, repository, headers).await {
                    // The blob has no byte.
                    Err(error) if error.is_range_refused() => return Ok(None),
                    answer => answer?,
                }
            }
            Err(error) => return Err(error),
        };
        if response.status() == StatusCode::PARTIAL_CONTENT {
            return Ok(content_range(response.headers()).and_then(|sent| sent.size));
        }
        let length = response.headers().get(header::CONTENT_LENGTH);
        Ok(length.and_then(|length| length.to_str().ok()?.parse().ok()))
    }

    /// Requests a blob, or a range of it. A registry without ranges sends the whole blob. `known` is the
    /// size of the blob, if a manifest tells it.
    pub async fn blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        range: Option<ByteRange>,
        known: Option<u64>,
    ) -> Result<BlobBody, UpstreamError> {
        let path = format!("/v2/{repository}/blobs/{digest}");
        let get = |range: Option<ByteRange>| {
            let headers = range.map(|range| (header::RANGE, range.to_header()));
            self.request(Method::GET, &path, repository, headers.into_iter().collect())
        };
        let response = match get(range).await {
            Err(error) if range.is_some() && error.is_range_refused() => get(None).await?,
            answer => answer?,
        };
        Ok(BlobBody::of(response, range, known, self.registry.name()))
    }

    /// Requests a list: `tags/list` or `referrers/<digest>`. Returns its type, its link to the next
    /// page, and its bytes.
    pub async fn list(
        &self,
        repository: &Repository,
        path: &str,
        query: &str,
    ) -> Result<(HeaderMap, Bytes), UpstreamError> {
        let question_mark = if query.is_empty() { "" } else { "?" };
        let path = format!("/v2/{repository}/{path}{question_mark}{query}");
        let response = self.request(Method::GET, &path, repository, HeaderMap::new()).await?;
        let mut headers = HeaderMap::new();
        for name in LIST_HEADERS {
            // A list may be spread over several lines.
            for value in response.headers().get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        Ok((headers, self.read(response, LIST_BYTES_MAX).await?))
    }

    /// Sends a request with a token, and follows redirects. The answer has a status of success.
    async fn request(
        &self,
        method: Method,
        path: &str,
        repository: &Repository,
        headers: HeaderMap,
    ) -> Result<Response, UpstreamError> {
        let url = self
            .server
            .base()
            .join(path)
            .map_err(|error| self.server.invalid(error.to_string()))?;
        let used = {
            let token = self.tokens.lock(repository.as_str()).await;
            let token = token.as_ref().filter(|token| token.is_valid(Instant::now()));
            token.map(|token| token.authorization.clone())
        };
        let mut response =
            self.send(method.clone(), url.clone(), headers.clone(), used.clone()).await?;
        // Another server, to which a redirect led, has no right to the credentials of this one.
        if response.status() == StatusCode::UNAUTHORIZED && self.server.is_own(response.url()) {
            let authorization = self.authorize(&response, repository, used.as_deref()).await?;
            if authorization.is_some() {
                response = self.send(method, url, headers, authorization).await?;
            }
        }
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused && self.server.is_own(response.url()) {
            *self.tokens.lock(repository.as_str()).await = None;
            return Err(UpstreamError::Refused { registry: self.registry.name().into(), status });
        }
        Err(UpstreamError::of_status(self.registry.name(), status, response.headers()))
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        authorization: Option<String>,
    ) -> Result<Response, UpstreamError> {
        let mut headers = headers;
        if let Some(authorization) = authorization {
            let value = HeaderValue::from_str(&authorization);
            let value =
                value.map_err(|_| self.server.invalid("a token that is no header".into()))?;
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(self.server.send(method, &url, &headers).await?.response)
    }

    /// The `Authorization` header that the challenge of a response asks for. `None`: it asks for a
    /// form that the mirror does not have. `refused` is the header that was sent.
    async fn authorize(
        &self,
        response: &Response,
        repository: &Repository,
        refused: Option<&str>,
    ) -> Result<Option<String>, UpstreamError> {
        let lines = response.headers().get_all(header::WWW_AUTHENTICATE);
        // A realm may have any characters.
        let lines = lines.iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
        let challenges: Vec<Challenge> =
            lines.flat_map(|line| Challenge::parse_all(&line)).collect();
        // A token gives fewer rights than a password.
        let is_bearer = |challenge: &&Challenge| matches!(challenge, Challenge::Bearer { .. });
        let challenge = challenges.iter().find(is_bearer).or(challenges.first()).cloned();
        let Some(challenge) = challenge else { return Ok(None) };
        // One request at a time asks for a token; the others then find it.
        let mut token = self.tokens.lock(repository.as_str()).await;
        let now = Instant::now();
        // The registry takes a token no more before it expires, after a restart for example.
        let is_useful =
            |known: &Token| known.is_valid(now) && refused != Some(known.authorization.as_str());
        if let Some(known) = token.as_ref().filter(|known| is_useful(known)) {
            return Ok(Some(known.authorization.clone()));
        }
        *token = None;
        let credential = self.credentials.find(self.registry.name(), repository.as_str()).await;
        let credential = credential.unwrap_or_else(|error| {
            tracing::warn!(registry = %self.registry, %error, "cannot use credentials; asking without");
            None
        });
        let (authorization, lifetime) = match (challenge, credential) {
            (Challenge::Basic, Some(Credential::Basic { user, password })) => {
                (basic(&user, &password), Duration::from_secs(300))
            }
            (Challenge::Basic, _) => return Ok(None),
            (Challenge::Bearer { realm, service, scope }, credential) => {
                let scope = scope.filter(|scope| !scope.is_empty());
                let scope = scope.unwrap_or_else(|| format!("repository:{repository}:pull"));
                let (bearer, lifetime) =
                    self.token(&realm, service.as_deref(), &scope, credential).await?;
                (format!("Bearer {bearer}"), lifetime)
            }
        };
        *token = Some(Token::new(authorization.clone(), lifetime, now));
        Ok(Some(authorization))
    }

    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        credential: Option<Credential>,
    ) -> Result<(String, Duration), UpstreamError> {
        let url = self.server.base().join(realm);
        let mut url = url.map_err(|error| self.server.invalid(format!("realm: {error}")))?;
        if self.server.base().scheme() == "https" && url.scheme() != "https" {
            return Err(self.server.invalid(format!("the token server {url} does not use https")));
        }
        let service = service.unwrap_or_default();
        let response = match credential {
            Some(Credential::IdentityToken(token)) => {
                // It is sent on nowhere, because the token is in the body.
                let client = self.server.client_for(&url)?;
                let form = [
                    ("grant_type", "refresh_token"),
                    ("refresh_token", token.as_str()),
                    ("service", service),
                    ("scope", scope),
                    ("client_id", "watchfire"),
                ];
                let mut body = url.clone();
                let body = body.query_pairs_mut().clear().extend_pairs(form).finish();
                let body = body.query().unwrap_or_default().to_owned();
                let form_type = "application/x-www-form-urlencoded";
                let request = client.post(url.clone()).header(header::CONTENT_TYPE, form_type);
                let sent = request.body(body).send().await;
                sent.map_err(|error| self.server.failed(&url, &error))?
            }
            credential => {
                if !service.is_empty() {
                    url.query_pairs_mut().append_pair("service", service);
                }
                for scope in scope.split_ascii_whitespace() {
                    url.query_pairs_mut().append_pair("scope", scope);
                }
                let authorization = match credential {
                    Some(Credential::Basic { user, password }) => Some(basic(&user, &password)),
                    _ => None,
                };
                self.send(Method::GET, url, HeaderMap::new(), authorization).await?
            }
        };
        let status = response.status();
        if !status.is_success() {
            let registry = self.registry.name();
            return Err(match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                    UpstreamError::Refused { registry: registry.to_owned(), status }
                }
                // Nothing says that the token server lacks the image.
                StatusCode::NOT_FOUND => {
                    self.server.invalid("its token server answered 404".into())
                }
                status => UpstreamError::of_status(registry, status, response.headers()),
            });
        }
        let body = self.read(response, LIST_BYTES_MAX).await?;
        let answer = serde_json::from_slice::<TokenAnswer>(&body).ok();
        answer
            .and_then(TokenAnswer::into_parts)
            .ok_or_else(|| self.server.invalid("the token server sent no token".into()))
    }

    async fn read(&self, response: Response, bytes_max: usize) -> Result<Bytes, UpstreamError> {
        let mut response = response;
        let mut body = BytesMut::new();
        let next = |error: reqwest::Error| unreachable(self.registry.name(), &error);
        while let Some(chunk) = response.chunk().await.map_err(next)? {
            if body.len() + chunk.len() > bytes_max {
                return Err(self.server.invalid(format!("more than {bytes_max} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// The media type of a response, without parameters.
fn media_type(response: &Response) -> Option<String> {
    let header = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    let media_type = header.split(';').next().map(str::trim)?;
    (!media_type.is_empty()).then(|| media_type.to_owned())
}

/// The media type that a manifest names itself, if it is one for a header.
fn own_media_type(manifest: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(manifest).ok()?;
    let named = json.get("mediaType")?.as_str()?;
    let is_type = named.contains('/') && named.bytes().all(|byte| byte.is_ascii_graphic());
    is_type.then(|| named.to_owned())
}
