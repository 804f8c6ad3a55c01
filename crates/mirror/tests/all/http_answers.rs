//! The answers of `tests/vectors/http_answers.json`, to the mirror's client of registries and to its proxy.

use std::net::SocketAddr;
use std::sync::Arc;

use watchfire_mirror::upstream::{CredentialFiles, RedirectRules, Upstream, UpstreamError};

use crate::support::{mirror, start_closing};

include!("../../../../tests/vectors/http_answers.rs");

impl Vector {
    /// A server that answers each request with this.
    fn server(&self) -> SocketAddr {
        start_closing(self.bytes(), self.closes)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_registries_reads_every_form_of_an_answer() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let repository = "a".parse().unwrap();
    for vector in vectors() {
        let server = vector.server();
        let registry = format!("http://{server}").parse().unwrap();
        let redirects = Arc::new(RedirectRules { allowed: Vec::new() });
        let upstream = Upstream::new(registry, CredentialFiles::default(), redirects, tls.clone());
        let upstream = upstream.unwrap();
        let found = match vector.method.as_str() {
            "GET" => {
                let list = upstream.list(&repository, "tags/list", "").await;
                list.map(|(_, body)| String::from_utf8(body.to_vec()).unwrap())
            }
            _ => {
                let accept = http::HeaderValue::from_static("*/*");
                let tag = "v1".parse().unwrap();
                let head = upstream.manifest_head(&repository, &tag, &accept).await;
                head.map(|_| String::new())
            }
        };
        match found {
            // A status of success is not told.
            Ok(body) => vector.check("registry", Some((vector.status, &body))),
            // The body of an error is not read.
            Err(UpstreamError::Status { status, .. }) => {
                vector.check("registry", Some((status.as_u16(), &vector.body)));
            }
            Err(UpstreamError::NotFound { .. }) => {
                vector.check("registry", Some((404, &vector.body)));
            }
            Err(_) => vector.check("registry", None),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_passes_on_every_form_of_an_answer() {
    let vectors: Vec<_> = vectors().into_iter().map(|one| (one.server(), one)).collect();
    let hosts: Vec<_> = vectors.iter().map(|(server, _)| format!("http://{server}")).collect();
    let mirror = mirror(&[], |settings| {
        settings.proxy_hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    });
    let mirror = mirror.await;
    for (server, vector) in &vectors {
        let path = format!("/proxy/{server}/file");
        // An answer to one user is not stored, so it is the only request.
        let answer = mirror.request(&vector.method, &path, &["Cookie: a=b"]).await;
        // A body that breaks off immediately leaves no time for an answer.
        let is_failed = !answer.is_complete
            || matches!(answer.status, 502 | 504)
            || (answer.status == 503 && vector.status != 503);
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        vector.check("proxy", (!is_failed).then_some((answer.status, &body)));
    }
}
