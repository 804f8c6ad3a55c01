//! Lists of tags and referrers, which the registry answers.

use std::fmt::Write as _;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::timeout;

use super::{SOURCE, Shared};
use crate::images::Pull;
use crate::oci::{ApiError, ErrorCode};
use crate::upstream::UpstreamError;

/// Answers with the list of the registry. Its `Link` to the next page is made to lead through the mirror
/// to the same registry.
pub(super) async fn answer(
    shared: &Shared,
    pull: &Pull,
    path: &str,
    request: &Parts,
) -> Result<Response, ApiError> {
    let query = forwarded_query(request.uri.query().unwrap_or_default());
    let limit = shared.answer_timeout();
    let list = timeout(limit, pull.upstream.list(&pull.repository, path, &query)).await;
    let list = list
        .unwrap_or_else(|_| Err(UpstreamError::no_answer(pull.upstream.registry().name(), limit)));
    let (mut headers, body) = list.map_err(|error| error.to_api_error(ErrorCode::NameUnknown))?;
    lead_through_mirror(&mut headers, request);
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response.headers_mut().insert(SOURCE, HeaderValue::from_static("registry"));
    Ok(response)
}

/// The parameters for the registry: all except the name of the registry, which is for the mirror.
fn forwarded_query(query: &str) -> String {
    let is_forwarded = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        name != "ns" && !pair.is_empty()
    };
    query.split('&').filter(is_forwarded).collect::<Vec<_>>().join("&")
}

/// Replaces the `Link` headers of a registry by one to the next page, with the path and the `ns` of the
/// request. A path of the registry itself would lead to the first registry of the mirror.
fn lead_through_mirror(headers: &mut HeaderMap, request: &Parts) {
    let lines: Vec<HeaderValue> = headers.get_all(header::LINK).iter().cloned().collect();
    headers.remove(header::LINK);
    let next = lines.iter().filter_map(|line| line.to_str().ok()).find_map(next_page);
    let Some(next) = next else { return };
    let query = next.split_once('?').map_or("", |(_, query)| query);
    let query = forwarded_query(query.split('#').next().unwrap_or_default());
    let own = request.uri.query().unwrap_or_default();
    let namespace = own.split('&').find(|pair| pair.starts_with("ns="));
    let pairs: Vec<&str> = [query.as_str()].into_iter().filter(|pair| !pair.is_empty()).collect();
    let pairs = [pairs, namespace.into_iter().collect()].concat();
    let mut link = format!("<{}", request.uri.path());
    if !pairs.is_empty() {
        write!(link, "?{}", pairs.join("&")).expect("writing to a string cannot fail");
    }
    // A query with other characters is not valid in a header; then there is no next page.
    if let Ok(link) = HeaderValue::from_str(&(link + ">; rel=\"next\"")) {
        headers.insert(header::LINK, link);
    }
}

/// The target of the link with the relation `next` (RFC 8288, section 3).
fn next_page(line: &str) -> Option<&str> {
    let mut rest = line;
    loop {
        let (_, after) = rest.split_once('<')?;
        let (target, after) = after.split_once('>')?;
        let end = end_of_parameters(after);
        if has_relation_next(&after[..end]) {
            return Some(target.trim());
        }
        rest = &after[end..];
    }
}

/// Where the parameters of a link end: at a comma that is not between quotes.
fn end_of_parameters(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.bytes().position(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return true,
            _ => {}
        }
        false
    });
    end.unwrap_or(text.len())
}

/// Whether the relations of a link, such as `rel="first next"`, have `next` among them.
fn has_relation_next(parameters: &str) -> bool {
    let mut pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
    let relations = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("rel"));
    relations.is_some_and(|(_, value)| {
        let relations = value.trim().trim_matches('"');
        relations.split_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_except_the_name_of_the_registry_is_forwarded() {
        assert_eq!(
            forwarded_query("ns=docker.io&n=10&last=v1&next_page=x"),
            "n=10&last=v1&next_page=x"
        );
        assert_eq!(forwarded_query(""), "");
    }

    #[test]
    fn the_next_page_is_at_the_same_registry() {
        let link = |uri: &str, lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::LINK, HeaderValue::from_static(line));
            }
            let request = axum::http::Request::builder().uri(uri).body(()).unwrap().into_parts().0;
            lead_through_mirror(&mut headers, &request);
            headers.get(header::LINK).map(|link| link.to_str().unwrap().to_owned())
        };
        let second = "/v2/second.example/x/tags/list";
        let next = |link: &str| Some(format!("<{link}>; rel=\"next\""));
        assert_eq!(
            link(&format!("{second}?n=3"), &["</v2/x/tags/list?n=3&last=c>; rel=\"next\""]),
            next("/v2/second.example/x/tags/list?n=3&last=c")
        );
        assert_eq!(
            link(
                "/v2/x/tags/list?ns=a.example%3A1&n=3",
                &["<https://a.example:1/v2/x/tags/list?last=c&n=3>;rel=next"]
            ),
            next("/v2/x/tags/list?last=c&n=3&ns=a.example%3A1")
        );
        // Relative to the list, among other links, and in one of several lines.
        let several =
            ["</v2/>; rel=\"first\"; title=\"a, <b>\", <?last=c>; title=x; REL=\"last Next\""];
        assert_eq!(link(second, &several), next("/v2/second.example/x/tags/list?last=c"));
        assert_eq!(
            link(second, &["</a>; rel=prev", "<list?last=d>; rel=next"]),
            next(&format!("{second}?last=d"))
        );
        for none in [&[][..], &["</a>; rel=prev"], &["nonsense"], &["<"], &["<a>"]] {
            assert_eq!(link(second, none), None, "{none:?}");
        }
    }
}
