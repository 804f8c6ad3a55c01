//! The paths below `/proxy/`.

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::oci::{ApiError, ErrorCode};

/// The longest path and query in bytes. The same limit holds at most servers.
const PATH_BYTES_MAX: usize = 8_192;

/// A host and what is requested from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyPath {
    /// The host as the client wrote it, in lower case, with a port if it has one.
    pub(crate) host: String,
    /// The path with its slash, and the query.
    pub(crate) target: String,
}

/// The host and path of a URI such as `/proxy/models.example/a/b.bin?download=true`. `None`: the path is
/// not below `/proxy/`.
pub(crate) fn parse_path(uri: &Uri) -> Option<Result<ProxyPath, ApiError>> {
    let rest = uri.path().strip_prefix("/proxy/")?;
    Some(parse(rest, uri.query()))
}

fn parse(rest: &str, query: Option<&str>) -> Result<ProxyPath, ApiError> {
    let bytes = rest.len() + query.map_or(0, |query| query.len() + 1);
    if bytes > PATH_BYTES_MAX {
        return Err(invalid(&format!(
            "it has {bytes} bytes, and at most {PATH_BYTES_MAX} are served"
        )));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err(invalid("it names no host: write /proxy/<host>/<path>"));
    }
    // An origin may decode the path before it resolves `.` and `..`, so escaped dots count.
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let is_dots = |part: &[u8]| matches!(part, b"." | b"..");
    if decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(is_dots) {
        return Err(invalid("its path has a part . or .."));
    }
    let mut all = decoded.into_iter().chain(percent_decode_str(query.unwrap_or_default()));
    if all.any(|byte| byte.is_ascii_control()) {
        return Err(invalid("it has a control character"));
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok(ProxyPath { host: host.to_ascii_lowercase(), target: format!("/{path}{query}") })
}

fn invalid(cause: &str) -> ApiError {
    ApiError::new(ErrorCode::UrlInvalid, format!("cannot serve this URL: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(uri: &str) -> Option<Result<(String, String), ErrorCode>> {
        let parsed = parse_path(&uri.parse().unwrap())?;
        Some(parsed.map(|path| (path.host, path.target)).map_err(|error| error.code))
    }

    #[test]
    fn a_path_names_a_host_and_a_file() {
        let found = |host: &str, target: &str| Some(Ok((host.to_owned(), target.to_owned())));
        assert_eq!(parsed("/proxy/a.example/b/c?d=e%2Ff"), found("a.example", "/b/c?d=e%2Ff"));
        assert_eq!(parsed("/proxy/A.example:80/%C3%A9..x"), found("a.example:80", "/%C3%A9..x"));
        assert_eq!(parsed("/proxy/a.example//b"), found("a.example", "//b"));
        assert_eq!(parsed("/proxy/a.example"), found("a.example", "/"));
        assert_eq!(parsed("/proxy"), None);
        assert_eq!(parsed("/v2/proxy/a"), None);
    }

    #[test]
    fn other_paths_are_refused() {
        let long = format!("/proxy/a.example/{}", "x".repeat(10_000));
        let long_query = format!("/proxy/a.example/?{}", "x".repeat(10_000));
        for uri in [
            "/proxy/",
            "/proxy//a",
            "/proxy/a/../b",
            "/proxy/a/..",
            "/proxy/a/b/./c",
            "/proxy/a/%2e%2E/b",
            "/proxy/a/b%2f..%2fc",
            "/proxy/a/b%5c..%5cc",
            "/proxy/a/b%00",
            "/proxy/a/b%0d%0aHost:x",
            "/proxy/a/b?c=%0a",
            "/proxy/a/b%7f",
            &long,
            &long_query,
        ] {
            assert_eq!(parsed(uri), Some(Err(ErrorCode::UrlInvalid)), "{uri}");
        }
    }
}
