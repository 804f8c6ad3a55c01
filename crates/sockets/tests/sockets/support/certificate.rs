use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use watchfire_sockets::{Certificates, SocketLimits, SocketServerSettings, TlsFiles};
use watchfire_testkit::DEADLINE;
use watchfire_types::NodeId;

use super::TestServer;

/// A self-signed certificate, in files that are removed on drop.
pub struct Certificate {
    pub directory: TempDir,
    pub files: TlsFiles,
    der: CertificateDer<'static>,
}

impl Certificate {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name| directory.path().join(name);
        let generated = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let files = TlsFiles { cert: file("cert.pem"), key: file("key.pem") };
        std::fs::write(&files.cert, generated.cert.pem()).unwrap();
        std::fs::write(&files.key, generated.signing_key.serialize_pem()).unwrap();
        Certificate { directory, files, der: generated.cert.der().clone() }
    }

    pub fn server(&self) -> TestServer {
        self.server_with(self.certificates())
    }

    pub fn server_with(&self, certificates: Arc<Certificates>) -> TestServer {
        TestServer::build(1, SocketLimits::default(), Some(certificates))
    }

    pub fn read(&self) -> watchfire_sockets::Certificate {
        watchfire_sockets::Certificate::read(&self.files).unwrap()
    }

    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::new(Certificates::new(Some(self.read())))
    }

    pub fn server_at(&self, node: NodeId, limits: SocketLimits) -> TestServer {
        let tls = Some(self.certificates());
        let settings =
            SocketServerSettings { shards: 1, limits, tls, ..SocketServerSettings::default() };
        TestServer::try_start_at(node, settings).unwrap()
    }

    pub fn connect(&self, server: &TestServer) -> StreamOwned<ClientConnection, TcpStream> {
        self.connect_with(server, self.client())
    }

    /// The settings of a client that trusts only this certificate. Connections with the same
    /// settings resume sessions.
    pub fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    pub fn connect_with(
        &self,
        server: &TestServer,
        config: impl Into<Arc<ClientConfig>>,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(config.into(), name).unwrap();
        let stream = TcpStream::connect(server.server.local_addr()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(client, stream)
    }
}
