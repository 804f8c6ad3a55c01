//! The body of a blob or of a range of it, and whether it is what was requested.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use reqwest::Response;

use super::error::UpstreamError;
use super::server::unreachable;
use crate::oci::ByteRange;

#[derive(Debug)]
pub struct BlobBody {
    /// The size of the whole blob in bytes. `None`: neither the answer nor the caller knows it.
    pub size: Option<u64>,
    pub part: BlobPart,
    /// Whether the registry says that it can send ranges.
    pub accepts_ranges: bool,
    response: Response,
    registry: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobPart {
    /// All of it. A server may ignore that a range was requested.
    Whole,
    Range,
    /// Something else, such as less than the requested range.
    Other,
}

impl BlobBody {
    /// The body of a response with a status of success. `range` is the requested one. `known` is the size
    /// of the blob, if a manifest tells it: a chunked response does not.
    pub(crate) fn of(
        response: Response,
        range: Option<ByteRange>,
        known: Option<u64>,
        registry: &str,
    ) -> Self {
        let is_partial = response.status() == StatusCode::PARTIAL_CONTENT;
        let (part, size) = match is_partial {
            false => (BlobPart::Whole, response.content_length().or(known)),
            true => match content_range(response.headers()) {
                Some(sent) if sent.is_asked(range, known) => (BlobPart::Range, sent.size.or(known)),
                _ => (BlobPart::Other, known),
            },
        };
        let accepts = response.headers().get(header::ACCEPT_RANGES);
        let accepts_ranges = part == BlobPart::Range || accepts.is_some_and(|unit| unit == "bytes");
        let registry = registry.to_owned();
        BlobBody { size, part, accepts_ranges, response, registry }
    }

    /// The next bytes; `None` at the end of the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        self.response.chunk().await.map_err(|error| unreachable(&self.registry, &error))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRange {
    start: u64,
    end: u64,
    /// The size of the whole. `None`: the server does not know it.
    pub(super) size: Option<u64>,
}

impl SentRange {
    /// Whether it is the requested range, up to the end of the blob.
    fn is_asked(&self, asked: Option<ByteRange>, known: Option<u64>) -> bool {
        let size = self.size.or(known);
        let (Some(asked), Some(last)) = (asked, size.and_then(|size| size.checked_sub(1))) else {
            return false;
        };
        self.start == asked.start && self.end == asked.end.min(last)
    }
}

/// The range from `Content-Range: bytes <start>-<end>/<size>`.
pub(super) fn content_range(headers: &HeaderMap) -> Option<SentRange> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (unit, range) = text.trim().split_once(' ')?;
    let (range, size) = range.split_once('/').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
    let (start, end) = range.split_once('-')?;
    let size = match size.trim() {
        "*" => None,
        size => Some(size.parse().ok()?),
    };
    Some(SentRange { start: start.trim().parse().ok()?, end: end.trim().parse().ok()?, size })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_range_is_used_if_it_is_the_requested_one() {
        let asked = Some(ByteRange { start: 10, end: 19 });
        let of = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            content_range(&HeaderMap::from_iter([(header::CONTENT_RANGE, value)]))
        };
        let is_asked = |text, known| of(text).is_some_and(|sent| sent.is_asked(asked, known));
        assert!(is_asked("bytes 10-19/100", None) && is_asked("Bytes 10-19/*", Some(100)));
        assert!(is_asked("bytes 10-14/15", None), "the blob ends there");
        for text in [
            "bytes 10-14/100",
            "bytes 0-99/100",
            "bytes 10-19/*",
            "items 10-19/100",
            "bytes 10-19/0",
        ] {
            assert!(!is_asked(text, None), "{text}");
        }
        for text in ["", "bytes */100", "bytes 1-2", "bytes x-2/3"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
