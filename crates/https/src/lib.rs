//! Connections to HTTP servers of others, with or without TLS.
//!
//! The server sends requests to JWK sets, hooks, ACME servers and collectors of traces. Each of them has
//! a client with bounds of its own; what they share is here.

use std::error::Error;
use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};

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
