//! The two files that the server has on a site's own host: the shell that a tab opens there, and
//! the service worker, which answers requests for the site's files from that tab. Neither contains
//! any content. The app, its sockets and its metrics are not served there.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use watchfire::internal::Metrics;

use super::hosts::{RequestTarget, SiteHosts};
use crate::web_client::{HTML, find, respond};

/// The paths of a site's shell and worker. They hide files of the site with the same paths.
const SHELL_PATH: &str = "/.watchfire/shell";
const WORKER_PATH: &str = "/.watchfire/worker.js";

/// The state of [`restrict_site_hosts`].
#[derive(Clone)]
pub(crate) struct SiteShell {
    pub hosts: Arc<SiteHosts>,
    pub metrics: Arc<Metrics>,
}

/// Answers requests for sites. All other requests go on to the routes.
pub(crate) async fn restrict_site_hosts(
    State(shell): State<SiteShell>,
    request: Request,
    next: Next,
) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter();
    let hosts = hosts.map(|host| host.to_str().unwrap_or("not a host"));
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let (status, text) = match shell.hosts.target_of(hosts, authority) {
        RequestTarget::App => return next.run(request).await,
        RequestTarget::Site { embedders } => match serve(&request, &embedders) {
            Some(response) => return response,
            None => (StatusCode::NOT_FOUND, "The tab that has the page open shows this address.\n"),
        },
        RequestTarget::NoSite => (StatusCode::NOT_FOUND, "There is no such site.\n"),
        RequestTarget::Ambiguous => {
            (StatusCode::BAD_REQUEST, "The request names more than one host; name one.\n")
        }
    };
    shell.metrics.refused("site");
    with_policy((status, text).into_response(), "default-src 'none'; sandbox".to_owned())
}

fn serve(request: &Request, embedders: &str) -> Option<Response> {
    let headers = request.headers();
    let is_worker = headers.get("service-worker").is_some();
    // A query could carry content of the site to the server.
    let is_plain = request.uri().query().is_none();
    if !is_plain || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    match (request.uri().path(), is_worker) {
        (SHELL_PATH, false) => {
            let (file, encoding) = find("site.html", headers)?;
            let response = respond(file.data, encoding, HTML, "no-cache");
            // Scripts may use this origin and reach no other. Only the app may embed it.
            let policy = format!(
                "sandbox allow-scripts allow-same-origin allow-forms; default-src 'none'; \
                 script-src 'unsafe-inline'; style-src 'unsafe-inline'; worker-src 'self'; \
                 frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors {embedders}"
            );
            Some(with_policy(response, policy))
        }
        (WORKER_PATH, true) => {
            let (file, encoding) = find("site-worker.js", headers)?;
            let kind = "text/javascript; charset=utf-8";
            let mut response = respond(file.data, encoding, kind, "no-cache");
            let name = header::HeaderName::from_static("service-worker-allowed");
            response.headers_mut().insert(name, HeaderValue::from_static("/"));
            Some(with_policy(response, "default-src 'none'".to_owned()))
        }
        _ => None,
    }
}

fn with_policy(mut response: Response, policy: String) -> Response {
    let policy = HeaderValue::try_from(policy).expect("a policy is a header value");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        // In browsers that support it: connections to this host only, by any API.
        ("connection-allowlist", "(response-origin)"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-dns-prefetch-control", "off"),
        ("origin-agent-cluster", "?1"),
    ] {
        headers.insert(header::HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
