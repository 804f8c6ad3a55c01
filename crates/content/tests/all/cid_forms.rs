use serde::Deserialize;
use watchfire_content::{Cid, CidError, HashFunction, Version};

use crate::{from_hex, vectors};

/// `cid_forms.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CidForms {
    accepted: Vec<Accepted>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    about: String,
    text: String,
    /// The text that we write, if it differs from `text`.
    canonical: Option<String>,
    hex: String,
    version: u8,
    codec: String,
    hash: String,
}

/// An invalid CID, as text or as bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    about: String,
    text: Option<String>,
    hex: Option<String>,
    reason: String,
}

#[test]
fn cids_are_read_and_written_in_both_forms() {
    for vector in vectors::<CidForms>("cid_forms.json").accepted {
        let about = &vector.about;
        let cid = Cid::parse(&vector.text).expect(about);
        assert_eq!(cid.to_string(), vector.canonical.unwrap_or(vector.text), "{about}");
        assert_eq!(cid.encode(), from_hex(&vector.hex), "{about}");
        assert_eq!(Cid::decode(&cid.encode()).as_ref(), Ok(&cid), "{about}");

        let version = if vector.version == 0 { Version::V0 } else { Version::V1 };
        assert_eq!(cid.version(), version, "{about}");
        assert_eq!(format!("{:#x}", cid.codec().0), vector.codec, "{about}");
        let hash = match cid.hash().function() {
            HashFunction::Identity => "identity",
            HashFunction::Sha2_256 => "sha2-256",
        };
        assert_eq!(hash, vector.hash, "{about}");
    }
}

#[test]
fn invalid_cids_are_rejected_with_the_cause() {
    for vector in vectors::<CidForms>("cid_forms.json").refused {
        let refused = match (&vector.text, &vector.hex) {
            (Some(text), None) => Cid::parse(text),
            (None, Some(hex)) => Cid::decode(&from_hex(hex)),
            _ => panic!("{}: not exactly one of text and hex", vector.about),
        };
        let reason = reason(&refused.expect_err(&vector.about));
        assert_eq!(reason, vector.reason, "{}", vector.about);
    }
}

fn reason(error: &CidError) -> &'static str {
    match error {
        CidError::Empty => "empty",
        CidError::TooLong { .. } => "too-long",
        CidError::Base { .. } => "base",
        CidError::Character { .. } => "character",
        CidError::Padding => "padding",
        CidError::Varint(_) => "varint",
        CidError::Version { .. } => "version",
        CidError::Hash { .. } => "hash",
        CidError::DigestLength { .. } => "digest-length",
        CidError::Truncated => "truncated",
        CidError::TrailingBytes { .. } => "trailing-bytes",
    }
}
