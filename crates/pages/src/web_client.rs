//! The files of the web client, which are embedded in the binary.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "web-client"]
#[allow_missing = true]
struct WebClient;

/// A file in the smallest encoding that the client accepts, with the name of that encoding. `None`
/// when there is no such file, or the binary was built without the web client.
pub(crate) fn find(
    path: &str,
    headers: &HeaderMap,
) -> Option<(EmbeddedFile, Option<&'static str>)> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let accepts = |coding: &str| {
        accepted.is_some_and(|accepted| accepted.split([',', ';']).any(|c| c.trim() == coding))
    };
    for (coding, suffix) in [("br", ".br"), ("gzip", ".gz")] {
        if accepts(coding)
            && let Some(file) = WebClient::get(&format!("{path}{suffix}"))
        {
            return Some((file, Some(coding)));
        }
    }
    WebClient::get(path).map(|file| (file, None))
}

pub(crate) fn respond(
    file: EmbeddedFile,
    encoding: Option<&'static str>,
    content_type: &str,
    cache: &'static str,
) -> Response {
    let mut response = file.data.into_owned().into_response();
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(content_type).expect("media types are header values");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}
