//! A span for each HTTP request, below that of the caller.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use watchfire_traces::{Kind, Span, TraceContext};

/// Answers a request within a span. Its handler, and the messages that it sends to other processes,
/// are below that span.
pub(super) async fn trace(request: Request, next: Next) -> Response {
    let parent = traceparent(request.headers());
    let mut span = Span::below_or_root(parent, "HTTP request", Kind::Server);
    if !span.is_recorded() {
        return next.run(request).await;
    }
    let method = request.method().clone();
    span.set("http.request.method", method.to_string());
    span.set("url.path", request.uri().path().to_owned());
    if let Some(route) = request.extensions().get::<MatchedPath>() {
        span.set_name(format!("{method} {}", route.as_str()));
        span.set("http.route", route.as_str().to_owned());
    }
    let response = span.within(next.run(request)).await;
    span.set("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.fail(response.status());
    }
    response
}

/// The span of the caller. Everything but one valid header counts as none.
fn traceparent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all("traceparent").iter();
    match (values.next(), values.next()) {
        (Some(value), None) => TraceContext::parse(value.as_bytes()),
        _ => None,
    }
}
