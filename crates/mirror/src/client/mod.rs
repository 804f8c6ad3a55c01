//! A client of a running mirror: reads its state, and loads images into its store.

mod image;
mod manifest;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use image::{ImageName, ImageNameError};
pub use manifest::{Platform, PlatformError, Platforms};

use crate::ipfs::ContentCid;
use crate::oci::{Digest, Hasher, Reference, Repository};
use crate::status::StatusReport;
use crate::upstream::{MANIFEST_BYTES_MAX, Registry, first_cause, tls};
use manifest::Named;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest pause within an answer. The mirror itself closes a connection sooner.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
const STATUS_BYTES_MAX: usize = 64 << 20;
/// Failed requests for a blob in a row, without a new byte, after which it is given up.
const FAILURES_MAX: u32 = 5;
/// The first pause after a failed request. It doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that the mirror may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const MANIFESTS_MAX: usize = 1_000;
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "cannot reach the mirror at {mirror}: {cause}; check that `watchfire mirror` runs there, or name it with --mirror"
    )]
    Unreachable { mirror: String, cause: String },
    #[error("cannot get {object}: the mirror answered {status}: {message}")]
    Refused {
        object: String,
        status: StatusCode,
        /// The code of the error, if the mirror sent one.
        code: String,
        message: String,
        /// The pause that the mirror asks for.
        retry_after: Option<Duration>,
    },
    #[error("cannot use the answer of the mirror for {object}: {cause}")]
    InvalidAnswer { object: String, cause: String },
}

