//! Verifies tokens with the server's keys.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Validation;
use jsonwebtoken::errors::ErrorKind;
use serde::Deserialize;
use serde_json::Value;
use watchfire_settings::read_secret;

use crate::claims::Claims;
use crate::cryptography;
use crate::error::{AuthError, TokenFault};
use crate::grant::Grant;
use crate::jwks::JwkSet;
use crate::keys::{Key, algorithm_of};
use crate::settings::AuthSettings;
use crate::{Auth, FetchGuard, TOKEN_BYTES_MAX};

/// Reads the keys. `None`: the settings have no key.
pub fn open(settings: &AuthSettings) -> Result<Option<Arc<dyn Auth>>, AuthError> {
    if !settings.is_on() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Verifier::open(settings)?)))
}

/// Keys with which one token is tried. Only tokens without a key id are tried with several.
const TRIES_MAX: usize = 8;

/// The server's keys, and its rules for the claims of tokens.
struct Verifier {
    settings: AuthSettings,
    /// The keys of the settings.
    own: Vec<Key>,
    /// `None`: the settings have no JWK set.
    jwks: Option<Arc<JwkSet>>,
}

impl Verifier {
    /// Reads the keys.
    pub fn open(settings: &AuthSettings) -> Result<Verifier, AuthError> {
        cryptography::install();
        let jwks = JwkSet::open(settings)?.map(Arc::new);
        let secret = secret(settings)?;
        let mut own = Vec::new();
        if let Some(secret) = secret {
            let len = secret.len();
            own.push(Key::of_secret(&secret).ok_or(AuthError::ShortSecret { len })?);
        }
        for path in &settings.public_key_files {
            let keys = Key::of_pem(&fs::read(path).map_err(|cause| unreadable(path, cause))?);
            own.extend(keys.map_err(|reason| AuthError::PublicKey { path: path.clone(), reason })?);
        }
        Ok(Verifier { settings: settings.clone(), own, jwks })
    }
}

impl Auth for Verifier {
    fn verify(&self, token: &str, now: Duration) -> Result<Grant, TokenFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let head = Head::of(token).ok_or(TokenFault::Malformed)?;
        let algorithm = algorithm_of(&head.alg).ok_or(TokenFault::Algorithm)?;
        // The server knows no extension, and RFC 7515, 4.1.11 requires to refuse unknown ones.
        if head.crit.is_some() {
            return Err(TokenFault::CriticalHeader);
        }
        let fetched = self.jwks.as_ref().and_then(|jwks| jwks.keys());
        let mut fault = match self.jwks.is_some() && fetched.is_none() {
            true => TokenFault::KeysNotFetched,
            false => TokenFault::UnknownKey,
        };
        let fetched = fetched.as_deref().unwrap_or_default();
        let fits = |key: &&Key| {
            let is_named = match (&head.kid, &key.id) {
                (Some(wanted), Some(id)) => **wanted == **id,
                _ => true,
            };
            is_named && key.algorithm == algorithm
        };
        for key in self.own.iter().chain(fetched).filter(fits).take(TRIES_MAX) {
            match claims(token, key) {
                Ok(claims) => return Grant::of(claims, &self.settings, now),
                Err(other) => fault = other,
            }
        }
        let has_id = |kid: &str| fetched.iter().any(|key| key.id.as_deref() == Some(kid));
        if let Some(jwks) = &self.jwks
            && !head.kid.as_deref().is_some_and(has_id)
        {
            jwks.unknown_key.notify_one();
        }
        Err(fault)
    }

    fn expiry_notice(&self) -> Duration {
        self.settings.expiry_notice
    }

    fn has_keys(&self) -> bool {
        self.jwks.as_ref().is_none_or(|jwks| jwks.keys().is_some())
    }

    fn first_fetch(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if let Some(jwks) = &self.jwks {
                jwks.first_fetch().await;
            }
        })
    }

    fn start_fetching(&self) -> Result<Option<FetchGuard>, AuthError> {
        self.jwks.as_ref().map(JwkSet::start_fetching).transpose()
    }
}

