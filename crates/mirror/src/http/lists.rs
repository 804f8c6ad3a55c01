//! Lists of tags and referrers, which the registry answers.

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::request::Parts;
use tokio::time::timeout;

use super::{SOURCE, Shared};
use crate::oci::{ApiError, ErrorCode};
use crate::pull::Pull;

/// Answers with the list of the registry. Its `Link` to the next page is relative, and so leads
/// through the mirror again.
pub(super) async fn answer(
    shared: &Shared,
    pull: &Pull,
    path: &str,
    request: &Parts,
) -> Result<Response, ApiError> {
    let query = forwarded_query(request.uri.query().unwrap_or_default());
    let limit = shared.answer_timeout();
    let list = timeout(limit, pull.upstream.list(&pull.repository, path, &query)).await;
    let list = list.unwrap_or_else(|_| Err(pull.upstream.no_answer(limit)));
    let (headers, body) = list.map_err(|error| error.to_api_error(ErrorCode::NameUnknown))?;
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response.headers_mut().insert(SOURCE, HeaderValue::from_static("registry"));
    Ok(response)
}

/// The parameters that a registry knows.
fn forwarded_query(query: &str) -> String {
    let is_known = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        matches!(name, "n" | "last" | "artifactType")
    };
    query.split('&').filter(is_known).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_parameters_are_forwarded() {
        assert_eq!(forwarded_query("ns=docker.io&n=10&last=v1&x=y"), "n=10&last=v1");
        assert_eq!(forwarded_query(""), "");
    }
}
