use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use watchfire_sockets::{SocketLimits, SocketServerSettings, TlsFiles};

use watchfire_types::NodeId;

use super::{DEADLINE, TestServer};

/// A self-signed certificate, in files that are removed on drop.
pub struct Certificate {
    pub directory: PathBuf,
    pub files: TlsFiles,
    der: CertificateDer<'static>,
}

impl Certificate {
    pub fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("watchfire-sockets-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let generated = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let files = TlsFiles { cert: directory.join("cert.pem"), key: directory.join("key.pem") };
        std::fs::write(&files.cert, generated.cert.pem()).unwrap();
        std::fs::write(&files.key, generated.signing_key.serialize_pem()).unwrap();
        Certificate { directory, files, der: generated.cert.der().clone() }
    }

    pub fn server(&self) -> TestServer {
        TestServer::build(1, SocketLimits::default(), Some(self.files.clone()))
    }

    pub fn server_at(&self, node: NodeId, limits: SocketLimits) -> TestServer {
        let tls = Some(self.files.clone());
        let settings =
            SocketServerSettings { shards: 1, limits, tls, ..SocketServerSettings::default() };
        TestServer::try_start_at(node, settings).unwrap()
    }

    pub fn connect(&self, server: &TestServer) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(server.server.local_addr()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(client, stream)
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