/// The claims of a token that this key has signed.
fn claims(token: &str, key: &Key) -> Result<Claims, TokenFault> {
    let mut validation = Validation::new(key.algorithm);
    // `Grant::of` checks the claims, against the clock of its caller.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let decoded = jsonwebtoken::decode(token, &key.decoding, &validation);
    decoded.map(|token| token.claims).map_err(|error| match error.kind() {
        ErrorKind::InvalidToken | ErrorKind::Base64(_) => TokenFault::Malformed,
        ErrorKind::Json(_) | ErrorKind::Utf8(_) => TokenFault::Claims,
        _ => TokenFault::Signature,
    })
}

/// The members of a token's head (RFC 7515, 4.1) that the server reads.
#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Head {
    fn of(token: &str) -> Option<Head> {
        let (head, _) = token.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()
    }
}

fn secret(settings: &AuthSettings) -> Result<Option<Vec<u8>>, AuthError> {
    let AuthSettings { hs256_secret, hs256_secret_file, .. } = settings;
    match (hs256_secret.is_empty(), hs256_secret_file.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Ok(Some(hs256_secret.clone().into_bytes())),
        (false, false) => Err(AuthError::TwoSecrets),
        (true, false) => {
            let secret = read_secret(hs256_secret_file);
            secret.map(Some).map_err(|cause| unreadable(hs256_secret_file, cause))
        }
    }
}

