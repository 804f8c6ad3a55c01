//! Checks the imports between crates, and the rules of the pure crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of this workspace that it may import. ARCHITECTURE.md draws the same
/// arrows.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("report", &[]),
    ("content", &[]),
    ("encryption", &[]),
    ("channels", &["types"]),
    ("history", &["types"]),
    ("hub", &["types"]),
    ("tracker", &["types"]),
    ("sockets", &["types"]),
    ("bitswap", &["types", "content"]),
    ("fleet", &["types"]),
    ("bus", &["types"]),
    ("nats", &["types", "bus"]),
    ("store", &["content", "encryption"]),
    ("p2p", &["types", "content", "bitswap", "store", "traces"]),
    ("page-client", &["types", "content", "bitswap", "p2p"]),
    ("sim", &["types", "content", "bitswap", "fleet", "report"]),
    ("stun", &["types"]),
    ("traces", &["types"]),
    ("mirror", &["types", "content", "bitswap", "fleet", "store", "p2p", "traces"]),
    ("workers", &["types"]),
    (
        "server",
        &[
            "types",
            "content",
            "channels",
            "history",
            "hub",
            "tracker",
            "bitswap",
            "sockets",
            "bus",
            "nats",
            "workers",
            "traces",
            "store",
            "p2p",
            "page-client",
            "stun",
        ],
    ),
    ("watchfire", &["server"]),
    ("load", &["types", "report"]),
    (
        "cli",
        &[
            "server",
            "load",
            "content",
            "encryption",
            "store",
            "p2p",
            "page-client",
            "sim",
            "report",
            "mirror",
            "traces",
        ],
    ),
];

const PURE: &[&str] = &[
    "types",
    "content",
    "encryption",
    "channels",
    "history",
    "hub",
    "tracker",
    "bitswap",
    "fleet",
];

/// Dependencies that wait, generate random numbers, read clocks or open files.
const IMPURE: &[&str] =
    &["tokio", "mio", "rustix", "socket2", "hyper", "axum", "getrandom", "rand", "tracing", "libc"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder").into()
}

/// The dependencies of one crate, without those of its tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let mut is_dependency = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency = line == "[dependencies]";
        } else if is_dependency
            && !line.starts_with('#')
            && let Some(end) = line.find(['.', ' ', '='])
        {
            found.insert(line[..end].trim_start_matches("watchfire-").to_owned());
        }
    }
    found
}

#[test]
fn crates_import_only_what_the_map_allows() {
    let ours: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut folders: Vec<_> = fs::read_dir(crates())
        .expect("a folder of crates")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let drawn: Vec<String> = ours.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(folders, drawn, "the map must name every crate and no other");

    for (name, allowed) in &ours {
        for dependency in dependencies(name) {
            let is_ours = ours.contains_key(dependency.as_str());
            let is_allowed = !is_ours || allowed.contains(&dependency.as_str());
            assert!(is_allowed, "{name} may not import {dependency}");
        }
    }
}

#[test]
fn pure_crates_have_no_impure_dependencies() {
    for name in PURE {
        for dependency in dependencies(name) {
            assert!(!IMPURE.contains(&dependency.as_str()), "{name} may not use {dependency}");
        }
        let rules = fs::canonicalize(crates().join(name).join("clippy.toml")).expect("clippy.toml");
        assert!(rules.ends_with("pure.clippy.toml"), "{name} must use pure.clippy.toml");
    }
}

/// Whether a source file of the folder, or of a folder below, contains the word.
fn mentions(folder: &Path, word: &str) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return mentions(&path, word);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path)
                .expect("a source file")
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .any(|found| found == word)
    })
}

#[test]
fn every_dependency_is_used() {
    for (name, _) in ARROWS {
        for dependency in dependencies(name) {
            let word = dependency.replace('-', "_");
            let source = crates().join(name).join("src");
            let is_ours = ARROWS.iter().any(|(ours, _)| *ours == dependency);
            let word = if is_ours { format!("watchfire_{word}") } else { word };
            assert!(mentions(&source, &word), "{name} does not use {dependency}");
        }
    }
}
