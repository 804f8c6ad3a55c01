//! The HTTPS client with which orders are sent.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokio::time::timeout;
use watchfire_https::{add_headers, system_roots, tls_config, with_causes};

use super::plan::ca_certificates;

/// The longest time of a request and its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest response. A chain of certificates has some kilobytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// An HTTPS client that trusts the system's certificates and the certificates of a file.
#[derive(Clone)]
pub(super) struct AcmeHttpClient {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
}

impl AcmeHttpClient {
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let mut roots = system_roots();
        if let Some(path) = ca_file {
            let own = ca_certificates(path).map_err(|error| error.to_string())?;
            for certificate in own {
                let reason =
                    |error| format!("cannot use tls.acme.ca_file {}: {error}", path.display());
                roots.add(certificate).map_err(reason)?;
            }
        }
        if roots.is_empty() {
            return Err(
                "the system has no trusted certificates; install ca-certificates, or set tls.acme.ca_file".into(),
            );
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(roots)?)
            .https_only()
            .enable_http1()
            .build();
        Ok(AcmeHttpClient { client: Client::builder(TokioExecutor::new()).build(connector) })
    }
}

impl HttpClient for AcmeHttpClient {
    fn request(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        // The client of the protocol has named itself.
        add_headers(request.headers_mut(), "*/*");
        let response = self.client.request(request);
        Box::pin(async move {
            let whole = async {
                let response = response.await.map_err(|error| other(&with_causes(&error)))?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
                let body = body.map_err(|error| other(&with_causes(&*error)))?.to_bytes();
                Ok(BytesResponse { parts, body: Box::new(body) })
            };
            match timeout(REQUEST_TIMEOUT, whole).await {
                Ok(result) => result,
                Err(_) => Err(other(&format!("no response within {REQUEST_TIMEOUT:?}"))),
            }
        })
    }
}

fn other(message: &str) -> Error {
    Error::Other(message.into())
}
