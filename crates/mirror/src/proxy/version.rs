//! One version of a file.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::oci::Digest;
use crate::store::{Check, unix_seconds};

const HEADER_BYTES_MAX: usize = 4_096;
/// The longest `ETag` that is a part of a version, in bytes.
const ETAG_BYTES_MAX: usize = 256;
/// The longest URL, which is a host and a path that the mirror accepts.
const URL_BYTES_MAX: usize = 10_000;
/// `ETag` and length of the file behind a redirect, as Hugging Face names them.
const LINKED_ETAG: &str = "x-linked-etag";
/// How old the answer was at its server, which may be a cache itself.
const AGE: &str = "age";
/// Until when, and from when, the answer is fresh.
const EXPIRES: &str = "expires";
const DATE: &str = "date";
/// The headers that clients get with the file. The headers of the first answer win: a redirect of Hugging Face
/// tells what the store behind it does not know.
const KEPT: [&str; 12] = [
    "content-type",
    "content-disposition",
    "content-language",
    "cache-control",
    AGE,
    EXPIRES,
    DATE,
    "last-modified",
    "link",
    "x-repo-commit",
    LINKED_ETAG,
    "x-linked-size",
];
/// Request headers by which an answer may vary, although the mirror keeps only one: it sends none of
/// them for a file that it stores.
const VARY_IGNORED: [&str; 7] = [
    "origin",
    "accept-encoding",
    "authorization",
    "cookie",
    "range",
    "access-control-request-headers",
    "access-control-request-method",
];

/// One version of a file, as its server described it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// The URL at the server, before redirects.
    pub(crate) url: String,
    /// The strong `ETag` for clients.
    pub(crate) etag: String,
    pub(crate) length: u64,
    /// The strong `ETag` of the server that sends the bytes, if it has one: the server behind a redirect
    /// may have an own one.
    pub(crate) body_etag: Option<String>,
    /// Further headers for clients.
    pub(crate) headers: BTreeMap<String, String>,
    /// When the server last said that it is the current version, in seconds since 1970.
    pub(crate) checked_at: u64,
}

/// The key under which hosts of a fleet find the version of a file.
pub(crate) fn url_key(url: &str) -> Digest {
    Digest::sha256(format!("watchfire mirror file\0{url}").as_bytes())
}

impl Version {
    /// The version that an answer describes. `first` is the answer of the URL itself, and `last` the
    /// answer behind redirects. `None`: the answer cannot be stored.
    pub(super) fn of(
        url: &str,
        status: StatusCode,
        first: &HeaderMap,
        last: &HeaderMap,
    ) -> Option<Self> {
        if [first, last].into_iter().any(is_private) || !is_one_representation(last) {
            return None;
        }
        let text = |headers: &HeaderMap, name: &str| {
            Some(headers.get(name)?.to_str().ok()?.trim().to_owned())
        };
        let length = match status {
            StatusCode::OK => text(last, "content-length")?.parse().ok()?,
            StatusCode::PARTIAL_CONTENT => total_length(last.get(header::CONTENT_RANGE)?)?,
            _ => return None,
        };
        let linked = text(first, LINKED_ETAG).filter(|etag| is_strong(etag));
        let body_etag = text(last, "etag").filter(|etag| is_strong(etag));
        let etag = linked.or_else(|| body_etag.clone())?;
        if body_etag.is_none() && content_digest(&etag).is_none() {
            // Nothing would tell two versions of the bytes apart.
            return None;
        }
        // The answer that says how long it is fresh.
        let is_timed = |one: &HeaderMap| {
            one.contains_key(header::CACHE_CONTROL) || one.contains_key(header::EXPIRES)
        };
        let timed = if is_timed(first) { first } else { last };
        let kept = KEPT.into_iter().filter_map(|name| {
            let value = match name {
                "cache-control" => listed(timed, name)?,
                AGE | EXPIRES | DATE => text(timed, name)?,
                // The name of a file may have any characters.
                _ => utf8(first, name).or_else(|| utf8(last, name))?,
            };
            (value.len() <= HEADER_BYTES_MAX).then(|| (name.to_owned(), value))
        });
        let headers = kept.collect();
        Some(Version {
            url: url.to_owned(),
            etag,
            length,
            body_etag,
            headers,
            checked_at: unix_seconds(),
        })
    }

    /// Whether the parts of a version of another host can be used.
    pub(crate) fn is_valid(&self) -> bool {
        let is_value = |text: &String| {
            text.len() <= HEADER_BYTES_MAX && HeaderValue::from_bytes(text.as_bytes()).is_ok()
        };
        self.url.len() <= URL_BYTES_MAX
            && is_strong(&self.etag)
            && self.body_etag.as_deref().is_none_or(is_strong)
            && self
                .headers
                .iter()
                .all(|(name, value)| KEPT.contains(&name.as_str()) && is_value(value))
    }

