//! Imports inside the server point one way: between its folders in the order listed here, and
//! between the files of a folder without cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders and files of `src`, from the bottom up. Each may import only those before it.
const ORDER: &[&str] = &[
    // Without imports of the server.
    "settings",
    "not_built",
    "logging",
    "traces",
    "memory",
    "process",
    "service_manager",
    "hangups",
    "seed",
    "token",
    "unix_time",
    "own_client",
    // Used by every feature.
    "proxies",
    "metrics",
    "cluster",
    "machines",
    "addresses",
    "presence",
    "history",
    "restart",
    "channel_api",
    "hooks",
    "feature",
    "tls",
    // Parts that the settings demand.
    "rules",
    // Run the parts.
    "shard",
    "http",
    "server",
    "embedded",
    "testing",
    "multi_process",
    "run",
    // What Watchfire's own features import beside `feature`.
    "internal",
    // Tests of the whole server.
    "model",
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    // A folder that a rename emptied may still be on disk.
    paths.retain(|path| path.is_file() || fs::read_dir(path).is_ok_and(|mut d| d.next().is_some()));
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// All source files in a folder, with those of its folders.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    entries(path).iter().flat_map(|path| files(path)).collect()
}

/// The code of a file, without comments and without its tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    code.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin with `start`, such as the `metrics` of `crate::metrics::Metrics`.
fn paths_from(code: &str, start: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(start) {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == ':') {
            continue;
        }
        let rest = &code[at + start.len()..];
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        match rest.strip_prefix('{') {
            None => drop(names.insert(rest.chars().take_while(|c| is_name(*c)).collect())),
            Some(group) => {
                let group = group.split("};").next().unwrap_or_default();
                let mut depth = 0;
                let mut name = String::new();
                for c in group.chars().chain([',']) {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            let first = name.trim().split(':').next().unwrap_or_default();
                            names.insert(first.to_owned());
                            name.clear();
                        }
                        _ if depth == 0 => name.push(c),
                        _ => {}
                    }
                }
            }
        }
    }
    names.remove("");
    names
}

#[test]
fn folders_import_only_folders_below_them() {
    let mut found: BTreeSet<String> = entries(&src()).iter().map(|path| stem(path)).collect();
    found.remove("lib");
    let listed: BTreeSet<String> = ORDER.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "every folder and file of src is in ORDER");

    for (position, name) in ORDER.iter().enumerate() {
        let folder = src().join(name);
        let path = if folder.is_dir() { folder } else { folder.with_extension("rs") };
        for file in files(&path) {
            for import in paths_from(&code(&file), "crate::") {
                let below = ORDER[..=position].contains(&import.as_str());
                let is_part = listed.contains(&import);
                assert!(below || !is_part, "{} imports {import}, which is above", file.display());
            }
        }
    }
}

#[test]
fn the_files_of_a_folder_import_each_other_without_a_cycle() {
    let folders: Vec<PathBuf> = ORDER
        .iter()
        .flat_map(|name| {
            let mut folders = vec![src().join(name)];
            let mut at = 0;
            while let Some(folder) = folders.get(at).filter(|folder| folder.is_dir()).cloned() {
                folders.extend(entries(&folder).into_iter().filter(|path| path.is_dir()));
                at += 1;
            }
            folders
        })
        .filter(|folder| folder.is_dir())
        .collect();
    for folder in folders {
        let siblings: BTreeSet<String> = entries(&folder).iter().map(|path| stem(path)).collect();
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in entries(&folder) {
            let name = stem(&path);
            let code = if path.is_dir() { code(&path.join("mod.rs")) } else { code(&path) };
            let mut named = BTreeSet::new();
            if name == "mod" {
                let uses = code.lines().filter(|line| line.contains("use "));
                for line in uses {
                    let path = line.split("use ").nth(1).unwrap_or_default();
                    let first = path.split([':', ';', ' ']).next().unwrap_or_default();
                    named.extend(siblings.get(first).cloned());
                }
            } else if path.is_file() {
                for import in paths_from(&code, "super::") {
                    let is_sibling = siblings.contains(&import);
                    named.insert(if is_sibling { import } else { "mod".to_owned() });
                }
            }
            named.remove(&name);
            imports.insert(name, named);
        }
        // Removes files that import no remaining file, until none is left, or only a cycle.
        while !imports.is_empty() {
            let free: Vec<String> = imports
                .iter()
                .filter(|(_, named)| named.iter().all(|name| !imports.contains_key(name)))
                .map(|(name, _)| name.clone())
                .collect();
            assert!(!free.is_empty(), "{} has a cycle in {imports:#?}", folder.display());
            free.iter().for_each(|name| drop(imports.remove(name)));
        }
    }
}
