//! Requests for files of proxy hosts.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use tokio::time::{Instant, timeout, timeout_at};

use super::reader::{self, Content, ContentError, ReadError};
use super::{LAST_MOMENT, SOURCE, Shared, without_bytes};
use crate::download::{ContentSource, DownloadError};
use crate::oci::{ApiError, ErrorCode};
use crate::proxy::{
    Origin, OriginFile, Probe, ProxyPath, Version, end_to_end_headers, total_length, url_key,
};
use crate::store::StoreError;
use crate::upstream::UpstreamError;

/// The headers of a client's request that are passed on. The first two go to the named host only.
const PASSED: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::COOKIE,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::USER_AGENT,
];
/// Headers of a redirect that the client would not see otherwise, because the mirror follows it.
const OF_REDIRECT: [&str; 4] = ["x-repo-commit", "x-linked-etag", "x-linked-size", "link"];

pub(super) async fn answer(
    shared: &Arc<Shared>,
    path: ProxyPath,
    request: &Parts,
) -> Result<Response, ApiError> {
    let Some(origin) = shared.origins.iter().find(|origin| origin.name() == path.host) else {
        let host = path.host.chars().take(255).collect::<String>();
        let message = format!("the host {host:?} is not served: add it with --proxy-host");
        return Err(ApiError::new(ErrorCode::Denied, message));
    };
    let url = origin.url(&path.target).ok_or_else(|| {
        let message = "cannot serve this URL: its path is invalid";
        ApiError::new(ErrorCode::UrlInvalid, message)
    })?;
    let limit = shared.extend(shared.settings.file_first_byte_timeout);
    let deadline = Instant::now() + limit;
    let file = Request { shared, origin, url, request, deadline };
    let answer = timeout_at(deadline + LAST_MOMENT, file.answer()).await;
    answer.unwrap_or_else(|_| Err(file.no_byte()))
}

struct Request<'a> {
    shared: &'a Arc<Shared>,
    origin: &'a Arc<Origin>,
    url: Url,
    request: &'a Parts,
    deadline: Instant,
}

