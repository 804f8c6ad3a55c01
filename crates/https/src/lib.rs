//! Connections to HTTP servers of others, with or without TLS.
//!
//! The server sends requests to JWK sets, hooks, ACME servers and collectors of traces. Each of them has
//! a client with bounds of its own; what they share is here.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread;
use watchfire_sockets::VitalThread;

use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use watchfire_sockets::is_host_and_port;

/// Opens connections for requests over HTTP/1.1.
pub type Connector = HttpsConnector<HttpConnector>;

/// Opens connections to `http:` and `https:` addresses. Trusts the system's certificates.
pub fn https_connector() -> Result<Connector, String> {
    let config = tls_config(system_roots())?;
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build())
}

/// The certificates that the system trusts.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// TLS for requests to servers with certificates of these authorities.
pub fn tls_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Names this program in a request, and the media types that its answer may have. Each request to a server
/// of others passes here. A header that the request has already stays.
pub fn add_headers(headers: &mut HeaderMap, accept: &'static str) {
    for (name, value) in [(USER_AGENT, watchfire_types::USER_AGENT), (ACCEPT, accept)] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Runs a task, such as the requests to one server, on a thread of its own until the result is dropped.
pub fn run_on_thread(
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) -> io::Result<oneshot::Sender<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        let _vital = VitalThread::enter(name);
        runtime.block_on(async {
            tokio::select! {
                () = task => {}
                // An error means that the result was dropped.
                _ = stopped => {}
            }
        });
        // Does not wait for a name that is being resolved.
        runtime.shutdown_background();
    };
    thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(stop)
}

/// Reads the URL of a server from a setting. `None`: it is not an `http:` or `https:` URL, or it has a user
/// and a password, which would not be sent.
pub fn server_url(url: &str) -> Option<Uri> {
    let is_usable = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|name| is_host_and_port(name.as_str().as_bytes()))
    };
    url.parse().ok().filter(is_usable)
}

/// An error with all of its causes.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_has_a_scheme_a_host_and_no_user() {
        for valid in ["http://a", "https://a.example:8443/hooks?key=1", "http://[::1]:80/"] {
            assert!(server_url(valid).is_some(), "{valid}");
        }
        for invalid in ["", "a.example", "/hooks", "ftp://a", "https://", "https://me:secret@a/"] {
            assert!(server_url(invalid).is_none(), "{invalid}");
        }
    }
}
