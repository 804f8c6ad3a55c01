//! TLS as specified by libp2p: each side presents a self-signed certificate, which contains its
//! peer id and a proof of the id.
//!
//! The default configuration of libp2p prefers ChaCha20. On processors with AES instructions, AES
//! takes a fifth of the time.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use futures::{AsyncRead, AsyncWrite};
pub(super) use futures_rustls::TlsStream;
use futures_rustls::{TlsAcceptor, TlsConnector};
use libp2p::PeerId;
use libp2p::identity::Keypair;
use libp2p::tls::certificate;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, ServerConfig, SignatureScheme, SupportedCipherSuite,
};

/// The application protocol ID used in negotiation.
const ALPN: &[u8] = b"libp2p";

/// The upgrade of a plain connection.
#[derive(Clone)]
pub(super) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    #[error(transparent)]
    Certificate(#[from] certificate::GenError),
    #[error(transparent)]
    Rustls(#[from] Error),
}

impl Tls {
    pub(super) fn new(keypair: &Keypair) -> Result<Self, TlsError> {
        let provider = CryptoProvider { cipher_suites: suites(has_aes()), ..default_provider() };
        let (certificate, key) = certificate::generate(keypair)?;
        let key = provider.key_provider.load_private_key(key)?;
        let identity = Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key)));
        let verifier = Arc::new(Verifier(provider.signature_verification_algorithms));
        let provider = Arc::new(provider);
        let versions = &[&rustls::version::TLS13];

        let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let client = client.with_protocol_versions(versions)?.dangerous();
        let client = client.with_custom_certificate_verifier(verifier.clone());
        let mut client = client.with_client_cert_resolver(identity.clone());
        client.alpn_protocols = vec![ALPN.to_vec()];
        // Sessions are cached by server name, and all peers have the same one.
        client.resumption = Resumption::disabled();

        let server = ServerConfig::builder_with_provider(provider);
        let server = server.with_protocol_versions(versions)?;
        let mut server = server.with_client_cert_verifier(verifier).with_cert_resolver(identity);
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.send_tls13_tickets = 0;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
    }

    pub(super) async fn accept<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        socket: C,
    ) -> io::Result<(PeerId, TlsStream<C>)> {
        let stream = TlsAcceptor::from(self.server).accept(socket).await?;
        let peer = peer_of(stream.get_ref().1)?;
        Ok((peer, stream.into()))
    }

    pub(super) async fn connect<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        socket: C,
    ) -> io::Result<(PeerId, TlsStream<C>)> {
        // Unlike a name, an address is not sent to the peer.
        let server_name =
            ServerName::IpAddress(IpAddr::from(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let stream = TlsConnector::from(self.client).connect(server_name, socket).await?;
        let peer = peer_of(stream.get_ref().1)?;
        Ok((peer, stream.into()))
    }
}

/// Returns the cipher suites, the cheapest first. A server follows the order of its client.
fn suites(has_aes: bool) -> Vec<SupportedCipherSuite> {
    use cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let mut suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    if !has_aes {
        suites.rotate_right(1);
    }
    suites
}

/// Whether the processor has instructions for AES-GCM.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

fn peer_of(session: &CommonState) -> io::Result<PeerId> {
    let Some([certificate]) = session.peer_certificates() else {
        return Err(io::Error::other("the peer did not present exactly one certificate"));
    };
    Ok(certificate::parse(certificate).map_err(io::Error::other)?.peer_id())
}

/// Accepts each certificate that proves its peer id. The swarm compares the id with the dialled
/// one.
#[derive(Debug)]
struct Verifier(WebPkiSupportedAlgorithms);

impl Verifier {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        if !intermediates.is_empty() {
            return Err(Error::General("more than one certificate".to_owned()));
        }
        // Parsing verifies that it is self-signed, and that the key of its peer id signed its key.
        certificate::parse(end_entity).map(drop).map_err(invalid)
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// The methods about signatures, which rustls asks of the verifier of either side.
macro_rules! verify_signatures {
    () => {
        // TLS 1.2 is disabled, but the traits require an answer.
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not supported".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            end_entity: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let certificate = certificate::parse(end_entity).map_err(invalid)?;
            certificate
                .verify_signature(signed.scheme, message, signed.signature())
                .map_err(invalid)?;
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    verify_signatures!();
}

#[cfg(test)]
mod tests {
    use libp2p::tcp::tokio::TcpStream;
    use rustls::CipherSuite;

    use super::*;

    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
        let (dialled, accepted) = tokio::join!(dialled, listener.accept());
        (TcpStream(dialled.unwrap()), TcpStream(accepted.unwrap().0))
    }

    fn suite<C>(stream: &TlsStream<C>) -> CipherSuite {
        stream.get_ref().1.negotiated_cipher_suite().unwrap().suite()
    }

    #[tokio::test]
    async fn both_sides_learn_the_peer_id_of_the_other_and_prefer_the_cheapest_cipher() {
        let (ours, theirs) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
        let (dialled, accepted) = sockets().await;
        let connected = Tls::new(&ours).unwrap().connect(dialled);
        let (connected, accepted) =
            tokio::join!(connected, Tls::new(&theirs).unwrap().accept(accepted));
        let ((their_id, client), (our_id, server)) = (connected.unwrap(), accepted.unwrap());
        assert_eq!(their_id, theirs.public().to_peer_id());
        assert_eq!(our_id, ours.public().to_peer_id());
        let cheapest = suites(has_aes())[0].suite();
        assert_eq!((suite(&client), suite(&server)), (cheapest, cheapest));
        assert_eq!(client.get_ref().1.alpn_protocol(), Some(ALPN));
    }

    #[test]
    fn chacha_comes_first_on_processors_without_aes_instructions() {
        let names = |has_aes| suites(has_aes).iter().map(|one| one.suite()).collect::<Vec<_>>();
        let aes = [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_AES_256_GCM_SHA384];
        let chacha = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        assert_eq!(names(true), [&aes[..], &[chacha]].concat());
        assert_eq!(names(false), [&[chacha], &aes[..]].concat());
    }

    #[tokio::test]
    async fn a_peer_with_the_tls_of_libp2p_can_connect() {
        use libp2p::core::upgrade::OutboundConnectionUpgrade as _;
        let (ours, theirs) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
        let (dialled, accepted) = sockets().await;
        let libp2p_tls = libp2p::tls::Config::new(&theirs).unwrap();
        let connected = libp2p_tls.upgrade_outbound(dialled, "/tls/1.0.0");
        let (connected, accepted) =
            tokio::join!(connected, Tls::new(&ours).unwrap().accept(accepted));
        assert_eq!(connected.unwrap().0, ours.public().to_peer_id());
        assert_eq!(accepted.unwrap().0, theirs.public().to_peer_id());
    }

    #[derive(Debug)]
    struct NoCertificate;

    impl rustls::client::ResolvesClientCert for NoCertificate {
        fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            None
        }

        fn has_certs(&self) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn a_peer_without_a_certificate_is_rejected() {
        let keypair = Keypair::generate_ed25519();
        let tls = Tls::new(&keypair).unwrap();
        let mut client = ClientConfig::clone(&tls.client);
        client.client_auth_cert_resolver = Arc::new(NoCertificate);
        let (dialled, accepted) = sockets().await;
        let anonymous = Tls { client: Arc::new(client), server: Arc::clone(&tls.server) };
        let (_, accepted) = tokio::join!(anonymous.connect(dialled), tls.accept(accepted));
        assert!(accepted.is_err());
    }
}
