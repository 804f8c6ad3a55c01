//! The client of one server of files.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Response, Url};
use tokio::time::timeout;

use super::files::Files;
use super::version::Version;
use crate::oci::ByteRange;
use crate::store::Check;
use crate::upstream::{Answer, BlobBody, RedirectRules, Registry, ServerClient, UpstreamError};

/// How long a server may take for the head of its answer to a range.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause within an answer. It is also the longest wait for an answer that is passed
/// through.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers that are for one connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A server of files that the settings name.
#[derive(Debug)]
pub(crate) struct Origin {
    server: ServerClient,
    /// Whether an `ETag` of 64 hex digits was the digest of its file. Empty: no such file has been fetched.
    /// The first one decides for the time that the mirror runs: later wrong bytes are damage.
    names_digests: OnceLock<bool>,
}

/// Whether a file can be stored.
#[derive(Debug)]
pub(crate) enum Probe {
    File(Version),
    /// The answer must be passed through.
    Unstored,
    NotFound,
}

impl Origin {
    pub(crate) fn new(
        server: &Registry,
        redirects: Arc<RedirectRules>,
        tls: rustls::ClientConfig,
    ) -> Result<Self, UpstreamError> {
        ServerClient::new(server.name(), server.base_url(), redirects, tls, READ_TIMEOUT)
            .map(|server| Origin { server, names_digests: OnceLock::new() })
    }

    /// The host in the paths of requests, in lower case.
    pub(crate) fn name(&self) -> &str {
        self.server.name()
    }

    /// The URL of a path and query. `None`: it would not be at this server.
    pub(crate) fn url(&self, target: &str) -> Option<Url> {
        let base = self.server.base().as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{target}")).ok().filter(|url| self.server.is_own(url))
    }

    /// Whether a URL is at this server, and not where it redirects to.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        self.server.is_own(url)
    }

    /// Asks for the version of a file.
    pub(crate) async fn probe(&self, url: &Url) -> Result<Probe, UpstreamError> {
        let answer = self.head(url, &stored_headers()).await?;
        let status = answer.response.status();
        match status.as_u16() {
            404 | 410 => return Ok(Probe::NotFound),
            429 | 500.. => return Err(self.status_error(&answer.response)),
            _ => {}
        }
        let last = answer.response.headers();
        let version = Version::of(url.as_str(), status, &answer.first, last);
        Ok(version.map_or(Probe::Unstored, Probe::File))
    }

    /// Asks for the headers of a resource. Some servers refuse `HEAD`, such as stores whose URLs are
    /// signed for `GET`. They are asked for one byte, and the answer may have the status 206.
    pub(crate) async fn head(
        &self,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Answer, UpstreamError> {
        let answer = self.send(Method::HEAD, url, headers).await?;
        if !matches!(answer.response.status().as_u16(), 400 | 403 | 405 | 501) {
            return Ok(answer);
        }
        let mut headers = headers.clone();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-0"));
        self.send(Method::GET, url, &headers).await
    }

    /// Sends a request, and follows redirects.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Answer, UpstreamError> {
        self.server.send(method, url, headers).await
    }

    fn status_error(&self, response: &Response) -> UpstreamError {
        UpstreamError::of_status(self.name(), response.status(), response.headers())
    }
}

/// The headers of requests for what is stored: the same for all clients.
fn stored_headers() -> HeaderMap {
    HeaderMap::from_iter([
        (header::ACCEPT, HeaderValue::from_static("*/*")),
        (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
    ])
}

/// The headers that are not for one connection only.
pub(crate) fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let connection = headers.get_all(header::CONNECTION);
    let named: Vec<HeaderName> = connection
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let is_kept = |name: &HeaderName| !HOP_BY_HOP.contains(&name.as_str()) && !named.contains(name);
    let mut copy = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| is_kept(name)) {
        // A header may have several values.
        copy.append(name, value.clone());
    }
    let length = the_length(headers);
    copy.remove(header::CONTENT_LENGTH);
    copy.extend(length.map(|length| (header::CONTENT_LENGTH, HeaderValue::from(length))));
    copy
}

/// The one length of a body (RFC 9112, 6.3). It may be repeated, and means nothing beside chunks.
fn the_length(headers: &HeaderMap) -> Option<u64> {
    let lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut lengths = lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(|length| str::from_utf8(length).ok()?.trim().parse::<u64>().ok());
    let first = lengths.next()??;
    let is_one = lengths.all(|other| other == Some(first));
    (is_one && !headers.contains_key(header::TRANSFER_ENCODING)).then_some(first)
}

#[derive(Clone, Debug)]
pub(crate) struct OriginFile {
    pub(crate) origin: Arc<Origin>,
    pub(crate) files: Arc<Files>,
    pub(crate) version: Arc<Version>,
}

