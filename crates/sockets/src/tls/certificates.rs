//! The certificates with which a TLS server answers handshakes.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;

/// The protocol of a handshake with which an ACME server validates a domain (RFC 8737).
pub(super) const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// Finds the certificate that proves control of a domain, by the domain in lower case. Called on a
/// shard's thread, for each handshake of an ACME server.
pub type FindChallenge = dyn Fn(&str) -> Option<Certificate> + Send + Sync;

/// The certificates with which a TLS server answers handshakes. They can be replaced at any time.
///
/// A replacement applies to new handshakes. Connections and sessions that exist continue.
#[derive(Default)]
pub struct Certificates {
    current: RwLock<Option<Certificate>>,
    find_challenge: Option<Box<FindChallenge>>,
}

impl Certificates {
    /// Starts with one certificate. `None`: handshakes fail until [`Certificates::replace`].
    pub fn new(current: Option<Certificate>) -> Self {
        Certificates { current: RwLock::new(current), find_challenge: None }
    }

    /// Also answers the handshakes of ACME servers (RFC 8737), with what `find` returns. If it
    /// returns `None`, the handshake fails.
    pub fn answer_challenges(
        self,
        find: impl Fn(&str) -> Option<Certificate> + Send + Sync + 'static,
    ) -> Self {
        Certificates { find_challenge: Some(Box::new(find)), ..self }
    }

    pub fn current(&self) -> Option<Certificate> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses this certificate for new handshakes.
    pub fn replace(&self, certificate: Certificate) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(certificate);
    }

    pub(super) fn answers_challenges(&self) -> bool {
        self.find_challenge.is_some()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificate = match is_challenge(&hello) {
            false => self.current(),
            true => {
                let domain = hello.server_name()?.to_ascii_lowercase();
                self.find_challenge.as_ref()?(&domain)
            }
        };
        certificate.map(|certificate| certificate.0)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("current", &self.current())
            .field("answers_challenges", &self.answers_challenges())
            .finish()
    }
}

/// Whether the client offers the protocol of ACME servers and no other (RFC 8737, 3).
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|offered| offered.eq([ACME_PROTOCOL]))
}