#[derive(Clone, Debug)]
pub struct MirrorClient {
    http: Client,
    base: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageBlob {
    pub registry: String,
    pub repository: Repository,
    pub digest: Digest,
    /// The size, if the manifest names it.
    pub bytes: Option<u64>,
    /// Whether the registry may lack it. Then engines get it from an address that the manifest names.
    pub may_be_elsewhere: bool,
}

/// The manifests of an image are loaded, and these are its blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePlan {
    pub manifests: usize,
    /// The manifests that name blobs: one for each platform.
    pub images: Vec<Digest>,
    pub blobs: Vec<ImageBlob>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobSource {
    Store,
    Registry,
    /// The mirror fetched it with other hosts of the fleet.
    Fleet,
}

#[derive(Deserialize)]
struct ErrorsJson {
    errors: Vec<ErrorJson>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ErrorJson {
    code: String,
    message: String,
}

impl MirrorClient {
    pub fn new(mirror: &Registry) -> Result<Self, ClientError> {
        let base = mirror.base_url().to_owned();
        let failed = |cause: String| ClientError::Unreachable { mirror: base.clone(), cause };
        let tls = tls().map_err(|error| failed(error.to_string()))?;
        let http = Client::builder()
            .user_agent(watchfire_types::USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            // The mirror of a host is reached directly.
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(MirrorClient { http, base })
    }

    pub async fn status(&self) -> Result<StatusReport, ClientError> {
        let object = "the status";
        let request = self.http.get(format!("{}/status", self.base));
        let response = self.send(request, object).await?;
        self.json(response, object).await
    }

    /// The CIDs of the image with this manifest.
    pub async fn cids(&self, manifest: &Digest) -> Result<Vec<ContentCid>, ClientError> {
        let object = format!("the CIDs of {manifest}");
        let request = self.http.get(format!("{}/cids/{manifest}", self.base));
        self.json(self.send(request, &object).await?, &object).await
    }

    pub async fn load_manifests(
        &self,
        image: &ImageName,
        platforms: &Platforms,
    ) -> Result<ImagePlan, ClientError> {
        let mut plan = ImagePlan::default();
        let mut references = vec![image.reference.clone()];
        let mut seen = HashSet::new();
        let mut blobs = HashSet::new();
        let mut others = Vec::new();
        // An index may name an index.
        while let Some(reference) = references.pop() {
            if !seen.insert(reference.clone()) {
                continue;
            }
            let (_, bytes) = self.manifest(image, &reference, false).await?;
            plan.manifests += 1;
            if plan.manifests > MANIFESTS_MAX {
                let cause =
                    format!("it has more than {MANIFESTS_MAX} manifests; choose a --platform");
                return Err(ClientError::invalid(&image.to_string(), cause));
            }
            let named = manifest::read(&bytes, platforms)
                .map_err(|cause| ClientError::invalid(&image.to_string(), cause))?;
            match named {
                Named::Manifests(digests) => {
                    references.extend(digests.into_iter().rev().map(Reference::Digest));
                }
                Named::Blobs(named) => {
                    plan.images.push(match reference {
                        Reference::Digest(digest) => digest,
                        Reference::Tag(_) => Digest::sha256(&bytes),
                    });
                    let ImageName { registry, repository, .. } = image;
                    let new = named.into_iter().filter(|blob| blobs.insert(blob.digest.clone()));
                    plan.blobs.extend(new.map(|blob| ImageBlob {
                        registry: registry.clone(),
                        repository: repository.clone(),
                        digest: blob.digest,
                        bytes: blob.bytes,
                        may_be_elsewhere: blob.may_be_elsewhere,
                    }));
                }
                Named::OtherPlatforms(names) => others.push(names),
            }
        }
        match platforms {
            Platforms::One(wanted) if plan.blobs.is_empty() && !others.is_empty() => {
                let mut names = others.concat();
                names.dedup();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let cause = format!(
                    "it has no image for {wanted}; choose another --platform, of these: {names}"
                );
                Err(ClientError::invalid(&image.to_string(), cause))
            }
            _ => Ok(plan),
        }
    }

    /// The digest that the registry names for an image now, however recently the mirror asked it.
    pub async fn newest(&self, image: &ImageName) -> Result<Digest, ClientError> {
        Ok(self.manifest(image, &image.reference, true).await?.0)
    }

    async fn manifest(
        &self,
        image: &ImageName,
        reference: &Reference,
        is_new: bool,
    ) -> Result<(Digest, Bytes), ClientError> {
        let ImageName { registry, repository, .. } = image;
        let object = match *reference == image.reference {
            true => format!("the manifest of {image}"),
            false => format!("the manifest {reference} of {image}"),
        };
        let url = self.url(registry, repository, &format!("manifests/{reference}"));
        let mut request = self.http.get(url).header(header::ACCEPT, ACCEPT);
        if is_new {
            request = request.header(header::CACHE_CONTROL, "no-cache");
        }
        let response = self.send(request, &object).await?;
        let named = response.headers().get("docker-content-digest");
        let named = named.and_then(|digest| digest.to_str().ok()?.parse::<Digest>().ok());
        let bytes = self.read(response, MANIFEST_BYTES_MAX, &object).await?;
        let expected = match reference {
            Reference::Digest(digest) => Some(digest.clone()),
            Reference::Tag(_) => named,
        };
        match expected {
            Some(digest) if digest.is_of(&bytes) => Ok((digest, bytes)),
            _ => Err(ClientError::invalid(&object, "the bytes do not have its digest")),
        }
    }

    /// Loads a blob into the store of the mirror, and verifies its digest. A blob that the store has is
    /// not read again. `received` is the number of bytes so far.
    pub async fn load_blob(
        &self,
        blob: &ImageBlob,
        received: &AtomicU64,
    ) -> Result<BlobSource, ClientError> {
        let object = format!("the blob {}", blob.digest);
        let url = self.url(&blob.registry, &blob.repository, &format!("blobs/{}", blob.digest));
        // The next request would get the same error.
        if let Ok(response) = self.send(self.http.head(&url), &object).await
            && source_of(&response) == BlobSource::Store
        {
            return Ok(BlobSource::Store);
        }
        let mut reading =
            Reading { hasher: Hasher::new(blob.digest.algorithm()), bytes: 0, source: None };
        let mut failures = 0;
        loop {
            let before = reading.bytes;
            let error = match self.read_blob(&url, &object, &mut reading, received).await {
                Ok(()) => break,
                Err(error) => error,
            };
            if reading.bytes > before {
                failures = 0;
            }
            failures += 1;
            if failures >= FAILURES_MAX || !error.may_pass() {
                return Err(error);
            }
            tokio::time::sleep(error.pause().max(FIRST_PAUSE * 2u32.pow(failures - 1))).await;
        }
        match reading.hasher.finish() == blob.digest {
            true => Ok(reading.source.unwrap_or(BlobSource::Registry)),
            false => Err(ClientError::invalid(&object, "the bytes do not have its digest")),
        }
    }

    async fn read_blob(
        &self,
        url: &str,
        object: &str,
        reading: &mut Reading,
        received: &AtomicU64,
    ) -> Result<(), ClientError> {
        let mut request = self.http.get(url);
        if reading.bytes > 0 {
            request = request.header(header::RANGE, format!("bytes={}-", reading.bytes));
        }
        let mut response = self.send(request, object).await?;
        if reading.bytes > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
            return Err(ClientError::invalid(object, "it is not the requested range"));
        }
        reading.source.get_or_insert_with(|| source_of(&response));
        while let Some(bytes) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            reading.hasher.update(&bytes);
            reading.bytes += bytes.len() as u64;
            received.store(reading.bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn url(&self, registry: &str, repository: &Repository, rest: &str) -> String {
        let registry = utf8_percent_encode(registry, NON_ALPHANUMERIC);
        format!("{}/v2/{repository}/{rest}?ns={registry}", self.base)
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        object: &str,
    ) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let bytes = self.read(response, MANIFEST_BYTES_MAX, object).await.unwrap_or_default();
        let errors = serde_json::from_slice::<ErrorsJson>(&bytes).ok();
        let error = errors.and_then(|errors| errors.errors.into_iter().next()).unwrap_or_default();
        let message = match error.message.as_str() {
            "" => "no reason is given; check that --mirror is the address of a mirror".to_owned(),
            message => message.to_owned(),
        };
        Err(ClientError::Refused {
            object: object.to_owned(),
            status,
            code: error.code,
            message,
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        response: Response,
        object: &str,
    ) -> Result<T, ClientError> {
        let bytes = self.read(response, STATUS_BYTES_MAX, object).await?;
        let hint = "check that --mirror is the address of a mirror of the same version";
        serde_json::from_slice(&bytes)
            .map_err(|error| ClientError::invalid(object, format!("{error}; {hint}")))
    }

    async fn read(
        &self,
        mut response: Response,
        bytes_max: usize,
        object: &str,
    ) -> Result<Bytes, ClientError> {
        let mut bytes = Vec::new();
        while let Some(more) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            bytes.extend_from_slice(&more);
            if bytes.len() > bytes_max {
                let cause = format!("it is longer than {bytes_max} bytes");
                return Err(ClientError::invalid(object, cause));
            }
        }
        Ok(bytes.into())
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { mirror: self.base.clone(), cause: first_cause(error) }
    }
}

struct Reading {
    hasher: Hasher,
    bytes: u64,
    source: Option<BlobSource>,
}

fn source_of(response: &Response) -> BlobSource {
    match response.headers().get("watchfire-source").map(|source| source.as_bytes()) {
        Some(b"store") => BlobSource::Store,
        Some(b"fleet") => BlobSource::Fleet,
        _ => BlobSource::Registry,
    }
}

impl ClientError {
    fn invalid(object: &str, cause: impl Into<String>) -> Self {
        ClientError::InvalidAnswer { object: object.to_owned(), cause: cause.into() }
    }

    /// Whether another try may succeed. The mirror answers 404 for a blob that does not arrive in time.
    fn may_pass(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } => true,
            ClientError::Refused { status, code, .. } => {
                status.is_server_error()
                    || *status == StatusCode::TOO_MANY_REQUESTS
                    || code == "BLOB_UNKNOWN"
            }
            ClientError::InvalidAnswer { .. } => false,
        }
    }

    /// Whether the mirror says that the registry does not have the blob.
    pub fn is_unknown_blob(&self) -> bool {
        matches!(self, ClientError::Refused { code, .. } if code == "BLOB_UNKNOWN")
    }

    fn pause(&self) -> Duration {
        match self {
            ClientError::Refused { retry_after: Some(pause), .. } => (*pause).min(PAUSE_MAX),
            _ => Duration::ZERO,
        }
    }
}
