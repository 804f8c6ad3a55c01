//! The border between the server and its features: their words stand in no file of the server or of the
//! operator's listener. The imports are not enough for that: a metric, a topic or a setting is a string.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file in a folder and in the folders in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path => vec![path],
    });
    found.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// The lines of a crate's sources that have one of these words.
fn lines_with(name: &str, words: &[&str]) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder");
    let sources = sources(&crates.join(name).join("src"));
    assert!(sources.len() > 10, "{name} has sources");
    let mut found = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source").to_lowercase();
        for (line, number) in text.lines().zip(1..) {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    found
}

#[test]
fn the_server_has_no_word_of_pages() {
    let found = lines_with("server", &["page", "sprite", "stun", "relay", "p2p"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The operator's listener has a page of its own, so only the plural is a word of the feature.
#[test]
fn the_operators_listener_has_no_word_of_pages() {
    let found = lines_with("operator", &["pages", "sprite", "stun", "relay", "p2p"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_word_of_pages_is_found_where_it_stands() {
    assert!(lines_with("pages", &["sprite"]).len() > 100);
}