    /// The name of the content in the store and in the fleet. It differs from all digests of content,
    /// because no blob starts with this text.
    pub(crate) fn key(&self) -> Digest {
        let Version { url, etag, length, .. } = self;
        Digest::sha256(format!("watchfire mirror version\0{url}\0{etag}\0{length}").as_bytes())
    }

    /// How to verify the content. An `ETag` of 64 hex digits is its SHA-256 digest.
    pub(crate) fn check(&self) -> Check {
        content_digest(&self.etag).map_or(Check::Blocks, Check::Whole)
    }

    /// The time since the server named this version.
    pub(crate) fn age(&self) -> Duration {
        crate::store::age(self.checked_at)
    }

    /// Whether the version may be served for `at_most` without asking its server. A check in the future was one by a
    /// wrong clock.
    pub(crate) fn is_fresh(&self, at_most: Duration) -> bool {
        self.checked_at <= unix_seconds() && self.age() < self.fresh_for(at_most)
    }

    /// How old the answer was when its server sent it.
    pub(crate) fn age_at_check(&self) -> Duration {
        let seconds = self.headers.get(AGE).and_then(|seconds| seconds.parse::<u32>().ok());
        Duration::from_secs(seconds.unwrap_or_default().into())
    }

    /// How long the version may be served without asking its server again (RFC 9111, 4.2.1 and
    /// 5.2.2.4): `at_most`, and less if the server says so.
    pub(crate) fn fresh_for(&self, at_most: Duration) -> Duration {
        let directives = self.headers.get("cache-control").map_or("", String::as_str);
        let mut shared = None;
        let mut any = None;
        for directive in directives.split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-cache" => return Duration::ZERO,
                "s-maxage" => shared = shorter(shared, value),
                "max-age" => any = shorter(any, value),
                _ => {}
            }
        }
        let lifetime = shared.or(any).or_else(|| self.lifetime_by_date());
        // The answer may have spent a part of it in another cache.
        lifetime.map_or(at_most, |all| all.saturating_sub(self.age_at_check()).min(at_most))
    }

    /// The lifetime that `Expires` gives. A date that is not valid, such as `0`, has passed.
    fn lifetime_by_date(&self) -> Option<Duration> {
        let expires = self.headers.get(EXPIRES)?;
        let Ok(expires) = httpdate::parse_http_date(expires) else { return Some(Duration::ZERO) };
        let date = self.headers.get(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
        let date = date.unwrap_or(UNIX_EPOCH + Duration::from_secs(self.checked_at));
        Some(expires.duration_since(date).unwrap_or_default())
    }

    /// The same version, which the server named this long ago.
    pub(crate) fn checked_before(self, age: Duration) -> Self {
        Version { checked_at: unix_seconds().saturating_sub(age.as_secs()), ..self }
    }

    /// Whether an answer with these headers has the bytes of this version.
    pub(super) fn is_of(&self, first: &HeaderMap, last: &HeaderMap) -> bool {
        let is_same = |headers: &HeaderMap, name: &str, etag: &str| {
            headers.get(name).is_some_and(|value| value.as_bytes() == etag.as_bytes())
        };
        (!self.is_linked() || is_same(first, LINKED_ETAG, &self.headers[LINKED_ETAG]))
            && self.body_etag.as_deref().is_none_or(|etag| is_same(last, "etag", etag))
    }

    /// Whether a redirect named the `ETag` of the file behind it.
    pub(crate) fn is_linked(&self) -> bool {
        self.headers.contains_key(LINKED_ETAG)
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers: HeaderMap = self
            .headers
            .iter()
            .filter_map(|(name, value)| {
                let name: HeaderName = name.parse().ok()?;
                Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
            })
            .collect();
        let etag = HeaderValue::from_str(&self.etag).expect("an ETag is valid in a header");
        headers.insert(header::ETAG, etag);
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers
    }
}

/// The size of the whole file from `Content-Range: bytes <start>-<end>/<size>`.
pub(crate) fn total_length(range: &HeaderValue) -> Option<u64> {
    range.to_str().ok()?.rsplit_once('/')?.1.parse().ok()
}

/// The shorter of a lifetime and the seconds of a directive. A number that is not valid has passed
/// already, as RFC 9111, 4.2.1 advises.
fn shorter(known: Option<Duration>, seconds: &str) -> Option<Duration> {
    let seconds = seconds.trim().trim_matches('"');
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for 64 bits is as good as the largest.
    let lifetime = if is_number { seconds.parse().unwrap_or(u64::MAX) } else { 0 };
    let lifetime = Duration::from_secs(lifetime);
    Some(known.map_or(lifetime, |known| known.min(lifetime)))
}

