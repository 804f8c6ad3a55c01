//! Keys, each with the one algorithm that it verifies.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::Value;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::error::SECRET_BYTES_MIN;

/// The least length of an RSA modulus (RFC 7518, 3.3). Shorter keys can be factored.
const RSA_BYTES_MIN: usize = 256;
/// The longest RSA modulus that the cryptography verifies.
const RSA_BYTES_MAX: usize = 1024;
/// The coordinates of a point on P-256, and an Ed25519 key.
const COORDINATE_BYTES: usize = 32;
/// Keys of one JWK set. Further ones are ignored.
const JWKS_KEYS_MAX: usize = 100;

/// A key that verifies tokens.
#[derive(Clone)]
pub(crate) struct Key {
    /// The key's id in a JWK set.
    pub id: Option<Box<str>>,
    /// The only algorithm of this key.
    pub algorithm: Algorithm,
    pub decoding: DecodingKey,
}

impl Key {
    fn new(algorithm: Algorithm, decoding: DecodingKey) -> Key {
        Key { id: None, algorithm, decoding }
    }

    /// The key of HS256 tokens. `None`: the secret is too short.
    pub fn of_secret(secret: &[u8]) -> Option<Key> {
        let is_long = secret.len() >= SECRET_BYTES_MIN;
        is_long.then(|| Key::new(Algorithm::HS256, DecodingKey::from_secret(secret)))
    }

    /// The public keys of a PEM file.
    pub fn of_pem(pem: &[u8]) -> Result<Vec<Key>, &'static str> {
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem)
            .map(|der| Key::of_der(&der.map_err(|_| "it is not valid PEM")?));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.is_empty() {
            true => Err("there is no section BEGIN PUBLIC KEY; convert the key to that form"),
            false => Ok(keys),
        }
    }

    /// A public key in the form of RFC 5280, 4.1 (SubjectPublicKeyInfo).
    fn of_der(der: &[u8]) -> Result<Key, &'static str> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| "it is not valid DER")?;
        let bytes: &[u8] = &info.subject_public_key.data;
        match info.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.1" => {
                let Ok(PublicKey::RSA(key)) = info.parsed() else {
                    return Err("it is not a valid RSA key");
                };
                check_modulus(key.modulus)?;
                Ok(Key::new(Algorithm::RS256, DecodingKey::from_rsa_der(bytes)))
            }
            "1.2.840.10045.2.1" => {
                let parameters = info.algorithm.parameters.as_ref();
                let curve = parameters.and_then(|curve| curve.as_oid().ok());
                let is_p256 = curve.is_some_and(|id| id.to_id_string() == "1.2.840.10045.3.1.7");
                if !is_p256 {
                    return Err("its curve is not P-256");
                }
                match bytes {
                    [0x04, point @ ..] if point.len() == 2 * COORDINATE_BYTES => {
                        Ok(Key::new(Algorithm::ES256, DecodingKey::from_ec_der(bytes)))
                    }
                    _ => Err("its point is compressed or has a wrong length"),
                }
            }
            "1.3.101.112" if bytes.len() == COORDINATE_BYTES => {
                Ok(Key::new(Algorithm::EdDSA, DecodingKey::from_ed_der(bytes)))
            }
            _ => Err("it is not an RSA, P-256 or Ed25519 key"),
        }
    }

    /// A key of a JWK set (RFC 7517). `None` for keys of other kinds, which the set may have too,
    /// and for symmetric keys: a public document cannot contain a secret.
    fn of_jwk(value: Value) -> Option<Key> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let is_coordinate = |text: &str| decode(text).is_some_and(|b| b.len() == COORDINATE_BYTES);
        let (algorithm, decoding) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (decode(&jwk.n?)?, decode(&jwk.e?)?);
                check_modulus(&n).ok()?;
                (Algorithm::RS256, DecodingKey::from_rsa_raw_components(&n, &e))
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (jwk.x?, jwk.y?);
                let is_point = is_coordinate(&x) && is_coordinate(&y);
                let key = is_point.then(|| DecodingKey::from_ec_components(&x, &y).ok())??;
                (Algorithm::ES256, key)
            }
            ("OKP", Some("Ed25519")) => {
                let x = jwk.x.filter(|x| is_coordinate(x))?;
                (Algorithm::EdDSA, DecodingKey::from_ed_components(&x).ok()?)
            }
            _ => return None,
        };
        let is_for_signatures = jwk.usage.is_none_or(|usage| usage == "sig");
        let is_for_algorithm = jwk.alg.is_none_or(|alg| algorithm_of(&alg) == Some(algorithm));
        let id = jwk.kid.map(Into::into);
        (is_for_signatures && is_for_algorithm).then_some(Key { id, algorithm, decoding })
    }
}

/// The usable keys of a JWK set.
pub(crate) fn keys_of_set(body: &[u8]) -> Result<Vec<Key>, &'static str> {
    let set: JwkSet = serde_json::from_slice(body).map_err(|_| "it is not a JWK set")?;
    let count = set.keys.len();
    if count > JWKS_KEYS_MAX {
        tracing::warn!(count, max = JWKS_KEYS_MAX, "the JWK set has more keys than are read");
    }
    let keys: Vec<Key> = set.keys.into_iter().take(JWKS_KEYS_MAX).filter_map(Key::of_jwk).collect();
    match keys.is_empty() {
        true => Err("it has no RSA, P-256 or Ed25519 key for signatures"),
        false => Ok(keys),
    }
}

/// The algorithm with this name, if the server verifies it.
pub(crate) fn algorithm_of(name: &str) -> Option<Algorithm> {
    match name {
        "HS256" => Some(Algorithm::HS256),
        "RS256" => Some(Algorithm::RS256),
        "ES256" => Some(Algorithm::ES256),
        // RFC 9864 replaces the name EdDSA by the name of the curve.
        "EdDSA" | "Ed25519" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

fn check_modulus(modulus: &[u8]) -> Result<(), &'static str> {
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    match modulus.len() - zeros {
        ..RSA_BYTES_MIN => Err("its RSA modulus is shorter than 2048 bits"),
        RSA_BYTES_MIN..=RSA_BYTES_MAX => Ok(()),
        _ => Err("its RSA modulus is longer than 8192 bits"),
    }
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

/// The members of a JWK that the server reads.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}