fn unreadable(path: &Path, cause: io::Error) -> AuthError {
    AuthError::Unreadable { path: path.into(), cause }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};
    use rcgen::{
        KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SigningKey,
    };
    use serde_json::json;
    use sha2::Sha256;

    use super::*;
    use crate::error::TokenRefusal;
    use crate::keys::keys_of_set;

    const SECRET: &str = "an HS256 secret of 32 bytes or more";
    const NOW: u64 = 1_700_000_000;

    fn now() -> Duration {
        Duration::from_secs(NOW)
    }

    fn settings() -> AuthSettings {
        let leeway = Duration::ZERO;
        AuthSettings { hs256_secret: SECRET.into(), leeway, ..AuthSettings::default() }
    }

    fn auth() -> Verifier {
        open(settings())
    }

    fn open(settings: AuthSettings) -> Verifier {
        Verifier::open(&settings).expect("the settings are valid")
    }

    impl Verifier {
        fn set_fetched(&self, keys: Vec<Key>) {
            self.jwks.as_ref().unwrap().set(keys);
        }

        /// The answer that a client gets about its token.
        fn outcome(&self, token: &str, now: Duration) -> Result<Grant, TokenRefusal> {
            self.verify(token, now).map_err(TokenFault::refusal)
        }
    }

    fn encode(part: &Value) -> String {
        URL_SAFE_NO_PAD.encode(part.to_string())
    }

    fn signed(head: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
        let message = format!("{}.{}", encode(head), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
        let mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    }

    fn hs256(claims: &Value) -> String {
        let head = json!({ "alg": "HS256", "typ": "JWT" });
        signed(&head, claims, |message| hmac(SECRET.as_bytes(), message))
    }

    fn eddsa(key: &KeyPair, kid: Option<&str>, claims: &Value) -> String {
        let head = json!({ "alg": "EdDSA", "kid": kid });
        signed(&head, claims, |message| key.sign(message).unwrap())
    }

    fn claims() -> Value {
        json!({
            "sub": "42",
            "exp": NOW + 60,
            "channels": { "join": ["orders:*"], "publish": ["orders:42"] },
            "meta": { "name": "Ada" },
        })
    }

    /// The usual claims with one of another value. Null removes it.
    fn claims_with(name: &str, value: Value) -> Value {
        let mut claims = claims();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        claims
    }

    fn verify(claims: &Value) -> Result<Grant, TokenRefusal> {
        auth().outcome(&hs256(claims), now())
    }

    fn pem_file(pem: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, pem).unwrap();
        file
    }

    fn open_pem(pem: &str) -> Result<Verifier, AuthError> {
        let file = pem_file(pem);
        let public_key_files = vec![file.path().to_owned()];
        Verifier::open(&AuthSettings { public_key_files, ..AuthSettings::default() })
    }

    #[test]
    fn a_valid_token_names_a_client_and_its_topics() {
        let grant = verify(&claims()).unwrap();
        assert_eq!((&*grant.subject, &*grant.id), ("42", "users:42"));
        assert_eq!(grant.meta, json!({ "name": "Ada" }));
        assert!(grant.may_join("orders:7") && !grant.may_join("order:7"));
        assert!(grant.may_publish("orders:42") && !grant.may_publish("orders:7"));
        assert_eq!(grant.remaining(now()), Duration::from_secs(60));

        let grant = verify(&claims_with("id", json!("team:7"))).unwrap();
        assert_eq!(&*grant.id, "team:7");
        let grant = verify(&claims_with("channels", Value::Null)).unwrap();
        assert!(!grant.may_join("orders:7"));
    }

    #[test]
    fn a_token_ends_with_the_second_of_its_exp() {
        let exp = |seconds: u64| verify(&claims_with("exp", json!(seconds))).map(|_| ());
        assert_eq!(exp(NOW - 1), Err(TokenRefusal::Expired));
        assert_eq!(exp(NOW), Err(TokenRefusal::Expired));
        assert_eq!(exp(NOW + 1), Ok(()));
        assert!(verify(&claims_with("exp", json!(NOW as f64 + 0.5))).is_ok());
        assert!(verify(&claims_with("exp", json!(1e300))).is_ok());

        let lenient = open(AuthSettings { leeway: Duration::from_secs(5), ..settings() });
        let token = |exp: u64| hs256(&claims_with("exp", json!(exp)));
        assert!(lenient.outcome(&token(NOW - 4), now()).is_ok());
        assert_eq!(lenient.outcome(&token(NOW - 5), now()), Err(TokenRefusal::Expired));
    }

    #[test]
    fn a_token_whose_nbf_is_in_the_future_is_invalid() {
        assert!(verify(&claims_with("nbf", json!(NOW))).is_ok());
        assert_eq!(verify(&claims_with("nbf", json!(NOW + 1))), Err(TokenRefusal::Invalid));
    }

    #[test]
    fn a_claim_that_nobody_has_set_is_absent_as_go_and_php_write_it() {
        let unset = [
            ("channels", json!({ "join": null, "publish": null })),
            ("channels", json!([])),
            ("meta", json!([])),
        ];
        let nulls = ["channels", "meta", "aud", "iss", "nbf", "id"].map(|name| (name, Value::Null));
        for (name, value) in unset.into_iter().chain(nulls) {
            let mut claims = claims();
            claims[name] = value.clone();
            let grant = verify(&claims).unwrap_or_else(|_| panic!("{name}: {value}"));
            assert_eq!(grant.meta == json!({}), name == "meta", "{name}: {value}");
            assert_eq!(grant.may_join("orders:7"), name != "channels", "{name}: {value}");
        }
    }

    #[test]
    fn the_longest_user_has_an_id() {
        let user = "x".repeat(128);
        let grant = verify(&claims_with("sub", json!(user))).unwrap();
        assert_eq!((&*grant.subject, &*grant.id), (&*user, &*format!("users:{user}")));
    }

    #[test]
    fn a_token_without_a_proper_claim_is_invalid() {
        let many: Vec<String> = (0..=100).map(|number| format!("orders:{number}")).collect();
        for (name, value) in [
            ("sub", Value::Null),
            ("sub", json!("")),
            ("sub", json!(42)),
            ("sub", json!("a\u{0}b")),
            ("sub", json!("x".repeat(129))),
            ("exp", Value::Null),
            ("exp", json!("1800000000")),
            ("exp", json!(-1)),
            ("nbf", json!("soon")),
            ("id", json!("")),
            ("id", json!(["a"])),
            ("meta", json!("text")),
            ("meta", json!({ "a": "x".repeat(4_100) })),
            ("channels", json!(["orders:*"])),
            ("channels", json!({ "jion": ["orders:*"] })),
            ("channels", json!({ "join": "orders:*" })),
            ("channels", json!({ "join": ["ord*rs"] })),
            ("channels", json!({ "join": [""] })),
            ("channels", json!({ "publish": many })),
        ] {
            let refused = verify(&claims_with(name, value.clone()));
            assert_eq!(refused, Err(TokenRefusal::Invalid), "{name}: {value}");
        }
        assert_eq!(verify(&json!("text")), Err(TokenRefusal::Invalid));
    }

    #[test]
    fn the_issuer_and_the_audience_must_be_those_of_the_settings() {
        let auth = open(AuthSettings { issuer: "me".into(), audience: "you".into(), ..settings() });
        let verify = |iss: Value, aud: Value| {
            let mut claims = claims_with("iss", iss);
            claims["aud"] = aud;
            auth.outcome(&hs256(&claims), now()).map(|_| ())
        };
        assert_eq!(verify(json!("me"), json!("you")), Ok(()));
        assert_eq!(verify(json!("me"), json!(["others", "you"])), Ok(()));
        for (iss, aud) in [
            (Value::Null, json!("you")),
            (json!("other"), json!("you")),
            (json!(["me"]), json!("you")),
            (json!("me"), json!("others")),
            (json!("me"), json!([])),
            (json!("me"), json!({ "you": 1 })),
        ] {
            assert_eq!(verify(iss.clone(), aud.clone()), Err(TokenRefusal::Invalid), "{iss} {aud}");
        }
        let without = hs256(&claims_with("iss", json!("me")));
        assert_eq!(auth.outcome(&without, now()), Err(TokenRefusal::Invalid));
    }

    #[test]
    fn a_text_that_is_not_a_token_is_invalid() {
        let whole = hs256(&claims());
        let [head, claims, signature] = whole.split('.').collect::<Vec<_>>()[..] else {
            unreachable!("a token has three parts")
        };
        for text in [
            "",
            ".",
            "..",
            "...",
            "a.b.c",
            "é.é.é",
            head,
            &format!("{head}.{claims}"),
            &format!("{head}.{claims}."),
            &format!("{head}.{claims}.{signature}."),
            &format!("{head}.{claims}.{signature}.{signature}"),
            &format!("{head}.{claims}.{signature}="),
            &format!("{head}.{claims}.!{signature}"),
            &format!("!{head}.{claims}.{signature}"),
            &format!("{head}.!{claims}.{signature}"),
            &format!("{}.{claims}.{signature}", encode(&json!("text"))),
            &format!("{}.{claims}.{signature}", URL_SAFE_NO_PAD.encode("[".repeat(4_000))),
            &whole[1..],
        ] {
            assert_eq!(auth().outcome(text, now()), Err(TokenRefusal::Invalid), "{text}");
        }
    }

    #[test]
    fn a_changed_token_is_invalid() {
        let token = hs256(&claims());
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // The last character has bits that belong to no byte. A change of only these is refused.
            assert_eq!(auth().outcome(&changed, now()), Err(TokenRefusal::Invalid), "{changed}");
        }
    }

    #[test]
    fn a_token_over_the_bound_is_refused_before_it_is_parsed() {
        let meta = |bytes: usize| hs256(&claims_with("meta", json!({ "a": "x".repeat(bytes) })));
        assert!(auth().outcome(&meta(4_000), now()).is_ok());
        assert_eq!(auth().outcome(&meta(8_000), now()), Err(TokenRefusal::Invalid));
        assert_eq!(auth().outcome(&meta(1 << 20), now()), Err(TokenRefusal::Invalid));
    }

    #[test]
    fn a_token_cannot_do_without_a_signature() {
        for alg in ["none", "None", "NONE", "", "HS384", "RS512", "hs256"] {
            let head = json!({ "alg": alg });
            for signature in [Vec::new(), hmac(SECRET.as_bytes(), b"")] {
                let token = signed(&head, &claims(), |_| signature.clone());
                assert_eq!(auth().outcome(&token, now()), Err(TokenRefusal::Invalid), "{alg}");
            }
            let token = signed(&head, &claims(), |message| hmac(SECRET.as_bytes(), message));
            assert_eq!(auth().outcome(&token, now()), Err(TokenRefusal::Invalid), "{alg}");
        }
    }

    #[test]
    fn a_token_of_another_key_is_invalid() {
        let head = json!({ "alg": "HS256" });
        for secret in ["another HS256 secret of 32 bytes or more", ""] {
            let token = signed(&head, &claims(), |message| hmac(secret.as_bytes(), message));
            assert_eq!(auth().outcome(&token, now()), Err(TokenRefusal::Invalid));
        }
    }

    #[test]
    fn a_public_key_is_never_a_secret() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let pem = key.public_key_pem();
        let auth = open_pem(&pem).unwrap();
        let raw = key.public_key_raw();
        for secret in [pem.as_bytes(), pem.trim().as_bytes(), raw, b""] {
            let head = json!({ "alg": "HS256" });
            let token = signed(&head, &claims(), |message| hmac(secret, message));
            assert_eq!(auth.outcome(&token, now()), Err(TokenRefusal::Invalid));
            // Nor does the name of its own algorithm make it one.
            let head = json!({ "alg": "ES256" });
            let token = signed(&head, &claims(), |message| hmac(secret, message));
            assert_eq!(auth.outcome(&token, now()), Err(TokenRefusal::Invalid));
        }
    }

    #[test]
    fn an_extension_that_the_token_requires_is_unknown() {
        let head = json!({ "alg": "HS256", "crit": ["exp"] });
        let token = signed(&head, &claims(), |message| hmac(SECRET.as_bytes(), message));
        assert_eq!(auth().outcome(&token, now()), Err(TokenRefusal::Invalid));
    }

    #[test]
    fn an_ed25519_key_verifies_its_own_tokens_only() {
        let [key, other] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ED25519).unwrap());
        let auth = open_pem(&key.public_key_pem()).unwrap();
        assert!(auth.outcome(&eddsa(&key, None, &claims()), now()).is_ok());
        let refused = auth.outcome(&eddsa(&other, None, &claims()), now());
        assert_eq!(refused, Err(TokenRefusal::Invalid));
    }

    #[test]
    fn a_key_that_cannot_be_used_prevents_the_start() {
        let reason = |pem: &str| match open_pem(pem) {
            Err(AuthError::PublicKey { reason, .. }) => reason,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("the key was accepted"),
        };
        let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        assert_eq!(reason(&p384.public_key_pem()), "its curve is not P-256");
        assert!(reason(&p384.serialize_pem()).starts_with("there is no section BEGIN PUBLIC KEY"));
        assert!(reason("text").starts_with("there is no section BEGIN PUBLIC KEY"));
        let bad = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
        assert_eq!(reason(bad), "it is not valid DER");

        let refused = |settings: AuthSettings| Verifier::open(&settings).err().unwrap().to_string();
        let short = AuthSettings { hs256_secret: "x".repeat(31), ..AuthSettings::default() };
        assert!(refused(short).contains("it has 31 bytes"));
        let file = pem_file(&format!("{}\r\n", "x".repeat(31)));
        let short =
            AuthSettings { hs256_secret_file: file.path().to_owned(), ..AuthSettings::default() };
        assert!(refused(short.clone()).contains("it has 31 bytes"));
        assert!(refused(AuthSettings { hs256_secret: SECRET.into(), ..short }).contains("both"));
        for url in ["login", "ftp://a/b", "https://", "file:///etc/passwd"] {
            let settings = AuthSettings { jwks_url: url.into(), ..AuthSettings::default() };
            assert!(refused(settings).contains("auth.jwks_url"), "{url}");
        }
        assert!(super::super::open(&AuthSettings::default()).unwrap().is_none());
    }

    fn jwk(key: &KeyPair, kid: &str) -> Value {
        let x = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x })
    }

    /// Whether a verification has asked for a fetch of the JWK set.
    fn has_asked(auth: &Verifier) -> bool {
        let notified = std::pin::pin!(auth.jwks.as_ref().unwrap().unknown_key.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        notified.poll(&mut context).is_ready()
    }

    #[test]
    fn a_token_with_an_unknown_key_id_asks_for_a_fetch() {
        let url = "https://localhost/jwks".to_owned();
        let auth = open(AuthSettings { jwks_url: url, ..AuthSettings::default() });
        let [old, new] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ED25519).unwrap());
        let set = |keys: &[Value]| keys_of_set(json!({ "keys": keys }).to_string().as_bytes());
        auth.set_fetched(set(&[jwk(&old, "old")]).unwrap());
        assert!(auth.outcome(&eddsa(&old, Some("old"), &claims()), now()).is_ok());
        assert!(auth.outcome(&eddsa(&old, None, &claims()), now()).is_ok());
        assert!(!has_asked(&auth));

        // A token of a known id with another signature is a forgery, and no reason to fetch.
        let forged = auth.outcome(&eddsa(&new, Some("old"), &claims()), now());
        assert_eq!(forged, Err(TokenRefusal::Invalid));
        assert!(!has_asked(&auth));

        let token = eddsa(&new, Some("new"), &claims());
        assert_eq!(auth.outcome(&token, now()), Err(TokenRefusal::Invalid));
        assert!(has_asked(&auth));
        auth.set_fetched(set(&[jwk(&old, "old"), jwk(&new, "new")]).unwrap());
        assert!(auth.outcome(&token, now()).is_ok());
        let swapped = auth.outcome(&eddsa(&new, Some("old"), &claims()), now());
        assert_eq!(swapped, Err(TokenRefusal::Invalid));
    }

    #[test]
    fn other_kinds_of_keys_in_a_jwk_set_are_ignored() {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let with = |name: &str, value: Value| {
            let mut jwk = jwk(&key, "a");
            jwk[name] = value;
            jwk
        };
        let secret = json!({ "kty": "oct", "alg": "HS256", "k": encode(&json!(SECRET)) });
        let weak = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" });
        let curve = json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" });
        for unusable in [
            secret,
            weak,
            curve,
            with("use", json!("enc")),
            with("alg", json!("HS256")),
            with("x", json!("AA")),
            with("x", json!("!")),
            with("crv", json!("Ed448")),
            with("kid", json!(7)),
            json!("text"),
            json!({}),
        ] {
            let alone = json!({ "keys": [unusable] }).to_string();
            assert!(keys_of_set(alone.as_bytes()).is_err(), "{alone}");
            let among = json!({ "keys": [unusable, jwk(&key, "a")] }).to_string();
            assert_eq!(keys_of_set(among.as_bytes()).unwrap().len(), 1, "{among}");
        }
        for named in ["EdDSA", "Ed25519"] {
            let set = json!({ "keys": [with("alg", json!(named))] }).to_string();
            assert_eq!(keys_of_set(set.as_bytes()).unwrap().len(), 1);
        }
        for body in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, "<html>"] {
            assert!(keys_of_set(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn each_fault_of_a_token_has_its_name() {
        let settings = AuthSettings { issuer: "me".into(), audience: "you".into(), ..settings() };
        let auth = open(settings);
        let claims = json!({ "sub": "42", "exp": NOW + 60, "iss": "me", "aud": "you" });
        let with = |name: &str, value: Value| {
            let mut claims = claims.clone();
            claims[name] = value;
            hs256(&claims)
        };
        let head = |head: Value| signed(&head, &claims, |text| hmac(SECRET.as_bytes(), text));
        let many: Vec<String> = (0..101).map(|number| format!("t:{number}")).collect();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        for (token, fault) in [
            ("x".repeat(TOKEN_BYTES_MAX + 1), "too_long"),
            ("text".into(), "malformed"),
            ("e30.e30.e30".into(), "malformed"),
            (head(json!({ "alg": "none" })), "algorithm"),
            (head(json!({ "alg": "HS512" })), "algorithm"),
            (head(json!({ "alg": "HS256", "crit": ["b64"] })), "critical_header"),
            (eddsa(&key, None, &claims), "unknown_key"),
            (format!("{}A", with("meta", json!({}))), "signature"),
            (signed(&json!({ "alg": "HS256" }), &claims, |_| vec![0; 32]), "signature"),
            (hs256(&json!({ "sub": "42" })), "claims"),
            (with("exp", json!("soon")), "claims"),
            (hs256(&json!("text")), "claims"),
            (with("sub", json!("")), "subject"),
            (with("iss", json!("other")), "issuer"),
            (with("aud", json!("other")), "audience"),
            (with("nbf", json!(NOW + 1)), "not_yet_valid"),
            (with("meta", json!({ "text": "x".repeat(5_000) })), "meta_too_large"),
            (with("channels", json!({ "join": many })), "patterns"),
            (with("exp", json!(NOW)), "expired"),
        ] {
            let refused = auth.verify(&token, now()).map(|_| ()).map_err(TokenFault::name);
            assert_eq!(refused, Err(fault), "{token}");
        }
        assert!(auth.verify(&with("meta", json!({})), now()).is_ok());
    }

    #[test]
    fn before_the_first_fetch_of_the_jwk_set_a_token_has_the_fault_that_keys_are_missing() {
        let jwks_url = "http://127.0.0.1:9/jwks.json".into();
        let auth = open(AuthSettings { jwks_url, ..AuthSettings::default() });
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let token = eddsa(&key, Some("new"), &claims());
        assert!(!auth.has_keys());
        assert_eq!(auth.verify(&token, now()), Err(TokenFault::KeysNotFetched));
        auth.set_fetched(Vec::new());
        assert!(auth.has_keys());
        assert_eq!(auth.verify(&token, now()), Err(TokenFault::UnknownKey));
    }
}
