//! The HTTP client of one server, which follows redirects only where the rules allow it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::{Client, Response, Url};
use watchfire_traces::{Kind, Span, TraceContext, current};
use watchfire_types::USER_AGENT;

use super::error::UpstreamError;
use super::guard::{GuardedResolver, NoPublicAddress, RedirectRules};

const REDIRECTS_MAX: usize = 5;
/// An answer with more headers is an error.
const HEADERS_MAX: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The client of one server that the settings name: a registry, or a server of files.
#[derive(Debug)]
pub(crate) struct ServerClient {
    name: String,
    base: Url,
    redirects: Arc<RedirectRules>,
    /// Asks the server itself.
    direct: Client,
    /// Asks servers that the server named.
    guarded: Client,
}

/// The answer of a server, behind its redirects.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The headers of the first answer, which may be a redirect.
    pub(crate) first: HeaderMap,
    pub(crate) response: Response,
}

impl ServerClient {
    /// The client of a server. It sends nothing yet. `read_timeout` is the longest pause within an
    /// answer.
    ///
    /// Fails if the certificates of the system cannot be used for TLS.
    pub(crate) fn new(
        name: &str,
        base_url: &str,
        redirects: Arc<RedirectRules>,
        tls: rustls::ClientConfig,
        read_timeout: Duration,
    ) -> Result<Self, UpstreamError> {
        let failed = |error: reqwest::Error| unreachable(name, &error);
        let builder = || {
            Client::builder()
                .user_agent(USER_AGENT)
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(read_timeout)
                .http1_max_headers(HEADERS_MAX)
                // RFC 9112 (5.1, 5.2) lets a client repair these.
                .http1_allow_obsolete_multiline_headers_in_responses(true)
                .http1_allow_spaces_after_header_name_in_responses(true)
                .tls_backend_preconfigured(tls.clone())
        };
        let resolver = GuardedResolver { rules: redirects.clone() };
        let direct = builder().build().map_err(failed)?;
        let guarded = builder().dns_resolver(resolver).build().map_err(failed)?;
        let name = name.to_owned();
        let base = Url::parse(base_url).map_err(|error| UpstreamError::Unreachable {
            registry: name.clone(),
            cause: error.to_string(),
        })?;
        Ok(ServerClient { name, base, redirects, direct, guarded })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Whether a URL is at the server itself.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// The client for a URL that the server named.
    pub(crate) fn client_for(&self, url: &Url) -> Result<&Client, UpstreamError> {
        match url {
            url if self.is_own(url) => Ok(&self.direct),
            url if self.redirects.allows_url(url) => Ok(&self.guarded),
            url => Err(self.redirect_refused(url)),
        }
    }

    /// Sends a request to the server or to one that it named, and follows redirects. Only the server of this
    /// URL receives `Authorization` and `Cookie`: a redirect to a store has its own.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
    ) -> Result<Answer, UpstreamError> {
        let mut span = Span::below(current(), "upstream request", Kind::Client);
        if span.is_recorded() {
            span.set("server.address", self.name.clone());
            span.set("http.request.method", method.to_string());
            span.set("url.path", url.path().to_owned());
            if let Some(range) = headers.get(header::RANGE).and_then(|range| range.to_str().ok()) {
                span.set("watchfire.range", range.to_owned());
            }
        }
        let sent = self.follow(method, url, headers, span.context()).await;
        match &sent {
            Ok(answer) => {
                span.set("http.response.status_code", answer.response.status().as_u16());
            }
            Err(error) => span.fail(error),
        }
        sent
    }

    async fn follow(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        span: Option<TraceContext>,
    ) -> Result<Answer, UpstreamError> {
        let origin = url.origin();
        let mut url = url.clone();
        let mut first = None;
        let traceparent = span.and_then(|span| HeaderValue::from_str(&span.to_string()).ok());
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = headers.clone();
            if url.origin() != origin {
                headers.remove(header::AUTHORIZATION);
                headers.remove(header::COOKIE);
            }
            if let Some(span) = traceparent.as_ref().filter(|_| self.is_own(&url)) {
                headers.insert("traceparent", span.clone());
            }
            let request = self.client_for(&url)?.request(method.clone(), url.clone());
            let sent = request.headers(headers).send().await;
            let response = sent.map_err(|error| self.failed(&url, &error))?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Err(self.invalid("it switched to a protocol that nobody asked for".into()));
            }
            let first = first.get_or_insert_with(|| response.headers().clone());
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(Answer { first: std::mem::take(first), response });
            }
            let location = response.headers().get(header::LOCATION);
            // Some servers do not escape the characters of a file's name.
            let location = location.and_then(|location| str::from_utf8(location.as_bytes()).ok());
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

    pub(crate) fn failed(&self, url: &Url, error: &reqwest::Error) -> UpstreamError {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(inner) = source {
            if inner.is::<NoPublicAddress>() {
                return self.redirect_refused(url);
            }
            source = inner.source();
        }
        unreachable(&self.name, error)
    }

    pub(crate) fn invalid(&self, cause: String) -> UpstreamError {
        UpstreamError::invalid(&self.name, cause)
    }

    fn redirect_refused(&self, url: &Url) -> UpstreamError {
        let to = url.host_str().unwrap_or_default().to_owned();
        UpstreamError::RedirectRefused { registry: self.name.clone(), to }
    }
}

/// The error for a server that cannot be reached.
pub(crate) fn unreachable(server: &str, error: &reqwest::Error) -> UpstreamError {
    UpstreamError::Unreachable { registry: server.to_owned(), cause: first_cause(error) }
}

pub(crate) fn first_cause(error: &dyn std::error::Error) -> String {
    let mut first = error;
    while let Some(inner) = first.source() {
        first = inner;
    }
    first.to_string()
}

/// TLS with the certificates that the system trusts.
pub(crate) fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "cannot read a certificate of the system");
    }
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