impl OriginFile {
    pub(crate) fn server(&self) -> &str {
        self.origin.name()
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// How to verify the content. A redirect that names the `ETag` of its file names the digest for certain.
    pub(crate) fn check(&self) -> Check {
        let is_digest = self.version.is_linked() || self.origin.names_digests.get() != Some(&false);
        if is_digest { self.version.check() } else { Check::Blocks }
    }

    /// The server sent the whole file, and it had or had not the digest that its `ETag` seemed to be.
    pub(crate) fn note_digest(&self, is_right: bool) {
        if self.version.is_linked() || self.version.check() == Check::Blocks {
            return;
        }
        if self.origin.names_digests.set(is_right).is_ok() && !is_right {
            tracing::info!(server = %self.server(), url = %self.version.url, "ETags of 64 hex digits are not digests at this server");
        }
    }

    /// Requests this version of the file, or a range of it.
    pub(crate) async fn request(
        &self,
        range: Option<ByteRange>,
    ) -> Result<BlobBody, UpstreamError> {
        let requested = timeout(ANSWER_TIMEOUT, self.request_version(range)).await;
        let result = requested
            .unwrap_or_else(|_| Err(UpstreamError::no_answer(self.server(), ANSWER_TIMEOUT)));
        if matches!(result, Err(UpstreamError::Changed { .. } | UpstreamError::NotFound { .. })) {
            // The next request asks for the new version.
            self.files.expire(&self.version);
        }
        result
    }

    async fn request_version(&self, range: Option<ByteRange>) -> Result<BlobBody, UpstreamError> {
        let OriginFile { origin, version, .. } = self;
        let url =
            Url::parse(&version.url).map_err(|error| origin.server.invalid(error.to_string()))?;
        let mut headers = stored_headers();
        if let Some(etag) = &version.body_etag {
            let etag = HeaderValue::from_str(etag);
            headers.insert(header::IF_MATCH, etag.expect("an ETag is valid in a header"));
        }
        headers.extend(range.map(|range| (header::RANGE, range.to_header())));
        let changed = || UpstreamError::Changed { registry: origin.name().to_owned() };
        let Answer { first, response } = origin.send(Method::GET, &url, &headers).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            // 416: the new version is shorter.
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(changed());
            }
            _ => return Err(origin.status_error(&response)),
        }
        // A server may ignore If-Match.
        if !version.is_of(&first, response.headers()) {
            return Err(changed());
        }
        if response.headers().get(header::CONTENT_ENCODING).is_some_and(|one| one != "identity") {
            return Err(origin
                .server
                .invalid("the file has an encoding that was not asked for".into()));
        }
        let body = BlobBody::of(response, range, Some(version.length), origin.name());
        if let Some(size) = body.size.filter(|size| *size != version.length) {
            let cause = format!(
                "the file has {size} bytes, and the server named {} before",
                version.length
            );
            self.files.expire(version);
            return Err(origin.server.invalid(cause));
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        let tls = crate::upstream::tls().unwrap();
        let server = "a.example=http://127.0.0.1:1".parse().unwrap();
        Origin::new(&server, Arc::default(), tls).unwrap()
    }

    #[test]
    fn a_url_is_always_at_the_server() {
        let origin = origin();
        let url = |target| origin.url(target).map(|url| url.to_string());
        assert_eq!(url("/a/b?c=d").as_deref(), Some("http://127.0.0.1:1/a/b?c=d"));
        assert_eq!(
            url("//other.example/b").as_deref(),
            Some("http://127.0.0.1:1//other.example/b")
        );
        assert_eq!(url("@other.example/b"), None);
        assert_eq!(url("0/b"), None);
    }

    #[test]
    fn headers_of_a_connection_are_not_passed_on() {
        let headers = [
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("link", "a"),
            ("link", "b"),
        ];
        let headers = headers.map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        let kept = end_to_end_headers(&map);
        assert_eq!(kept.get_all("link").iter().count(), 2);
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn a_body_has_one_length_or_none() {
        let length = |lines: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in lines {
                map.append(*name, HeaderValue::from_static(value));
            }
            let kept = end_to_end_headers(&map);
            assert!(kept.get_all("content-length").iter().count() < 2);
            kept.get("content-length").map(|length| length.to_str().unwrap().to_owned())
        };
        assert_eq!(
            length(&[("content-length", "5, 5"), ("content-length", "5")]).as_deref(),
            Some("5")
        );
        assert_eq!(length(&[("content-length", "5"), ("content-length", "6")]), None);
        assert_eq!(length(&[("content-length", "5"), ("transfer-encoding", "chunked")]), None);
        assert_eq!(length(&[("content-length", "x")]), None);
        assert_eq!(length(&[]), None);
    }
}