/// Whether a text is one `ETag`, and not a weak one.
fn is_strong(etag: &str) -> bool {
    let inner = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    etag.len() <= ETAG_BYTES_MAX
        && inner
            .is_some_and(|inner| inner.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'))
}

/// The value of a header that may have characters beyond ASCII.
fn utf8(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(str::from_utf8(headers.get(name)?.as_bytes()).ok()?.trim().to_owned())
}

/// The value of a header that may be in several lines.
fn listed(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(name).iter().map(|value| value.to_str().ok());
    let lines = lines.collect::<Option<Vec<_>>>()?;
    (!lines.is_empty()).then(|| lines.join(", "))
}

fn content_digest(etag: &str) -> Option<Digest> {
    format!("sha256:{}", etag.trim_matches('"')).parse().ok()
}

/// Whether an answer is for one client only.
fn is_private(headers: &HeaderMap) -> bool {
    let directives = headers.get_all(header::CACHE_CONTROL);
    let directives =
        directives.iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut names = directives.map(|directive| {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().to_ascii_lowercase()
    });
    headers.contains_key(header::SET_COOKIE)
        || names.any(|name| name == b"no-store" || name == b"private")
}

/// Whether all clients get the same bytes.
fn is_one_representation(headers: &HeaderMap) -> bool {
    let encoding = headers.get(header::CONTENT_ENCODING);
    let vary = headers.get_all(header::VARY);
    let mut vary = vary.iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    encoding.is_none_or(|encoding| encoding == "identity")
        && vary.all(|name| {
            let name = name.trim_ascii().to_ascii_lowercase();
            VARY_IGNORED.iter().any(|ignored| ignored.as_bytes() == name) || name.is_empty()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn of(pairs: &[(&'static str, &str)]) -> Option<Version> {
        let headers = headers(pairs);
        Version::of("http://a.example/b", StatusCode::OK, &headers, &headers)
    }

    #[test]
    fn a_version_needs_a_strong_etag_and_a_length() {
        let found = of(&[("etag", "\"a\""), ("content-length", "7"), ("x-other", "1")]).unwrap();
        assert_eq!((found.etag.as_str(), found.length), ("\"a\"", 7));
        assert_eq!(found.check(), Check::Blocks);
        let minute = Duration::from_secs(60);
        let later = Version { checked_at: unix_seconds() + 1_000, ..found.clone() };
        assert!(found.is_fresh(minute) && !later.is_fresh(minute));
        assert!(found.headers.is_empty() && found.is_valid());
        let long = format!("\"{}\"", "a".repeat(300));
        for (etag, length) in [
            ("W/\"a\"", "7"),
            ("a", "7"),
            ("\"", "7"),
            ("\"a\", \"b\"", "7"),
            (long.as_str(), "7"),
            ("\"a\"", "-7"),
            ("\"a\"", ""),
        ] {
            assert_eq!(of(&[("etag", etag), ("content-length", length)]), None, "{etag} {length}");
        }
        assert_eq!(of(&[("content-length", "7")]), None);
        assert_eq!(of(&[("etag", "\"a\"")]), None);
    }

    #[test]
    fn answers_for_one_client_are_not_stored() {
        let with = |name, value| of(&[("etag", "\"a\""), ("content-length", "7"), (name, value)]);
        for (name, value) in [
            ("set-cookie", "a=b"),
            ("cache-control", "max-age=3, No-Store"),
            ("cache-control", "private=\"x\""),
            ("content-encoding", "gzip"),
            ("vary", "Origin, Accept-Language"),
            ("vary", "*"),
        ] {
            assert_eq!(with(name, value), None, "{name}: {value}");
        }
        for (name, value) in
            [("cache-control", "public, max-age=3"), ("vary", "Origin, accept-encoding")]
        {
            assert!(with(name, value).is_some(), "{name}: {value}");
        }
        // The redirect is private, and the file behind it is not.
        let last = headers(&[("etag", "\"a\""), ("content-length", "7")]);
        let first = headers(&[("set-cookie", "a=b")]);
        assert_eq!(Version::of("http://a", StatusCode::OK, &first, &last), None);
    }

    #[test]
    fn a_version_is_fresh_no_longer_than_its_server_says() {
        let fresh_for = |lines: &[&str]| {
            let mut all = headers(&[("etag", "\"a\""), ("content-length", "7")]);
            for line in lines {
                all.append("cache-control", line.parse().unwrap());
            }
            let version = Version::of("http://a.example/b", StatusCode::OK, &all, &all).unwrap();
            version.fresh_for(Duration::from_secs(60)).as_secs()
        };
        for (lines, seconds) in [
            (&[][..], 60),
            (&["public"], 60),
            (&["max-age=3600"], 60),
            (&["max-age=99999999999999999999999"], 60),
            (&["max-age=10"], 10),
            (&["public, Max-Age=\"10\""], 10),
            (&["max-age=10", "s-maxage=20"], 20),
            (&["max-age=0, s-maxage=20"], 20),
            (&["max-age=20, max-age=10"], 10),
            (&["max-age=60", "No-Cache"], 0),
            (&["no-cache=\"x\""], 0),
            (&["max-age=-1"], 0),
            (&["max-age='10'"], 0),
            (&["max-age"], 0),
        ] {
            assert_eq!(fresh_for(lines), seconds, "{lines:?}");
        }
    }

    #[test]
    fn the_time_in_other_caches_and_the_date_of_expiry_count_too() {
        let fresh_for = |pairs: &[(&'static str, &str)]| {
            let pairs = [&[("etag", "\"a\""), ("content-length", "7")], pairs].concat();
            of(&pairs).unwrap().fresh_for(Duration::from_secs(60)).as_secs()
        };
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let expires = ("expires", "Sun, 06 Nov 1994 08:49:57 GMT");
        for (pairs, seconds) in [
            (&[("cache-control", "max-age=100"), ("age", "90")][..], 10),
            (&[("cache-control", "max-age=100"), ("age", "100")], 0),
            (&[("cache-control", "max-age=100"), ("age", "10")], 60),
            (&[("cache-control", "max-age=100"), ("age", "soon")], 60),
            (&[("age", "1000")], 60),
            (&[date, expires], 20),
            (&[date, expires, ("age", "15")], 5),
            (&[date, expires, ("cache-control", "max-age=30")], 30),
            (&[date, ("expires", "Sun, 06 Nov 1994 08:49:30 GMT")], 0),
            (&[date, ("expires", "0")], 0),
            (&[expires], 0),
        ] {
            assert_eq!(fresh_for(pairs), seconds, "{pairs:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_may_have_any_characters() {
        let name = ("content-disposition", "attachment; filename=\"\u{e4}.bin\"");
        let value = HeaderValue::from_bytes(name.1.as_bytes()).unwrap();
        let mut all = headers(&[("etag", "\"a\""), ("content-length", "7")]);
        all.insert(name.0, value.clone());
        let version = Version::of("http://a.example/b", StatusCode::OK, &all, &all).unwrap();
        assert!(version.is_valid());
        assert_eq!(version.headers()[name.0], value);
    }

    #[test]
    fn the_first_answer_tells_the_etag_and_the_length_is_that_behind_the_redirect() {
        let first = headers(&[
            ("x-linked-etag", SHA),
            ("x-repo-commit", "c0"),
            ("etag", "\"of-the-redirect\""),
            ("content-length", "300"),
        ]);
        let last = headers(&[
            ("etag", "\"of-the-store\""),
            ("content-range", "bytes 0-0/7"),
            ("content-length", "1"),
            ("content-type", "application/x"),
        ]);
        let version = Version::of("http://a", StatusCode::PARTIAL_CONTENT, &first, &last).unwrap();
        assert_eq!((version.etag.as_str(), version.length), (SHA, 7));
        assert_eq!(version.body_etag.as_deref(), Some("\"of-the-store\""));
        assert_eq!(version.check(), Check::Whole(Digest::sha256(b"")));
        let for_client = version.headers();
        assert_eq!(for_client["x-repo-commit"], "c0");
        assert_eq!(for_client["content-type"], "application/x");
        assert_eq!(for_client["etag"], SHA);
        assert!(version.is_of(&first, &last));
        assert!(!version.is_of(&first, &headers(&[("etag", "\"newer\"")])));
        assert!(!version.is_of(&headers(&[("x-linked-etag", "\"newer\"")]), &last));
        assert!(!version.is_of(&first, &HeaderMap::new()));
    }

    #[test]
    fn versions_have_different_keys() {
        let version = of(&[("etag", "\"a\""), ("content-length", "7")]).unwrap();
        let others = [
            Version { url: "http://a.example/c".into(), ..version.clone() },
            Version { etag: "\"b\"".into(), ..version.clone() },
            Version { length: 8, ..version.clone() },
        ];
        for other in others {
            assert_ne!(other.key(), version.key());
        }
        assert_eq!(Version { checked_at: 0, ..version.clone() }.key(), version.key());
        assert_ne!(url_key(&version.url), version.key());
        let bad = BTreeMap::from([("etag".to_owned(), "x\r\ny".to_owned())]);
        assert!(!Version { headers: bad, ..version }.is_valid());
    }
}
