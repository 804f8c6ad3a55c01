//! The signatures of tokens, verified by *ring*, which TLS uses too.
//!
//! `jsonwebtoken` brings libraries of its own; this server needs no second one.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(unsupported()),
    verifier_factory: |algorithm, key| {
        let is_supported = matches!(
            algorithm,
            Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA
        );
        match is_supported && key.family() == algorithm.family() {
            true => Ok(Box::new(RingVerifier::new(*algorithm, key.clone()))),
            false => Err(unsupported()),
        }
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has `jsonwebtoken` verify with *ring*. An application may have set another library before; then
/// that one verifies.
pub(crate) fn install() {
    RING.install_default().ok();
}

fn unsupported() -> Error {
    ErrorKind::UnsupportedAlgorithm.into()
}

pub(crate) struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl RingVerifier {
    pub fn new(algorithm: Algorithm, key: DecodingKey) -> RingVerifier {
        RingVerifier { algorithm, key }
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let refused = |_| signature::Error::new();
        let rsa = &RSA_PKCS1_2048_8192_SHA256;
        let bytes = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                return RsaPublicKeyComponents { n, e }
                    .verify(rsa, message, signed)
                    .map_err(refused);
            }
            DecodingKeyKind::SecretOrDer(bytes) => bytes,
        };
        let public: &dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::HS256 => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
                return hmac::verify(&key, message, signed).map_err(refused);
            }
            Algorithm::RS256 => rsa,
            Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::EdDSA => &ED25519,
            _ => return Err(signature::Error::new()),
        };
        UnparsedPublicKey::new(public, bytes).verify(message, signed).map_err(refused)
    }
}
