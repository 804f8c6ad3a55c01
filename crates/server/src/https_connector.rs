//! Connections to HTTP servers of others, with or without TLS.

use std::sync::Arc;

#[cfg(any(feature = "hooks", feature = "jwt", feature = "otlp"))]
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
#[cfg(any(feature = "hooks", feature = "jwt", feature = "otlp"))]
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};

/// Opens connections for requests over HTTP/1.1.
#[cfg(any(feature = "hooks", feature = "jwt", feature = "otlp"))]
pub(crate) type Connector = HttpsConnector<HttpConnector>;

/// Opens connections to `http:` and `https:` addresses. Trusts the system's certificates.
#[cfg(any(feature = "hooks", feature = "jwt", feature = "otlp"))]
pub(crate) fn https_connector() -> Result<Connector, String> {
    let config = tls_config(system_roots())?;
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build())
}

/// The certificates that the system trusts.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// TLS for requests to servers with certificates of these authorities.
pub(crate) fn tls_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