impl Request<'_> {
    async fn answer(&self) -> Result<Response, ApiError> {
        let headers = &self.request.headers;
        // An answer to one user is not for others.
        let is_private =
            headers.contains_key(header::AUTHORIZATION) || headers.contains_key(header::COOKIE);
        let version = match is_private {
            true => None,
            false => self.version().await?,
        };
        match version {
            Some(version) if version.length <= self.shared.settings.store_bytes_max => {
                self.stored(version).await
            }
            _ => self.pass_through().await,
        }
    }

    /// The version of the file. `None`: the answer of the server is passed through.
    async fn version(&self) -> Result<Option<Arc<Version>>, ApiError> {
        let Shared { files, settings, fleet, .. } = &**self.shared;
        let url = self.url.as_str();
        let known = files.get(url);
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh(settings.tag_ttl)) {
            return Ok(Some(known.clone()));
        }
        let error = match self.probe().await {
            Ok(Probe::File(version)) => {
                let version = files.put(version).map_err(|error| failed(&error))?;
                if let Some(fleet) = fleet {
                    fleet.announce(&url_key(url));
                }
                return Ok(Some(version));
            }
            Ok(Probe::Unstored | Probe::NotFound) => {
                files.remove(url).map_err(|error| failed(&error))?;
                return Ok(None);
            }
            Err(error) => error,
        };
        let is_allowed = settings.offline_ok && error.is_outage();
        let found = match (known, fleet) {
            _ if !is_allowed => None,
            (Some(known), _) => Some(known),
            (None, Some(fleet)) => match fleet.find_version(url).await {
                Some(version) => Some(files.put(version).map_err(|error| failed(&error))?),
                None => None,
            },
            (None, None) => None,
        };
        match (found, error) {
            (Some(version), error) => {
                tracing::warn!(url, age = ?version.age(), %error, "serving a file from the store or the fleet while its server is down");
                Ok(Some(version))
            }
            // The client gets the answer of the server itself, such as its text for 503.
            (None, UpstreamError::Status { .. } | UpstreamError::TooManyRequests { .. }) => {
                Ok(None)
            }
            (None, error) => Err(error.to_api_error(ErrorCode::NameUnknown)),
        }
    }

    /// Asks the server for the version. When an older version may be served instead, it has less time.
    async fn probe(&self) -> Result<Probe, UpstreamError> {
        let asked = self.origin.probe(&self.url);
        if !self.shared.settings.offline_ok {
            return asked.await;
        }
        let limit = self.shared.answer_timeout();
        let asked = timeout(limit, asked).await;
        asked.unwrap_or_else(|_| Err(UpstreamError::no_answer(self.origin.name(), limit)))
    }

    /// Answers with a version, from the store or while it is being fetched.
    async fn stored(&self, version: Arc<Version>) -> Result<Response, ApiError> {
        let conditions = Conditions::of(&self.request.headers, &version);
        let mut headers = version.headers();
        let age = version.age() + version.age_at_check();
        headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        if let Some(status) = conditions.status {
            return Ok(without_bytes(status, "store", headers));
        }
        let key = version.key();
        let (length, is_linked) = (version.length, version.is_linked());
        let complete = self.shared.downloads.blobs().find_complete(&key).await;
        let complete = complete.map_err(|error| failed(&error))?;
        if complete.is_none() && self.request.method == Method::HEAD {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            return Ok(without_bytes(StatusCode::OK, "origin", headers));
        }
        let (blob, download) = match complete {
            Some(blob) => (blob, None),
            None => {
                let (origin, files) = (self.origin.clone(), self.shared.files.clone());
                let source = ContentSource::File(OriginFile { origin, files, version });
                let started = async {
                    let mut download =
                        self.shared.downloads.start(source, &key, Some(length), false)?;
                    Ok((download.blob().await?, Some(download)))
                };
                match started.await {
                    Ok(started) => started,
                    // The server has the file nevertheless.
                    Err(error) if can_pass_through(&error, is_linked) => {
                        tracing::warn!(url = %self.url, %error, "cannot store a file; passing it through");
                        return self.pass_through().await;
                    }
                    Err(error) => return Err(download_failed(&error)),
                }
            }
        };
        let (server, range_read, layer_read) = ("origin", None, None);
        let content = Content { blob, download, headers, server, range_read, layer_read };
        let (method, deadline) = (&self.request.method, self.deadline);
        let range = conditions.range;
        let error = match reader::respond(self.shared, content, method, range, deadline).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        Err(match error {
            ContentError::Read(ReadError::Download(error))
                if can_pass_through(&error, is_linked) =>
            {
                tracing::warn!(url = %self.url, %error, "cannot store a file; passing it through");
                return self.pass_through().await;
            }
            ContentError::Range(error) => {
                let message =
                    format!("the range has no byte of the file, which has {length} bytes");
                ApiError::new(ErrorCode::RangeInvalid, message)
                    .with_header(header::CONTENT_RANGE, reader::unsatisfied_range(error.size))
            }
            ContentError::Read(ReadError::Download(error)) => download_failed(&error),
            ContentError::Read(ReadError::Store(error)) => failed(&error),
            ContentError::Read(ReadError::Stalled) | ContentError::NoByte => self.no_byte(),
        })
    }

    /// Answers with what the server answers, which is not stored.
    async fn pass_through(&self) -> Result<Response, ApiError> {
        let mut headers = HeaderMap::new();
        for name in PASSED {
            for value in self.request.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        let is_head = self.request.method == Method::HEAD;
        let sent = match is_head {
            true => self.origin.head(&self.url, &headers).await,
            false => self.origin.send(Method::GET, &self.url, &headers).await,
        };
        let answer = sent.map_err(|error| error.to_api_error(ErrorCode::NameUnknown))?;
        let mut status = answer.response.status();
        let mut headers = end_to_end_headers(answer.response.headers());
        if !self.origin.is_own(answer.response.url()) {
            // The client would take them for those of the named host, and send that host's password.
            headers.remove(header::WWW_AUTHENTICATE);
            headers.remove(header::SET_COOKIE);
        }
        if is_head && status == StatusCode::PARTIAL_CONTENT {
            // The answer to a request for one byte. `HEAD` has no ranges.
            status = StatusCode::OK;
            let range = headers.remove(header::CONTENT_RANGE);
            headers.remove(header::CONTENT_LENGTH);
            if let Some(length) = range.and_then(|range| total_length(&range)) {
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
        }
        if status == StatusCode::NO_CONTENT {
            // RFC 9110, 8.6: it has none.
            headers.remove(header::CONTENT_LENGTH);
        }
        for name in OF_REDIRECT {
            if let Some(value) = answer.first.get(name) {
                headers.insert(name, value.clone());
            }
        }
        headers.insert(SOURCE, HeaderValue::from_static("origin"));
        let mut response = Response::new(Body::from_stream(answer.response.bytes_stream()));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }

    fn no_byte(&self) -> ApiError {
        let limit = self.shared.settings.file_first_byte_timeout;
        let message = format!("{} sent no byte within {limit:?}: try again", self.origin.name());
        ApiError::new(ErrorCode::Timeout, message)
    }
}

/// The conditions of a request (RFC 9110, 13.2.2).
#[derive(Debug, PartialEq, Eq)]
struct Conditions<'a> {
    /// The status of a response without bytes.
    status: Option<StatusCode>,
    /// The range, unless it is of another version.
    range: Option<&'a HeaderValue>,
}

