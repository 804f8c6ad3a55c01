//! What is served on a site's own host: the shell that a tab opens there, and the worker that
//! answers for the site's files out of that tab. Neither knows any content, and nothing else is here:
//! not the app, not its sockets, not its figures.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};

use super::Site;
use super::app_shell::{find, respond};
use crate::sites::Meant;

/// Where a site's shell and worker are. A file of the site with such a name stays hidden.
const SHELL_PATH: &str = "/.watchfire/shell";
const WORKER_PATH: &str = "/.watchfire/worker.js";

/// Answers whoever means a site; everybody else goes on to the routes.
pub(super) async fn keep_apart(State(site): State<Site>, request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter();
    let hosts = hosts.map(|host| host.to_str().unwrap_or("not a host"));
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let (status, words) = match site.world.sites.meant(hosts, authority) {
        Meant::App => return next.run(request).await,
        Meant::Site { embedders } => match serve(&request, &embedders) {
            Some(response) => return response,
            None => (StatusCode::NOT_FOUND, "This is shown by the tab that has the page open.\n"),
        },
        Meant::NoSite => (StatusCode::NOT_FOUND, "There is no such site.\n"),
        Meant::Ambiguous => (StatusCode::BAD_REQUEST, "A request is for one host.\n"),
    };
    site.world.metrics.refused("site");
    sealed((status, words).into_response(), "default-src 'none'; sandbox".to_owned())
}

fn serve(request: &Request, embedders: &str) -> Option<Response> {
    let headers = request.headers();
    let is_worker = headers.get("service-worker").is_some();
    // A word behind the address would tell us something that is none of our business.
    let is_plain = request.uri().query().is_none();
    if !is_plain || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    match (request.uri().path(), is_worker) {
        (SHELL_PATH, false) => {
            let (file, encoding) = find("site.html", headers)?;
            let response = respond(file, encoding, "text/html; charset=utf-8", "no-cache");
            // Scripts may use this origin, and reach no other; only the app may show it.
            let policy = format!(
                "sandbox allow-scripts allow-same-origin allow-forms; default-src 'none'; \
                 script-src 'unsafe-inline'; style-src 'unsafe-inline'; worker-src 'self'; \
                 frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors {embedders}"
            );
            Some(sealed(response, policy))
        }
        (WORKER_PATH, true) => {
            let (file, encoding) = find("site-worker.js", headers)?;
            let kind = "text/javascript; charset=utf-8";
            let mut response = respond(file, encoding, kind, "no-cache");
            let name = header::HeaderName::from_static("service-worker-allowed");
            response.headers_mut().insert(name, HeaderValue::from_static("/"));
            Some(sealed(response, "default-src 'none'".to_owned()))
        }
        _ => None,
    }
}

fn sealed(mut response: Response, policy: String) -> Response {
    let policy = HeaderValue::try_from(policy).expect("a policy is a header value");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        // Where the browser knows it: no connection but to this host, by any means.
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
