//! Tests against `tests/vectors`, which the browser's implementation must pass as well, and the
//! properties of private pages.

mod cars;
mod cid_forms;
mod directories;
mod files;
mod live_pages;
mod nodes;
mod private_page_properties;
mod private_pages;
mod refused;
mod sharded_directories;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use watchfire_content::{HamtSizeEstimation, Profile, Version};

#[expect(clippy::disallowed_methods, reason = "the crate opens no files, its tests do")]
fn vectors<T: DeserializeOwned>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(file);
    let json = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// `cids.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cids {
    #[expect(dead_code, reason = "`generated` implements it")]
    rule: String,
    profiles: BTreeMap<String, NamedProfile>,
    files: Vec<files::GeneratedFile>,
    texts: Vec<files::TextFile>,
    directories: Vec<directories::DirectoryVector>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedProfile {
    cid_version: u8,
    raw_leaves: bool,
    chunk_bytes: usize,
    links_max: usize,
    hamt_size_estimation: SizeEstimation,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SizeEstimation {
    BlockBytes,
    LinksBytes,
}

impl Cids {
    fn read() -> Self {
        vectors("cids.json")
    }

    fn profile(&self, name: &str) -> Profile {
        let named = self.profiles[name];
        Profile {
            cid_version: if named.cid_version == 0 { Version::V0 } else { Version::V1 },
            raw_leaves: named.raw_leaves,
            chunk_bytes: named.chunk_bytes,
            links_max: named.links_max,
            hamt_size_estimation: match named.hamt_size_estimation {
                SizeEstimation::BlockBytes => HamtSizeEstimation::BlockBytes,
                SizeEstimation::LinksBytes => HamtSizeEstimation::LinksBytes,
            },
        }
    }
}

#[test]
fn our_profiles_equal_those_of_the_vectors() {
    let cids = Cids::read();
    assert_eq!(cids.profile("unixfs-v1-2025"), Profile::UNIXFS_V1_2025);
    assert_eq!(cids.profile("kubo-default"), Profile::KUBO_DEFAULT);
    assert_eq!(cids.profile("v1-256-kib"), Profile::V1_256_KIB);
    assert_eq!(cids.profile("v1-1-mib"), Profile::V1_1_MIB);
    assert_eq!(cids.profiles.len(), 4);
}

fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The bytes of a generated file: byte i is i mod 251. They come in pieces, because the largest
/// file has 300 MiB.
fn generated(mut bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let period: Vec<u8> = (0..251).collect::<Vec<u8>>().repeat(4096);
    std::iter::from_fn(move || {
        let piece = period[..bytes.min(period.len())].to_vec();
        bytes -= piece.len();
        (!piece.is_empty()).then_some(piece)
    })
}