impl<'a> Conditions<'a> {
    fn of(headers: &'a HeaderMap, version: &Version) -> Self {
        let names = |name: HeaderName, is_same: fn(&str, &str) -> bool| {
            headers.contains_key(&name).then(|| {
                let lines = headers.get_all(&name).iter().filter_map(|line| line.to_str().ok());
                lines.flat_map(entity_tags).any(|etag| etag == "*" || is_same(etag, &version.etag))
            })
        };
        let is_equal = |one: &str, other: &str| one == other;
        let is_weakly_equal =
            |one: &str, other: &str| one.strip_prefix("W/").unwrap_or(one) == other;
        let modified = version.headers.get("last-modified");
        let changed_since = |name: HeaderName| {
            let since = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
            Some(httpdate::parse_http_date(modified?).ok()? > since)
        };
        // A date counts only without the list of `ETag`s.
        let has_failed = names(header::IF_MATCH, is_equal)
            .map(|is_named| !is_named)
            .or_else(|| changed_since(header::IF_UNMODIFIED_SINCE));
        let is_known = names(header::IF_NONE_MATCH, is_weakly_equal)
            .or_else(|| changed_since(header::IF_MODIFIED_SINCE).map(|has_changed| !has_changed));
        let status = match (has_failed, is_known) {
            (Some(true), _) => Some(StatusCode::PRECONDITION_FAILED),
            (_, Some(true)) => Some(StatusCode::NOT_MODIFIED),
            _ => None,
        };
        let is_current = headers.get(header::IF_RANGE).is_none_or(|value| {
            value.as_bytes() == version.etag.as_bytes()
                || modified.is_some_and(|modified| value.as_bytes() == modified.as_bytes())
        });
        Conditions { status, range: headers.get(header::RANGE).filter(|_| is_current) }
    }
}

/// The elements of a list of `ETag`s, which may have commas between their quotes.
fn entity_tags(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let elements = line.split(move |one| {
        is_quoted ^= one == '"';
        one == ',' && !is_quoted
    });
    elements.map(str::trim)
}

