//! The client of one server of files.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Client, Response, Url};
use tokio::time::timeout;

use super::files::Files;
use super::version::Version;
use crate::oci::ByteRange;
use crate::upstream::{
    BlobBody, CONNECT_TIMEOUT, GuardedResolver, NoPublicAddress, REDIRECTS_MAX, RedirectRules,
    Registry, USER_AGENT, UpstreamError, unreachable,
};

/// How long a server may take for the head of its answer to a range.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause within an answer. A server may also take so long before it answers what is passed
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
    name: String,
    base: Url,
    redirects: Arc<RedirectRules>,
    /// Asks the server itself.
    direct: Client,
    /// Asks servers to which it redirects.
    guarded: Client,
}

/// The answer of a server, behind its redirects.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The headers of the first answer, which may be a redirect.
    pub(crate) first: HeaderMap,
    /// The last answer.
    pub(crate) response: Response,
}

/// Whether a file can be stored.
#[derive(Debug)]
pub(crate) enum Probe {
    /// It can, with this version.
    File(Version),
    /// The answer must be passed through.
    Unstored,
    /// The server has no such file.
    NotFound,
}

impl Origin {
    /// The client of a server. It sends nothing yet.
    pub(crate) fn new(
        server: &Registry,
        redirects: Arc<RedirectRules>,
        tls: rustls::ClientConfig,
    ) -> Result<Self, UpstreamError> {
        let failed = |error: reqwest::Error| unreachable(server.name(), &error);
        let builder = || {
            Client::builder()
                .user_agent(USER_AGENT)
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                .tls_backend_preconfigured(tls.clone())
        };
        let resolver = GuardedResolver { rules: redirects.clone() };
        let base = Url::parse(server.base_url()).map_err(|error| UpstreamError::Unreachable {
            registry: server.name().to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Origin {
            name: server.name().to_ascii_lowercase(),
            base,
            redirects,
            direct: builder().build().map_err(failed)?,
            guarded: builder().dns_resolver(resolver).build().map_err(failed)?,
        })
    }

    /// The host in the paths of requests, in lower case.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL of a path and query. `None`: it would not be at this server.
    pub(crate) fn url(&self, target: &str) -> Option<Url> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{target}")).ok().filter(|url| self.is_own(url))
    }

    /// Asks for the version of a file.
    pub(crate) async fn probe(&self, url: &Url) -> Result<Probe, UpstreamError> {
        let answer = self.head(url, &stored_headers()).await?;
        let status = answer.response.status();
        match status.as_u16() {
            404 | 410 => return Ok(Probe::NotFound),
            429 | 500.. => return Err(self.status_error(status)),
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
        let mut url = url.clone();
        let mut first = None;
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = headers.clone();
            let client = match &url {
                url if self.is_own(url) => &self.direct,
                url if self.redirects.allows_url(url) => {
                    // Only the server itself receives what identifies the client.
                    headers.remove(header::AUTHORIZATION);
                    headers.remove(header::COOKIE);
                    &self.guarded
                }
                url => return Err(self.redirect_refused(url)),
            };
            let sent = client.request(method.clone(), url.clone()).headers(headers).send().await;
            let response = sent.map_err(|error| self.failed(&url, &error))?;
            let first = first.get_or_insert_with(|| response.headers().clone());
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(Answer { first: std::mem::take(first), response });
            }
            let location = response.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let location = location.and_then(|location| url.join(location).ok());
            let location = location
                .ok_or_else(|| self.invalid("a redirect without a valid Location".into()))?;
            if url.scheme() == "https" && location.scheme() != "https" {
                let host = location.host_str().unwrap_or_default();
                return Err(self.invalid(format!("a redirect from https to http at {host}")));
            }
            url = location;
        }
        Err(self.invalid(format!("more than {REDIRECTS_MAX} redirects")))
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    fn redirect_refused(&self, url: &Url) -> UpstreamError {
        let to = url.host_str().unwrap_or_default().to_owned();
        UpstreamError::RedirectRefused { registry: self.name.clone(), to }
    }

    fn failed(&self, url: &Url, error: &reqwest::Error) -> UpstreamError {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(inner) = source {
            if inner.is::<NoPublicAddress>() {
                return self.redirect_refused(url);
            }
            source = inner.source();
        }
        unreachable(&self.name, error)
    }

    fn invalid(&self, cause: String) -> UpstreamError {
        UpstreamError::InvalidAnswer { registry: self.name.clone(), cause }
    }

    fn status_error(&self, status: StatusCode) -> UpstreamError {
        let registry = self.name.clone();
        match status.as_u16() {
            404 | 410 => UpstreamError::NotFound { registry },
            429 => UpstreamError::TooManyRequests { registry, retry_after: None },
            _ => UpstreamError::Status { registry, status },
        }
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
    copy
}

/// One version of a file at its server.
#[derive(Clone, Debug)]
pub(crate) struct OriginFile {
    pub(crate) origin: Arc<Origin>,
    pub(crate) files: Arc<Files>,
    pub(crate) version: Arc<Version>,
}

impl OriginFile {
    /// The name of the server.
    pub(crate) fn server(&self) -> &str {
        self.origin.name()
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Requests this version of the file, or a range of it.
    pub(crate) async fn request(
        &self,
        range: Option<ByteRange>,
    ) -> Result<BlobBody, UpstreamError> {
        let requested = timeout(ANSWER_TIMEOUT, self.request_version(range)).await;
        let result = requested.unwrap_or_else(|_| {
            let cause = format!("no answer within {ANSWER_TIMEOUT:?}");
            Err(UpstreamError::Unreachable { registry: self.server().to_owned(), cause })
        });
        if matches!(result, Err(UpstreamError::Changed { .. } | UpstreamError::NotFound { .. })) {
            // The next request asks for the new version.
            self.files.expire(&self.version);
        }
        result
    }

    async fn request_version(&self, range: Option<ByteRange>) -> Result<BlobBody, UpstreamError> {
        let OriginFile { origin, version, .. } = self;
        let url = Url::parse(&version.url).map_err(|error| origin.invalid(error.to_string()))?;
        let mut headers = stored_headers();
        if let Some(etag) = &version.body_etag {
            let etag = HeaderValue::from_str(etag);
            headers.insert(header::IF_MATCH, etag.expect("an ETag is valid in a header"));
        }
        if let Some(ByteRange { start, end }) = range {
            let range = HeaderValue::from_str(&format!("bytes={start}-{end}"));
            headers.insert(header::RANGE, range.expect("digits are valid in a header"));
        }
        let changed = || UpstreamError::Changed { registry: origin.name.clone() };
        let Answer { first, response } = origin.send(Method::GET, &url, &headers).await?;
        match response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            // 416: the new version is shorter.
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(changed());
            }
            status => return Err(origin.status_error(status)),
        }
        // A server may ignore If-Match.
        if !version.is_of(&first, response.headers()) {
            return Err(changed());
        }
        if response.headers().get(header::CONTENT_ENCODING).is_some_and(|one| one != "identity") {
            return Err(origin.invalid("the file has an encoding that was not asked for".into()));
        }
        let body = BlobBody::of(response, range, &origin.name)?;
        if body.size != version.length {
            let cause = format!(
                "the file has {} bytes, and the server named {} before",
                body.size, version.length
            );
            self.files.expire(version);
            return Err(origin.invalid(cause));
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        let tls = crate::mirror::tls().unwrap();
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
}
