//! The client side of TLS. The engine moves the bytes; nothing here waits.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;

/// How servers are verified, and whether sessions are resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) is_verified: bool,
    /// Certificates in PEM that are trusted instead of the system's.
    pub(crate) roots: Option<String>,
    /// Whether a user may resume a session of another one.
    pub(crate) resumes: bool,
}

impl TlsSettings {
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let mut client = match self.is_verified {
            true => builder.with_root_certificates(self.root_store()?).with_no_client_auth(),
            false => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
                .with_no_client_auth(),
        };
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !self.resumes {
            client.resumption = Resumption::disabled();
        }
        Ok(Arc::new(client))
    }

    fn root_store(&self) -> Result<RootCertStore, String> {
        let mut store = RootCertStore::empty();
        let Some(roots) = &self.roots else {
            let found = rustls_native_certs::load_native_certs().certs;
            let (added, _) = store.add_parsable_certificates(found);
            return match added {
                0 => Err("this system has no trusted certificates; name some with [tls] ca".into()),
                _ => Ok(store),
            };
        };
        for certificate in CertificateDer::pem_slice_iter(roots.as_bytes()) {
            let certificate = certificate.map_err(|error| format!("invalid PEM: {error}"))?;
            store.add(certificate).map_err(|error| format!("invalid certificate: {error}"))?;
        }
        match store.is_empty() {
            true => Err("[tls] ca has no certificate".to_owned()),
            false => Ok(store),
        }
    }
}

/// Why a connection with TLS failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsFailure {
    /// The certificate of the server is not trusted, or is for another name.
    Certificate,
    /// The server ended the handshake with an alert.
    Alert,
    Invalid,
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> TlsFailure {
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
                TlsFailure::Certificate
            }
            Error::AlertReceived(_) => TlsFailure::Alert,
            _ => TlsFailure::Invalid,
        }
    }
}

/// The state of one connection.
pub(crate) struct TlsConnection(rustls::ClientConnection);

impl TlsConnection {
    /// `host` is the name in the URL.
    pub(crate) fn new(client: &Arc<ClientConfig>, host: &str) -> Result<TlsConnection, TlsFailure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsFailure::Certificate)?;
        let mut connection = rustls::ClientConnection::new(Arc::clone(client), name)?;
        // The bound of the engine's outbox holds; a request may be longer than this library's.
        connection.set_buffer_limit(None);
        Ok(TlsConnection(connection))
    }

    /// Accepts bytes to send. They leave with [`TlsConnection::take_output`], after the handshake.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.writer().write_all(bytes).expect("the buffer has no limit");
    }

    /// Appends what the socket should send.
    pub(crate) fn take_output(&mut self, out: &mut Vec<u8>) {
        while self.0.wants_write() {
            self.0.write_tls(out).expect("writing to a vector cannot fail");
        }
    }

    /// Accepts bytes of the socket, and appends what they contain. Returns whether the server has
    /// ended the connection.
    pub(crate) fn read(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, TlsFailure> {
        let mut is_ended = false;
        while !bytes.is_empty() {
            let taken = self.0.read_tls(&mut bytes).map_err(|_| TlsFailure::Invalid)?;
            self.0.process_new_packets()?;
            let mut buffer = [0; 4096];
            loop {
                match self.0.reader().read(&mut buffer) {
                    Ok(0) => {
                        is_ended = true;
                        break;
                    }
                    Ok(len) => out.extend_from_slice(&buffer[..len]),
                    Err(_) => break,
                }
            }
            if taken == 0 {
                break;
            }
        }
        Ok(is_ended)
    }
}

/// Accepts every certificate, as load tests of servers with certificates of their own need.
#[derive(Debug)]
pub(crate) struct Unverified(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