/// Whether a file that cannot be stored is passed through. A linked `ETag` is the digest for certain;
/// another one may look like a digest without being one.
const fn can_pass_through(error: &DownloadError, is_linked: bool) -> bool {
    match error {
        DownloadError::Store(_) | DownloadError::TooMany => true,
        DownloadError::WrongDigest => !is_linked,
        DownloadError::Upstream(_) | DownloadError::Private | DownloadError::Stopped => false,
    }
}

fn failed(error: &StoreError) -> ApiError {
    tracing::error!(%error, "the store failed");
    ApiError::new(ErrorCode::Unavailable, error.to_string())
}

fn download_failed(error: &DownloadError) -> ApiError {
    match error {
        DownloadError::Upstream(error) => error.to_api_error(ErrorCode::NameUnknown),
        error => ApiError::new(ErrorCode::Unavailable, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version {
            url: "http://a.example/b".into(),
            etag: "\"1\"".into(),
            length: 10,
            body_etag: None,
            headers: [("last-modified".to_owned(), "Mon, 01 Jan 2024 00:00:00 GMT".to_owned())]
                .into(),
            checked_at: 0,
        }
    }

    #[test]
    fn an_etag_may_have_commas() {
        let headers = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        let version = Version { etag: "\"a,b\"".into(), ..version() };
        for (name, value, expected) in [
            (header::IF_MATCH, "\"a,b\"", None),
            (header::IF_MATCH, "\"x\" , \"a,b\"", None),
            (header::IF_MATCH, "\"a\",\"b\"", Some(StatusCode::PRECONDITION_FAILED)),
            (header::IF_NONE_MATCH, "W/\"a,b\",\"c\"", Some(StatusCode::NOT_MODIFIED)),
        ] {
            assert_eq!(Conditions::of(&headers(name, value), &version).status, expected, "{value}");
        }
    }

    fn status(pairs: &[(&'static str, &'static str)]) -> (Option<u16>, bool) {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
            })
            .collect();
        let found = Conditions::of(&headers, &version());
        (found.status.map(|status| status.as_u16()), found.range.is_some())
    }

    #[test]
    fn conditions_are_compared_with_the_version() {
        assert_eq!(status(&[]), (None, false));
        assert_eq!(status(&[("if-none-match", "\"0\", W/\"1\"")]), (Some(304), false));
        assert_eq!(status(&[("if-none-match", "*")]), (Some(304), false));
        assert_eq!(status(&[("if-none-match", "\"0\"")]), (None, false));
        assert_eq!(status(&[("if-match", "W/\"1\"")]), (Some(412), false));
        assert_eq!(status(&[("if-match", "\"1\""), ("if-none-match", "\"2\"")]), (None, false));
        assert_eq!(status(&[("if-match", "\"a,b\"")]), (Some(412), false));
        let modified = ("if-modified-since", "Mon, 01 Jan 2024 00:00:00 GMT");
        let unmodified = ("if-unmodified-since", "Sun, 31 Dec 2023 23:59:59 GMT");
        assert_eq!(status(&[modified]), (Some(304), false));
        assert_eq!(status(&[modified, ("if-none-match", "\"0\"")]), (None, false));
        assert_eq!(status(&[("if-modified-since", unmodified.1)]), (None, false));
        assert_eq!(status(&[("if-modified-since", "yesterday")]), (None, false));
        assert_eq!(status(&[unmodified]), (Some(412), false));
        assert_eq!(status(&[unmodified, ("if-match", "\"1\"")]), (None, false));
        assert_eq!(status(&[("if-unmodified-since", modified.1)]), (None, false));
        let range = ("range", "bytes=0-1");
        assert_eq!(status(&[range]), (None, true));
        assert_eq!(status(&[range, ("if-range", "\"1\"")]), (None, true));
        assert_eq!(status(&[range, ("if-range", "Mon, 01 Jan 2024 00:00:00 GMT")]), (None, true));
        assert_eq!(status(&[range, ("if-range", "W/\"1\"")]), (None, false));
        assert_eq!(status(&[range, ("if-range", "\"2\"")]), (None, false));
    }
}
