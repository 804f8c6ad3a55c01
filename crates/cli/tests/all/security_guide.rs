//! The guide to secure a server names tests. They must exist.

use std::collections::BTreeMap;
use std::fs;

use crate::support::repository;

const SOURCES: &str = "https://github.com/watchfire/watchfire/blob/main/";

#[test]
fn every_test_that_the_guide_names_is_in_the_file_that_it_links() {
    let repository = repository();
    let guide = fs::read_to_string(repository.join("docs/how-to/secure.md")).expect("the guide");
    let files: BTreeMap<&str, &str> = guide
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
        .map(|(key, url)| (key, url.strip_prefix(SOURCES).expect("a file of the project")))
        .collect();

    let mut named = 0;
    for link in guide.split("[`").skip(1) {
        let (name, rest) = link.split_once("`][").expect("a test links its file");
        let key = rest.split(']').next().expect("the key of a file");
        let file = files.get(key).unwrap_or_else(|| panic!("{key} has no file"));
        let source = fs::read_to_string(repository.join(file)).expect(file);
        // A function in Rust, a text in JavaScript.
        let (function, text) = (format!("fn {name}()"), format!("'{name}'"));
        let is_there = source.contains(&function) || source.contains(&text);
        assert!(is_there, "{name} is not in {file}");
        named += 1;
    }
    assert!(named > 30, "the guide names its tests: {named}");

    // Each line of a checklist ends with its tests.
    let tables = ["## Checklist", "## Resources"];
    for table in tables {
        let (_, rows) = guide.split_once(table).expect(table);
        let rows = rows.split("\n## ").next().expect("the section");
        for row in rows.lines().filter(|line| line.starts_with("| ") && !line.ends_with("test |")) {
            assert!(row.contains("`]["), "no test: {row}");
        }
    }
}
