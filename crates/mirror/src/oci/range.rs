//! The `Range` header of requests for blobs.

use http::HeaderValue;

/// The ranges of one header that are looked at. A header with more is answered with the whole blob.
const RANGES_MAX: usize = 1_024;

/// The bytes of a blob that a request asks for; `start <= end`, both in the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

/// No byte of the blob is in the range: the response is 416.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the range has no byte of the blob, which has {size} bytes")]
pub struct RangeError {
    pub size: u64,
}

impl ByteRange {
    /// The range that a header names in a blob of `size` bytes. `None`: the whole blob.
    ///
    /// Several ranges are answered with the bytes from the first to the last of them, as one part: RFC 9110 (15.3.7)
    /// lets a client read from `Content-Range` what it got. The stargz snapshotter asks so for the holes in
    /// one read, and would get the whole blob otherwise.
    ///
    /// A header that is not understood is ignored, as RFC 9110 (14.2) allows, such as one with another
    /// unit. A reversed range is refused, as the tests of the OCI specification demand.
    ///
    /// ```
    /// use watchfire_mirror::oci::ByteRange;
    ///
    /// assert_eq!(ByteRange::parse("bytes=2-", 10), Ok(Some(ByteRange { start: 2, end: 9 })));
    /// assert_eq!(ByteRange::parse("bytes=-3", 10), Ok(Some(ByteRange { start: 7, end: 9 })));
    /// assert_eq!(ByteRange::parse("bytes=8-99", 10), Ok(Some(ByteRange { start: 8, end: 9 })));
    /// assert_eq!(ByteRange::parse("bytes=6-7,2-3", 10), Ok(Some(ByteRange { start: 2, end: 7 })));
    /// assert!(ByteRange::parse("bytes=10-", 10).is_err());
    /// assert_eq!(ByteRange::parse("lines=1-2", 10), Ok(None));
    /// ```
    pub fn parse(header: &str, size: u64) -> Result<Option<Self>, RangeError> {
        // RFC 9110, 14.1: names of units are in any case.
        let Some((unit, ranges)) = header.trim().split_once('=') else { return Ok(None) };
        if !unit.eq_ignore_ascii_case("bytes") {
            return Ok(None);
        }
        let ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
        let mut hull: Option<Self> = None;
        let mut refused = None;
        for (count, range) in ranges.enumerate() {
            match Self::parse_one(range, size) {
                _ if count == RANGES_MAX => return Ok(None),
                Ok(None) => return Ok(None),
                // RFC 9110, 14.1.1: such a range is left out as long as another one has bytes.
                Err(error) => refused = Some(error),
                Ok(Some(range)) => {
                    let before = hull.unwrap_or(range);
                    let (start, end) = (before.start.min(range.start), before.end.max(range.end));
                    hull = Some(ByteRange { start, end });
                }
            }
        }
        match refused {
            Some(error) if hull.is_none() => Err(error),
            _ => Ok(hull),
        }
    }

    fn parse_one(range: &str, size: u64) -> Result<Option<Self>, RangeError> {
        let Some((start, end)) = range.split_once('-') else { return Ok(None) };
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number beyond 64 bits is beyond any blob.
            true => Some(digits.parse().unwrap_or(u64::MAX)),
            false => None,
        };
        let refused = Err(RangeError { size });
        match (start, end) {
            ("", "") => Ok(None),
            ("", suffix) => match number(suffix) {
                None => Ok(None),
                Some(0) => refused,
                Some(_) if size == 0 => refused,
                Some(bytes) => {
                    Ok(Some(ByteRange { start: size.saturating_sub(bytes), end: size - 1 }))
                }
            },
            (start, end) => {
                let end = if end.is_empty() { Some(u64::MAX) } else { number(end) };
                match (number(start), end) {
                    (Some(start), Some(end)) if start <= end && start < size => {
                        Ok(Some(ByteRange { start, end: end.min(size - 1) }))
                    }
                    (Some(_), Some(_)) => refused,
                    _ => Ok(None),
                }
            }
        }
    }

    /// The value of the header `Range`.
    pub fn to_header(self) -> HeaderValue {
        let value = format!("bytes={}-{}", self.start, self.end);
        HeaderValue::from_str(&value).expect("digits are valid in a header")
    }

    pub const fn bytes(&self) -> u64 {
        self.end - self.start + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_range_is_understood() {
        let range = |start, end| Ok(Some(ByteRange { start, end }));
        let refused = Err(RangeError { size: 100 });
        for (header, expected) in [
            ("bytes=0-0", range(0, 0)),
            ("bytes=10-19", range(10, 19)),
            ("bytes=90-", range(90, 99)),
            ("Bytes=90-", range(90, 99)),
            ("bytes=-1", range(99, 99)),
            ("bytes=-1000", range(0, 99)),
            ("bytes=99-18446744073709551616", range(99, 99)),
            ("bytes=100-", refused),
            ("bytes=100-200", refused),
            ("bytes=20-10", refused),
            ("bytes=-0", refused),
            ("bytes=99999999999999999999-", refused),
            ("bytes=0-1,3-4", range(0, 4)),
            ("bytes=50-59, 10-19,100-", range(10, 59)),
            ("bytes=100-,200-300", refused),
            ("bytes=0-1,a", Ok(None)),
            ("bytes=", Ok(None)),
            ("bytes=-", Ok(None)),
            ("bytes=a-b", Ok(None)),
            ("bytes=+1-2", Ok(None)),
            ("bytes=--1", Ok(None)),
            ("bytes", Ok(None)),
            ("", Ok(None)),
        ] {
            assert_eq!(ByteRange::parse(header, 100), expected, "{header}");
        }
        assert_eq!(ByteRange::parse("bytes=0-", 0), Err(RangeError { size: 0 }));
        assert_eq!(ByteRange::parse("bytes=-5", 0), Err(RangeError { size: 0 }));
        let many = format!("bytes={}", "0-1,".repeat(10_000));
        assert_eq!(ByteRange::parse(&many, 100), Ok(None));
    }
}
