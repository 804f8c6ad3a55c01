//! A span for each request of a client, below the client's own span.

use axum::response::Response;
use http::request::Parts;
use watchfire_traces::{Kind, Span, TraceContext};

use super::SOURCE;

/// The span of a request. Requests about the mirror itself have none.
pub(super) fn of_request(request: &Parts) -> Span {
    let path = request.uri.path();
    let content = match path {
        _ if path.starts_with("/proxy/") => "file",
        _ if path.contains("/blobs/") => "blob",
        _ if path.contains("/manifests/") => "manifest",
        _ if path.starts_with("/v2/") => "registry",
        _ => return Span::off(),
    };
    let mut values = request.headers.get_all("traceparent").iter();
    let parent = match (values.next(), values.next()) {
        (Some(value), None) => TraceContext::parse(value.as_bytes()),
        _ => None,
    };
    let mut span = Span::below_or_root(parent, content, Kind::Server);
    if span.is_recorded() {
        span.set_name(format!("{} {content}", request.method));
        span.set("http.request.method", request.method.to_string());
        span.set("url.path", path.to_owned());
        if let Some(range) = request.headers.get(http::header::RANGE) {
            span.set("watchfire.range", String::from_utf8_lossy(range.as_bytes()).into_owned());
        }
    }
    span
}

pub(super) fn note_response(span: &mut Span, response: &Response) {
    if !span.is_recorded() {
        return;
    }
    span.set("http.response.status_code", response.status().as_u16());
    if let Some(source) = response.headers().get(SOURCE).and_then(|source| source.to_str().ok()) {
        span.set("watchfire.source", source.to_owned());
    }
}
