//! The files of the web client, which are embedded in the binary.

use std::io::Write;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Uri, header};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "web-client"]
#[allow_missing = true]
struct WebClient;

pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Where `index.html` names the picture that services show beside a link.
const PICTURE: &str = r#"property="og:image" content="/"#;

/// A file in the smallest encoding that the client accepts, with the name of that encoding. `None`
/// when there is no such file, or the binary was built without the web client.
pub(crate) fn find(
    path: &str,
    headers: &HeaderMap,
) -> Option<(EmbeddedFile, Option<&'static str>)> {
    for (coding, suffix) in [("br", ".br"), ("gzip", ".gz")] {
        if accepts(headers, coding)
            && let Some(file) = WebClient::get(&format!("{path}{suffix}"))
        {
            return Some((file, Some(coding)));
        }
    }
    WebClient::get(path).map(|file| (file, None))
}

fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split([',', ';']).any(|c| c.trim() == coding))
}

/// The document of the app on a server that knows its public address: with the whole address of the picture
/// that services show beside a link. Many of them do not resolve a path.
pub(crate) struct PublicIndex {
    plain: Bytes,
    gzip: Bytes,
}

impl PublicIndex {
    /// `None` when the address is empty, or the binary was built without the web client.
    pub fn new(public_url: &str) -> Option<Self> {
        let uri = public_url.parse::<Uri>().ok()?;
        let origin = format!("{}://{}", uri.scheme_str()?, uri.authority()?);
        let html = String::from_utf8(WebClient::get("index.html")?.data.into_owned()).ok()?;
        let html = html.replace(PICTURE, &PICTURE.replace("=\"/", &format!("=\"{origin}/")));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(html.as_bytes()).ok()?;
        Some(PublicIndex { gzip: encoder.finish().ok()?.into(), plain: html.into() })
    }

    pub fn respond(&self, headers: &HeaderMap) -> Response {
        let (body, encoding) = match accepts(headers, "gzip") {
            true => (&self.gzip, Some("gzip")),
            false => (&self.plain, None),
        };
        respond(body.clone(), encoding, HTML, "no-cache")
    }
}

pub(crate) fn respond(
    body: impl Into<Body>,
    encoding: Option<&'static str>,
    content_type: &str,
    cache: &'static str,
) -> Response {
    let mut response = Response::new(body.into());
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
